/* Digamma of one number, for the kernels of the CPU (keops_special.h) and of GPUs (keops_cuda.h), which set
 * before: K_APART, K_NAN, and K_MATHS(name), the function of that name in double. */
#ifndef KEOPS_DIGAMMA_H
#define KEOPS_DIGAMMA_H

/* The derivative of log gamma: up to x >= 10 by psi(x) = psi(x + 1) - 1 / x, there its asymptotic
 * series; for x < 0 by psi(x) = psi(1 - x) - pi / tan(pi x) */
K_APART double k_digamma_1(double x)
{
  const double pi = 3.14159265358979323846;
  double r = 0, low = 0, z;
  if (K_MATHS(fabs)(x) < 0x1p-60) return -1 / x;
  if (x < 0) {
    double f = x - K_MATHS(rint)(x);
    if (f == 0) return K_NAN;
    r = -pi / K_MATHS(tan)(pi * f);
    x = 1 - x;
  }
  for (; x < 10; x += 1) { /* r + low is the exact sum */
    double t = -1 / x, s = r + t, t1 = s - r;
    low += (r - (s - t1)) + (t - t1);
    r = s;
  }
  z = 1 / (x * x);
  z *= 1. / 12 - z * (1. / 120 - z * (1. / 252 - z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 -
       z * (1. / 12 - z * 3617. / 8160))))));
  return r + (K_MATHS(log)(x) - (0.5 / x + z - low));
}

#endif
