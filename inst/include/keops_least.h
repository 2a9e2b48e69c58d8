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

/* ---- the same in vectors, for a k up to KE_LIST_MOST ----
 * While a kernel runs over a chunk of items, the k least lie sorted in vectors, the least first; lanes
 * from k on hold what was pushed out. An item of the chunk is known by its number in it, one from the
 * state by -1 - its place there. A state written back is sorted, the largest first, which is a heap. */
enum { KE_LIST_MOST = 32 };

#ifdef KEOPS_KERNEL_H
#define KE_LIST_VECTORS(k) (((k) + KE_W - 1) / KE_W)

static inline void ke_list_start(const double *heap, const double *index, int k, vr *value, vi *number)
{
  for (int v = 0; v < KE_LIST_VECTORS(k); v++) {
    value[v] = k_set(K(K_INF));
    number[v] = (vi){0} - 1;
  }
  for (int n = k - 1, count = 0; n >= 0; n--, count++) {
    int p = count;

    for (; p > 0; p--) { /* once a round, but for a heap that is not sorted */
      const int q = p - 1, from = -1 - (int)number[q / KE_W][q % KE_W];

      if (!ke_least_after(heap[from], index[from], heap[n], index[n])) break;
      value[p / KE_W][p % KE_W] = value[q / KE_W][q % KE_W];
      number[p / KE_W][p % KE_W] = number[q / KE_W][q % KE_W];
    }
    value[p / KE_W][p % KE_W] = (real)heap[n];
    number[p / KE_W][p % KE_W] = -1 - n;
  }
}

/* `first`: the item of number 0 */
static inline void ke_list_finish(double *heap, double *index, int k, const vr *value, const vi *number,
                                  long long first)
{
  double before[KE_LIST_MOST];

  for (int n = 0; n < k; n++) before[n] = index[n];
  for (int p = 0; p < k; p++) {
    const long long n = (long long)number[p / KE_W][p % KE_W];

    heap[k - 1 - p] = (double)value[p / KE_W][p % KE_W];
    index[k - 1 - p] = n >= 0 ? (double)(first + n) : before[-1 - n];
  }
}

/* Of n vectors, those lanes less than `worst`, 64 lanes at a time: bit 0 is lane 0 of x[v]. */
#define KE_LANES_64 (64 / KE_W)
K_INLINE uint64_t ke_list_hits(const vr *x, int n, real worst)
{
  uint64_t hits = 0;

  for (int v = 0; v < n && v < KE_LANES_64; v++)
    hits |= (uint64_t)k_less_bits(x[v], k_set(worst)) << (v * KE_W);
  return hits;
}

/* n vectors of items into a list of `vectors` (a constant, where it is to stay in registers); gives what
 * the next one has to beat. Strictly less only: equal items stay in order of their numbers. */
K_INLINE real ke_list_take(vr *value, vi *number, const int vectors, int last, const vr *x, int n, int first)
{
  vr list[KE_LIST_VECTORS(KE_LIST_MOST)];
  vi at[KE_LIST_VECTORS(KE_LIST_MOST)];
  real worst;

  _Pragma("GCC unroll 4") for (int q = 0; q < vectors; q++) {
    list[q] = value[q];
    at[q] = number[q];
  }
  worst = list[vectors - 1][last];
  for (int v = 0; v < n; v += KE_LANES_64)
    for (uint64_t hits = ke_list_hits(x + v, n - v, worst); hits; hits &= hits - 1) {
      const int l = v * KE_W + __builtin_ctzll(hits);
      const real c = ((const real *)x)[l];
      const vr all = k_set(c);
      const vi mine = (vi){0} + (first + l);
      vr below = k_set(K(-K_INF));
      vi below_at = (vi){0};

      if (!(c < worst)) continue;
      _Pragma("GCC unroll 4") for (int q = 0; q < vectors; q++) {
        const vr old = list[q], up = K_LANES_UP(below, old);
        const vi old_at = at[q], up_at = K_LANES_UP(below_at, old_at);
        const vi moves = all < old, stays = all < up;

        list[q] = k_select(moves, k_select(stays, up, all), old);
        at[q] = (((up_at & stays) | (mine & ~stays)) & moves) | (old_at & ~moves);
        below = old;
        below_at = old_at;
      }
      worst = list[vectors - 1][last];
    }
  _Pragma("GCC unroll 4") for (int q = 0; q < vectors; q++) {
    value[q] = list[q];
    number[q] = at[q];
  }
  return worst;
}

/* The same into a heap, whose indices lie n_heap places behind; `first` is the number of lane 0. */
K_INLINE real ke_heap_take(double *heap, int64_t n_heap, int k, const vr *x, int n, long long first)
{
  for (int v = 0; v < n; v += KE_LANES_64)
    for (uint64_t hits = ke_list_hits(x + v, n - v, (real)heap[0]); hits; hits &= hits - 1) {
      const int l = v * KE_W + __builtin_ctzll(hits);
      const double c = (double)((const real *)x)[l];

      if (c < heap[0]) ke_least_settle(heap, heap + n_heap, k, 0, c, (double)(first + l));
    }
  return (real)heap[0];
}
#endif

#endif
