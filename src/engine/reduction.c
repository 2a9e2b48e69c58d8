/* Start, merge and finish of each reduction; reduction_list.h makes them a table. */
#include "reduction.h"

#include <math.h>

/* ---- sums ---- */
static void start_sum(int32_t width, double *state)
{
  for (int32_t c = 0; c < width; c++) state[c] = 0;
}

static void merge_sum(int32_t width, double *into, const double *from)
{
  for (int32_t c = 0; c < width; c++) into[c] += from[c];
}

/* ---- value and index: state[c] and state[width + c] ---- */
static void start_extreme(int32_t width, double *state, double value)
{
  for (int32_t c = 0; c < width; c++) {
    state[c] = value;
    state[width + c] = -1;
  }
}

static void start_min(int32_t width, double *state)
{
  start_extreme(width, state, INFINITY);
}

static void start_max(int32_t width, double *state)
{
  start_extreme(width, state, -INFINITY);
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

static void merge_min(int32_t width, double *into, const double *from)
{
  merge_extreme(width, into, from, 1);
}

static void merge_max(int32_t width, double *into, const double *from)
{
  merge_extreme(width, into, from, -1);
}

/* ---- sums of exponentials: m = state[0], sum of exp(t - m) g in state[1 + c] ---- */
static void start_sumexp(int32_t width, double *state)
{
  state[0] = -INFINITY;
  for (int32_t c = 0; c < width; c++) state[1 + c] = 0;
}

/* exp(m - top), where infinities that are equal cancel: under -Inf the sums are 0 anyway. */
static double rescale(double m, double top)
{
  return m == top ? 1 : exp(m - top);
}

static void merge_sumexp(int32_t width, double *into, const double *from)
{
  double a = into[0], b = from[0];
  double top = a > b || isnan(a) ? a : b; /* NaN on either side stays */
  double ka = rescale(a, top), kb = rescale(b, top);

  into[0] = top;
  for (int32_t c = 0; c < width; c++) into[1 + c] = ka * into[1 + c] + kb * from[1 + c];
}

/* ---- results ---- */
/* The state is the result; a state has n doubles. */
static void finish_as_is(int32_t n, const double *state, double *column, int64_t ld)
{
  for (int32_t c = 0; c < n; c++) column[c * ld] = state[c];
}

/* ---- the table ---- */
#define REDUCTION(kind, states, start, merge, finish)                                              \
  static int32_t states_##kind(int32_t width)                                                      \
  {                                                                                                \
    return states;                                                                                 \
  }
#include "reduction_list.h"

static const ke_reducer table[] = {
#define REDUCTION(kind, states, start, merge, finish)                                              \
  [KE_RED_##kind] = {states_##kind, start, merge, finish},
#include "reduction_list.h"
};

const ke_reducer *ke_reducer_of(ke_reduce_kind kind)
{
  return &table[kind];
}
