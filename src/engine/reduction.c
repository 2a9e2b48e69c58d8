/* Start, merge and finish of each reduction; reduction_list.h makes them a table. */
#include "reduction.h"

#include "keops_least.h"
#include "keops_sum.h"

#include <math.h>

/* ---- sums ---- */
static void start_sum(const ke_reduce *r, double *state)
{
  for (int32_t c = 0; c < r->width; c++) state[c] = 0;
}

static void merge_sum(const ke_reduce *r, double *into, const double *from)
{
  for (int32_t c = 0; c < r->width; c++) into[c] += from[c];
}

/* ---- compensated sums: the sum is state[c] + state[width + c] ---- */
static void start_kahan(const ke_reduce *r, double *state)
{
  for (int32_t c = 0; c < 2 * r->width; c++) state[c] = 0;
}

static void merge_kahan(const ke_reduce *r, double *into, const double *from)
{
  for (int32_t c = 0; c < r->width; c++) {
    ke_sum_add(into + c, into + r->width + c, from[c]);
    into[r->width + c] += from[r->width + c];
  }
}

static void finish_kahan(const ke_reduce *r, double *state, double *column, int64_t ld)
{
  for (int32_t c = 0; c < r->width; c++) column[c * ld] = ke_sum_value(state[c], state[r->width + c]);
}

/* ---- value and index: state[c] and state[width + c] ---- */
static void start_extreme(int32_t width, double *state, double value)
{
  for (int32_t c = 0; c < width; c++) {
    state[c] = value;
    state[width + c] = -1;
  }
}

static void start_min(const ke_reduce *r, double *state)
{
  start_extreme(r->width, state, INFINITY);
}

static void start_max(const ke_reduce *r, double *state)
{
  start_extreme(r->width, state, -INFINITY);
}

/* `sign` is 1 for the least, -1 for the largest value. A side without an index has seen no item
 * that counts, so the other one stands whatever the values are. */
static void merge_extreme(int32_t width, double *into, const double *from, double sign)
{
  const double *value = from, *index = from + width;

  for (int32_t c = 0; c < width; c++) {
    double *v = into + c, *i = into + width + c;
    bool less = sign * value[c] < sign * *v || (value[c] == *v && index[c] < *i);

    if (index[c] < 0 || (*i >= 0 && !less)) continue;
    *v = value[c];
    *i = index[c];
  }
}

static void merge_min(const ke_reduce *r, double *into, const double *from)
{
  merge_extreme(r->width, into, from, 1);
}

static void merge_max(const ke_reduce *r, double *into, const double *from)
{
  merge_extreme(r->width, into, from, -1);
}

/* ---- sums of exponentials: m = state[0], sum of exp(t - m) g in state[1 + c] ---- */
static void start_sumexp(const ke_reduce *r, double *state)
{
  state[0] = -INFINITY;
  for (int32_t c = 0; c < r->width; c++) state[1 + c] = 0;
}

/* exp(m - top), where infinities that are equal cancel: under -Inf the sums are 0 anyway. */
static double rescale(double m, double top)
{
  return m == top ? 1 : exp(m - top);
}

static void merge_sumexp(const ke_reduce *r, double *into, const double *from)
{
  double a = into[0], b = from[0];
  double top = a > b || isnan(a) ? a : b; /* NaN on either side stays */
  double ka = rescale(a, top), kb = rescale(b, top);

  into[0] = top;
  for (int32_t c = 0; c < r->width; c++) into[1 + c] = ka * into[1 + c] + kb * from[1 + c];
}

/* ---- the k least: heaps of values, then of indices, one a component ---- */
static void start_kmin(const ke_reduce *r, double *state)
{
  for (int64_t c = 0; c < (int64_t)r->k * r->width; c++) {
    state[c] = INFINITY;
    state[(int64_t)r->k * r->width + c] = -1;
  }
}

static void merge_kmin(const ke_reduce *r, double *into, const double *from)
{
  int64_t n = (int64_t)r->k * r->width;

  for (int64_t c = 0; c < n; c++)
    if (from[n + c] >= 0)
      ke_least_insert(into + c / r->k * r->k, into + n + c / r->k * r->k, r->k, from[c], from[n + c]);
}

/* Filled places to the front; how many there are. */
static int64_t gather_filled(double *value, double *index, int64_t k)
{
  int64_t n = 0;

  for (int64_t p = 0; p < k; p++) {
    const double x = value[p], at = index[p];

    value[p] = value[n];
    index[p] = index[n];
    value[n] = x;
    index[n] = at;
    n += at >= 0;
  }
  return n;
}

/* Quicksort of filled places; calls itself for the smaller part only. */
static void sort_least(double *value, double *index, int64_t n)
{
  while (n > 12) {
    const int64_t front = ke_least_split(value, index, n), rest = n - front - 1;

    if (front < rest) {
      sort_least(value, index, front);
      value += front + 1;
      index += front + 1;
      n = rest;
    } else {
      sort_least(value + front + 1, index + front + 1, rest);
      n = front;
    }
  }
  for (int64_t p = 1; p < n; p++) {
    const double x = value[p], at = index[p];
    int64_t q = p;

    for (; q > 0 && ke_least_after(value[q - 1], index[q - 1], x, at); q--) {
      value[q] = value[q - 1];
      index[q] = index[q - 1];
    }
    value[q] = x;
    index[q] = at;
  }
}

static void finish_kmin(const ke_reduce *r, double *state, double *column, int64_t ld)
{
  int64_t n = (int64_t)r->k * r->width;

  for (int32_t c = 0; c < r->width; c++) {
    double *value = state + (int64_t)c * r->k, *index = value + n;

    sort_least(value, index, gather_filled(value, index, r->k));
    for (int64_t p = 0; p < r->k; p++) {
      column[(p * r->width + c) * ld] = value[p];
      column[(n + p * r->width + c) * ld] = index[p];
    }
  }
}

/* ---- results ---- */
static void finish_as_is(const ke_reduce *r, double *state, double *column, int64_t ld)
{
  for (int32_t c = 0; c < r->state_width; c++) column[c * ld] = state[c];
}

/* ---- the table ---- */
#define REDUCTION(kind, states, results, start, merge, finish)                                     \
  static int32_t states_##kind(const ke_reduce *r)                                                 \
  {                                                                                                \
    const int32_t width = r->width, k = r->k;                                                      \
    (void)k;                                                                                       \
    return states;                                                                                 \
  }                                                                                                \
  static int32_t results_##kind(const ke_reduce *r)                                                \
  {                                                                                                \
    const int32_t width = r->width, k = r->k;                                                      \
    (void)k;                                                                                       \
    return results;                                                                                \
  }
#include "reduction_list.h"

static const ke_reducer table[] = {
#define REDUCTION(kind, states, results, start, merge, finish)                                     \
  [KE_RED_##kind] = {states_##kind, results_##kind, start, merge, finish},
#include "reduction_list.h"
};

const ke_reducer *ke_reducer_of(ke_reduce_kind kind)
{
  return &table[kind];
}
