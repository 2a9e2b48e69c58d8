/* The interpreter's primitives in double precision for AVX2. The target is chosen here and not by
 * a compiler flag, so that a package built on one machine runs on any other; system headers come
 * before it. */
#include "interp.h"

#if KI_HAVE_X86
#define KE_REAL_BYTES 8
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
#endif
