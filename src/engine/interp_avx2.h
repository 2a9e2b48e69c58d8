/* The target of interp_avx2_f32.c and interp_avx2_f64.c, chosen here and not by a compiler flag, so that a
 * package built on one machine runs on any other; system headers come before it. */
#define KE_VBYTES 32
#define KE_HAVE_AVX2 1
#define KE_HAVE_AVX512 0
#define KE_HAVE_FMA 1
#define KI_ISA avx2
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include "interp_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
