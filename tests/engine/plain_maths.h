/* The words of keops_kernel.h for single doubles, by the C library: with them the value
 * expressions of op_list.h can be computed in tests without the code under test. */
#ifndef PLAIN_MATHS_H
#define PLAIN_MATHS_H

#include "ref_special.h"

#include <math.h>

#define K(x) ((double)(x))
#define K_INF HUGE_VAL
#define K_NAN ((double)NAN)
#define k_set(x) ((double)(x))
#define k_select(mask, yes, no) ((mask) ? (yes) : (no))
#define k_max(a, b) ((a) > (b) ? (a) : (b))
#define k_min(a, b) ((a) < (b) ? (a) : (b))
#define k_rsqrt(a) ((a) == 0 ? 0 : 1 / sqrt(a))
#define k_abs fabs
#define k_acos acos
#define k_acosh acosh
#define k_asin asin
#define k_asinh asinh
#define k_atan atan
#define k_atan2 atan2
#define k_atanh atanh
#define k_ceil ceil
#define k_copysign copysign
#define k_besselk(x, nu) ((double)ref_besselk(x, nu))
#define k_cos cos
#define k_cosh cosh
#define k_digamma(x) ((double)ref_digamma(x))
#define k_erf erf
#define k_erfc erfc
#define k_exp exp
#define k_exp2 exp2
#define k_expm1 expm1
#define k_floor floor
#define k_hypot hypot
#define k_lgamma lgamma
#define k_log log
#define k_log10 log10
#define k_log1p log1p
#define k_log2 log2
#define k_matern(x, nu, m) ((double)ref_matern(x, nu, m))
#define k_polygamma(x, n) ((double)ref_polygamma(x, n))
#define k_pow pow
#define k_round round
#define k_sin sin
#define k_sinh sinh
#define k_sqrt sqrt
#define k_tan tan
#define k_tanh tanh
#define k_trunc trunc

#endif
