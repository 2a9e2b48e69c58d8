/* Matrix products of 16 x 8 x 8 by a warp's tensor cores, in about the precision of float: numbers are split
 * in two that tensor cores can take (11 bits, rounded), of whose four products the least one is left out.
 * Lane 4 g + q (g < 8, q < 4) holds
 *   of a, rows g, g + 8 in columns q, q + 4:    a[0] (g, q)   a[1] (g + 8, q)   a[2] (g, q + 4)   a[3] (g + 8, q + 4)
 *   of b, column g in rows q, q + 4:            b[0] (q, g)   b[1] (q + 4, g)
 *   of d, rows g, g + 8 in columns 2 q, 2 q + 1: d[0] (g, 2 q) d[1] (g, 2 q + 1) d[2] (g + 8, 2 q) d[3] (g + 8, 2 q + 1) */
#ifndef KEOPS_CUDA_TENSOR_H
#define KEOPS_CUDA_TENSOR_H

/* Too large to be split, Inf or NaN */
K_INLINE bool k_unsplit(float x)
{
  return (__float_as_uint(x) & 0x7fffffffu) >= 0x7f000000u;
}

K_INLINE void k_split(float x, float &high, float &low)
{
  high = __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
  low = x - high;
}

/* Two numbers split, as they lie in shared memory: both high ones, then both low ones */
K_INLINE float4 k_split_pair(float x, float y)
{
  float4 to;

  k_split(x, to.x, to.z);
  k_split(y, to.y, to.w);
  return to;
}

#ifdef __CUDACC__
/* d += a b */
K_INLINE void k_mma(float (&d)[4], const float (&a)[4], const float (&b)[2])
{
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

K_INLINE bool k_any_of_warp(bool x) { return __any_sync(0xffffffffu, x); }
K_INLINE float k_from_lane(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }

#else /* a test runs kernels on the CPU: a warp is a block's threads between barriers */
static float fake_a[1024][4], fake_b[1024][2];
static bool fake_any;

static inline void k_mma(float (&d)[4], const float (&a)[4], const float (&b)[2])
{
  const int me = threadIdx.x, warp = me / 32 * 32, g = me % 32 / 4, q = me % 4;

  for (int k = 0; k < 4; k++) fake_a[me][k] = __uint_as_float(__float_as_uint(a[k]) & 0xffffe000u);
  for (int k = 0; k < 2; k++) fake_b[me][k] = __uint_as_float(__float_as_uint(b[k]) & 0xffffe000u);
  __syncthreads();
  for (int c = 0; c < 4; c++)
    for (int k = 0; k < 8; k++)
      d[c] += fake_a[warp + 4 * g + k % 4][c / 2 + 2 * (k / 4)] *
              fake_b[warp + 4 * (2 * q + c % 2) + k % 4][k / 4];
  __syncthreads();
}

static inline bool k_any_of_warp(bool x) /* of the block: all its warps come here */
{
  fake_any = false;
  __syncthreads();
  if (x) fake_any = true;
  __syncthreads();
  x = fake_any;
  __syncthreads();
  return x;
}

static inline float k_from_lane(float x, int lane)
{
  const int warp = threadIdx.x / 32 * 32;

  fake_a[threadIdx.x][0] = x;
  __syncthreads();
  x = fake_a[warp + lane][0];
  __syncthreads();
  return x;
}
#endif

#endif
