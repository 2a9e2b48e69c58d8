/* Each function of keops_kernel.h, in both precisions and on each instruction set that this machine
 * has, against the C library in long double: errors in units of the last place, and special values,
 * with the sign of zero. Prints the largest errors. */
#include "check.h"
#include "ref_special.h"
#include <math.h>
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*math_run)(void *out, const void *a, const void *b, int n);

static long double ref_rsqrt(long double x)
{
  return x == 0 ? 0 : 1 / sqrtl(x);
}

static long double ref_matern_0(long double x, long double nu)
{
  return ref_matern(x, nu, 0);
}
static long double ref_matern_1(long double x, long double nu)
{
  return ref_matern(x, nu, 1);
}
static long double ref_matern_2(long double x, long double nu)
{
  return ref_matern(x, nu, 2);
}

/* name, reference, ulps allowed, and where to look: of one argument everywhere and at x from low to
 * high, of two the function that adds pairs */
#define MATH_FUNCTIONS                                                                             \
  ONE(abs, fabsl, 0, -2, 2)                                                                        \
  ONE(sqrt, sqrtl, 0.5, 0, 4)                                                                      \
  ONE(rsqrt, ref_rsqrt, 1.6, 0, 4)                                                                 \
  ONE(floor, floorl, 0, -9, 9)                                                                     \
  ONE(ceil, ceill, 0, -9, 9)                                                                       \
  ONE(trunc, truncl, 0, -9, 9)                                                                     \
  ONE(round, roundl, 0, -9, 9)                                                                     \
  ONE(exp, expl, 1, -110, 90)                                                                      \
  ONE(exp2, exp2l, 1, -150, 130)                                                                   \
  ONE(log, logl, 1, 0.4, 3)                                                                        \
  ONE(expm1, expm1l, 2, -2, 2)                                                                     \
  ONE(log1p, log1pl, 2, -0.9, 2)                                                                   \
  ONE(log2, log2l, 2, 0.4, 3)                                                                      \
  ONE(log10, log10l, 2, 0.4, 3)                                                                    \
  ONE(sin, sinl, 2, -10, 10)                                                                       \
  ONE(cos, cosl, 2, -10, 10)                                                                       \
  ONE(tan, tanl, 2, -10, 10)                                                                       \
  ONE(asin, asinl, 2, -1, 1)                                                                       \
  ONE(acos, acosl, 2, -1, 1)                                                                       \
  ONE(atan, atanl, 2, -3, 3)                                                                       \
  ONE(sinh, sinhl, 2, -3, 3)                                                                       \
  ONE(cosh, coshl, 2, -3, 3)                                                                       \
  ONE(tanh, tanhl, 2, -3, 3)                                                                       \
  ONE(asinh, asinhl, 2, -3, 3)                                                                     \
  ONE(acosh, acoshl, 2, 1, 3)                                                                      \
  ONE(atanh, atanhl, 2, -1, 1)                                                                     \
  ONE(erf, erfl, 2, -3, 3)                                                                         \
  ONE(erfc, erfcl, 2, -2, 27)                                                                      \
  ONE(lgamma, lgammal, 8, -9, 9)                                                                   \
  ONE(digamma, ref_digamma, 8, -9, 9)                                                              \
  TWO(pow, powl, 2, add_pairs)                                                                     \
  TWO(atan2, atan2l, 2, add_pairs)                                                                 \
  TWO(hypot, hypotl, 2, add_pairs)                                                                 \
  TWO(polygamma, ref_polygamma, 8, add_polygamma)                                                  \
  TWO(besselk, ref_besselk, 8, add_bessel)                                                         \
  TWO(matern_0, ref_matern_0, 8, add_bessel)                                                       \
  TWO(matern_1, ref_matern_1, 8, add_bessel)                                                       \
  TWO(matern_2, ref_matern_2, 8, add_bessel)

/* ---- the header, once for each instruction set and precision --------------------------------- */

#define MATH_LEVEL 0
#include "math_body.h"
#undef MATH_LEVEL
#define MATH_LEVEL 1
#include "math_body.h"
#undef MATH_LEVEL

#ifdef __x86_64__
#ifdef __clang__
#define TARGET_BEGIN(names)                                                                        \
  MATH_PRAGMA(clang attribute push(__attribute__((target(names))), apply_to = function))
