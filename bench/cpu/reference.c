/* The named peer of bench/run.R: what a competent user would write in C for one formula.
 *
 * Points in rows, i outside, j inside, one pair at a time, libm's functions; threads over i by OpenMP.
 * Compiled once a case with `gcc -O3 -fopenmp` (no -march, no -ffast-math), sizes as constants, so that
 * the compiler may unroll:
 *   -DREAL=float or double  -DD=<dimension of points>  -DE=<columns of b>  -DKIND=<below>
 * Data arrive from R as doubles, points in columns of a D x n matrix; the conversion to REAL is not part of
 * the time, which is measured here. */
#include <math.h>
#include <stdlib.h>
#include <tgmath.h>
#include <time.h>

enum { GAUSS, LAPLACE, MATERN32, MATERN52, GRAD, LOGSUMEXP, SOFTMAX, ARGKMIN, ARGMIN, LINEAR, L1 };

#if KIND == 4
#define WIDTH D
#elif KIND == 7
#define WIDTH E /* here E is the number of neighbours */
#elif KIND == 5 || KIND == 8 || KIND == 10
#define WIDTH 1
#else
#define WIDTH E
#endif

typedef REAL real;

static real between(const real *x, const real *y)
{
  real s = 0;

  for (int k = 0; k < D; k++) {
#if KIND == 9
    s += x[k] * y[k];
#elif KIND == 10
    s += fabs(x[k] - y[k]);
#else
    const real t = x[k] - y[k];
    s += t * t;
#endif
  }
  return s;
}

/* the kernel's value from between(x, y) */
static real weight(real s, real g)
{
#if KIND == 0 || KIND == 4
  return exp(-g * s);
#elif KIND == 1
  return exp(-g * sqrt(s));
#elif KIND == 2
  const real t = g * sqrt(s);
  return (1 + t) * exp(-t);
#elif KIND == 3
  const real t = g * sqrt(s);
  return (1 + t + t * t / 3) * exp(-t);
#else
  (void)g;
  return s;
#endif
}

static void row(long n, const real *x, const real *y, const real *b, real g, real *out)
{
#if KIND == 4 /* gradient in x of the Gaussian sum */
  real sum[D] = {0};
  for (long j = 0; j < n; j++) {
    const real w = weight(between(x, y + j * D), g) * b[j];
    for (int k = 0; k < D; k++) sum[k] += w * (x[k] - y[j * D + k]);
  }
  for (int k = 0; k < D; k++) out[k] = -2 * g * sum[k];
#elif KIND == 5 || KIND == 6 /* the maximum kept as it goes */
  real most = -INFINITY, sum = 0, weighted[E] = {0};
  for (long j = 0; j < n; j++) {
    const real v = -g * between(x, y + j * D);
    real p = 1;
    if (v > most) {
      const real less = exp(most - v);
      sum *= less;
      for (int e = 0; e < E; e++) weighted[e] *= less;
      most = v;
    } else {
      p = exp(v - most);
    }
    sum += p;
    if (KIND == 6)
      for (int e = 0; e < E; e++) weighted[e] += p * b[j * E + e];
  }
  if (KIND == 5) out[0] = most + log(sum);
  else
    for (int e = 0; e < E; e++) out[e] = weighted[e] / sum;
#elif KIND == 7 /* a sorted list of the E nearest */
  real least[E];
  long at[E];
  for (int e = 0; e < E; e++) least[e] = INFINITY, at[e] = -1;
  for (long j = 0; j < n; j++) {
    const real v = between(x, y + j * D);
    int e = E - 1;
    if (!(v < least[E - 1])) continue;
    for (; e > 0 && v < least[e - 1]; e--) least[e] = least[e - 1], at[e] = at[e - 1];
    least[e] = v;
    at[e] = j;
  }
  for (int e = 0; e < E; e++) out[e] = (real)(at[e] + 1);
#elif KIND == 8
  real least = INFINITY;
  long at = -1;
  for (long j = 0; j < n; j++) {
    const real v = between(x, y + j * D);
    if (v < least) least = v, at = j;
  }
  out[0] = (real)(at + 1);
#else
  real sum[WIDTH] = {0};
  for (long j = 0; j < n; j++) {
    const real w = weight(between(x, y + j * D), g);
    for (int e = 0; e < WIDTH; e++) sum[e] += KIND == 10 ? w : w * b[j * E + e];
  }
  for (int e = 0; e < WIDTH; e++) out[e] = sum[e];
#endif
}

static double now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static real *converted(const double *from, long n)
{
  real *to = malloc((size_t)(n + 1) * sizeof *to);

  for (long k = 0; to && k < n; k++) to[k] = (real)from[k];
  return to;
}

/* For .C(); seconds is -1 where memory ran out. out[i] in columns of a WIDTH x m matrix. */
void reference(const int *m_, const int *n_, const double *x, const double *y, const double *b,
               const double *g, const int *threads, double *out, double *seconds)
{
  const long m = *m_, n = *n_;
  real *rx = converted(x, m * D), *ry = converted(y, n * D), *rb = converted(b, n * E);
  real *rout = malloc((size_t)(m * WIDTH) * sizeof *rout);

  *seconds = -1;
  if (rx && ry && rb && rout) {
    const real rg = (real)*g;
    const double start = now();
#pragma omp parallel for num_threads(*threads) schedule(dynamic, 16)
    for (long i = 0; i < m; i++) row(n, rx + i * D, ry, rb, rg, rout + i * WIDTH);
    *seconds = now() - start;
    for (long k = 0; k < m * WIDTH; k++) out[k] = rout[k];
  }
  free(rx);
  free(ry);
  free(rb);
  free(rout);
}
