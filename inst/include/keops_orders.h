/* Polygamma, Bessel K and Matern of one number and an order, for the kernels of the CPU (keops_special.h) and
 * of GPUs (keops_cuda_special.h), which set before: K_APART, K_INF, K_NAN, and
 *   k_wide           a number of more digits and a wider range than double; K_WIDE(name), its functions
 *   K_WIDE_CONSTANT  the type of constants in tables; K_WIDE_PI
 *   K_MATHS(name)    the function of that name in double */
#ifndef KEOPS_ORDERS_H
#define KEOPS_ORDERS_H

#define K_WIDE_EPSILON 0x1p-66
/* Orders above it are NaN: gamma(order) and x^order must be numbers of type k_wide. */
#define K_MAX_ORDER 1200

/* ---- polygamma ------------------------------------------------------------------------------- */

K_APART k_wide k_whole_power(k_wide x, int n)
{
  k_wide power = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2) power *= x;
  return power;
}

/* Hurwitz's zeta function, the sum of (x + k)^-s over k >= 0, for whole s > 1 and x > 0: terms until
 * x >= s + 20, then the Euler-Maclaurin series */
K_APART k_wide k_zeta(int s, k_wide x)
{
  static const K_WIDE_CONSTANT b[] = { /* B(2k) / (2k)! */
    8.333333333333333333333e-2L, -1.388888888888888888889e-3L, 3.306878306878306878307e-5L, -8.267195767195767195767e-7L,
    2.087675698786809897921e-8L, -5.284190138687493184848e-10L, 1.338253653068467883283e-11L, -3.38968029632258286683e-13L,
    8.586062056277844564136e-15L, -2.174868698558061873042e-16L, 5.509002828360229515203e-18L, -1.395446468581252334071e-19L,
    3.534707039629467471693e-21L};
  k_wide sum = 0, term, series, factor;
  for (;; x += 1) {
    term = 1 / k_whole_power(x, s);
    if (x >= s + 20) break;
    if (term * x < K_WIDE_EPSILON * (s - 1) * sum) return sum;
    sum += term;
  }
  series = x / (s - 1) + 0.5;
  factor = s / x;
  for (int k = 0; k < 13; k++) {
    series += b[k] * factor;
    factor *= (k_wide)(s + 2 * k + 1) / x * (s + 2 * k + 2) / x;
  }
  return sum + term * series;
}

/* The n-th derivative of psi, (-1)^(n+1) n! times the sum of (x + k)^-(n+1). For x < 0 it is the sum
 * over all whole k, which the distance f of x to a whole number tells, less that over k < 0. */
K_APART double k_polygamma_1(double x, double order)
{
  int n, s;
  k_wide z;
  if (x != x || !(order >= 0) || order > K_MAX_ORDER || order != K_MATHS(floor)(order)) return K_NAN;
  n = (int)order;
  s = n + 1;
  if (n == 0) return k_digamma_1(x);
  if (x == K_INF) return 0;
  if (x == -K_INF) return K_NAN;
  if (x == 0) {
    z = 1 / k_whole_power(x, s);
  } else if (x > 0) {
    z = k_zeta(s, x);
  } else {
    k_wide f = x - K_MATHS(rint)(x), below;
    if (f == 0) return n % 2 ? K_INF : K_NAN;
    below = k_zeta(s, 1 - f) - k_zeta(s, 1 - (k_wide)x);
    z = 1 / k_whole_power(f, s) + k_zeta(s, 1 + f) + (n % 2 ? below : -below);
  }
  for (int k = 2; k <= n; k++) z *= k;
  return (double)(n % 2 ? z : -z);
}

/* ---- Bessel K of any real order ---------------------------------------------------------------- */

/* 1 / gamma(1 + mu) = even + mu * odd for |mu| <= 1/2, its Taylor series */
K_APART void k_rgamma(k_wide mu, k_wide *even, k_wide *odd)
{
  static const K_WIDE_CONSTANT a[] = {
    1.0L, -0.655878071520253881077L, 0.1665386113822914895017L, -9.621971527876973562115e-3L,
    -1.165167591859065112114e-3L, 1.280502823881161861532e-4L, -1.250493482142670657345e-6L, -2.05633841697760710345e-7L,
    5.002007644469222930056e-9L, 1.043426711691100510492e-10L, -3.696805618642205708188e-12L, -2.058326053566506783222e-14L};
  static const K_WIDE_CONSTANT b[] = {
    0.5772156649015328606065L, -4.2002635034095235529e-2L, -4.219773455554433674821e-2L, 7.218943246663099542395e-3L,
    -2.152416741149509728157e-4L, -2.013485478078823865569e-5L, 1.133027231981695882374e-6L, 6.116095104481415817862e-9L,
    -1.181274570487020144588e-9L, 7.78226343990507125405e-12L, 5.100370287454475979015e-13L, -5.34812253942301798237e-15L};
  k_wide z = mu * mu;
  *even = a[11], *odd = b[11];
  for (int k = 10; k >= 0; k--) *even = *even * z + a[k], *odd = *odd * z + b[k];
}

/* exp(x) K of orders mu and mu + 1 at x > 0, |mu| <= 1/2: up to 2 the series of Temme (1975, J. Comput.
 * Phys. 19, 324-337), above it his continued fraction by Steed's method */
