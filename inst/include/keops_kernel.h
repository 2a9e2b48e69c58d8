/* What each pair kernel is written in: `real`, vectors of it, and branch-free maths on them.
 *
 * First thing in every generated kernel, and included by the interpreter. Written in the vector extensions
 * of gcc and clang and a few instructions by inline asm: no immintrin.h and no math.h, which would double
 * the time to compile a kernel. No floating-point flag may be assumed but that NaN and Inf are kept.
 *
 * The including file may set
 *   KE_REAL_BYTES   4 or 8 (must be set)
 *   KE_VBYTES       16, 32 or 64: bytes of a vector; at least 2 lanes
 *   KE_HAVE_AVX512 KE_HAVE_AVX2 KE_HAVE_FMA   0 or 1; needed where the instruction set was chosen by
 *                   clang's attributes, which do not define the compiler's own macros
 *
 * Special values are those of C's libm throughout. Errors: at most 1 ulp for exp, exp2 and log. */
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
#elif KE_HAVE_AVX2 || defined(__AVX__)
#define KE_VBYTES 32
#else
#define KE_VBYTES 16
#endif
#endif

/* Instructions by name where a vector is one register of the machine; else plain C. */
#if defined(KE_PLAIN_C) || !defined(__x86_64__)
#define KE_ASM_SSE 0
#define KE_ASM_AVX 0
#define KE_ASM_AVX512 0
#else
#define KE_ASM_AVX512 (KE_HAVE_AVX512 && KE_VBYTES == 64)
#define KE_ASM_AVX (!KE_ASM_AVX512 && KE_HAVE_AVX2 && KE_VBYTES <= 32)
#define KE_ASM_SSE (!KE_HAVE_AVX2 && KE_VBYTES == 16)
#endif

#define K_INLINE static inline __attribute__((always_inline))
#define K_INF __builtin_inf()
#define K_NAN __builtin_nan("")
#define K_RARE(cond) __builtin_expect((cond), 0)

typedef float k_f4 __attribute__((vector_size(KE_VBYTES)));
typedef double k_f8 __attribute__((vector_size(KE_VBYTES)));
typedef int32_t k_i4 __attribute__((vector_size(KE_VBYTES)));
typedef int64_t k_i8 __attribute__((vector_size(KE_VBYTES)));

#if KE_REAL_BYTES == 4
typedef float real;
typedef k_f4 vr;
typedef k_i4 vi;
#define K_ASM_PACKED "ps"
#else
typedef double real;
typedef k_f8 vr;
typedef k_i8 vi;
#define K_ASM_PACKED "pd"
#endif
typedef real vru __attribute__((vector_size(KE_VBYTES), aligned(KE_REAL_BYTES), may_alias));
#define KE_W (KE_VBYTES / KE_REAL_BYTES)
#define K(x) ((real)(x))

/* the C library, for arguments where a polynomial will not do */
#if KE_REAL_BYTES == 4
float sqrtf(float), sinf(float), cosf(float), powf(float, float);
#define K_LIBM(name) name##f
#else
double sqrt(double), sin(double), cos(double), pow(double, double);
#define K_LIBM(name) name
#endif

K_INLINE vr k_set(real a)
{
  return a - (vr){0};
}
K_INLINE vr k_select(vi mask, vr yes, vr no)
{
  return (vr)((mask & (vi)yes) | (~mask & (vi)no));
}
K_INLINE vr k_abs(vr a)
{
  return (vr)((vi)a & ~(vi)k_set(-K(0)));
}
K_INLINE int k_any(vi mask)
{
  k_i8 m = (k_i8)mask;
  int64_t any = 0;
  for (int l = 0; l < KE_VBYTES / 8; l++) any |= m[l];
  return any != 0;
}
/* The lanes' sum in double, always in the same order: first half plus second half, and so on. */
K_INLINE double k_hsum(vr a)
{
  double s[KE_W];
  for (int l = 0; l < KE_W; l++) s[l] = (double)a[l];
  for (int half = KE_W / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) s[l] += s[l + half];
  return s[0];
}

