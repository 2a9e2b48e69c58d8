/* The target of interp_avx512_f32.c and interp_avx512_f64.c, chosen here and not by a compiler flag, so that a
 * package built on one machine runs on any other; system headers come before it. */
#define KE_VBYTES 64
#define KE_HAVE_AVX2 1
#define KE_HAVE_AVX512 1
#define KE_HAVE_FMA 1
#define KI_ISA avx512
#define AVX512 "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target(AVX512))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#endif
#include "interp_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
