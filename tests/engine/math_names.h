/* Lets keops_kernel.h be included several times in one file: each of its names gets MATH_LEVEL and
 * MATH_BYTES at its end, and its macros are forgotten. A name missing here does not compile. Part
 * of test_math.c. */
#undef KEOPS_KERNEL_H
#undef KE_REAL_BYTES
#undef KE_VBYTES
#undef KE_HAVE_AVX512
#undef KE_HAVE_AVX2
#undef KE_HAVE_FMA
#undef KE_PLAIN_C
#undef KE_W
#undef K
#undef K_2_PI
#undef K_APART
#undef K_ASM
#undef K_ASM_1
#undef K_ASM_2
#undef K_ASM_3
#undef K_ASM_WHOLE
#undef K_BASICS
#undef K_CIRCULAR
#undef K_COS_CORE
#undef K_D
#undef K_EACH_1
#undef K_EACH_2
#undef K_EACH_3
#undef K_MAX_ORDER
#undef K_WIDE_EPSILON
#undef KEOPS_SPECIAL_H
#undef KEOPS_DIGAMMA_H
#undef KEOPS_ORDERS_H
#undef K_WIDE_CONSTANT
#undef K_WIDE_PI
#undef K_WIDE
#undef K_MATHS
#undef K_FAR
#undef K_FUSED
#undef K_INF
#undef K_INLINE
#undef K_INSTRUCTIONS
#undef K_KEEP
#undef K_LANES_UP
#undef K_LIBM
#undef K_LN2_HIGH
#undef K_LN2_HIGH_4
#undef K_LN2_LOW
#undef K_LN2_LOW_4
#undef K_LOG2E
#undef K_LOG2E_4
#undef K_NAN
#undef K_PI_2
#undef K_PI_2_LOW
#undef K_R
#undef K_RARE
#undef K_ROUND
#undef K_ROUND_4
#undef K_ROUND_BITS
#undef K_ROUND_BITS_4
#undef K_SIN_CORE
#undef K_SIN_FAR
#undef K_STRING
#undef K_STRING_
#undef K_TAN_CORE
#undef K_TAN_FAR
#undef K_UP
#undef K_WHOLE
#undef K_WHOLE_BITS
#undef K_WIDE_1
#undef K_WIDE_2

