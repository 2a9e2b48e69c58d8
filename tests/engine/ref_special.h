/* Special functions in long double by other ways than keops_special.h goes: integrals of positive
 * functions by the trapezoidal rule, which converges exponentially on the whole line. */
#ifndef REF_SPECIAL_H
#define REF_SPECIAL_H

#include <math.h>

/* psi(x): recurrence to x >= 40, asymptotic series */
static inline long double ref_digamma(long double x)
{
  static const long double b[] = {1 / 12.L, -1 / 120.L, 1 / 252.L, -1 / 240.L, 1 / 132.L,
                                  -691 / 32760.L, 1 / 12.L, -3617 / 8160.L, 43867 / 14364.L};
  const long double pi = 3.14159265358979323846264338327950288L;
  long double r = 0, z, power = 1;

  if (x == 0) return signbit(x) ? INFINITY : -INFINITY;
  if (x < 0) {
    long double f = x - rintl(x);
    if (f == 0 || isinf(x)) return NAN;
    return ref_digamma(1 - x) - pi / tanl(pi * f);
  }
  for (; x < 40; x += 1) r -= 1 / x;
  z = 1 / (x * x);
  for (int i = 0; i < 9; i++) power *= z, r -= b[i] * power;
  return r + logl(x) - 0.5L / x;
}

/* (-1)^(n+1) times the integral of t^n exp(-x t) / (1 - exp(-t)) for x >= 1, with t = exp(u) / x;
 * below 1 by recurrence */
static inline long double ref_polygamma(long double x, long double order)
{
  const long double step = 0.0625L, sign = fmodl(order, 2) != 0 ? 1 : -1;
  long double sum = 0, below = 0, factorial = tgammal(order + 1);

  if (isnan(x) || !(order >= 0) || isinf(order) || order != floorl(order)) return NAN;
  if (order == 0) return ref_digamma(x);
  if (isinf(x)) return x > 0 ? 0 : NAN;
  if (x == 0 && sign < 0) return signbit(x) ? INFINITY : -INFINITY;
  if (x <= 0 && x == floorl(x)) return sign > 0 ? INFINITY : NAN;
  for (; x < 1; x += 1) below += factorial * powl(x, -order - 1);
  for (long double u = -50 / order; u < 7 + logl(order + 1); u += step) {
    long double t = expl(u) / x;
    sum += step * powl(t, order + 1) * expl(-t * x) / -expm1l(-t);
  }
  return sign * (sum + below);
}

/* log(scale) + log K_nu(x) as an exponent: the integral of exp(-x cosh t) cosh(nu t) over t >= 0 */
static inline long double ref_scaled_bessel(long double x, long double nu, long double log_scale)
{
  long double step = fminl(0.0625L, 0.25L / powl(nu * nu + x * x, 0.25L)), sum = 0, term, most = 0;

  nu = fabsl(nu);
  for (long double t = 0;; t += step) {
    long double e = log_scale - x * coshl(t);
    term = (expl(e + nu * t) + expl(e - nu * t)) / 2;
    sum += step * term * (t == 0 ? 0.5L : 1);
    most = fmaxl(most, term);
    if (x * sinhl(t) > nu && (term < 1e-24L * most || term == 0)) return sum;
  }
}

static inline long double ref_besselk(long double x, long double nu)
{
  if (isnan(x) || !(fabsl(nu) <= 1200) || x < 0) return NAN;
  if (x == 0) return INFINITY;
  return x > 12000 ? 0 : ref_scaled_bessel(x, nu, 0);
}

static inline long double ref_matern(long double x, long double nu, long double m)
{
  const long double ln2 = 0.693147180559945309417232121458176568L;
  long double p = nu - m;

  if (isnan(x) || !(nu > 0 && nu <= 1200) || !(m >= 0) || !(fabsl(p) <= 1200)) return NAN;
  if (m != floorl(m) || x < 0) return NAN;
  if (x == 0) return p > 0 ? expl(lgammal(p) - lgammal(nu) - m * ln2) : 0;
  if (isinf(x)) return 0;
  return ref_scaled_bessel(sqrtl(x), p, p / 2 * logl(x) + (1 - nu) * ln2 - lgammal(nu));
}

#endif
