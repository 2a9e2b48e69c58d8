/* keops_kernel.h for one instruction set, MATH_LEVEL, in both precisions, and each of its functions
 * as a loop over arrays. Part of test_math.c, which includes it once for each level. */
#ifndef MATH_BYTES
#define MATH_BYTES 4
#include "math_body.h"
#undef MATH_BYTES
#define MATH_BYTES 8
#include "math_body.h"
#undef MATH_BYTES
#else

#include "math_names.h"
#define KE_REAL_BYTES MATH_BYTES
#define KE_VBYTES (MATH_LEVEL == 3 ? 64 : MATH_LEVEL == 2 ? 32 : 16)
#define KE_HAVE_AVX512 (MATH_LEVEL == 3)
#define KE_HAVE_AVX2 (MATH_LEVEL >= 2)
#define KE_HAVE_FMA (MATH_LEVEL >= 2)
#if MATH_LEVEL == 0
#define KE_PLAIN_C
#endif
#include "keops_kernel.h"

static vr k_matern_0(vr x, vr nu)
{
  return k_matern(x, nu, k_set(0));
}
static vr k_matern_1(vr x, vr nu)
{
  return k_matern(x, nu, k_set(1));
}
static vr k_matern_2(vr x, vr nu)
{
  return k_matern(x, nu, k_set(2));
}

#define ONE(f, ...)                                                                                \
  static void MATH_NAME(run_##f)(void *out, const void *a, const void *b, int n)                   \
  {                                                                                                \
    vr *o = (vr *)out;                                                                             \
    const vr *x = (const vr *)a;                                                                   \
    (void)b;                                                                                       \
    for (int i = 0; i < n / KE_W; i++) o[i] = k_##f(x[i]);                                         \
  }
#define TWO(f, ...)                                                                                \
  static void MATH_NAME(run_##f)(void *out, const void *a, const void *b, int n)                   \
  {                                                                                                \
    vr *o = (vr *)out;                                                                             \
    const vr *x = (const vr *)a, *y = (const vr *)b;                                               \
    for (int i = 0; i < n / KE_W; i++) o[i] = k_##f(x[i], y[i]);                                   \
  }
MATH_FUNCTIONS
#undef ONE
#undef TWO

#define ONE(f, ...) MATH_NAME(run_##f),
#define TWO(f, ...) MATH_NAME(run_##f),
static const math_run MATH_NAME(runs)[] = {MATH_FUNCTIONS};
#undef ONE
#undef TWO

/* What has no ulp: lanes, masks, sums, and k_max and k_min, which give b where one is NaN */
static void MATH_NAME(test_lanes)(void)
{
  const real nan = K(K_NAN), inf = K(K_INF);
  const real a[8] = {1, nan, 2, nan, -inf, inf, -3, 0}, b[8] = {2, 1, nan, nan, 5, 7, -4, 0};
  const real big[8] = {2, 1, nan, nan, 5, inf, -3, 0}, small[8] = {1, 1, nan, nan, -inf, 7, -4, 0};
  vr v;
  vi m;
  double sum = 0;

  for (int i = 0; i < 8; i++) {
    vr hi = k_max(k_set(a[i]), k_set(b[i])), lo = k_min(k_set(a[i]), k_set(b[i]));
    for (int l = 0; l < KE_W; l++) {
      CHECK(hi[l] == big[i] || (hi[l] != hi[l] && big[i] != big[i]));
      CHECK(lo[l] == small[i] || (lo[l] != lo[l] && small[i] != small[i]));
    }
  }
  for (int l = 0; l < KE_W; l++) v[l] = K(l + 1), sum += l + 1;
  CHECK(k_hsum(v) == sum);
  v = v * K(0) + K(1);
  v[0] = K(0x1p60), v[KE_W / 2] = K(-0x1p60); /* cancel before the ones are added */
  CHECK(k_hsum(v) == KE_W - 2);
  v = k_set(K(0x1p24));
  v[1] = 1; /* lost in a float sum */
  CHECK(k_hsum(v) == (KE_W - 1) * 0x1p24 + 1);
  for (int l = 0; l < KE_W; l++) {
    m = (vi){0};
    CHECK(!k_any(m));
    m[l] = -1;
    CHECK(k_any(m));
    v = k_select(m, k_set(1), k_set(2));
    for (int k = 0; k < KE_W; k++) CHECK(v[k] == (k == l ? K(1) : K(2)));
    v = k_where(m, k_set(1));
    for (int k = 0; k < KE_W; k++) CHECK(v[k] == (k == l ? K(1) : K(0)));
  }
}

#endif
