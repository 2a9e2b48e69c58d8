/* The named peer of bench/run.R: what a competent user would write in C for one formula.
 *
 * Points in rows, i outside, j inside, one scalar pair at a time, libm's exp; threads over i by OpenMP.
 * Compiled with `gcc -O3 -fopenmp` (no -march, no -ffast-math). The dimension is a constant of each
 * loop, so the compiler may unroll it. Data arrive from R as doubles, points in columns of a D x n matrix;
 * the conversion to float is not part of the time, which each function measures itself. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define LOOP(type, suffix, D, EXP, LOG)                                                            \
  /* out[i] = sum_j exp(-g |x_i - y_j|^2) b_j */                                                   \
  static void gauss_##suffix##_##D(long m, long n, const type *x, const type *y, const type *b,    \
                                   type g, type *out, int threads)                                 \
  {                                                                                                \
    _Pragma("omp parallel for num_threads(threads) schedule(dynamic, 16)")                         \
    for (long i = 0; i < m; i++)                                                                   \
    {                                                                                              \
      type sum = 0;                                                                                \
      for (long j = 0; j < n; j++) {                                                               \
        type d2 = 0;                                                                               \
        for (int k = 0; k < D; k++) {                                                              \
          type t = x[i * D + k] - y[j * D + k];                                                    \
          d2 += t * t;                                                                             \
        }                                                                                          \
        sum += EXP(-g * d2) * b[j];                                                                \
      }                                                                                            \
      out[i] = sum;                                                                                \
    }                                                                                              \
  }                                                                                                \
  /* its gradient in x with cotangent b of each row: out[i, k] */                                  \
  static void grad_##suffix##_##D(long m, long n, const type *x, const type *y, const type *b,     \
                                  type g, type *out, int threads)                                  \
  {                                                                                                \
    _Pragma("omp parallel for num_threads(threads) schedule(dynamic, 16)")                         \
    for (long i = 0; i < m; i++)                                                                   \
    {                                                                                              \
      type sum[D] = {0};                                                                           \
      for (long j = 0; j < n; j++) {                                                               \
        type t[D], d2 = 0, w;                                                                      \
        for (int k = 0; k < D; k++) {                                                              \
          t[k] = x[i * D + k] - y[j * D + k];                                                      \
          d2 += t[k] * t[k];                                                                       \
        }                                                                                          \
        w = EXP(-g * d2) * b[j];                                                                   \
        for (int k = 0; k < D; k++) sum[k] += w * t[k];                                            \
      }                                                                                            \
      for (int k = 0; k < D; k++) out[i * D + k] = -2 * g * sum[k];                                \
    }                                                                                              \
  }                                                                                                \
  /* out[i] = log sum_j exp(-g |x_i - y_j|^2), the maximum kept as it goes */                      \
  static void lse_##suffix##_##D(long m, long n, const type *x, const type *y, const type *b,      \
                                 type g, type *out, int threads)                                   \
  {                                                                                                \
    (void)b;                                                                                       \
    _Pragma("omp parallel for num_threads(threads) schedule(dynamic, 16)")                         \
    for (long i = 0; i < m; i++)                                                                   \
    {                                                                                              \
      type most = -INFINITY, sum = 0;                                                              \
      for (long j = 0; j < n; j++) {                                                               \
        type d2 = 0, v;                                                                            \
        for (int k = 0; k < D; k++) {                                                              \
          type t = x[i * D + k] - y[j * D + k];                                                    \
          d2 += t * t;                                                                             \
        }                                                                                          \
        v = -g * d2;                                                                               \
        if (v > most) {                                                                            \
          sum = sum * EXP(most - v) + 1;                                                           \
          most = v;                                                                                \
        } else {                                                                                   \
          sum += EXP(v - most);                                                                    \
        }                                                                                          \
      }                                                                                            \
      out[i] = most + LOG(sum);                                                                    \
    }                                                                                              \
  }                                                                                                \
  /* out[i] = number, from 1, of the nearest y_j */                                                \
  static void argmin_##suffix##_##D(long m, long n, const type *x, const type *y, const type *b,   \
                                    type g, type *out, int threads)                                \
  {                                                                                                \
    (void)b;                                                                                       \
    (void)g;                                                                                       \
    _Pragma("omp parallel for num_threads(threads) schedule(dynamic, 16)")                         \
    for (long i = 0; i < m; i++)                                                                   \
    {                                                                                              \
      type least = INFINITY;                                                                       \
      long at = -1;                                                                                \
      for (long j = 0; j < n; j++) {                                                               \
        type d2 = 0;                                                                               \
        for (int k = 0; k < D; k++) {                                                              \
          type t = x[i * D + k] - y[j * D + k];                                                    \
          d2 += t * t;                                                                             \
        }                                                                                          \
        if (d2 < least) {                                                                          \
          least = d2;                                                                              \
          at = j;                                                                                  \
        }                                                                                          \
      }                                                                                            \
      out[i] = (type)(at + 1);                                                                     \
    }                                                                                              \
  }

#define LOOPS(D) LOOP(float, f32, D, expf, logf) LOOP(double, f64, D, exp, log)
LOOPS(3)
LOOPS(10)
LOOPS(100)

typedef void f32_loop(long, long, const float *, const float *, const float *, float, float *, int);
typedef void f64_loop(long, long, const double *, const double *, const double *, double, double *,
                      int);

#define ROW(kind)                                                                                  \
  {kind##_f32_3, kind##_f32_10, kind##_f32_100}
static f32_loop *const f32_loops[4][3] = {ROW(gauss), ROW(grad), ROW(lse), ROW(argmin)};
#undef ROW
#define ROW(kind)                                                                                  \
  {kind##_f64_3, kind##_f64_10, kind##_f64_100}
static f64_loop *const f64_loops[4][3] = {ROW(gauss), ROW(grad), ROW(lse), ROW(argmin)};

static float *to_float(const double *from, long n)
{
  float *to = malloc((size_t)n * sizeof *to);

  for (long k = 0; to && k < n; k++) to[k] = (float)from[k];
  return to;
}

/* For .C(): kind 0 Gaussian sum, 1 gradient, 2 LogSumExp, 3 argmin; bytes 4 or 8; D 3, 10 or 100.
 * seconds is -1 where there is no such loop or no memory. */
void reference(const int *kind, const int *bytes, const int *dim, const int *m_, const int *n_,
               const double *x, const double *y, const double *b, const double *g,
               const int *threads, double *out, double *seconds)
{
  int row = *dim == 3 ? 0 : *dim == 10 ? 1 : *dim == 100 ? 2 : -1;
  long m = *m_, n = *n_, width = *kind == 1 ? *dim : 1;
  double start;

  *seconds = -1;
  if (row < 0 || *kind < 0 || *kind > 3) return;
  if (*bytes == 8) {
    start = now();
    f64_loops[*kind][row](m, n, x, y, b, *g, out, *threads);
    *seconds = now() - start;
  } else {
    float *fx = to_float(x, m * *dim), *fy = to_float(y, n * *dim), *fb = to_float(b, n);
    float *fout = malloc((size_t)(m * width) * sizeof *fout);
    if (fx && fy && fb && fout) {
      start = now();
      f32_loops[*kind][row](m, n, fx, fy, fb, (float)*g, fout, *threads);
      *seconds = now() - start;
      for (long k = 0; k < m * width; k++) out[k] = fout[k];
    }
    free(fx);
    free(fy);
    free(fb);
    free(fout);
  }
}