K_APART void k_bessel_pair(k_wide mu, k_wide x, k_wide *k0, k_wide *k1)
{
  const k_wide pi = K_WIDE_PI;
  if (x <= 2) {
    k_wide even, odd, log2x = K_WIDE(log)(2 / x), sigma = mu * log2x, e = K_WIDE(exp)(sigma);
    k_wide z = sigma * sigma, f, p, q, c = 1, sum, sum1, term, scale;
    /* sinh(sigma) / sigma */
    k_wide sinhc = z < 1e-4 ? 1 + z / 6 * (1 + z / 20 * (1 + z / 42 * (1 + z / 72)))
                             : K_WIDE(sinh)(sigma) / sigma;
    k_rgamma(mu, &even, &odd);
    f = even * log2x * sinhc - odd * (e + 1 / e) / 2;
    if (mu != 0) f *= pi * mu / K_WIDE(sin)(pi * mu);
    p = e / 2 / (even + mu * odd);
    q = 1 / e / 2 / (even - mu * odd);
    sum = f, sum1 = p;
    for (int k = 1;; k++) {
      f = (k * f + p + q) / (k * k - mu * mu);
      p /= k - mu;
      q /= k + mu;
      c *= x * x / (4 * k);
      sum += term = c * f;
      sum1 += c * (p - k * f);
      if (term < K_WIDE_EPSILON * sum) break;
    }
    scale = K_WIDE(exp)(x);
    *k0 = scale * sum;
    *k1 = scale * sum1 * 2 / x;
  } else {
    k_wide b = 2 * (1 + x), d = 1 / b, h = d, step = d, q0 = 0, q1 = 1, a1 = 0.25 - mu * mu;
    k_wide q = a1, c = a1, a = -a1, s = 1 + q * step, term, next;
    for (int k = 2; k < 10000; k++) {
      a -= 2 * (k - 1);
      c = -a * c / k;
      next = (q0 - b * q1) / a;
      q0 = q1, q1 = next;
      q += c * next;
      b += 2;
      d = 1 / (b + a * d);
      step *= b * d - 1;
      h += step;
      s += term = q * step;
      if (K_WIDE(fabs)(term) < K_WIDE_EPSILON * s) break;
    }
    *k0 = K_WIDE(sqrt)(pi / (2 * x)) / s;
    *k1 = *k0 * (mu + x + 0.5 - a1 * h) / x;
  }
}

K_APART double k_besselk_1(double x, double order)
{
  k_wide nu = K_MATHS(fabs)(order), mu, k0, k1, next;
  int n;
  if (x != x || !(nu <= K_MAX_ORDER) || x < 0) return K_NAN;
  if (x == 0) return K_INF;
  if (x > 12000) return 0; /* below the smallest double for every order */
  n = (int)(nu + 0.5);
  mu = nu - n;
  k_bessel_pair(mu, x, &k0, &k1);
  for (int k = 1; k <= n; k++) {
    next = 2 * (mu + k) / x * k1 + k0;
    k0 = k1, k1 = next;
  }
  return (double)(k0 * K_WIDE(exp)(-(k_wide)x));
}

/* ---- Matern ------------------------------------------------------------------------------------ */

/* 2^(nu-1) gamma(nu), nu > 0: the limit of x^nu K_nu(x) at 0 */
K_APART k_wide k_matern_limit(k_wide nu)
{
  int n = (int)(nu + 0.5);
  k_wide mu = nu - n, even, odd, limit;
  k_rgamma(mu, &even, &odd);
  limit = K_WIDE(exp2)(mu) / (even + mu * odd);
  if (n == 0) return limit / (2 * mu);
  for (int k = 1; k < n; k++) limit *= 2 * (mu + k);
  return limit;
}

/* s^(nu-m) K_(nu-m)(s) / (2^(nu-1) gamma(nu)) with s = sqrt(x). For m = 0 it is 1 at x = 0, and
 * -1/2 times the function for m + 1 is the derivative. Where that is infinite at x = 0, it is 0, the
 * slope of a distance at 0. */
K_APART double k_matern_each(double x, double order, double m)
{
  k_wide nu = order, p = nu - (k_wide)m, r = p < 0 ? -p : p, mu, s, f0, f1, next;
  int n;
  if (x != x || !(nu > 0 && nu <= K_MAX_ORDER) || !(m >= 0) || !(r <= K_MAX_ORDER)) return K_NAN;
  if (m != K_MATHS(floor)(m) || x < 0) return K_NAN;
  if (x == 0) return p > 0 ? (double)(k_matern_limit(p) / k_matern_limit(nu)) : 0;
  if (x > 12000. * 12000.) return 0;
  s = K_WIDE(sqrt)(x);
  n = (int)(r + 0.5);
  mu = r - n;
  k_bessel_pair(mu, s, &f0, &f1);
  next = K_WIDE(pow)(s, mu);
  f0 *= next;
  f1 *= next * s;
  for (int k = 1; k <= n; k++) { /* s^r K_r(s) from one order to the next */
    next = 2 * (mu + k) * f1 + x * f0;
    f0 = f1, f1 = next;
  }
  if (p < 0) f0 *= K_WIDE(pow)(x, p);
  return (double)(f0 * K_WIDE(exp)(-s) / k_matern_limit(nu));
}

#endif
