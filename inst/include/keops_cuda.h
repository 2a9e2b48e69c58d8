/* What each CUDA kernel is written in: the scalar names of keops_kernel.h, by CUDA's own functions and a
 * few instructions, and how states of kept rows are merged. NVRTC compiles it; nothing is included from a
 * toolkit.
 *
 * The generated source sets before: KE_REAL_BYTES (4, 8), KE_ACCURATE (0, 1), and sizes as an enum
 *   BLOCK threads = RT across rows x S across items; R rows a thread, ROWS = RT * R a block; JR items a
 *   step, UN steps written out; T items a tile; KW, RW, SW components of kept, red and state; RWP = RW
 *   padded to 16 bytes.
 *
 * Single precision: ex2, sqrt by the hardware (2 ulp, subnormal numbers count as 0) unless KE_ACCURATE;
 * all else is CUDA's library. There is no fast-math flag: NaN, Inf and signed zeros are kept. */
#ifndef KEOPS_CUDA_H
#define KEOPS_CUDA_H

#include "keops_cuda_task.h"

#if KE_REAL_BYTES == 4
typedef float real;
#define K_F(name) name##f
#else
typedef double real;
#define K_F(name) name
#endif
typedef real vr; /* emit.c prints vectors; here they have one lane */
typedef long long llong;

#define K(x) ((real)(x))
#define K_INF __longlong_as_double(0x7ff0000000000000LL)
#define K_NAN __longlong_as_double(0x7ff8000000000000LL)
#define K_BIG K(KE_REAL_BYTES == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023)
#define K_INLINE static __device__ __forceinline__
#define K_APART static __device__ __noinline__
#define KE_INLINE K_INLINE
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define EACH(x, n) UNROLL for (int x = 0; x < (n); x++)
#define ROWS EACH(r, R)
#define VECS EACH(v, JR)

/* ---- maths ----------------------------------------------------------------------------------- */
K_INLINE real k_set(real a) { return a; }
K_INLINE real k_select(bool mask, real yes, real no) { return mask ? yes : no; }
K_INLINE real k_max(real a, real b) { return a > b ? a : b; }
K_INLINE real k_min(real a, real b) { return a < b ? a : b; }

/* What is computed stays computed: not made again, nor joined to what follows */
K_INLINE real k_keep(real a)
{
#if !defined(__CUDACC__) /* a test runs kernels on the CPU */
#elif KE_REAL_BYTES == 4
  asm volatile("" : "+f"(a));
#else
  asm volatile("" : "+d"(a));
#endif
  return a;
}

/* What component c of a row or an item is multiplied by: those from `first` on by the root of a scale */
#define scale_of(scale, c, first) (KE_SCALED && (c) >= (first) && (c) < (first) + TENSOR_N ? (scale) : K(1))

#define K_LIBRARY_1(name, call)                                                                    \
  K_INLINE real name(real a) { return K_F(call)(a); }
#define K_LIBRARY_2(name, call)                                                                    \
  K_INLINE real name(real a, real b) { return K_F(call)(a, b); }
K_LIBRARY_1(k_abs, fabs)
K_LIBRARY_1(k_floor, floor)
K_LIBRARY_1(k_ceil, ceil)
K_LIBRARY_1(k_trunc, trunc)
K_LIBRARY_1(k_round, round)
K_LIBRARY_1(k_exp, exp)
K_LIBRARY_1(k_expm1, expm1)
K_LIBRARY_1(k_log, log)
K_LIBRARY_1(k_log1p, log1p)
K_LIBRARY_1(k_log2, log2)
K_LIBRARY_1(k_log10, log10)
K_LIBRARY_1(k_sin, sin)
K_LIBRARY_1(k_cos, cos)
K_LIBRARY_1(k_tan, tan)
K_LIBRARY_1(k_asin, asin)
K_LIBRARY_1(k_acos, acos)
K_LIBRARY_1(k_atan, atan)
K_LIBRARY_1(k_sinh, sinh)
K_LIBRARY_1(k_cosh, cosh)
K_LIBRARY_1(k_tanh, tanh)
K_LIBRARY_1(k_asinh, asinh)
K_LIBRARY_1(k_acosh, acosh)
K_LIBRARY_1(k_atanh, atanh)
K_LIBRARY_1(k_erf, erf)
K_LIBRARY_1(k_erfc, erfc)
K_LIBRARY_1(k_lgamma, lgamma)
K_LIBRARY_2(k_pow, pow)
K_LIBRARY_2(k_atan2, atan2)
K_LIBRARY_2(k_hypot, hypot)
K_LIBRARY_2(k_copysign, copysign)

