/* What each pair kernel is written in: `real`, vectors of it, and branch-free maths on them.
 *
 * First thing in every generated kernel, and included by the interpreter. Written in the vector
 * extensions of gcc and clang and a few instructions by inline asm: no immintrin.h and no math.h,
 * which would double the time to compile a kernel.
 *
 * The including file may set
 *   KE_REAL_BYTES   4 or 8 (must be set)
 *   KE_VBYTES       16, 32 or 64: bytes of a vector; those of a register is best
 *   KE_HAVE_AVX512 KE_HAVE_AVX2 KE_HAVE_FMA   0 or 1: for clang, whose target attribute chooses an
 *                   instruction set without defining the macros that tell of it
 *   KE_PLAIN_C      no inline asm: what other processors get
 *
 * For users: real vr vru vi KE_W K() K_INF, and functions k_<name> that take and give vr (a mask is
 * a vi, lanes 0 or -1). Special values are those of C's libm. Errors: at most 1 ulp for exp, exp2
 * and log, 2 ulp for the rest, 8 ulp for those of keops_special.h and there absolute near zeros.
 * tests/engine/test_math.c holds every function to that on every instruction set.
 *
 * The compiler may contract a * b + c into one rounding or not: where the error of a rounding is
 * computed, products are exact by the width of their factors, or kept apart by k_keep(). NaN, Inf
 * and the order of sums must be kept: no -ffast-math. */
#ifndef KEOPS_KERNEL_H
#define KEOPS_KERNEL_H

#include "keops_task.h"
#include <stdint.h>

#if !defined(KE_REAL_BYTES) || (KE_REAL_BYTES != 4 && KE_REAL_BYTES != 8)
#error "define KE_REAL_BYTES as 4 or 8 before including keops_kernel.h"
#endif
#ifndef KE_HAVE_AVX512
#ifdef __AVX512F__
#define KE_HAVE_AVX512 1
#else
#define KE_HAVE_AVX512 0
#endif
#endif
#ifndef KE_HAVE_AVX2
#ifdef __AVX2__
#define KE_HAVE_AVX2 1
#else
#define KE_HAVE_AVX2 KE_HAVE_AVX512
#endif
#endif
#ifndef KE_HAVE_FMA
#ifdef __FMA__
#define KE_HAVE_FMA 1
#else
#define KE_HAVE_FMA KE_HAVE_AVX512
#endif
#endif
#ifndef KE_VBYTES
#if KE_HAVE_AVX512
#define KE_VBYTES 64
#elif KE_HAVE_AVX2
#define KE_VBYTES 32
#else
#define KE_VBYTES 16
#endif
#endif

/* Instructions by name where a vector is one register: by the registers they may use; else plain C,
 * as for vectors of several registers (right, but slow) */
#if !defined(__x86_64__) || defined(KE_PLAIN_C)
#define K_ASM 0
#elif KE_HAVE_AVX512 && KE_VBYTES == 64
#define K_ASM 512
#elif KE_HAVE_AVX2 && KE_VBYTES <= 32
#define K_ASM 256
#elif KE_VBYTES == 16
#define K_ASM 128
#else
#define K_ASM 0
#endif
#define K_FUSED (KE_HAVE_FMA && K_ASM >= 256) /* k_fma() is there */

#define K_INLINE static inline __attribute__((always_inline))
#define K_APART static __attribute__((noinline, unused))
#define K_INF __builtin_inf()
#define K_NAN __builtin_nan("")
#define K_RARE(cond) __builtin_expect((cond), 0)

typedef float k_f4 __attribute__((vector_size(KE_VBYTES)));
typedef double k_f8 __attribute__((vector_size(KE_VBYTES)));
typedef int32_t k_i4 __attribute__((vector_size(KE_VBYTES)));
typedef int64_t k_i8 __attribute__((vector_size(KE_VBYTES)));
typedef uint32_t k_u4 __attribute__((vector_size(KE_VBYTES)));
typedef uint64_t k_u8 __attribute__((vector_size(KE_VBYTES)));

/* The functions on doubles exist in both precisions, since float32 takes the hard cases through
 * double. Each is named K_D(name): plain name where double is the real, else name_d. */
#define K_R(name) name
#if KE_REAL_BYTES == 4
typedef float real;
typedef k_f4 vr;
typedef k_i4 vi;
#define K_D(name) name##_d
#else
typedef double real;
typedef k_f8 vr;
typedef k_i8 vi;
#define K_D(name) name
#endif
typedef real vru __attribute__((vector_size(KE_VBYTES), aligned(KE_REAL_BYTES), may_alias));
#define KE_W (KE_VBYTES / KE_REAL_BYTES)
#define K(x) ((real)(x))

/* ---- single instructions --------------------------------------------------------------------- */

#if K_ASM >= 256
#define K_ASM_1(name, V, in, instruction, mode)                                                    \
  K_INLINE V name(V a)                                                                             \
  {                                                                                                \
    V r;                                                                                           \
    __asm__(instruction " " mode "%1, %0" : "=" in(r) : in(a));                                    \
    return r;                                                                                      \
  }
