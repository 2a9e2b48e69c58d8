/* Polygamma, Bessel K and Matern on a GPU, which has no long double: k_wide is a sum of two doubles, of which
 * the second is what rounding took off the first, times a power of two. So sums and products keep about 104
 * bits, and orders of 1000 do not overflow. Products are CUDA's rounded ones: fused with a sum they would not
 * be what is corrected. */
#ifndef KEOPS_CUDA_SPECIAL_H
#define KEOPS_CUDA_SPECIAL_H

#define K_WIDE_MEMBER __device__ __forceinline__
#define K_WIDE_LN2 k_wide(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56)

struct k_wide {
  double high, low;
  int power;

  k_wide() = default;
  K_WIDE_MEMBER k_wide(double x) { *this = of(x, 0, 0); }
  K_WIDE_MEMBER k_wide(double x, double more) { *this = of(x, more, 0); }

  /* |low| is small beside |high|. Kept in the middle of the range, where low parts and products are numbers */
  static K_WIDE_MEMBER k_wide of(double high, double low, int power)
  {
    k_wide x;
    int n;

    x.high = high, x.low = 0, x.power = 0;
    if (high - high != 0) return x; /* Inf or NaN */
    if (low != 0) { /* else a zero keeps its sign */
      x.high = high + low;
      x.low = low - (x.high - high);
    }
    if (x.high == 0) return x;
    x.power = power;
    if (fabs(x.high) > 0x1p300 || fabs(x.high) < 0x1p-300) {
      x.high = frexp(x.high, &n);
      x.low = ldexp(x.low, -n);
      x.power += n;
    }
    return x;
  }
  /* The same number with another power */
  K_WIDE_MEMBER k_wide to_power(int to) const
  {
    k_wide x = *this;
    const int n = power - to < -2000 ? -2000 : power - to;

    if (n) x.high = ldexp(high, n), x.low = ldexp(low, n);
    x.power = to;
    return x;
  }
  K_WIDE_MEMBER explicit operator double() const { return power ? ldexp(high, power) : high; }
  K_WIDE_MEMBER explicit operator int() const { return (int)(double)*this; }
};

K_INLINE k_wide operator-(const k_wide &a)
{
  k_wide x = a;
  x.high = -a.high, x.low = -a.low;
  return x;
}

K_APART k_wide operator+(k_wide x, k_wide y)
{
  const int power = x.high == 0 || (y.high != 0 && y.power > x.power) ? y.power : x.power;
  const k_wide a = x.to_power(power), b = y.to_power(power);
  const double sum = a.high + b.high, part = sum - a.high;

  return k_wide::of(sum, (a.high - (sum - part)) + (b.high - part) + (a.low + b.low), power);
}
K_INLINE k_wide operator-(const k_wide &a, const k_wide &b) { return a + -b; }

K_APART k_wide operator*(k_wide a, k_wide b)
{
  const double p = __dmul_rn(a.high, b.high);

  return k_wide::of(p, fma(a.high, b.high, -p) + (__dmul_rn(a.high, b.low) + __dmul_rn(a.low, b.high)),
                    a.power + b.power);
}

/* Two steps of division by the high part */
K_APART k_wide operator/(k_wide a, k_wide b)
{
  const double q = a.high / b.high, p = __dmul_rn(q, b.high);
  const double left = (a.high - p) - fma(q, b.high, -p) + (a.low - __dmul_rn(q, b.low));

  return k_wide::of(q, left / b.high, a.power - b.power);
}

K_INLINE k_wide &operator+=(k_wide &a, const k_wide &b) { return a = a + b; }
K_INLINE k_wide &operator-=(k_wide &a, const k_wide &b) { return a = a - b; }
K_INLINE k_wide &operator*=(k_wide &a, const k_wide &b) { return a = a * b; }
K_INLINE k_wide &operator/=(k_wide &a, const k_wide &b) { return a = a / b; }

/* NaN is not less than anything, nor is anything than it */
K_INLINE bool operator<(const k_wide &a, const k_wide &b)
{
  if (a.power != b.power) return (a - b).high < 0;
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}
K_INLINE bool operator>(const k_wide &a, const k_wide &b) { return b < a; }
K_INLINE bool operator<=(const k_wide &a, const k_wide &b) { return a < b || (a.high == b.high && !(b < a)); }
K_INLINE bool operator>=(const k_wide &a, const k_wide &b) { return b <= a; }
K_INLINE bool operator==(const k_wide &a, const k_wide &b) { return a.high == b.high && a.low == b.low && a.power == b.power; }
K_INLINE bool operator!=(const k_wide &a, const k_wide &b) { return !(a == b); }

K_INLINE k_wide k_wide_fabs(const k_wide &a) { return a.high < 0 ? -a : a; }

K_APART k_wide k_wide_sqrt(k_wide a)
{
  double root;

  if (a.high == 0) return a;
  if (a.power % 2) a.high *= 2, a.low *= 2, a.power--;
  root = sqrt(a.high);
  return k_wide::of(root, (fma(-root, root, a.high) + a.low) / (2 * root), a.power / 2);
}

/* 2^n exp(rest), |rest| <= ln(2) / 2: the series for rest / 256, squared eight times */
K_APART k_wide k_wide_exp(k_wide a)
{
  const int n = (int)rint((double)a * 1.44269504088896340736);
  const k_wide rest = (a - n * K_WIDE_LN2) * (1. / 256);
  k_wide e = 1;

#pragma unroll 1
  for (int k = 9; k > 0; k--) e = 1 + rest * e / k;
#pragma unroll 1
  for (int k = 0; k < 8; k++) e *= e;
  e.power += n;
  return e;
}

/* One step of Newton's from the logarithm of the high part */
K_APART k_wide k_wide_log(k_wide a)
{
  const k_wide first = log(a.high) + a.power * K_WIDE_LN2;

  return first + (a * k_wide_exp(-first) - 1);
}

K_APART k_wide k_wide_pow(k_wide x, k_wide p) { return k_wide_exp(p * k_wide_log(x)); }
K_APART k_wide k_wide_exp2(k_wide a) { return k_wide_exp(a * K_WIDE_LN2); }

/* Of a number that is not small */
K_APART k_wide k_wide_sinh(k_wide a)
{
  const k_wide e = k_wide_exp(a);

  return (e - 1 / e) / 2;
}

/* Up to pi / 2 */
K_APART k_wide k_wide_sin(k_wide a)
{
  const k_wide square = a * a;
  k_wide s = 1;

#pragma unroll 1
  for (int k = 28; k > 0; k -= 2) s = 1 - square * s / (k * (k + 1));
  return a * s;
}

#define K_WIDE(name) k_wide_##name
#define K_WIDE_CONSTANT double
#define K_WIDE_PI k_wide(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53)
#include "keops_orders.h"

K_INLINE real k_polygamma(real a, real b) { return K(k_polygamma_1(a, b)); }
K_INLINE real k_besselk(real a, real b) { return K(k_besselk_1(a, b)); }
K_INLINE real k_matern(real a, real b, real c) { return K(k_matern_each(a, b, c)); }

#endif
