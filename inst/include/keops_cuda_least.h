/* The k least on a GPU. A state holds, for each component, what keops_least.h calls a heap, but places lie
 * `step` apart: k values, the largest first, and behind those of all components their indices. A thread
 * keeps a short list in registers; a longer heap lies in its slot of partial states from the start. */
#ifndef KEOPS_CUDA_LEAST_H
#define KEOPS_CUDA_LEAST_H

/* (x, i) comes after (y, j); an unfilled place after everything */
K_INLINE bool k_least_after(double x, double i, double y, double j)
{
  return x > y || (x == y && j >= 0 && (i < 0 || i > j));
}

/* (x, at) takes the place of the largest, and moves to where it belongs. */
K_APART void k_least_replace(double *value, double *index, int k, llong step, double x, double at)
{
  int p = 0;

#pragma unroll 1
  for (int c = 1; c < k; c = 2 * p + 1) {
    double y = value[c * step], j = index[c * step];

    if (c + 1 < k && k_least_after(value[(c + 1) * step], index[(c + 1) * step], y, j)) {
      c++;
      y = value[c * step], j = index[c * step];
    }
    if (!k_least_after(y, j, x, at)) break;
    value[p * step] = y;
    index[p * step] = j;
    p = c;
  }
  value[p * step] = x;
  index[p * step] = at;
}

/* Each heap of `from`, item by item; indices tell the lower of equal ones, so the order is the same again. */
template <int N>
K_INLINE void k_merge_least(int width, double *into, llong step, const double *from, llong from_step)
{
  const llong n = (llong)N * width;

#pragma unroll 1
  for (llong c = 0; c < n; c++) {
    double *value = into + c / N * N * step, *index = value + n * step;
    const double x = from[c * from_step], at = from[(n + c) * from_step];

    if (at >= 0 && k_least_after(value[0], index[0], x, at)) k_least_replace(value, index, N, step, x, at);
  }
}

/* A list in registers, the least first; x is less than the last and comes behind what equals it. */
template <int N> K_INLINE void k_list_take(real (&value)[N], int (&where)[N], real x, int item)
{
  UNROLL for (int m = N - 1; m > 0; m--)
  {
    const bool moves = x < value[m - 1], here = x < value[m];

    where[m] = moves ? where[m - 1] : here ? item : where[m];
    value[m] = moves ? value[m - 1] : here ? x : value[m];
  }
  where[0] = x < value[0] ? item : where[0];
  value[0] = x < value[0] ? x : value[0];
}

#endif