#define K_ASM_2(name, V, instruction)                                                              \
  K_INLINE V name(V a, V b)                                                                        \
  {                                                                                                \
    V r;                                                                                           \
    __asm__(instruction " %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));                                 \
    return r;                                                                                      \
  }
#define K_ASM_3(name, V, instruction)                                                              \
  K_INLINE V name(V a, V b, V c)                                                                   \
  {                                                                                                \
    __asm__(instruction " %2, %1, %0" : "+v"(a) : "v"(b), "v"(c));                                 \
    return a;                                                                                      \
  }
#define K_KEEP(V, name)                                                                            \
  K_INLINE V name(V a)                                                                             \
  {                                                                                                \
    __asm__("" : "+v"(a));                                                                         \
    return a;                                                                                      \
  }
#if K_ASM == 512
#define K_ASM_WHOLE(name, V, packed, mode) K_ASM_1(name, V, "v", "vrndscale" packed, "$" mode ", ")
#else /* vround has no form for registers from 16 on */
#define K_ASM_WHOLE(name, V, packed, mode) K_ASM_1(name, V, "x", "vround" packed, "$" mode ", ")
#endif
#define K_INSTRUCTIONS(F, S, V, I, packed, sqrt1)                                                  \
  K_ASM_2(F(k_max), V, "vmax" packed)                                                              \
  K_ASM_2(F(k_min), V, "vmin" packed)                                                              \
  K_ASM_1(F(k_sqrt), V, "v", "vsqrt" packed, "")                                                   \
  K_ASM_WHOLE(F(k_floor), V, packed, "9")                                                          \
  K_ASM_WHOLE(F(k_ceil), V, packed, "10")                                                          \
  K_ASM_WHOLE(F(k_trunc), V, packed, "11")                                                         \
  K_KEEP(V, F(k_keep))
#elif K_ASM == 128
#define K_ASM_2(name, V, instruction)                                                              \
  K_INLINE V name(V a, V b)                                                                        \
  {                                                                                                \
    __asm__(instruction " %1, %0" : "+x"(a) : "x"(b));                                             \
    return a;                                                                                      \
  }
#define K_INSTRUCTIONS(F, S, V, I, packed, sqrt1)                                                  \
  K_ASM_2(F(k_max), V, "max" packed)                                                               \
  K_ASM_2(F(k_min), V, "min" packed)                                                               \
  K_INLINE V F(k_sqrt)(V a)                                                                        \
  {                                                                                                \
    V r;                                                                                           \
    __asm__("sqrt" packed " %1, %0" : "=x"(r) : "x"(a));                                           \
    return r;                                                                                      \
  }                                                                                                \
  K_WHOLE(F, S, V, I)                                                                              \
  K_INLINE V F(k_keep)(V a)                                                                        \
  {                                                                                                \
    __asm__("" : "+x"(a));                                                                         \
    return a;                                                                                      \
  }
#else
#define K_INSTRUCTIONS(F, S, V, I, packed, sqrt1)                                                  \
  K_INLINE V F(k_max)(V a, V b)                                                                    \
  {                                                                                                \
    return F(k_select)(a > b, a, b);                                                               \
  }                                                                                                \
  K_INLINE V F(k_min)(V a, V b)                                                                    \
  {                                                                                                \
    return F(k_select)(a < b, a, b);                                                               \
  }                                                                                                \
  K_INLINE V F(k_sqrt)(V a)                                                                        \
  {                                                                                                \
    for (unsigned l = 0; l < sizeof(V) / sizeof(S); l++) a[l] = sqrt1(a[l]);                       \
    return a;                                                                                      \
  }                                                                                                \
  K_WHOLE(F, S, V, I)                                                                              \
  K_INLINE V F(k_keep)(V a)                                                                        \
  {                                                                                                \
    __asm__("" : "+m"(a));                                                                         \
    return a;                                                                                      \
  }
#endif

/* Whole numbers without an instruction for them: adding 1 / epsilon and taking it away rounds to
 * the nearest; what has no fraction, Inf and NaN included, is left alone. */
#define K_WHOLE(F, S, V, I)                                                                        \
  K_INLINE V F(k_trunc)(V a)                                                                       \
  {                                                                                                \
    const S big = sizeof(S) == 4 ? (S)0x1p23 : (S)0x1p52;                                          \
    V size = F(k_abs)(a), near = (size + big) - big;                                               \
    near -= F(k_where)(near > size, F(k_set)((S)1));                                               \
    return F(k_copysign)(F(k_select)(size < big, near, a), a);                                     \
  }                                                                                                \
  K_INLINE V F(k_floor)(V a)                                                                       \
  {                                                                                                \
    V whole = F(k_trunc)(a);                                                                       \
    return F(k_copysign)(whole - F(k_where)(whole > a, F(k_set)((S)1)), a);                        \
  }                                                                                                \
  K_INLINE V F(k_ceil)(V a)                                                                        \
  {                                                                                                \
    V whole = F(k_trunc)(a);                                                                       \
    return F(k_copysign)(whole + F(k_where)(whole < a, F(k_set)((S)1)), a);                        \
  }

/* k_max and k_min give b where a or b is NaN, as the x86 instructions do: k_max(low, x) keeps a NaN
 * x. k_keep() gives a as it was rounded: what made it is not joined to what follows. */
#define K_BASICS(F, S, V, I, packed, sqrt1)                                                        \
  K_INLINE V F(k_set)(S a)                                                                         \
  {                                                                                                \
    return a - (V){0};                                                                             \
  }                                                                                                \
  K_INLINE V F(k_select)(I mask, V yes, V no)                                                      \
  {                                                                                                \
    return (V)((mask & (I)yes) | (~mask & (I)no));                                                 \
  }                                                                                                \
  K_INLINE V F(k_where)(I mask, V yes) /* elsewhere 0 */                                           \
  {                                                                                                \
    return (V)(mask & (I)yes);                                                                     \
  }                                                                                                \
  K_INLINE V F(k_abs)(V a)                                                                         \
  {                                                                                                \
    return (V)((I)a & ~(I)F(k_set)(-(S)0));                                                        \
  }                                                                                                \
  K_INLINE V F(k_copysign)(V size, V sign)                                                         \
  {                                                                                                \
    return F(k_select)((I)F(k_set)(-(S)0), sign, size);                                            \
  }                                                                                                \
  K_INSTRUCTIONS(F, S, V, I, packed, sqrt1)

K_BASICS(K_D, double, k_f8, k_i8, "pd", __builtin_sqrt)
#if KE_REAL_BYTES == 4
K_BASICS(K_R, float, k_f4, k_i4, "ps", __builtin_sqrtf)
#endif

K_INLINE int k_any(vi mask)
{
#if K_ASM == 512
  typedef int32_t half __attribute__((vector_size(32)));
  union {
    vi whole;
    half half[2];
  } u = {mask};
  half both = u.half[0] | u.half[1];
  int any;
  __asm__("vmovmskps %1, %0" : "=r"(any) : "x"(both));
  return any;
#elif K_ASM == 256 || K_ASM == 128
  int any;
#if K_ASM == 256
  __asm__("vmovmskps %1, %0" : "=r"(any) : "x"(mask));
#else
  __asm__("movmskps %1, %0" : "=r"(any) : "x"(mask));
#endif
  return any;
#else
  k_i8 m = (k_i8)mask;
  int64_t any = 0;
  for (int l = 0; l < KE_VBYTES / 8; l++) any |= m[l];
  return any != 0;
#endif
}

/* Lanes where a < b, as bits: lane 0 is the lowest. */
K_INLINE unsigned k_less_bits(vr a, vr b)
{
#if K_ASM == 512 && KE_REAL_BYTES == 4 /* 17: less, ordered, quiet; 4: no rounding of its own */
  return (uint16_t)__builtin_ia32_cmpps512_mask(a, b, 17, -1, 4);
#elif K_ASM == 512
  return (uint8_t)__builtin_ia32_cmppd512_mask(a, b, 17, -1, 4);
#elif K_ASM == 256 && KE_VBYTES == 32 && KE_REAL_BYTES == 4
  return (unsigned)__builtin_ia32_movmskps256((vr)(a < b));
#elif K_ASM == 256 && KE_VBYTES == 32
  return (unsigned)__builtin_ia32_movmskpd256((vr)(a < b));
#elif K_ASM && KE_REAL_BYTES == 4
  return (unsigned)__builtin_ia32_movmskps((vr)(a < b));
#elif K_ASM
  return (unsigned)__builtin_ia32_movmskpd((vr)(a < b));
#else
  unsigned bits = 0;
  for (int l = 0; l < KE_W; l++) bits |= (unsigned)(a[l] < b[l]) << l;
  return bits;
#endif
}

/* Lanes moved up by one: the first comes from the last of `before`. */
#if KE_VBYTES / KE_REAL_BYTES == 2
#define K_UP 1, 2
#elif KE_VBYTES / KE_REAL_BYTES == 4
#define K_UP 3, 4, 5, 6
#elif KE_VBYTES / KE_REAL_BYTES == 8
#define K_UP 7, 8, 9, 10, 11, 12, 13, 14
#else
#define K_UP 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
#endif
#ifdef __clang__
#define K_LANES_UP(before, a) __builtin_shufflevector(before, a, K_UP)
#else
#define K_LANES_UP(before, a) __builtin_shuffle(before, a, (vi){K_UP})
#endif

/* The least lane and the lowest number of those that equal it; no lane is NaN. Without branches, which
 * nobody could guess. */
K_INLINE real k_least(vr value, vi number, int64_t *lowest)
{
  real s[KE_W];
  vi mine;
  int64_t at[KE_W];
#pragma GCC unroll 16
  for (int l = 0; l < KE_W; l++) s[l] = value[l];
#pragma GCC unroll 4
  for (int half = KE_W / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int l = 0; l < half; l++) s[l] = s[l + half] < s[l] ? s[l + half] : s[l];
  mine = (number & (value == s[0])) | (((vi){0} + INT32_MAX) & ~(value == s[0]));
#pragma GCC unroll 16
  for (int l = 0; l < KE_W; l++) at[l] = (int64_t)mine[l];
#pragma GCC unroll 4
  for (int half = KE_W / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int l = 0; l < half; l++) at[l] = at[l + half] < at[l] ? at[l + half] : at[l];
  *lowest = at[0];
  return s[0];
}

/* The lanes' sum in double, always in the same order: one half plus the other, and so on. */
K_INLINE double k_hsum(vr a)
{
#if KE_REAL_BYTES == 4
  typedef float k_half __attribute__((vector_size(KE_VBYTES / 2)));
  union {
    vr whole;
    k_half half[2];
  } u = {a};
  const k_f8 d = __builtin_convertvector(u.half[0], k_f8) + __builtin_convertvector(u.half[1], k_f8);
#else
  const k_f8 d = a;
#endif
  double s[KE_VBYTES / 8];
#pragma GCC unroll 8
  for (int l = 0; l < KE_VBYTES / 8; l++) s[l] = d[l];
#pragma GCC unroll 4
  for (int half = KE_VBYTES / 16; half > 0; half /= 2)
#pragma GCC unroll 4
    for (int l = 0; l < half; l++) s[l] += s[l + half];
  return s[0];
}

/* ---- exact sums and products of doubles ------------------------------------------------------ */

#if K_FUSED
K_ASM_3(K_D(k_fma), k_f8, "vfmadd213pd")   /* a * b + c in one rounding */
K_ASM_3(K_D(k_fnma), k_f8, "vfnmadd213pd") /* c - a * b */
#if KE_REAL_BYTES == 4
K_ASM_3(k_fma, k_f4, "vfmadd213ps")
K_ASM_3(k_fnma, k_f4, "vfnmadd213ps")
#endif
#endif

/* a with its last n bits taken away */
K_INLINE k_f8 k_head(k_f8 a, int n)
{
  return (k_f8)((k_u8)a >> n << n);
}

/* a + b = sum + low exactly, for |a| >= |b| or a = 0 */
K_INLINE k_f8 k_two_sum_fast(k_f8 a, k_f8 b, k_f8 *low)
{
  k_f8 sum = a + b;
  *low = b - (sum - a);
  return sum;
}

/* a + b = sum + low exactly */
K_INLINE k_f8 k_two_sum(k_f8 a, k_f8 b, k_f8 *low)
{
  k_f8 sum = a + b, b1 = sum - a;
  *low = (a - (sum - b1)) + (b - b1);
  return sum;
}

/* a * b = product + low, exactly but for the last bit of low */
K_INLINE k_f8 k_two_product(k_f8 a, k_f8 b, k_f8 *low)
{
  k_f8 product = K_D(k_keep)(a * b);
#if K_FUSED
  *low = K_D(k_fma)(a, b, -product);
#else
  k_f8 a1 = k_head(a, 27), a2 = a - a1, b1 = k_head(b, 27), b2 = b - b1; /* a1 * b1 is exact */
  *low = (((a1 * b1 - product) + a1 * b2) + a2 * b1) + a2 * b2;
#endif
  return product;
}

/* (a + a_low) / (b + b_low), but for one rounding */
K_INLINE k_f8 k_quotient(k_f8 a, k_f8 a_low, k_f8 b, k_f8 b_low)
{
  k_f8 inv = 1. / b, q = K_D(k_keep)(a * inv), p, p_low;
  p = k_two_product(q, b, &p_low);
  return q + (((a - p) - p_low) + (a_low - q * b_low)) * inv;
}

/* ---- exponential and logarithm of doubles ---------------------------------------------------- */

#define K_ROUND 6755399441055744.0 /* 1.5 * 2^52: adding it leaves a whole number in the low bits */
#define K_ROUND_BITS 0x4338000000000000

/* The whole number in a + K_ROUND, as a number of k_i8 */
#define K_WHOLE_BITS(rounded) ((k_i8)(rounded) - K_ROUND_BITS)

/* p * 2^n, n = z - K_ROUND: half of n after the other, so that overflow and gradual underflow come
 * by themselves */
K_INLINE k_f8 K_D(k_scale)(k_f8 p, k_f8 z)
{
#if K_ASM == 512
  k_f8 n = z - K_ROUND;
  __asm__("vscalefpd %1, %0, %0" : "+v"(p) : "v"(n));
  return p;
#else
  k_u8 n = (k_u8)(K_WHOLE_BITS(z) + 2 * 1023), half = n >> 1;
  return p * (k_f8)(half << 52) * (k_f8)((n - half) << 52);
#endif
}

/* (e^r - 1 - r) / r^2, |r| <= ln 2 / 2 */
K_INLINE k_f8 k_exp_tail(k_f8 r)
{
  k_f8 q = 0x1.71df252bdc215p-19 + r * (0x1.28ad76349442bp-22 + r * 0x1.ad7fb834c5f74p-26);
  q = 0x1.6c16c1842bb0ap-10 + r * (0x1.a01a012a6487cp-13 + r * (0x1.a0199a086681ep-16 + r * q));
  q = 0x1.55555555554fap-3 + r * (0x1.5555555550874p-5 + r * (0x1.1111111127bd0p-7 + r * q));
  return 0x1.000000000000ap-1 + r * q;
}

#define K_LOG2E 0x1.71547652b82fep+0
#define K_LN2_HIGH 0x1.62e42fefa0000p-1 /* 37 bits: times a whole number up to 2^16 it is exact */
#define K_LN2_LOW 0x1.cf79abc9e3b39p-40

/* e^(x + more) = (1 + (h + rest)) 2^(z - K_ROUND); gives rest, far below h. more is far below 1 */
K_INLINE k_f8 k_exp_parts(k_f8 x, k_f8 more, k_f8 *h, k_f8 *z)
{
  k_f8 c = K_D(k_min)(K_D(k_set)(712.), K_D(k_max)(K_D(k_set)(-747.), x)), n, low, r;
  *z = c * K_LOG2E + K_ROUND;
  n = *z - K_ROUND;
  *h = c - n * K_LN2_HIGH;
  low = n * K_LN2_LOW - more;
  r = *h - low;
  return r * r * k_exp_tail(r) - low;
}

/* e^x: x = n ln 2 + r, a polynomial in r, n into the exponent */
K_INLINE k_f8 K_D(k_exp)(k_f8 x)
{
#if K_FUSED
  k_f8 c = K_D(k_min)(K_D(k_set)(712.), K_D(k_max)(K_D(k_set)(-747.), x));
  k_f8 z = c * K_LOG2E + K_ROUND, n = z - K_ROUND, r = c - n * K_LN2_HIGH, p;
  r = K_D(k_fnma)(n, K_D(k_set)(K_LN2_LOW), r);
  p = K_D(k_fma)(k_exp_tail(r), r, K_D(k_set)(1.));
  return K_D(k_scale)(K_D(k_fma)(p, r, K_D(k_set)(1.)), z);
#else /* one rounding less, where each product has its own */
  k_f8 h, z, rest = k_exp_parts(x, (k_f8){0}, &h, &z);
  return K_D(k_scale)(1. + (h + rest), z);
#endif
}

/* 2^x: x less its whole part is exact */
K_INLINE k_f8 K_D(k_exp2)(k_f8 x)
{
  k_f8 c = K_D(k_min)(K_D(k_set)(1030.), K_D(k_max)(K_D(k_set)(-1080.), x));
  k_f8 z = c + K_ROUND, f = c - (z - K_ROUND), p;
  p = 0x1.b5267e040459cp-24 + f * (0x1.e61b58ebd126bp-28 + f * 0x1.e799d47c044b2p-32);
  p = 0x1.4309130edb3e2p-13 + f * (0x1.ffcbfba9052bfp-17 + f * (0x1.62bfc79792b3fp-20 + f * p));
  p = 0x1.c6b08d7049fe7p-5 + f * (0x1.3b2ab6fba010cp-7 + f * (0x1.5d87fe78cd828p-10 + f * p));
#if K_FUSED
  p = 0x1.ebfbdff82c5a4p-3 + f * p;
  p = K_D(k_fma)(p, f, K_D(k_set)(0x1.62e42fefa39efp-1));
  p = K_D(k_fma)(p, f, K_D(k_set)(1.));
#else /* the leading term as head + rest, to keep one rounding out of the sum */
  k_f8 head = k_head(f, 27), rest = (f - head) * 0x1.62e42f8p-1 + f * 0x1.be8e7bcd5e4f2p-27;
  p = 1. + (head * 0x1.62e42f8p-1 + (rest + f * f * (0x1.ebfbdff82c5a4p-3 + f * p)));
#endif
  return K_D(k_scale)(p, z);
}

/* x = m 2^n, m from sqrt(1/2) to sqrt(2); x normal, > 0 */
K_INLINE k_f8 k_split(k_f8 x, k_f8 *n)
{
  const uint64_t to_next = 0x3ff0000000000000 - 0x3fe6a09e667f3bcd; /* 1 less sqrt(1/2), as bits */
  k_u8 e = ((k_u8)x + to_next) >> 52; /* n + 1023 */
  *n = (k_f8)(e | 0x4330000000000000) - (0x1p52 + 1023);
  return (k_f8)((k_u8)x - ((e - 1023) << 52));
}

/* The same for subnormal x too */
K_INLINE k_f8 k_split_any(k_f8 x, k_f8 *n)
{
  k_i8 tiny = x < 0x1p-1022;
  k_f8 m = k_split(K_D(k_select)(tiny, x * 0x1p54, x), n);
  *n -= K_D(k_where)(tiny, K_D(k_set)(54.));
  return m;
}

/* (log((1 + s) / (1 - s)) - 2 s) / s with z = s^2, s = f / (2 + f), 1 + f from sqrt(1/2) to
 * sqrt(2) */
K_INLINE k_f8 k_log_tail(k_f8 z)
{
  k_f8 w = z * z, r;
  r = w * (0x1.999999997fa04p-2 + w * (0x1.c71c51d8e78afp-3 + w * 0x1.39a09d078c69fp-3));
  z *= 0x1.5555555555593p-1 +
       w * (0x1.2492494229359p-2 + w * (0x1.7466496cb03dep-3 + w * 0x1.2f112df3e5244p-3));
  return r + z;
}

/* n ln 2 + log(1 + f) + more, with f as in k_log_tail() and more far below it */
K_INLINE k_f8 k_log_sum(k_f8 n, k_f8 f, k_f8 more)
{
  k_f8 s = f / (f + 2.), h = 0.5 * f * f;
  k_f8 rest = s * (h + k_log_tail(s * s)) + (n * 0x1.a39ef35793c76p-33 + more);
  return n * 0x1.62e42fee00000p-1 - ((h - rest) - f);
}

/* What a logarithm is at 0, below 0, at Inf and NaN, where r was computed for all else */
K_INLINE k_f8 k_log_special(k_f8 x, k_f8 r)
{
  r = K_D(k_select)(x == 0., K_D(k_set)(-K_INF), r);
  r = K_D(k_select)(~(x >= 0.), K_D(k_set)(K_NAN), r);
  return K_D(k_select)(x == K_INF, x, r);
}

K_INLINE k_f8 K_D(k_log)(k_f8 x)
{
  k_f8 n, f = k_split_any(x, &n) - 1.;
  return k_log_special(x, k_log_sum(n, f, (k_f8){0}));
}

/* log(1 + f) in other bases: f - f^2/2 as head, with few bits, and rest, so that the products with
 * the parts of 1 / log(base) lose nothing. n times the logarithm of 2 is added to it. */
K_INLINE k_f8 k_log_base(k_f8 x, double inv_high, double inv_low, double two_high, double two_low)
{
  k_f8 n, f = k_split_any(x, &n) - 1., s = f / (f + 2.), h = 0.5 * f * f, head, rest, high, low;
  head = k_head(f - h, 32);
  rest = ((f - head) - h) + s * (h + k_log_tail(s * s));
  high = k_two_sum_fast(n * two_high, head * inv_high, &low);
  low += n * two_low + ((rest + head) * inv_low + rest * inv_high);
  return k_log_special(x, high + low);
}
K_INLINE k_f8 K_D(k_log2)(k_f8 x)
{
  return k_log_base(x, 0x1.7154765200000p+0, 0x1.705fc2eefa200p-33, 1., 0.);
}
K_INLINE k_f8 K_D(k_log10)(k_f8 x)
{
  return k_log_base(x, 0x1.bcb7b15200000p-2, 0x1.b9438ca9aadd5p-36, 0x1.34413509f7800p-2,
                    0x1.fef311f12b358p-46);
}

/* log(1 + x + more), more far below 1 + x. 1 + x = u + what was lost; near 0, f is x itself. */
K_INLINE k_f8 k_log1p_more(k_f8 x, k_f8 more)
{
  k_f8 u = 1. + x, n, m = k_split(u, &n), lost = x - (u - 1.);
  k_i8 near = n == 0.;
  k_f8 f = K_D(k_select)(near, x, m - 1.);
  more = (K_D(k_select)(near, (k_f8){0}, lost) + more) / u;
  return k_log_special(u, K_D(k_select)(x == 0., x, k_log_sum(n, f, more)));
}
K_INLINE k_f8 K_D(k_log1p)(k_f8 x)
{
  return k_log1p_more(x, (k_f8){0});
}

/* e^x - 1 = (high + low) 2^(z - K_ROUND), low < high, from (1 - 2^-n) + (e^r - 1), where 1 - 2^-n
 * is exact or does not count. Gives high. */
K_INLINE k_f8 k_expm1_parts(k_f8 x, k_f8 *low, k_f8 *z)
{
  k_f8 c = K_D(k_min)(K_D(k_set)(712.), K_D(k_max)(K_D(k_set)(-40.), x));
  k_f8 n, h, t, r, minus_n, sum;
  *z = c * K_LOG2E + K_ROUND;
  n = *z - K_ROUND;
  h = c - n * K_LN2_HIGH;
  t = n * K_LN2_LOW;
  r = h - t;
  minus_n = K_ROUND - K_D(k_min)(K_D(k_set)(64.), n);
  sum = k_two_sum_fast(1. - (k_f8)((K_WHOLE_BITS(minus_n) + 1023) << 52), h, low);
  *low += r * r * k_exp_tail(r) - t;
  return sum;
}
K_INLINE k_f8 K_D(k_expm1)(k_f8 x)
{
  k_f8 low, z, high = k_expm1_parts(x, &low, &z);
  return K_D(k_select)(x == 0., x, K_D(k_scale)(high + low, z));
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* log(m 2^n) = high + low to about 2^-64: 2 atanh(s), s = (m - 1) / (m + 1), the first terms of its
 * series in twice the precision */
K_INLINE k_f8 k_log_pair(k_f8 m, k_f8 n, k_f8 *low)
{
  k_f8 f = m - 1., g = m + 1., inv = 1. / g, s = f * inv, s_low, z, z_low, t, c, c_low, p, p_low;
  k_f8 q, q_low;
  q = k_two_product(s, g, &q_low);
  s_low = (((f - q) - q_low) - s * (m - (g - 1.))) * inv;
  z = k_two_product(s, s, &z_low);
  z_low += 2. * s * s_low;
  t = 0x1.1115481bbb575p-4 + z * (0x1.e01b2272a2355p-5 + z * 0x1.da95688cd3ab1p-5);
  t = 0x1.c71c71c74d111p-4 + z * (0x1.745d173c67656p-4 + z * (0x1.3b13a9fab03d5p-4 + z * t));
  t = z * (0x1.999999999999ap-3 + z * (0x1.24924924922fcp-3 + z * t));
  c = k_two_sum_fast(K_D(k_set)(0x1.5555555555555p-2), t, &c_low);
  c_low += 0x1.5555555555555p-56;
  p = k_two_product(z, c, &p_low);
  p_low += z * c_low + z_low * c;
  q = k_two_product(s, p, &q_low);
  q_low += s * p_low + (s_low + s_low * p);
  s = k_two_sum_fast(s, q, &s_low);
  s_low += q_low;
  s = k_two_sum_fast(n * 0x1.62e42fefa3800p-1, 2. * s, low);
  *low += 2. * s_low + n * 0x1.ef35793c76730p-45;
  return s;
}

/* |a|^b = e^(b log |a|) for a neither 0 nor Inf; b so large only that its multiples still differ */
K_INLINE k_f8 k_power(k_f8 size, k_f8 b)
{
  k_f8 n, m = k_split_any(size, &n), l, l_low, p, p_low, h, z, rest;
  k_f8 y = K_D(k_min)(K_D(k_set)(0x1p64), K_D(k_max)(K_D(k_set)(-0x1p64), b));
  l = k_log_pair(m, n, &l_low);
  p = k_two_product(y, l, &p_low);
  p_low = K_D(k_where)(K_D(k_abs)(p) < 1000., p_low + y * l_low);
  rest = k_exp_parts(p, p_low, &h, &z);
  return K_D(k_scale)(1. + (h + rest), z);
}

/* C's pow from r = |a|^b: the sign, and what zeros, Inf and NaN give */
K_INLINE k_f8 k_pow_special(k_f8 a, k_f8 b, k_f8 r)
{
  k_f8 size = K_D(k_abs)(a), b_size = K_D(k_abs)(b), half = 0.5 * b_size;
  k_i8 edge = (size == 0.) | (size == K_INF), up = (size == K_INF) ^ (b < 0.);
  k_i8 whole = (b_size >= 0x1p52) | ((b_size + 0x1p52) - 0x1p52 == b_size);
  k_i8 odd = whole & ~((half >= 0x1p52) | ((half + 0x1p52) - 0x1p52 == half));
  r = K_D(k_select)(edge, K_D(k_where)(up, K_D(k_set)(K_INF)), r);
  r = (k_f8)((k_i8)r ^ ((k_i8)a & odd & (k_i8)K_D(k_set)(-0.)));
  r = K_D(k_select)((a < 0.) & ~edge & ~whole, K_D(k_set)(K_NAN), r);
  r = K_D(k_select)((a != a) | (b != b), a + b, r);
  return K_D(k_select)((a == 1.) | (b == 0.), K_D(k_set)(1.), r);
}

/* ---- circular functions ---------------------------------------------------------------------- */

#define K_2_PI 0x1.45f306dc9c883p-1
#define K_FAR 0x1p20 /* beyond it, multiples of pi / 2 have too few bits here */

/* x = n pi / 2 + r + low, |x| < K_FAR; z = n + K_ROUND. The parts of pi / 2 are such that the first
 * difference is exact, and the next ones come with what they lose: x can be within 2^-60 of
 * n pi / 2. */
K_INLINE k_f8 k_quarters(k_f8 x, k_f8 *low, k_f8 *z)
{
  k_f8 n, r, lost;
  *z = x * K_2_PI + K_ROUND;
  n = *z - K_ROUND;
#if K_FUSED
  k_f8 t, t_low;
  r = K_D(k_fnma)(n, K_D(k_set)(0x1.921fb54442d18p+0), x);
  t = k_two_product(n, K_D(k_set)(0x1.1a62633145c07p-54), &t_low);
  r = k_two_sum(r, -t, &lost);
  *low = (lost - t_low) - n * -0x1.f1976b7ed8fbcp-110;
#else
  k_f8 lost2;
  r = x - n * 0x1.921fb54400000p+0;
  r = k_two_sum(r, n * -0x1.0b4611a600000p-34, &lost);
  r = k_two_sum(r, n * -0x1.3198a2e000000p-69, &lost2);
  *low = (lost + lost2) - n * 0x1.b839a252049c1p-104;
#endif
  return r;
}

/* sin and cos of r + low, |r| <= pi / 4: what is added up to them comes in two parts */
K_INLINE void k_sin_cos(k_f8 r, k_f8 low, k_f8 *sine, k_f8 *sine_low, k_f8 *cosine,
                        k_f8 *cosine_low)
{
  k_f8 r2 = r * r, h = 0.5 * r2, w = 1. - h, s, c;
  s = 0x1.71de357b1fe7dp-19 + r2 * (-0x1.ae5e68a2b9cebp-26 + r2 * 0x1.5d93a5acfd57cp-33);
  s = 0x1.111111110f8a6p-7 + r2 * (-0x1.a01a019c161d5p-13 + r2 * s);
  s = -0x1.5555555555549p-3 + r2 * s;
  c = -0x1.27e4f809c52adp-22 + r2 * (0x1.1ee9ebdb4b1c4p-29 + r2 * -0x1.8fae9be8838d4p-37);
  c = -0x1.6c16c16c15177p-10 + r2 * (0x1.a01a019cb1590p-16 + r2 * c);
  c = r2 * r2 * (0x1.555555555554cp-5 + r2 * c);
  *sine = k_two_sum_fast(r, r * r2 * s + w * low, sine_low);
  *cosine = k_two_sum_fast(w, ((1. - w) - h) + (c - r * low), cosine_low);
}

/* sin(x + quarter pi / 2) */
K_INLINE k_f8 k_sin_near(k_f8 x, int quarter)
{
  k_f8 z, low, r = k_quarters(x, &low, &z), s, c, unused;
  k_i8 q = (k_i8)z + quarter;
  k_sin_cos(r, low, &s, &unused, &c, &unused);
  s = K_D(k_select)(-(q & 1), c, s);
  return (k_f8)((k_i8)s ^ ((q & 2) << 62));
}
K_INLINE k_f8 k_tan_near(k_f8 x)
{
  k_f8 z, low, r = k_quarters(x, &low, &z), s, s_low, c, c_low;
  k_i8 odd = -((k_i8)z & 1);
  k_sin_cos(r, low, &s, &s_low, &c, &c_low);
  r = k_quotient(K_D(k_select)(odd, c, s), K_D(k_select)(odd, c_low, s_low),
                 K_D(k_select)(odd, s, c), K_D(k_select)(odd, s_low, c_low));
  return (k_f8)((k_i8)r ^ (odd & (k_i8)K_D(k_set)(-0.)));
}

/* (asin(s) - s) / s^3 with z = s^2 <= 1/4 */
K_INLINE k_f8 k_asin_tail(k_f8 z)
{
  k_f8 r = 0x1.20a9f2e2edbcfp-6 + z * (-0x1.f170025c1e44fp-7 + z * 0x1.dabba2b7df4e8p-6);
  r = 0x1.780afddec10c3p-7 + z * (0x1.52eb7199c46d7p-7 + z * (0x1.6037560611a09p-8 + z * r));
  r = 0x1.6e8bb30e1ed28p-6 + z * (0x1.1c4d1a7281b43p-6 + z * (0x1.c9d1fdde36353p-7 + z * r));
  r = 0x1.6db6db6e442c2p-5 + z * (0x1.f1c71c1478c97p-6 + z * r);
  return 0x1.5555555555556p-3 + z * (0x1.3333333332dc8p-4 + z * r);
}

#define K_PI_2 0x1.921fb54442d18p+0
#define K_PI_2_LOW 0x1.1a62633145c07p-54

/* For |x| > 1/2 (`big`), asin |x| = pi/2 - 2 asin(s), s = sqrt((1 - |x|) / 2). Gives s, else |x|;
 * in rest asin(s) - s, and what the root lost. NaN for |x| > 1. */
K_INLINE k_f8 k_asin_parts(k_f8 x, k_i8 big, k_f8 *rest)
{
  k_f8 size = K_D(k_abs)(x);
  k_f8 z = K_D(k_select)(big, 0.5 - 0.5 * size, x * x), s, square, low;
  s = K_D(k_select)(big, K_D(k_sqrt)(z), size);
  square = k_two_product(s, s, &low);
  low = K_D(k_where)(big & (s > 0.), ((z - square) - low) / (s + s));
  *rest = s * (z * k_asin_tail(z)) + low;
  return s;
}
K_INLINE k_f8 K_D(k_asin)(k_f8 x)
{
  k_i8 big = K_D(k_abs)(x) > 0.5;
  k_f8 rest, s = k_asin_parts(x, big, &rest);
  k_f8 far = K_PI_2 - 2. * s, lost = (K_PI_2 - far) - 2. * s;
  far = far + (lost + (K_PI_2_LOW - 2. * rest));
  return K_D(k_copysign)(K_D(k_select)(big, far, s + rest), x);
}
K_INLINE k_f8 K_D(k_acos)(k_f8 x)
{
  k_i8 big = K_D(k_abs)(x) > 0.5, below = x < 0.;
  k_f8 rest, s = k_asin_parts(x, big, &rest), from, high, lost;
  /* acos x = pi/2 - asin x in the middle, 2 asin s above, pi - 2 asin s below */
  s = K_D(k_select)(big, 2. * s, s), rest = K_D(k_select)(big, 2. * rest, rest);
  from = K_D(k_select)(big, K_D(k_where)(below, K_D(k_set)(2. * K_PI_2)), K_D(k_set)(K_PI_2));
  s = (k_f8)((k_i8)s ^ ((k_i8)K_D(k_set)(-0.) & ~(below ^ big)));
  rest = (k_f8)((k_i8)rest ^ ((k_i8)K_D(k_set)(-0.) & ~(below ^ big)));
  high = k_two_sum(from, s, &lost);
  return high + (lost + (from * (K_PI_2_LOW / K_PI_2) + rest));
}

/* atan(t) for t >= 0: from the nearest of c = 0, 1/2, 1, 3/2, Inf, where atan(c) is known to twice
 * the precision: atan(t) = atan(c) + atan((t - c) / (1 + c t)) */
K_INLINE k_f8 k_atan_of(k_f8 t)
{
  k_i8 m1 = t > 0.4375, m2 = t > 0.6875, m3 = t > 1.1875, m4 = t > 2.4375;
  k_f8 half = K_D(k_set)(0.5), c, high, low, u, z, r;
  c = K_D(k_where)(m1, half) + K_D(k_where)(m2, half) + K_D(k_where)(m3, half);
  u = K_D(k_select)(m4, K_D(k_set)(-1.), t - c) / K_D(k_select)(m4, t, 1. + c * t);
  high = K_D(k_where)(m1, K_D(k_set)(0x1.dac670561bb4fp-2));
  high = K_D(k_select)(m2, K_D(k_set)(0.5 * K_PI_2), high);
  high = K_D(k_select)(m3, K_D(k_set)(0x1.f730bd281f69bp-1), high);
  high = K_D(k_select)(m4, K_D(k_set)(K_PI_2), high);
  low = K_D(k_where)(m1, K_D(k_set)(0x1.a2b7f222f65e2p-56));
  low = K_D(k_select)(m2, K_D(k_set)(0.5 * K_PI_2_LOW), low);
  low = K_D(k_select)(m3, K_D(k_set)(0x1.007887af0cbbdp-56), low);
  low = K_D(k_select)(m4, K_D(k_set)(K_PI_2_LOW), low);
  z = u * u;
  r = 0x1.df127afa8d45p-5 +
      z * (-0x1.9c7e9c348c7c1p-5 + z * (0x1.3622efc151c46p-5 + z * -0x1.200ca1fa8f2abp-6));
  r = -0x1.745d0000fe9fp-4 + z * (0x1.3b116cc710b0cp-4 + z * (-0x1.10ed9c98ad37cp-4 + z * r));
  r = 0x1.99999999989d6p-3 + z * (-0x1.24924923bc28ap-3 + z * (0x1.c71c713b88845p-4 + z * r));
  r = -0x1.5555555555554p-2 + z * r;
  return high + (u + (u * z * r + low));
}
K_INLINE k_f8 K_D(k_atan)(k_f8 x)
{
  return K_D(k_copysign)(k_atan_of(K_D(k_abs)(x)), x);
}

/* The angle of the point (x, y): C's atan2 */
K_INLINE k_f8 K_D(k_atan2)(k_f8 y, k_f8 x)
{
  k_f8 a = K_D(k_abs)(y), b = K_D(k_abs)(x), t;
  k_i8 left = K_D(k_copysign)(K_D(k_set)(1.), x) < 0.; /* -0 too */
  t = K_D(k_select)(a == b, K_D(k_set)(1.), a / b);
  t = K_D(k_select)(a == 0., K_D(k_set)(0.), t);
  t = k_atan_of(t);
  t = K_D(k_select)(left, 2. * K_PI_2 - (t - 2. * K_PI_2_LOW), t);
  return K_D(k_select)((x != x) | (y != y), x + y, K_D(k_copysign)(t, y));
}

/* ---- hyperbolic functions and their inverses ------------------------------------------------- */

K_INLINE k_f8 K_D(k_sinh)(k_f8 x)
{
  k_f8 size = K_D(k_abs)(x), h, w, e, r, z = x * x;
  e = k_exp_parts(size, (k_f8){0}, &h, &w);
  e = K_D(k_scale)(1. + (h + e), w - 1.);
  r = 0x1.ae6424ea2ee6ap-26 +
      z * (0x1.6144eac704733p-33 + z * (0x1.98c01cbe1c081p-41 + z * 0x1.d9ba54a124c11p-47));
  r = 0x1.11111111111d9p-7 + z * (0x1.a01a019ff8236p-13 + z * (0x1.71de3a7de0352p-19 + z * r));
  r = size + size * z * (0x1.5555555555555p-3 + z * r);
  return K_D(k_copysign)(K_D(k_select)(size < 1., r, e - 0.25 / e), x);
}
K_INLINE k_f8 K_D(k_cosh)(k_f8 x)
{
  k_f8 h, w, e = k_exp_parts(K_D(k_abs)(x), (k_f8){0}, &h, &w);
  e = K_D(k_scale)(1. + (h + e), w - 1.);
  return e + 0.25 / e;
}
/* t / (t + 2), t = e^2|x| - 1, all to twice the precision; 1 - 2 / (t + 2) where that will do */
K_INLINE k_f8 K_D(k_tanh)(k_f8 x)
{
  k_f8 size = K_D(k_min)(K_D(k_set)(20.), K_D(k_abs)(x)), z, t, t_low, d, d_low;
  k_i8 big = size >= 1.;
  t = k_expm1_parts(size + size, &d, &z);
  t = K_D(k_scale)(k_two_sum_fast(t, d, &t_low), z);
  t_low = K_D(k_scale)(t_low, z);
  d = k_two_sum(t, K_D(k_set)(2.), &d_low);
  t = K_D(k_select)(big, K_D(k_set)(2.), t);
  t = k_quotient(t, K_D(k_where)(~big, t_low), d, d_low + t_low);
  return K_D(k_copysign)(K_D(k_select)(big, 1. - t, t), x);
}
K_INLINE k_f8 K_D(k_asinh)(k_f8 x)
{
  k_f8 size = K_D(k_abs)(x), square = size * size, t, low;
  k_i8 big = size > 0x1p55; /* there, asinh x = log 2x */
  t = k_two_sum_fast(size, square / (1. + K_D(k_sqrt)(1. + square)), &low);
  t = k_log1p_more(K_D(k_select)(big, size, t), K_D(k_where)(~big, low));
  t += K_D(k_where)(big, K_D(k_set)(0x1.62e42fefa39efp-1));
  return K_D(k_copysign)(t, x);
}
/* log(1 + t + sqrt(t (t + 2))), t = x - 1, the argument of the logarithm to twice the precision */
K_INLINE k_f8 K_D(k_acosh)(k_f8 x)
{
  k_i8 big = x > 0x1p55;
  k_f8 t = x - 1., g = t + 2., g_low = t - (g - 2.), square, square_low, s, s2, s2_low, low;
  square = k_two_product(t, g, &square_low);
  square_low += t * g_low;
  s = K_D(k_sqrt)(square);
  s2 = k_two_product(s, s, &s2_low);
  s2 = (((square - s2) - s2_low) + square_low) / (s + s);
  s2 = K_D(k_where)(s > 0., s2);
  t = k_two_sum(t, s, &low);
  low = K_D(k_where)(~big, low + s2);
  t = k_log1p_more(K_D(k_select)(big, x, t), low);
  t += K_D(k_where)(big, K_D(k_set)(0x1.62e42fefa39efp-1));
  return K_D(k_select)(x < 1., K_D(k_set)(K_NAN), t);
}
/* log(1 + 2 |x| / (1 - |x|)) / 2, the quotient to twice the precision */
K_INLINE k_f8 K_D(k_atanh)(k_f8 x)
{
  k_f8 size = K_D(k_abs)(x), d = 1. - size, q = (size + size) / d, p, low;
  p = k_two_product(q, d, &low);
  low = ((((size + size) - p) - low) - q * ((1. - d) - size)) / d;
  return K_D(k_copysign)(0.5 * k_log1p_more(q, low), x);
}

/* ---- the error function ---------------------------------------------------------------------- */

/* erf(s) / s - 1, z = s^2 <= 0.5625 */
K_INLINE k_f8 k_erf_tail(k_f8 z)
{
  k_f8 r = 0x1.b982295083cfcp-20 +
           z * (-0x1.5c14fc0842667p-23 + z * (0x1.d777c51831224p-27 + z * -0x1.acbabf57ef501p-31));
  r = -0x1.c02db06ca928fp-11 + z * (0x1.f9a2bee1b1f05p-14 + z * (-0x1.f4ca8c11f4161p-17 + z * r));
  r = 0x1.ce2f21a040fbfp-4 + z * (-0x1.b82ce31204d17p-6 + z * (0x1.565bccfa6f4bep-8 + z * r));
  return 0x1.06eba8214db68p-3 + z * (-0x1.812746b0379c1p-2 + z * r);
}

/* erfc(s), s from 0.75 to 28: e^(-s^2) f(t) / (1 + 2 s), f a polynomial in t = (s - 2) / (s + 2)
 * (Shepherd and Laframboise 1981, doi 10.1090/S0025-5718-1981-0595058-X), each factor to more than
 * the precision */
K_INLINE k_f8 k_erfc_far(k_f8 s)
{
  k_f8 square, square_low, h, z, e, e_low, t, f, f_low, d = 1. + 2. * s;
  square = k_two_product(s, s, &square_low);
  e_low = k_exp_parts(-square, -square_low, &h, &z);
  e = k_two_sum_fast(K_D(k_set)(1.), h, &f_low);
  e_low += f_low;
  t = (s - 2.) / (s + 2.);
  f = -0x1.8d279e249d090p-20 + t * (-0x1.5e2cc5bddc573p-20 + t * 0x1.4b89b0ca116f1p-21);
  f = 0x1.b83f39a8ec121p-19 + t * (0x1.6d2fbeefaddddp-18 + t * (0x1.304893d79bea1p-19 + t * f));
  f = -0x1.9b306a53c4b54p-20 + t * (-0x1.307c3141aa51ep-15 + t * (-0x1.c437809cb501ap-17 + t * f));
  f = -0x1.dc689835b83fbp-12 + t * (0x1.b0cb5d8c476abp-13 + t * (0x1.3cb507dfa5baap-13 + t * f));
  f = 0x1.1dd2eca4c9b6ap-7 + t * (0x1.4d461ac304472p-10 + t * (-0x1.7de52b6ecc7b3p-10 + t * f));
  f = 0x1.4ffa1e14e1b39p-3 + t * (-0x1.bc2b9561be1d4p-5 + t * (-0x1.07423401be4d4p-7 + t * f));
  f = t * (-0x1.7bf5ec170060ep-4 + t * (-0x1.5407bebf322a2p-3 + t * f));
  f = k_two_sum_fast(K_D(k_set)(0x1.46e80e2277953p+0), f + 0x1.40aa0cb8aec06p-54, &f_low);
  f_low = e * f_low + e_low * f;
  f = k_two_product(e, f, &e_low);
  return K_D(k_scale)(k_quotient(f, e_low + f_low, d, 1. - (d - 2. * s)), z);
}

K_INLINE k_f8 K_D(k_erf)(k_f8 x)
{
  k_f8 size = K_D(k_min)(K_D(k_set)(28.), K_D(k_abs)(x)), far = 1. - k_erfc_far(size);
  size = K_D(k_select)(size < 0.75, size + size * k_erf_tail(size * size), far);
  return K_D(k_copysign)(size, x);
}
K_INLINE k_f8 K_D(k_erfc)(k_f8 x)
{
  k_f8 size = K_D(k_min)(K_D(k_set)(28.), K_D(k_abs)(x)), far = k_erfc_far(size), near, low;
  near = k_two_sum_fast(K_D(k_set)(1.), -x, &low);
  near += low - x * k_erf_tail(x * x);
  far = K_D(k_select)(x < 0., 2. - far, far);
  return K_D(k_select)(size < 0.75, near, far);
}

/* sqrt(a^2 + b^2) by way of a power of 2 where the squares would leave the range */
K_INLINE k_f8 K_D(k_hypot)(k_f8 a, k_f8 b)
{
  k_f8 size = K_D(k_max)(K_D(k_abs)(a), K_D(k_abs)(b)), down, up, r;
  k_i8 large = size > 0x1p500, small = size < 0x1p-450;
  down = K_D(k_select)(small, K_D(k_set)(0x1p600), K_D(k_set)(1.));
  down = K_D(k_select)(large, K_D(k_set)(0x1p-600), down);
  up = K_D(k_select)(small, K_D(k_set)(0x1p-600), K_D(k_set)(1.));
  up = K_D(k_select)(large, K_D(k_set)(0x1p600), up);
  a *= down, b *= down;
  r = K_D(k_sqrt)(a * a + b * b) * up;
  return K_D(k_select)((K_D(k_abs)(a) == K_INF) | (K_D(k_abs)(b) == K_INF), K_D(k_set)(K_INF), r);
}

/* ---- the real functions ---------------------------------------------------------------------- */

#if KE_REAL_BYTES == 4
#define K_LIBM(name) __builtin_##name##f

typedef float k_half __attribute__((vector_size(KE_VBYTES / 2)));
typedef union {
  vr whole;
  k_half half[2];
} k_halves;

/* A float function by way of the double one, half a vector after the other */
#define K_WIDE_1(name, call)                                                                       \
  K_INLINE vr name(vr a)                                                                           \
  {                                                                                                \
    k_halves h = {a};                                                                              \
    for (int i = 0; i < 2; i++)                                                                    \
      h.half[i] = __builtin_convertvector(call(__builtin_convertvector(h.half[i], k_f8)), k_half); \
    return h.whole;                                                                                \
  }
#define K_WIDE_2(name, call)                                                                       \
  K_INLINE vr name(vr a, vr b)                                                                     \
  {                                                                                                \
    k_halves h = {a}, g = {b};                                                                     \
    for (int i = 0; i < 2; i++)                                                                    \
      h.half[i] = __builtin_convertvector(call(__builtin_convertvector(h.half[i], k_f8),           \
                                               __builtin_convertvector(g.half[i], k_f8)),          \
                                          k_half);                                                 \
    return h.whole;                                                                                \
  }

#define K_ROUND_4 12582912.f /* 1.5 * 2^23 */
#define K_ROUND_BITS_4 0x4b400000

K_INLINE vr k_scale(vr p, vr z)
{
#if K_ASM == 512
  vr n = z - K_ROUND_4;
  __asm__("vscalefps %1, %0, %0" : "+v"(p) : "v"(n));
  return p;
#else
  vi n = (vi)z - K_ROUND_BITS_4, half = n >> 1;
  return p * (vr)((half + 127) << 23) * (vr)((n - half + 127) << 23);
#endif
}

#define K_LOG2E_4 0x1.715476p+0f
#define K_LN2_HIGH_4 0x1.62e400p-1f /* 15 bits */
#define K_LN2_LOW_4 0x1.7f7d1cp-20f

/* (e^r - 1 - r) / r^2, |r| <= ln 2 / 2 */
K_INLINE vr k_exp_tail_4(vr r)
{
  vr q = 0x1.5558f2p-5f + r * (0x1.1239e4p-7f + r * 0x1.6a242cp-10f);
  return 0x1.fffffcp-2f + r * (0x1.555492p-3f + r * q);
}

K_INLINE vr k_exp(vr x)
{
  vr c = k_min(k_set(90.f), k_max(k_set(-105.f), x));
  vr z = c * K_LOG2E_4 + K_ROUND_4, n = z - K_ROUND_4, h = c - n * K_LN2_HIGH_4, r;
#if K_FUSED
  r = k_fnma(n, k_set(K_LN2_LOW_4), h);
  return k_scale(k_fma(k_fma(k_exp_tail_4(r), r, k_set(1.f)), r, k_set(1.f)), z);
#else
  vr low = n * K_LN2_LOW_4;
  r = h - low;
  return k_scale(1.f + (h + (r * r * k_exp_tail_4(r) - low)), z);
#endif
}

K_INLINE vr k_expm1(vr x)
{
  vr c = k_min(k_set(90.f), k_max(k_set(-20.f), x));
  vr z = c * K_LOG2E_4 + K_ROUND_4, n = z - K_ROUND_4, h = c - n * K_LN2_HIGH_4;
  vr low = n * K_LN2_LOW_4, r = h - low, minus_n = K_ROUND_4 - k_min(k_set(40.f), n), one, sum;
  one = 1.f - (vr)(((vi)minus_n - K_ROUND_BITS_4 + 127) << 23); /* 1 - 2^-n */
  sum = one + h;
  sum += (h - (sum - one)) + (r * r * k_exp_tail_4(r) - low);
  return k_select(x == 0.f, x, k_scale(sum, z));
}

K_INLINE vr k_tanh(vr x)
{
  vr size = k_abs(x), z = x * x, r, far = 1.f - 2.f / (k_exp(size + size) + 1.f);
  r = -0x1.ba17d0p-5f + z * (0x1.654ba8p-6f + z * (-0x1.1465fep-7f + z * 0x1.36b552p-9f));
  r = size + size * z * (-0x1.555556p-2f + z * (0x1.111132p-3f + z * r));
  return k_copysign(k_select(size < 0.625f, r, far), x);
}

K_INLINE vr k_exp2(vr x)
{
  vr c = k_min(k_set(130.f), k_max(k_set(-152.f), x));
  vr z = c + K_ROUND_4, f = c - (z - K_ROUND_4);
  vr p = 0x1.3b2d4cp-7f + f * (0x1.5f3e54p-10f + f * 0x1.41fbb8p-13f);
#if K_FUSED
  p = 0x1.ebfbdcp-3f + f * (0x1.c6aee8p-5f + f * p);
  p = k_fma(p, f, k_set(0x1.62e430p-1f));
  return k_scale(k_fma(p, f, k_set(1.f)), z);
#else /* the leading term as head + rest, to keep one rounding out of the sum */
  vr head = (vr)((vi)f & ~0xfff);
  vr rest = (f - head) * 0x1.62ep-1f + f * 0x1.0bfbe8p-15f;
  p = rest + f * f * (0x1.ebfbdcp-3f + f * (0x1.c6aee8p-5f + f * p));
  return k_scale(1.f + (head * 0x1.62ep-1f + p), z);
#endif
}

/* As for double: x = m 2^n; n ln 2 + log(1 + f) + more; the special values */
K_INLINE vr k_split_4(vr x, vr *n)
{
  k_u4 e = ((k_u4)x + (0x3f800000 - 0x3f3504f3)) >> 23; /* n + 127 */
  *n = __builtin_convertvector((vi)e, vr) - 127.f;
  return (vr)((k_u4)x - ((e - 127) << 23));
}
K_INLINE vr k_log_sum_4(vr n, vr f, vr more)
{
  vr s = f / (f + 2.f), z = s * s, h = 0.5f * f * f, r;
  r = z * (0x1.555554p-1f + z * (0x1.999c26p-2f + z * (0x1.23d3dcp-2f + z * 0x1.f13c4cp-3f)));
  return n * 0x1.62e300p-1f - ((h - (s * (h + r) + (n * 0x1.2fefa2p-17f + more))) - f);
}
K_INLINE vr k_log_special_4(vr x, vr r)
{
  r = k_select(x == 0.f, k_set(-__builtin_inff()), r);
  r = k_select(~(x >= 0.f), k_set(__builtin_nanf("")), r);
  return k_select(x == __builtin_inff(), x, r);
}

K_INLINE vr k_log(vr x)
{
  vi tiny = x < 0x1p-126f;
  vr n, m = k_split_4(k_select(tiny, x * 0x1p23f, x), &n);
  n -= k_where(tiny, k_set(23.f));
  return k_log_special_4(x, k_log_sum_4(n, m - 1.f, (vr){0}));
}

K_INLINE vr k_log1p(vr x)
{
  vr u = 1.f + x, n, m = k_split_4(u, &n), lost = (x - (u - 1.f)) / u;
  vi near = n == 0.f;
  lost = k_log_sum_4(n, k_select(near, x, m - 1.f), k_where(~near, lost));
  return k_log_special_4(u, k_select(x == 0.f, x, lost));
}

#if K_FUSED
#define K_SIN_FAR 8192.f
/* sin(x + quarter pi / 2) */
K_INLINE vr k_sin_quarter(vr x, int quarter)
{
  vr z = x * 0x1.45f306p-1f + K_ROUND_4, n = z - K_ROUND_4, r, r2, s, c;
  vi q = (vi)z + quarter;
  r = k_fnma(n, k_set(0x1.921fb0p+0f), x);
  r = k_fnma(n, k_set(0x1.5110b4p-22f), r);
  r = k_fnma(n, k_set(0x1.846988p-48f), r);
  r2 = r * r;
  s = r + r * r2 * (-0x1.555546p-3f + r2 * (0x1.11073ap-7f + r2 * -0x1.9943f2p-13f));
  c = 0x1.55554ap-5f + r2 * (-0x1.6c0c32p-10f + r2 * 0x1.99eb9cp-16f);
  c = 1.f + r2 * (-0.5f + r2 * c);
  s = k_select(-(q & 1), c, s);
  return (vr)((vi)s ^ ((q & 2) << 30));
}
#define K_SIN_CORE(x) k_sin_quarter(x, 0)
#define K_COS_CORE(x) k_sin_quarter(x, 1)
#else /* near the multiples of pi / 2, x needs more bits than a float product keeps */
#define K_SIN_FAR 0x1p20f
/* The same in double, to the precision of float */
K_INLINE k_f8 k_sin_short(k_f8 x, int quarter)
{
  k_f8 z = x * K_2_PI + K_ROUND, n = z - K_ROUND, r, r2, s, c;
  k_i8 q = (k_i8)z + quarter;
  r = x - n * 0x1.921fb54400000p+0;
  r = r - n * 0x1.0b4611a626331p-34;
  r2 = r * r;
  s = -0x1.555555545a9dbp-3 +
      r2 * (0x1.11110de8e8c48p-7 + r2 * (-0x1.a013a0c2fe100p-13 + r2 * 0x1.6dbc2dcdb22dep-19));
  s = r + r * r2 * s;
  c = -0x1.6c16bad561627p-10 + r2 * (0x1.a0128e16ad50cp-16 + r2 * -0x1.2472b234e6969p-22);
  c = 1. + r2 * (-0x1.fffffffffe5f6p-2 + r2 * (0x1.555555513f24dp-5 + r2 * c));
  s = k_select_d(-(q & 1), c, s);
  return (k_f8)((k_i8)s ^ ((q & 2) << 62));
}
K_INLINE k_f8 k_sin_d(k_f8 x)
{
  return k_sin_short(x, 0);
}
K_INLINE k_f8 k_cos_d(k_f8 x)
{
  return k_sin_short(x, 1);
}
K_WIDE_1(k_sin_wide, k_sin_d)
K_WIDE_1(k_cos_wide, k_cos_d)
#define K_SIN_CORE(x) k_sin_wide(x)
#define K_COS_CORE(x) k_cos_wide(x)
#endif
K_WIDE_1(k_tan_wide, k_tan_near)
#define K_TAN_FAR 0x1p20f
#define K_TAN_CORE(x) k_tan_wide(x)

/* atan(t), t >= 0, as for double */
K_INLINE vr k_atan_of_4(vr t)
{
  vi m1 = t > 0.4375f, m2 = t > 0.6875f, m3 = t > 1.1875f, m4 = t > 2.4375f;
  vr half = k_set(0.5f), c, high, low, u, z, r;
  c = k_where(m1, half) + k_where(m2, half) + k_where(m3, half);
  u = k_select(m4, k_set(-1.f), t - c) / k_select(m4, t, 1.f + c * t);
  high = k_where(m1, k_set(0x1.dac670p-2f));
  high = k_select(m2, k_set(0x1.921fb6p-1f), high);
  high = k_select(m3, k_set(0x1.f730bep-1f), high);
  high = k_select(m4, k_set(0x1.921fb6p+0f), high);
  low = k_where(m1, k_set(0x1.586ed4p-28f));
  low = k_select(m2, k_set(-0x1.777a5cp-26f), low);
  low = k_select(m3, k_set(-0x1.afc12cp-26f), low);
  low = k_select(m4, k_set(-0x1.777a5cp-25f), low);
  z = u * u;
  r = 0x1.c6868ap-4f + z * (-0x1.65b0eep-4f + z * 0x1.aa2206p-5f);
  r = -0x1.555556p-2f + z * (0x1.9999fep-3f + z * (-0x1.249736p-3f + z * r));
  return high + (u + (u * z * r + low));
}
K_INLINE vr k_atan(vr x)
{
  return k_copysign(k_atan_of_4(k_abs(x)), x);
}
K_INLINE vr k_atan2(vr y, vr x)
{
  vr a = k_abs(y), b = k_abs(x), t;
  vi left = k_copysign(k_set(1.f), x) < 0.f; /* -0 too */
  t = k_select(a == b, k_set(1.f), a / b);
  t = k_atan_of_4(k_select(a == 0.f, k_set(0.f), t));
  t = k_select(left, 0x1.921fb6p+1f - (t + 0x1.777a5cp-24f), t);
  return k_select((x != x) | (y != y), x + y, k_copysign(t, y));
}

/* erf(s) = s + s p(s^2) below 1, 1 - e^(-s^2) f(t) / (1 + 2 s) above: see k_erfc_far() */
K_INLINE vr k_erf(vr x)
{
  vr s = k_min(k_set(4.f), k_abs(x)), z = s * s, t = (s - 2.f) / (s + 2.f), f, r;
  r = -0x1.b99eb6p-11f + z * (0x1.c77348p-14f + z * -0x1.1fd45cp-17f);
  r = 0x1.ce2ea0p-4f + z * (-0x1.b821e6p-6f + z * (0x1.55dcc6p-8f + z * r));
  r = s + s * (0x1.06eba8p-3f + z * (-0x1.812744p-2f + z * r));
  f = -0x1.bc11acp-5f + t * (-0x1.ff111ep-8f + t * 0x1.14e6fcp-7f);
  f = -0x1.7bf5bcp-4f + t * (-0x1.5407b0p-3f + t * (0x1.4ff358p-3f + t * f));
  f = 1.f - k_exp(-z) * (0x1.46e80ep+0f + t * f) / (1.f + 2.f * s);
  return k_copysign(k_select(s < 1.f, r, f), x);
}

K_WIDE_1(k_asin, k_asin_d)
K_WIDE_1(k_acos, k_acos_d)
K_WIDE_1(k_sinh, k_sinh_d)
K_WIDE_1(k_cosh, k_cosh_d)
K_WIDE_1(k_asinh, k_asinh_d)
K_WIDE_1(k_acosh, k_acosh_d)
K_WIDE_1(k_atanh, k_atanh_d)
K_WIDE_1(k_log2, k_log2_d)
K_WIDE_1(k_log10, k_log10_d)
K_WIDE_1(k_erfc, k_erfc_d)
K_WIDE_2(k_hypot, k_hypot_d)

#if K_FUSED
/* a float to the power of a float, as doubles, to the precision of float */
K_INLINE k_f8 k_pow_d(k_f8 a, k_f8 b)
{
  k_f8 n, m = k_split(k_abs_d(a), &n), s = (m - 1.) / (m + 1.), z = s * s, l, f;
  l = 0x1.2777804b9cf1bp-1 + z * (0x1.a58d57b0ab660p-2 + z * 0x1.5cec0d5968f67p-2);
  l = n + s * (0x1.71547652bee50p+1 + z * (0x1.ec709d12531cap-1 + z * l));
  l *= k_min_d(k_set_d(0x1p40), k_max_d(k_set_d(-0x1p40), b)); /* 0 * Inf would be NaN */
  l = k_min_d(k_set_d(160.), k_max_d(k_set_d(-160.), l));
  z = l + K_ROUND;
  f = l - (z - K_ROUND);
  l = 0x1.3b2dbbc066705p-7 + f * (0x1.5f456a8ef562dp-10 + f * 0x1.41d333d34ccd5p-13);
  l = 0x1.62e430c7e92d5p-1 + f * (0x1.ebfbdadcb1701p-3 + f * (0x1.c6aed4b946d84p-5 + f * l));
  l = 0x1.0000000261508p+0 + f * l;
  return k_pow_special(a, b, l * (k_f8)((K_WHOLE_BITS(z) + 1023) << 52));
}
K_WIDE_2(k_pow, k_pow_d)
#endif

#else
#define K_LIBM(name) __builtin_##name
#define K_SIN_FAR K_FAR
#define K_TAN_FAR K_FAR
#define K_SIN_CORE(x) k_sin_near(x, 0)
#define K_COS_CORE(x) k_sin_near(x, 1)
#define K_TAN_CORE(x) k_tan_near(x)

#if K_FUSED
K_INLINE vr k_pow(vr a, vr b)
{
  return k_pow_special(a, b, k_power(k_abs(a), b));
}
#endif
#endif

#if !K_FUSED /* two halves of a narrow vector with emulated products are slower than the library */
K_APART vr k_pow(vr a, vr b)
{
  for (int l = 0; l < KE_W; l++) a[l] = K_LIBM(pow)(a[l], b[l]);
  return a;
}
#endif

/* sin, cos, tan: the vector code, and for lanes beyond its reach the C library, out of the way */
#define K_CIRCULAR(name, library, core, limit, at_0)                                               \
  K_APART vr name##_far(vr x, vr r)                                                                \
  {                                                                                                \
    for (int l = 0; l < KE_W; l++)                                                                 \
      if (!(x[l] < limit && x[l] > -limit)) r[l] = library(x[l]);                                  \
    return r;                                                                                      \
  }                                                                                                \
  K_INLINE vr name(vr x)                                                                           \
  {                                                                                                \
    vr r = k_select(x == K(0), at_0, core(x));                                                     \
    return K_RARE(k_any(~(k_abs(x) < limit))) ? name##_far(x, r) : r;                              \
  }
K_CIRCULAR(k_sin, K_LIBM(sin), K_SIN_CORE, K_SIN_FAR, x)
K_CIRCULAR(k_cos, K_LIBM(cos), K_COS_CORE, K_SIN_FAR, k_set(1))
K_CIRCULAR(k_tan, K_LIBM(tan), K_TAN_CORE, K_TAN_FAR, x)

/* 1 / sqrt(a), but 0 at 0: the distance of a point to itself has gradient 0 */
K_INLINE vr k_rsqrt(vr a)
{
  return k_select(a == K(0), k_set(0), K(1) / k_sqrt(a));
}

/* Halves go away from 0 */
K_INLINE vr k_round(vr a)
{
  vr size = k_abs(a), whole = k_trunc(size);
  whole += k_where(size - whole >= K(0.5), k_set(1));
  return k_copysign(whole, a);
}

#include "keops_special.h"

#endif