#define TARGET_END MATH_PRAGMA(clang attribute pop)
#else
#define TARGET_BEGIN(names) MATH_PRAGMA(GCC push_options) MATH_PRAGMA(GCC target(names))
#define TARGET_END MATH_PRAGMA(GCC pop_options)
#endif
#define MATH_PRAGMA(text) _Pragma(#text)

TARGET_BEGIN("avx2,fma")
#define MATH_LEVEL 2
#include "math_body.h"
#undef MATH_LEVEL
TARGET_END
TARGET_BEGIN("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#define MATH_LEVEL 3
#include "math_body.h"
#undef MATH_LEVEL
TARGET_END
#endif

typedef struct {
  const char *name;
  const math_run *runs[2]; /* of float, of double */
  void (*lanes[2])(void);
} level;

#define LEVEL(label, n)                                                                            \
  {                                                                                                \
    label, {runs_##n##_4, runs_##n##_8},                                                           \
    {                                                                                              \
      test_lanes_##n##_4, test_lanes_##n##_8                                                       \
    }                                                                                              \
  }
static const level all_levels[] = {LEVEL("plain", 0), LEVEL("base", 1),
#ifdef __x86_64__
                                   LEVEL("avx2", 2), LEVEL("avx512", 3)
#endif
};

static int count_levels(void)
{
  int n = 2;
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    n = 3;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
      n = 4;
  }
#endif
  return n;
}

/* ---- arguments ------------------------------------------------------------------------------- */

#ifndef SAMPLES
#define SAMPLES 1 /* more of them, for a close look: -DSAMPLES=50 */
#endif
#define MAX_ARGS (SAMPLES << 18)

/* Arguments, all of them numbers of the precision; y for functions of two */
typedef struct {
  int bytes, n;
  long double x[MAX_ARGS], y[MAX_ARGS];
} arguments;

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}
static double random_in(double low, double high)
{
  return low + (high - low) * ((double)(random_bits() >> 11) * 0x1p-53);
}
/* Any number, of any size, Inf and NaN too */
static long double random_any(int bytes)
{
  uint64_t bits = random_bits();
  if (bytes == 4) {
    float f;
    uint32_t low = (uint32_t)bits;
    memcpy(&f, &low, 4);
    return f;
  } else {
    double d;
    memcpy(&d, &bits, 8);
    return d;
  }
}
/* A number of size 2^low to 2^high, any sign */
static double random_size(double low, double high)
{
  double x = exp2(random_in(low, high));
  return random_bits() & 1 ? x : -x;
}
static long double as_real(int bytes, long double x)
{
  return bytes == 4 ? (long double)(float)x : (long double)(double)x;
}
static void add_pair(arguments *args, long double x, long double y)
{
  if (args->n == MAX_ARGS) abort();
  args->x[args->n] = as_real(args->bytes, x);
  args->y[args->n++] = as_real(args->bytes, y);
}
static void add(arguments *args, long double x)
{
  add_pair(args, x, 0);
}

static long double next_real(int bytes, long double x, double towards)
{
  if (bytes == 4) return nextafterf((float)x, (float)towards);
  return nextafter((double)x, towards);
}

/* The edges of everything: of the type, and of each function's domain and range */
static int special_values(int bytes, long double *x)
{
  static const double plain[] = {
    0,      0.25,   0.4375, 0.5,    0.6875, 0.75,   1,      1.1875, 1.5,    2,      2.4375, 2.5,
    3,      4,      5,      6,      7,      8,      9,      10,     20,     22,     23,     27,
    28,     40,     53,     64,     87.4,   88.03,  88.725, 103.3,  104,    126,    127,    128,
    149,    150,    151,    152,    700,    708.4,  709.8,  710.5,  745.2,  746,    1022,   1023,
    1024,   1074,   1075,   1076,   8191,   8192,   0x1p20, 0x1p22, 0x1p23, 0x1p24, 0x1p28, 0x1p31,
    0x1p51, 0x1p52, 0x1p53, 0x1p55, 0x1p63, 0x1p64, 0x1p100};
  int n = 0, few;

  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
    long double v = as_real(bytes, plain[i]);
    x[n++] = v;
    x[n++] = next_real(bytes, v, INFINITY);
    if (v > 0) x[n++] = next_real(bytes, v, 0);
  }
  x[n++] = bytes == 4 ? FLT_MAX : DBL_MAX;
  x[n++] = bytes == 4 ? FLT_MIN : DBL_MIN;
  x[n++] = bytes == 4 ? FLT_MIN / 2 : DBL_MIN / 2;
  x[n++] = bytes == 4 ? FLT_MIN * 2 : DBL_MIN * 2;
  x[n++] = INFINITY;
  x[n++] = NAN;
  few = n;
  for (int i = 0; i < few; i++) x[n++] = -x[i];
  return n;
}

