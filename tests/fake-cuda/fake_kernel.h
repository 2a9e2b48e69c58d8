/* CUDA's words for a C++ compiler of the CPU: kernels run thread by thread, in fibers (fake_driver.c). */
#ifndef FAKE_KERNEL_H
#define FAKE_KERNEL_H

#include <math.h>
#include <string.h>

#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct fake_index { unsigned x, y, z; };
extern "C" fake_index *fake_thread, *fake_block, *fake_size; /* set when the library is loaded */
extern "C" void (*fake_sync)(void);
fake_index *fake_thread, *fake_block, *fake_size;
void (*fake_sync)(void);
#define threadIdx (*fake_thread)
#define blockIdx (*fake_block)
#define blockDim (*fake_size)
#define __syncthreads() fake_sync()

template <class T> static inline T __ldg(const T *p) { return *p; }
static inline double __longlong_as_double(long long x) { double d; memcpy(&d, &x, 8); return d; }
static inline long long fake_bits(double d) { long long x; memcpy(&x, &d, 8); return x; }
static inline int __double2hiint(double d) { return (int)(fake_bits(d) >> 32); }
static inline int __double2loint(double d) { return (int)(unsigned)fake_bits(d); }
static inline double __hiloint2double(int high, int low)
{
  return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
static inline unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
static inline float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
static inline unsigned atomicMax(unsigned *at, unsigned x) { const unsigned old = *at; if (x > old) *at = x; return old; }
static inline bool __syncthreads_or(bool x)
{
  static bool any;

  any = false;
  fake_sync();
  if (x) any = true;
  fake_sync();
  x = any;
  fake_sync();
  return x;
}
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }

#endif