/* 1 / sqrt(a), but 0 at 0: the distance of a point to itself has gradient 0 */
K_INLINE real k_rsqrt(real a)
{
  return a == K(0) ? K(0) : K_F(rsqrt)(a);
}

#if KE_REAL_BYTES == 4 && !KE_ACCURATE && defined(__CUDACC__)
K_INLINE real k_exp2(real a)
{
  real r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
K_INLINE real k_sqrt(real a)
{
  real r;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
#elif KE_REAL_BYTES == 8 && defined(KE_EXP2_TABLE)
/* 2^(k / 256); each block fills its own (keops_cuda_pairs.h) */
__shared__ double k_exp2_table[256];
/* a = n / 256 + f: the table's entry times a polynomial of degree 4, times 2^(n >> 8) as a number, from 0 (below
 * 2^-1022) to Inf (from 2^(1024 - 1/512) on). No branch, so that several are computed at a time. */
K_INLINE real k_exp2(real a)
{
  const int high = __double2hiint(a), size = high & 0x7fffffff;
  const int most = 0x40a00000; /* 2048 */
  const double near = __hiloint2double((size < most ? size : most) | (high & (int)0x80000000), __double2loint(a));
  const double z = near + 6755399441055744.0 / 256;
  const int n = __double2loint(z);
  const double f = near - (z - 6755399441055744.0 / 256), t = k_exp2_table[n & 255];
  int power = n >> 8;
  double p;

  power = power < -1023 ? -1023 : power > 1024 ? 1024 : power;
  power = (power + 1023) << 20;
  if (size > 0x7ff00000) power = 0x7fffffff;
  p = fma(9.6181291076284772e-03, f, 5.5504108664821580e-02);
  p = fma(p, f, 2.40226506959100712e-01);
  p = fma(p, f, 6.93147180559945309e-01) * f;
  p = fma(p, t, t);
  return p * __hiloint2double(power, 0);
}
K_LIBRARY_1(k_sqrt, sqrt)
#else
K_LIBRARY_1(k_exp2, exp2)
K_LIBRARY_1(k_sqrt, sqrt)
#endif

/* exp(a) of a difference from the largest score, a <= 0: small where it is inexact */
K_INLINE real k_exp_below(real a)
{
#if KE_REAL_BYTES == 4 && KE_ACCURATE
  return k_exp(a);
#elif KE_REAL_BYTES == 8 && !defined(KE_EXP2_TABLE)
  return exp(a);
#else
  return k_exp2(a * K(1.44269504088896340736));
#endif
}

#define K_MATHS(name) name
#include "keops_digamma.h"
#include "keops_sum.h"
K_INLINE real k_digamma(real a) { return K(k_digamma_1(a)); }

/* ---- states of a kept row: component c of one lies at [c * step] (see reduction.c) ------------- */
K_INLINE void k_merge_sum(int width, double *into, llong step, const double *from, llong from_step)
{
  for (int c = 0; c < width; c++) into[c * step] += from[c * from_step];
}

K_INLINE void k_merge_kahan(int width, double *into, llong step, const double *from, llong from_step)
{
  for (int c = 0; c < width; c++) {
    double *rest = into + (width + c) * step;

    ke_sum_add(into + c * step, rest, from[c * from_step]);
    *rest += from[(width + c) * from_step];
  }
}

/* The better value; where values are equal, or there is none yet, the lower item that counts */
template <bool LARGEST>
K_INLINE void k_merge_extreme(int width, double *into, llong step, const double *from, llong from_step)
{
  for (int c = 0; c < width; c++) {
    const double x = from[c * from_step], at = from[(width + c) * from_step];
    const double y = into[c * step], known = into[(width + c) * step];
    const bool better = (LARGEST ? x > y : x < y) || (x == y && at < known);

    if (at < 0 || (known >= 0 && !better)) continue;
    into[c * step] = x;
    into[(width + c) * step] = at;
  }
}

K_INLINE double k_rescale(double m, double top)
{
  return m == top ? 1 : exp(m - top);
}

K_INLINE void k_merge_sumexp(int width, double *into, llong step, const double *from, llong from_step)
{
  const double a = into[0], b = from[0], top = a > b || a != a ? a : b;
  const double ka = k_rescale(a, top), kb = k_rescale(b, top);

  into[0] = top;
  for (int c = 1; c <= width; c++)
    into[c * step] = ka * into[c * step] + kb * from[c * from_step];
}

/* An infinite largest score stands for the largest finite number (emit_c.c says why) */
K_INLINE real k_finite(real x)
{
  return x > K_BIG ? K_BIG : x < -K_BIG ? -K_BIG : x;
}

/* ---- tensor cores, copies to shared memory while something else runs (compute capability 8.0) ---- */
#if KE_DOTS
struct __align__(16) k_quad { unsigned x, y, z, w; };

#ifdef __CUDACC__
#define K_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
K_INLINE void k_copy_ahead(k_quad *to, const k_quad *from)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
               "l"(from));
}
K_INLINE void k_copies_end() { asm volatile("cp.async.commit_group;"); }
K_INLINE void k_copies_wait() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
/* sum[16][8] += x[16][16] y[16][8] of the warp */
K_INLINE void k_multiply(float (&sum)[4], const k_quad &x, unsigned y0, unsigned y1)
{
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y0), "r"(y1));
}
K_INLINE void k_largest(unsigned *most, float x) { atomicMax(most, __float_as_uint(x)); }
#else
#define K_DYNAMIC_SHARED(type, name) static type name[(100 << 10) / sizeof(type)]
K_INLINE void k_copy_ahead(k_quad *to, const k_quad *from) { *to = *from; }
K_INLINE void k_copies_end() {}
K_INLINE void k_copies_wait() {}
K_INLINE void k_multiply(float (&sum)[4], const k_quad &x, unsigned y0, unsigned y1)
{
  static unsigned all[1024][6];
  const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, warp = threadIdx.x / 32 * 32;
  const unsigned mine[6] = {x.x, x.y, x.z, x.w, y0, y1};

  memcpy(all[threadIdx.x], mine, sizeof mine);
  fake_sync();
  for (int c = 0; c < 4; c++)
    for (int k = 0; k < 16; k++) {
      const unsigned a = all[warp + g * 4 + k % 8 / 2][k / 8 * 2 + c / 2];
      const unsigned b = all[warp + (q * 2 + c % 2) * 4 + k % 8 / 2][4 + k / 8];
      sum[c] += __uint_as_float(k % 2 ? a & 0xffff0000u : a << 16) * __uint_as_float(k % 2 ? b & 0xffff0000u : b << 16);
    }
  fake_sync();
}
K_INLINE void k_largest(unsigned *most, float x)
{
  if (__float_as_uint(x) > *most) *most = __float_as_uint(x);
}
#endif
#endif

/* Components of an item, 16 bytes at a time */
template <int N> K_INLINE void k_take(real (&to)[N], const real *from)
{
#if KE_REAL_BYTES == 4
  EACH(k, N / 4)
  {
    const float4 x = ((const float4 *)from)[k];
    to[4 * k] = x.x, to[4 * k + 1] = x.y, to[4 * k + 2] = x.z, to[4 * k + 3] = x.w;
  }
#else
  EACH(k, N / 2)
  {
    const double2 x = ((const double2 *)from)[k];
    to[2 * k] = x.x, to[2 * k + 1] = x.y;
  }
#endif
}

#endif
