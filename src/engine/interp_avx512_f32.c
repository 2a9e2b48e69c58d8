/* The interpreter's primitives in single precision for AVX-512. The target is chosen here and not
 * by a compiler flag, so that a package built on one machine runs on any other; system headers
 * come before it. */
#include "interp.h"

#if KI_HAVE_X86
#define KE_REAL_BYTES 4
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
#endif