/* k_max and k_min return b where a or b is NaN, as the x86 instructions do: k_max(low, x) keeps a NaN x */
#if KE_ASM_AVX512 || KE_ASM_AVX
#define K_ASM_2(name, instruction)                                                                  \
  K_INLINE vr name(vr a, vr b)                                                                      \
  {                                                                                                 \
    vr r;                                                                                           \
    __asm__(instruction K_ASM_PACKED " %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));                     \
    return r;                                                                                       \
  }
K_ASM_2(k_max, "vmax")
K_ASM_2(k_min, "vmin")
K_INLINE vr k_sqrt(vr a)
{
  vr r;
  __asm__("vsqrt" K_ASM_PACKED " %1, %0" : "=v"(r) : "v"(a));
  return r;
}
#elif KE_ASM_SSE
#define K_ASM_2(name, instruction)                                                                  \
  K_INLINE vr name(vr a, vr b)                                                                      \
  {                                                                                                 \
    __asm__(instruction K_ASM_PACKED " %1, %0" : "+x"(a) : "x"(b));                                 \
    return a;                                                                                       \
  }
K_ASM_2(k_max, "max")
K_ASM_2(k_min, "min")
K_INLINE vr k_sqrt(vr a)
{
  vr r;
  __asm__("sqrt" K_ASM_PACKED " %1, %0" : "=x"(r) : "x"(a));
  return r;
}
#else
K_INLINE vr k_max(vr a, vr b)
{
  return k_select(a > b, a, b);
}
K_INLINE vr k_min(vr a, vr b)
{
  return k_select(a < b, a, b);
}
K_INLINE vr k_sqrt(vr a)
{
  for (int l = 0; l < KE_W; l++) a[l] = K_LIBM(sqrt)(a[l]);
  return a;
}
#endif

/* 1 / sqrt(a), but 0 at 0: the distance of a point to itself has gradient 0 */
K_INLINE vr k_rsqrt(vr a)
{
  return k_select(a == K(0), k_set(0), K(1) / k_sqrt(a));
}

/* exp and exp2: x = n ln 2 + r, a polynomial in r, then twice half of n into the exponent, so that overflow
 * and gradual underflow come by themselves. vscalef does the last in one instruction. */
#if KE_ASM_AVX512
K_ASM_2(k_scale, "vscalef")
#elif KE_REAL_BYTES == 4
K_INLINE vr k_scale_bits(vr p, vi n)
{
  vi n1 = n >> 1, n2 = n - n1;
  return p * (vr)((n1 + 127) << 23) * (vr)((n2 + 127) << 23);
}
#else
K_INLINE vr k_scale_bits(vr p, vi n)
{
  vi n1 = n >> 1, n2 = n - n1;
  return p * (vr)((n1 + 1023) << 52) * (vr)((n2 + 1023) << 52);
}
#endif

#if KE_REAL_BYTES == 4
#define K_ROUND 12582912.f /* 1.5 * 2^23: adding it rounds to a whole number, left in the low bits */
#define K_ROUND_BITS 0x4b400000

K_INLINE vr k_exp(vr x)
{
#if KE_ASM_AVX512
  vr c = k_min(k_set(110.f), k_max(k_set(-110.f), x));
#else
  vr c = k_min(k_set(89.f), k_max(k_set(-104.f), x));
#endif
  vr z = c * 0x1.715476p+0f + K_ROUND, n = z - K_ROUND;
  vr r = c - n * 0x1.62e400p-1f;
  vr q, p;
  r = r - n * 0x1.7f7d1cp-20f;
  q = 0x1.1239e4p-7f + r * 0x1.6a242cp-10f;
  q = 0x1.fffffcp-2f + r * (0x1.555492p-3f + r * (0x1.5558f2p-5f + r * q));
  p = 1.f + r * (1.f + r * q);
#if KE_ASM_AVX512
  return k_scale(p, n);
#else
  return k_scale_bits(p, (vi)z - K_ROUND_BITS);
#endif
}

K_INLINE vr k_exp2(vr x)
{
  vr c = k_min(k_set(130.f), k_max(k_set(-152.f), x));
  vr z = c + K_ROUND, n = z - K_ROUND, f = c - n;
  vr p = 0x1.3b2d4cp-7f + f * (0x1.5f3e54p-10f + f * 0x1.41fbb8p-13f);
  p = 0x1.62e430p-1f + f * (0x1.ebfbdcp-3f + f * (0x1.c6aee8p-5f + f * p));
  p = 1.f + f * p;
#if KE_ASM_AVX512
  return k_scale(p, n);
#else
  return k_scale_bits(p, (vi)z - K_ROUND_BITS);
#endif
}

K_INLINE vr k_log(vr x)
{
  vi tiny = x < 0x1p-126f;
  vi bits = (vi)k_select(tiny, x * 0x1p23f, x), k = (bits - 0x3f3504f3) >> 23;
  vr m = (vr)(bits - (k << 23));
  vr n = __builtin_convertvector(k, vr) - (vr)((vi)k_set(23.f) & tiny);
  vr f = m - 1.f, s = f / (f + 2.f), z = s * s, h = 0.5f * f * f, r;
  r = z * (0x1.555554p-1f + z * (0x1.999c26p-2f + z * (0x1.23d3dcp-2f + z * 0x1.f13c4cp-3f)));
  r = n * 0x1.62e300p-1f - ((h - (s * (h + r) + n * 0x1.2fefa2p-17f)) - f);
  r = k_select(x == 0.f, k_set(-__builtin_inff()), r);
  r = k_select(~(x >= 0.f), k_set(__builtin_nanf("")), r);
  return k_select(x == __builtin_inff(), x, r);
}

/* sin(x + quarter pi / 2), |x| < 8192 */
K_INLINE vr k_sin_quarter(vr x, int quarter)
{
  vr z = x * 0x1.45f306p-1f + K_ROUND, n = z - K_ROUND, r, r2, s, c, v;
  vi q = (vi)z - K_ROUND_BITS + quarter;
  r = x - n * 0x1.921fb0p+0f;
  r = r - n * 0x1.5110b4p-22f;
  r = r - n * 0x1.846988p-48f;
  r2 = r * r;
  s = r + r * r2 * (-0x1.555546p-3f + r2 * (0x1.11073ap-7f + r2 * -0x1.9943f2p-13f));
  c = 0x1.55554ap-5f + r2 * (-0x1.6c0c32p-10f + r2 * 0x1.99eb9cp-16f);
  c = 1.f + r2 * (-0.5f + r2 * c);
  v = k_select((q & 1) != 0, c, s);
  return (vr)((vi)v ^ ((q & 2) << 30));
}
#define K_SIN_LIMIT 8192.f

#else
#define K_ROUND 6755399441055744.0 /* 1.5 * 2^52 */
#define K_ROUND_BITS 0x4338000000000000

K_INLINE vr k_exp(vr x)
{
#if KE_ASM_AVX512
  vr c = k_min(k_set(760.), k_max(k_set(-760.), x));
#else
  vr c = k_min(k_set(710.), k_max(k_set(-746.), x));
#endif
  vr z = c * 0x1.71547652b82fep+0 + K_ROUND, n = z - K_ROUND;
  vr r = c - n * 0x1.62e42fefa0000p-1;
  vr q, p;
  r = r - n * 0x1.cf79abc9e3b39p-40;
  q = 0x1.71df252bdc215p-19 + r * (0x1.28ad76349442bp-22 + r * 0x1.ad7fb834c5f74p-26);
  q = 0x1.6c16c1842bb0ap-10 + r * (0x1.a01a012a6487cp-13 + r * (0x1.a0199a086681ep-16 + r * q));
  q = 0x1.55555555554fap-3 + r * (0x1.5555555550874p-5 + r * (0x1.1111111127bd0p-7 + r * q));
  q = 0x1.000000000000ap-1 + r * q;
  p = 1. + r * (1. + r * q);
#if KE_ASM_AVX512
  return k_scale(p, n);
#else
  return k_scale_bits(p, (vi)z - K_ROUND_BITS);
#endif
}

K_INLINE vr k_exp2(vr x)
{
  vr c = k_min(k_set(1030.), k_max(k_set(-1080.), x));
  vr z = c + K_ROUND, n = z - K_ROUND, f = c - n;
  vr p = 0x1.b5267e040459cp-24 + f * (0x1.e61b58ebd126bp-28 + f * 0x1.e799d47c044b2p-32);
  p = 0x1.4309130edb3e2p-13 + f * (0x1.ffcbfba9052bfp-17 + f * (0x1.62bfc79792b3fp-20 + f * p));
  p = 0x1.c6b08d7049fe7p-5 + f * (0x1.3b2ab6fba010cp-7 + f * (0x1.5d87fe78cd828p-10 + f * p));
  p = 0x1.62e42fefa39efp-1 + f * (0x1.ebfbdff82c5a4p-3 + f * p);
  p = 1. + f * p;
#if KE_ASM_AVX512
  return k_scale(p, n);
#else
  return k_scale_bits(p, (vi)z - K_ROUND_BITS);
#endif
}

K_INLINE vr k_log(vr x)
{
  vi tiny = x < 0x1p-1022;
  vi bits = (vi)k_select(tiny, x * 0x1p52, x), k = (bits - 0x3fe6a09e667f3bcd) >> 52;
  vr m = (vr)(bits - (k << 52));
  vr n = __builtin_convertvector(k, vr) - (vr)((vi)k_set(52.) & tiny);
  vr f = m - 1., s = f / (f + 2.), z = s * s, w = z * z, h = 0.5 * f * f, r;
  r = w * (0x1.999999997fa04p-2 + w * (0x1.c71c51d8e78afp-3 + w * 0x1.39a09d078c69fp-3));
  r += z * (0x1.5555555555593p-1 +
            w * (0x1.2492494229359p-2 + w * (0x1.7466496cb03dep-3 + w * 0x1.2f112df3e5244p-3)));
  r = n * 0x1.62e42fee00000p-1 - ((h - (s * (h + r) + n * 0x1.a39ef35793c76p-33)) - f);
  r = k_select(x == 0., k_set(-__builtin_inf()), r);
  r = k_select(~(x >= 0.), k_set(__builtin_nan("")), r);
  return k_select(x == __builtin_inf(), x, r);
}

K_INLINE vr k_sin_quarter(vr x, int quarter)
{
  vr z = x * 0x1.45f306dc9c883p-1 + K_ROUND, n = z - K_ROUND, r, r2, s, c, v;
  vi q = (vi)z - K_ROUND_BITS + quarter;
  r = x - n * 0x1.921fb54400000p+0;
  r = r - n * 0x1.0b4611a600000p-34;
  r = r - n * 0x1.3198a2e037073p-69;
  r2 = r * r;
  s = 0x1.71de357b1fe7dp-19 + r2 * (-0x1.ae5e68a2b9cebp-26 + r2 * 0x1.5d93a5acfd57cp-33);
  s = 0x1.111111110f8a6p-7 + r2 * (-0x1.a01a019c161d5p-13 + r2 * s);
  s = r + r * r2 * (-0x1.5555555555549p-3 + r2 * s);
  c = -0x1.27e4f809c52adp-22 + r2 * (0x1.1ee9ebdb4b1c4p-29 + r2 * -0x1.8fae9be8838d4p-37);
  c = -0x1.6c16c16c15177p-10 + r2 * (0x1.a01a019cb1590p-16 + r2 * c);
  c = 1. - (0.5 * r2 - r2 * r2 * (0x1.555555555554cp-5 + r2 * c));
  v = k_select((q & 1) != 0, c, s);
  return (vr)((vi)v ^ ((q & 2) << 62));
}
#define K_SIN_LIMIT 1e6
#endif

K_INLINE vr k_sin(vr x)
{
  vr r = k_sin_quarter(x, 0);
  vi far = ~(k_abs(x) < K_SIN_LIMIT);
  if (K_RARE(k_any(far)))
    for (int l = 0; l < KE_W; l++)
      if (far[l]) r[l] = K_LIBM(sin)(x[l]);
  return r;
}
K_INLINE vr k_cos(vr x)
{
  vr r = k_sin_quarter(x, 1);
  vi far = ~(k_abs(x) < K_SIN_LIMIT);
  if (K_RARE(k_any(far)))
    for (int l = 0; l < KE_W; l++)
      if (far[l]) r[l] = K_LIBM(cos)(x[l]);
  return r;
}
K_INLINE vr k_pow(vr a, vr b)
{
  for (int l = 0; l < KE_W; l++) a[l] = K_LIBM(pow)(a[l], b[l]);
  return a;
}

#endif
