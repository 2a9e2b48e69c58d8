/* Special functions, lane by lane in scalar C: log gamma, polygamma, Bessel K, Matern. Part of
 * keops_kernel.h, in whose words they are written.
 *
 * What has series with many terms is computed in long double, which keeps 8 ulp of double where its
 * fraction has 64 bits or more; where it is a double itself, some digits fewer. */
#ifndef KEOPS_SPECIAL_H
#define KEOPS_SPECIAL_H

typedef long double k_wide;

#define K_EACH_1(name, call)                                                                       \
  K_APART vr name(vr a)                                                                            \
  {                                                                                                \
    for (int l = 0; l < KE_W; l++) a[l] = (real)call(a[l]);                                        \
    return a;                                                                                      \
  }
#define K_EACH_2(name, call)                                                                       \
  K_APART vr name(vr a, vr b)                                                                      \
  {                                                                                                \
    for (int l = 0; l < KE_W; l++) a[l] = (real)call(a[l], b[l]);                                  \
    return a;                                                                                      \
  }
#define K_EACH_3(name, call)                                                                       \
  K_APART vr name(vr a, vr b, vr c)                                                                \
  {                                                                                                \
    for (int l = 0; l < KE_W; l++) a[l] = (real)call(a[l], b[l], c[l]);                            \
    return a;                                                                                      \
  }

/* log |gamma(x)|: the library's, less its global for the sign, which threads would share */
#define K_STRING_(x) #x
#define K_STRING(x) K_STRING_(x)
double k_libm_lgamma(double, int *) __asm__(K_STRING(__USER_LABEL_PREFIX__) "lgamma_r");
K_APART double k_lgamma_1(double x)
{
  int sign;
  return k_libm_lgamma(x, &sign);
}
K_EACH_1(k_lgamma, k_lgamma_1)

#define K_MATHS(name) __builtin_##name
#include "keops_digamma.h"
K_EACH_1(k_digamma, k_digamma_1)

#define K_WIDE_CONSTANT k_wide
#define K_WIDE_PI 3.14159265358979323846264338327950288L
#define K_WIDE(name) __builtin_##name##l
#include "keops_orders.h"
K_EACH_2(k_polygamma, k_polygamma_1)
K_EACH_2(k_besselk, k_besselk_1)
K_EACH_3(k_matern, k_matern_each)

#endif
