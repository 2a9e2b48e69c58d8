/* The k least of values seen so far, as a heap: value[0] is the largest of them, what a new one has to
 * beat. Equal values are in order of their numbers, so that the lower number stays. Places not filled
 * hold (Inf, -1). Shared by the engine, its interpreter and each generated kernel. */
#ifndef KEOPS_LEAST_H
#define KEOPS_LEAST_H

/* (x, i) comes after (y, j); an unfilled place after everything */
static inline int ke_least_after(double x, double i, double y, double j)
{
  return x > y || (x == y && (j >= 0) & ((i < 0) | (i > j)));
}

/* Put (x, at) into place `p`, and move it down to where it belongs. */
static inline void ke_least_settle(double *value, double *index, long k, long p, double x, double at)
{
  for (long c = 2 * p + 1; c < k; c = 2 * p + 1) {
    if (c + 1 < k && ke_least_after(value[c + 1], index[c + 1], value[c], index[c])) c++;
    if (!ke_least_after(value[c], index[c], x, at)) break;
    value[p] = value[c];
    index[p] = index[c];
    p = c;
  }
  value[p] = x;
  index[p] = at;
}

/* An item of number `at`, not NaN: in, if it is among the k least. */
static inline void ke_least_insert(double *value, double *index, long k, double x, double at)
{
  if (ke_least_after(value[0], index[0], x, at)) ke_least_settle(value, index, k, 0, x, at);
}

#endif