/* Where every function of one argument is looked at */
static void add_everywhere(arguments *args)
{
  static long double special[1000];
  const long double pi_2 = 1.57079632679489661923132169163975144L;
  int n = special_values(args->bytes, special);

  for (int i = 0; i < n; i++) add(args, special[i]);
  for (int i = 0; i < SAMPLES * 12000; i++) add(args, random_any(args->bytes));
  for (int i = 0; i < SAMPLES * 8000; i++) add(args, random_size(-30, 11));
  for (int i = 0; i < SAMPLES * 4000; i++) add(args, random_in(-760, 760));
  for (int i = 0; i < SAMPLES * 4000; i++) add(args, 1 + random_size(-30, -1));
  for (int i = 0; i < SAMPLES * 4000; i++) add(args, i * pi_2); /* near 0 of sin, cos */
  for (int i = 0; i < SAMPLES * 4000; i++) add(args, floor(random_size(12, 20)) * pi_2);
  for (int i = 0; i < SAMPLES * 1000; i++) add(args, floor(random_size(20, 60)) * pi_2);
}

static void add_pairs(arguments *args)
{
  static long double special[1000];
  int n = special_values(args->bytes, special);
  double range = args->bytes == 4 ? 105 : 750;

  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 1 + i % 3) add_pair(args, special[i], special[j]);
  for (int i = 0; i < SAMPLES * 8000; i++)
    add_pair(args, random_any(args->bytes), random_any(args->bytes));
  for (int i = 0; i < SAMPLES * 8000; i++) add_pair(args, random_size(-9, 9), random_size(-9, 9));
  for (int i = 0; i < SAMPLES * 16000; i++) { /* results of pow all over the range */
    double x = i % 2 ? fabs(random_size(-99, 99)) : 1 + random_size(-20, -2);
    add_pair(args, x, random_in(-range, range) / log(x));
  }
  for (int i = 0; i < SAMPLES * 8000; i++)
    add_pair(args, -fabs(random_size(-3, 3)), floor(random_in(-40, 40)));
}

/* Whole orders; zeros of the function are found where they are few */
static void add_polygamma(arguments *args)
{
  static const double edges[] = {0, -0., 0.5, 1, 2, 3, -1, -2, -7.5, INFINITY, -INFINITY, NAN};
  enum { N = sizeof edges / sizeof *edges };

  for (int i = 0; i < N * N; i++) add_pair(args, edges[i / N], edges[i % N]);
  for (int i = 0; i < SAMPLES * 1500; i++) {
    double order = floor(random_in(1, i % 3 ? 5 : 20));
    add_pair(args, i % 2 ? random_in(-9, 9) : fabs(random_size(-30, 20)), order);
  }
}

/* Orders near and at whole and half ones, small and large; arguments to where the value vanishes */
static void add_bessel(arguments *args)
{
  static const double edges[] = {0, -0., 0.5, 1, 1.5, 2, 2.5, -1, -0.5, 20, INFINITY, -INFINITY, NAN};
  enum { N = sizeof edges / sizeof *edges };

  for (int i = 0; i < N * N; i++) add_pair(args, edges[i / N], edges[i % N]);
  for (int i = 0; i < SAMPLES * 1500; i++) {
    double order = i % 4 == 0   ? random_in(0, 3)
                   : i % 4 == 1 ? floor(random_in(0, 20)) / 2
                   : i % 4 == 2 ? floor(random_in(0, 5)) + random_size(-40, -2)
                                : random_in(-40, 40);
    add_pair(args, i % 3 ? fabs(random_size(-40, 9.4)) : random_in(0, 5), order);
  }
}

/* ---- judgement ------------------------------------------------------------------------------- */