#ifndef MATH_NAMES_H
#define MATH_NAMES_H
#define MATH_JOIN_(name, level, bytes) name##_##level##_##bytes
#define MATH_JOIN(name, level, bytes) MATH_JOIN_(name, level, bytes)
#define MATH_NAME(name) MATH_JOIN(name, MATH_LEVEL, MATH_BYTES)
#define real MATH_NAME(real)
#define vr MATH_NAME(vr)
#define vru MATH_NAME(vru)
#define vi MATH_NAME(vi)
#define k_abs MATH_NAME(k_abs)
#define k_abs_d MATH_NAME(k_abs_d)
#define k_acos MATH_NAME(k_acos)
#define k_acos_d MATH_NAME(k_acos_d)
#define k_acosh MATH_NAME(k_acosh)
#define k_acosh_d MATH_NAME(k_acosh_d)
#define k_any MATH_NAME(k_any)
#define k_asin MATH_NAME(k_asin)
#define k_asin_d MATH_NAME(k_asin_d)
#define k_asin_parts MATH_NAME(k_asin_parts)
#define k_asin_tail MATH_NAME(k_asin_tail)
#define k_asinh MATH_NAME(k_asinh)
#define k_asinh_d MATH_NAME(k_asinh_d)
#define k_atan MATH_NAME(k_atan)
#define k_atan2 MATH_NAME(k_atan2)
#define k_atan2_d MATH_NAME(k_atan2_d)
#define k_atan_d MATH_NAME(k_atan_d)
#define k_atan_of MATH_NAME(k_atan_of)
#define k_atan_of_4 MATH_NAME(k_atan_of_4)
#define k_atanh MATH_NAME(k_atanh)
#define k_atanh_d MATH_NAME(k_atanh_d)
#define k_bessel_pair MATH_NAME(k_bessel_pair)
#define k_besselk MATH_NAME(k_besselk)
#define k_besselk_1 MATH_NAME(k_besselk_1)
#define k_ceil MATH_NAME(k_ceil)
#define k_ceil_d MATH_NAME(k_ceil_d)
#define k_copysign MATH_NAME(k_copysign)
#define k_copysign_d MATH_NAME(k_copysign_d)
#define k_cos MATH_NAME(k_cos)
#define k_cos_d MATH_NAME(k_cos_d)
#define k_cos_far MATH_NAME(k_cos_far)
#define k_cos_wide MATH_NAME(k_cos_wide)
#define k_cosh MATH_NAME(k_cosh)
#define k_cosh_d MATH_NAME(k_cosh_d)
#define k_digamma MATH_NAME(k_digamma)
#define k_digamma_1 MATH_NAME(k_digamma_1)
#define k_erf MATH_NAME(k_erf)
#define k_erf_d MATH_NAME(k_erf_d)
#define k_erf_tail MATH_NAME(k_erf_tail)
#define k_erfc MATH_NAME(k_erfc)
#define k_erfc_d MATH_NAME(k_erfc_d)
#define k_erfc_far MATH_NAME(k_erfc_far)
#define k_exp MATH_NAME(k_exp)
#define k_exp2 MATH_NAME(k_exp2)
#define k_exp2_d MATH_NAME(k_exp2_d)
#define k_exp_d MATH_NAME(k_exp_d)
#define k_exp_parts MATH_NAME(k_exp_parts)
#define k_exp_tail MATH_NAME(k_exp_tail)
#define k_exp_tail_4 MATH_NAME(k_exp_tail_4)
#define k_expm1 MATH_NAME(k_expm1)
#define k_expm1_d MATH_NAME(k_expm1_d)
#define k_expm1_parts MATH_NAME(k_expm1_parts)
#define k_f4 MATH_NAME(k_f4)
#define k_f8 MATH_NAME(k_f8)
#define k_floor MATH_NAME(k_floor)
#define k_floor_d MATH_NAME(k_floor_d)
#define k_fma MATH_NAME(k_fma)
#define k_fma_d MATH_NAME(k_fma_d)
#define k_fnma MATH_NAME(k_fnma)
#define k_fnma_d MATH_NAME(k_fnma_d)
#define k_half MATH_NAME(k_half)
#define k_halves MATH_NAME(k_halves)
#define k_head MATH_NAME(k_head)
#define k_hsum MATH_NAME(k_hsum)
#define k_hypot MATH_NAME(k_hypot)
#define k_hypot_d MATH_NAME(k_hypot_d)
#define k_i4 MATH_NAME(k_i4)
#define k_i8 MATH_NAME(k_i8)
#define k_keep MATH_NAME(k_keep)
#define k_keep_d MATH_NAME(k_keep_d)
#define k_least MATH_NAME(k_least)
#define k_less_bits MATH_NAME(k_less_bits)
#define k_lgamma MATH_NAME(k_lgamma)
#define k_lgamma_1 MATH_NAME(k_lgamma_1)
#define k_libm_lgamma MATH_NAME(k_libm_lgamma)
#define k_log MATH_NAME(k_log)
#define k_log10 MATH_NAME(k_log10)
#define k_log10_d MATH_NAME(k_log10_d)
#define k_log1p MATH_NAME(k_log1p)
#define k_log1p_d MATH_NAME(k_log1p_d)
#define k_log1p_more MATH_NAME(k_log1p_more)
#define k_log2 MATH_NAME(k_log2)
#define k_log2_d MATH_NAME(k_log2_d)
#define k_log_base MATH_NAME(k_log_base)
#define k_log_d MATH_NAME(k_log_d)
#define k_log_pair MATH_NAME(k_log_pair)
#define k_log_special MATH_NAME(k_log_special)
#define k_log_special_4 MATH_NAME(k_log_special_4)
#define k_log_sum MATH_NAME(k_log_sum)
#define k_log_sum_4 MATH_NAME(k_log_sum_4)
#define k_log_tail MATH_NAME(k_log_tail)
#define k_matern MATH_NAME(k_matern)
#define k_matern_0 MATH_NAME(k_matern_0)
#define k_matern_1 MATH_NAME(k_matern_1)
#define k_matern_2 MATH_NAME(k_matern_2)
#define k_matern_each MATH_NAME(k_matern_each)
#define k_matern_limit MATH_NAME(k_matern_limit)
#define k_max MATH_NAME(k_max)
#define k_max_d MATH_NAME(k_max_d)
#define k_min MATH_NAME(k_min)
#define k_min_d MATH_NAME(k_min_d)
#define k_polygamma MATH_NAME(k_polygamma)
#define k_polygamma_1 MATH_NAME(k_polygamma_1)
#define k_pow MATH_NAME(k_pow)
#define k_pow_d MATH_NAME(k_pow_d)
#define k_pow_special MATH_NAME(k_pow_special)
#define k_power MATH_NAME(k_power)
#define k_quarters MATH_NAME(k_quarters)
#define k_quotient MATH_NAME(k_quotient)
#define k_rgamma MATH_NAME(k_rgamma)
#define k_round MATH_NAME(k_round)
#define k_rsqrt MATH_NAME(k_rsqrt)
#define k_scale MATH_NAME(k_scale)
#define k_scale_d MATH_NAME(k_scale_d)
#define k_select MATH_NAME(k_select)
#define k_select_d MATH_NAME(k_select_d)
#define k_set MATH_NAME(k_set)
#define k_set_d MATH_NAME(k_set_d)
#define k_sin MATH_NAME(k_sin)
#define k_sin_cos MATH_NAME(k_sin_cos)
#define k_sin_d MATH_NAME(k_sin_d)
#define k_sin_far MATH_NAME(k_sin_far)
#define k_sin_near MATH_NAME(k_sin_near)
#define k_sin_quarter MATH_NAME(k_sin_quarter)
#define k_sin_short MATH_NAME(k_sin_short)
#define k_sin_wide MATH_NAME(k_sin_wide)
#define k_sinh MATH_NAME(k_sinh)
#define k_sinh_d MATH_NAME(k_sinh_d)
#define k_split MATH_NAME(k_split)
#define k_split_4 MATH_NAME(k_split_4)
#define k_split_any MATH_NAME(k_split_any)
#define k_sqrt MATH_NAME(k_sqrt)
#define k_sqrt_d MATH_NAME(k_sqrt_d)
#define k_tan MATH_NAME(k_tan)
#define k_tan_far MATH_NAME(k_tan_far)
#define k_tan_near MATH_NAME(k_tan_near)
#define k_tan_wide MATH_NAME(k_tan_wide)
#define k_tanh MATH_NAME(k_tanh)
#define k_tanh_d MATH_NAME(k_tanh_d)
#define k_trunc MATH_NAME(k_trunc)
#define k_trunc_d MATH_NAME(k_trunc_d)
#define k_two_product MATH_NAME(k_two_product)
#define k_two_sum MATH_NAME(k_two_sum)
#define k_two_sum_fast MATH_NAME(k_two_sum_fast)
#define k_u4 MATH_NAME(k_u4)
#define k_u8 MATH_NAME(k_u8)
#define k_where MATH_NAME(k_where)
#define k_where_d MATH_NAME(k_where_d)
#define k_whole_power MATH_NAME(k_whole_power)
#define k_wide MATH_NAME(k_wide)
#define k_zeta MATH_NAME(k_zeta)
#endif