/* Error in units of the last place of `want`, the smallest unit being a subnormal's; of
 * `least` at least. Inf counts as the next power of 2 past the largest number. -1: wrong in kind */
static double error_in_ulps(int bytes, long double got, long double want, long double least)
{
  const int digits = bytes == 4 ? 24 : 53, high = bytes == 4 ? 128 : 1024, low = 3 - high;
  const long double limit = ldexpl(1, high);
  int e;

  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : -1;
  if (got == 0 && (want == 0 || least == 0) && !signbit(got) != !signbit(want)) return -1;
  if (fabsl(got) > limit) got = copysignl(limit, got);
  if (fabsl(want) > limit) want = copysignl(limit, want);
  frexpl(fmaxl(fabsl(want), least), &e);
  if (e > high) e = high;
  if (e < low) e = low;
  return (double)(fabsl(got - want) / ldexpl(1, e - digits));
}

static void judge(const char *name, const arguments *args, const long double *want, const void *got,
                  const char *level_name, double tolerance)
{
  int gamma = strstr(name, "gamma") != NULL, worst = 0, wrong = 0;
  double most = 0;

  for (int i = 0; i < args->n; i++) {
    long double g = args->bytes == 4 ? (long double)((const float *)got)[i]
                                     : (long double)((const double *)got)[i];
    /* near their zeros, differences of such numbers */
    long double least = gamma ? fmaxl(1, logl(fabsl(args->x[i]) + 1)) : 0;
    double e = error_in_ulps(args->bytes, g, want[i], least);
    if (e < 0) {
      if (wrong++ < 3)
        printf("  %s(%La, %La) is %La, not %La\n", name, args->x[i], args->y[i], g, want[i]);
    } else if (e > most) {
      most = e, worst = i;
    }
  }
  printf("  %s %.2f", level_name, most);
  CHECK_MSG(wrong == 0, "%s, float%d, %s: %d special values", name, 8 * args->bytes, level_name,
            wrong);
  CHECK_MSG(most <= tolerance, "%s, float%d, %s: %.3f ulp at %La, %La", name, 8 * args->bytes,
            level_name, most, args->x[worst], args->y[worst]);
}

/* One function in one precision on all levels; which: its place in MATH_FUNCTIONS */
static void test_function(const char *name, int which, arguments *args,
                          long double (*one)(long double),
                          long double (*two)(long double, long double), double tolerance,
                          int levels)
{
  static long double want[MAX_ARGS];
  static double a[MAX_ARGS] __attribute__((aligned(64)));
  static double b[MAX_ARGS] __attribute__((aligned(64)));
  static double out[MAX_ARGS] __attribute__((aligned(64)));

  while (args->n % 16) add_pair(args, 1, 1);
  for (int i = 0; i < args->n; i++) {
    want[i] = one ? one(args->x[i]) : two(args->x[i], args->y[i]);
    if (args->bytes == 4) {
      ((float *)a)[i] = (float)args->x[i], ((float *)b)[i] = (float)args->y[i];
    } else {
      a[i] = (double)args->x[i], b[i] = (double)args->y[i];
    }
  }
  printf("%-8s float%d ", name, 8 * args->bytes);
  for (int l = 0; l < levels; l++) {
    all_levels[l].runs[args->bytes / 8][which](out, a, b, args->n);
    judge(name, args, want, out, all_levels[l].name, tolerance);
  }
  printf("\n");
}

int main(void)
{
  static arguments args;
  int levels = count_levels();

  for (int l = 0; l < levels; l++) all_levels[l].lanes[0](), all_levels[l].lanes[1]();
  for (int bytes = 4; bytes <= 8; bytes += 4) {
    int which = 0;
    args.bytes = bytes;
#define ONE(name, ref, tolerance, low, high)                                                       \
  args.n = 0;                                                                                      \
  add_everywhere(&args);                                                                           \
  for (int i = 0; i < SAMPLES * 8000; i++) add(&args, random_in(low, high));                       \
  test_function(#name, which++, &args, ref, NULL, tolerance, levels);
#define TWO(name, ref, tolerance, add_some)                                                        \
  args.n = 0;                                                                                      \
  add_some(&args);                                                                                 \
  test_function(#name, which++, &args, NULL, ref, tolerance, levels);
    MATH_FUNCTIONS
#undef ONE
#undef TWO
  }
  return check_end();
}
