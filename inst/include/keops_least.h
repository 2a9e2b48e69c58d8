/* The k least of values seen so far, as a heap: value[0] is the largest of them, what a new one has to
 * beat. Equal values are in order of their numbers, so that the lower number stays. Places not filled
 * hold (Inf, -1). Shared by the engine, its interpreter and each generated kernel. */
#ifndef KEOPS_LEAST_H
#define KEOPS_LEAST_H

#include <stdint.h>

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

/* ---- many at once: arrays of filled places ---- */

/* Those before the last of n go to the front, that one behind them: its place. Without a branch to guess. */
static inline long ke_least_part(double *value, double *index, long n)
{
  const double x = value[n - 1], at = index[n - 1];
  long front = 0;

  for (long p = 0; p < n - 1; p++) {
    const double y = value[p], j = index[p];

    value[p] = value[front];
    index[p] = index[front];
    value[front] = y;
    index[front] = j;
    front += (y < x) | ((y == x) & (j < at));
  }
  value[n - 1] = value[front];
  index[n - 1] = index[front];
  value[front] = x;
  index[front] = at;
  return front;
}

/* The same by the median of three of them. */
static inline long ke_least_split(double *value, double *index, long n)
{
  const long a = n / 4, b = n / 2, c = n / 2 + n / 4;
  const int ab = ke_least_after(value[a], index[a], value[b], index[b]);
  const int bc = ke_least_after(value[b], index[b], value[c], index[c]);
  const int ac = ke_least_after(value[a], index[a], value[c], index[c]);
  const long p = ab == bc ? b : ab == ac ? c : a;
  const double x = value[p], at = index[p];

  value[p] = value[n - 1];
  index[p] = index[n - 1];
  value[n - 1] = x;
  index[n - 1] = at;
  return ke_least_part(value, index, n);
}

/* The k least of n go to the front. */
static inline void ke_least_pick(double *value, double *index, long n, long k)
{
  while (k > 0 && n > k) {
    const long front = ke_least_split(value, index, n);

    if (front >= k) {
      n = front;
    } else {
      value += front + 1;
      index += front + 1;
      n -= front + 1;
      k -= front + 1;
    }
  }
}

/* Some of n > k that are not among the k least are dropped; those left, fewer than n, are up to `worst`.
 * By a sample: exactly k would be dearer, and soon too many again. */
static inline long ke_least_thin(double *value, double *index, long n, long k, double *worst)
{
  enum { SAMPLE = 48 };
  double sample[SAMPLE];
  long front = 0;

  for (long s = 0; s < SAMPLE; s++) {
    const double x = value[s * n / SAMPLE];
    long q = s;

    for (; q > 0 && sample[q - 1] > x; q--) sample[q] = sample[q - 1];
    sample[q] = x;
  }
  for (long rank = SAMPLE * k / n + 3; rank < SAMPLE; rank += 3) {
    const double x = sample[rank];
    long count = 0;

    for (long p = 0; p < n; p++) count += value[p] <= x;
    if (count < k) continue;
    if (count > n - n / 8) break;
    for (long p = 0; p < n; p++) {
      const double y = value[p], j = index[p];

      value[front] = y;
      index[front] = j;
      front += y <= x;
    }
    *worst = x;
    return front;
  }
  ke_least_pick(value, index, n, k); /* many equal values */
  *worst = value[0];
  for (long p = 1; p < k; p++) *worst = value[p] > *worst ? value[p] : *worst;
  return k;
}

/* n further items into a heap: one by one where they are few, else by picking among all of them. The
 * arrays of the new ones have room for k more. */
static inline void ke_least_add(double *value, double *index, long k, double *new_value, double *new_index,
                                long n)
{
  double none;

  if (n < k / 16) {
    for (long p = 0; p < n; p++) ke_least_insert(value, index, k, new_value[p], new_index[p]);
    return;
  }
  for (long p = 0; p < k; p++) {
    new_value[n] = value[p];
    new_index[n] = index[p];
    n += index[p] >= 0;
  }
  none = value[0]; /* Inf, if places stay unfilled: they are the largest */
  ke_least_pick(new_value, new_index, n, k);
  for (long p = 0; p < k; p++) {
    value[p] = p < n ? new_value[p] : none;
    index[p] = p < n ? new_index[p] : -1;
  }
  for (long p = k / 2; p-- > 0;) ke_least_settle(value, index, k, p, value[p], index[p]);
}

/* ---- the same in vectors, for a k up to KE_LIST_MOST ----
 * While a kernel runs over a chunk of items, the k least lie sorted in vectors, the least first; lanes
 * from k on hold what was pushed out. An item of the chunk is known by its number in it, one from the
 * state by -1 - its place there. A state written back is sorted, the largest first, which is a heap. */
enum { KE_LIST_MOST = 32 };
/* For a larger k candidates wait in a pool: count, what to beat, values, indices. */
enum { KE_POOL_STEP = 256 }; /* items at a time, at most */
#define KE_POOL_ROOM(k) (3 * (int64_t)(k) + KE_POOL_STEP)
#define KE_POOL_DOUBLES(k) (2 + 2 * KE_POOL_ROOM(k))

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
  enum { MOST = KE_LIST_VECTORS(KE_LIST_MOST) > 3 ? KE_LIST_VECTORS(KE_LIST_MOST) : 3 };
  vr list[MOST];
  vi at[MOST];
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

/* ---- the pool of a larger k ---- */

K_INLINE void ke_pool_start(const double *heap, const double *index, long k, double *pool)
{
  (void)index, (void)k;
  pool[0] = 0;
  pool[1] = heap[0];
}

K_INLINE void ke_pool_finish(double *heap, double *index, long k, double *pool)
{
  ke_least_add(heap, index, k, pool + 2, pool + 2 + KE_POOL_ROOM(k), (long)pool[0]);
}

/* n vectors of items; `first` is the number of lane 0. Gives what the next one has to beat: an equal one
 * comes after all of the pool. */
K_INLINE real ke_pool_take(long k, double *pool, const vr *x, int n, long long first)
{
  double *value = pool + 2, *index = value + KE_POOL_ROOM(k);
  long count = (long)pool[0];

  for (int v = 0; v < n; v += KE_LANES_64)
    for (uint64_t hits = ke_list_hits(x + v, n - v, (real)pool[1]); hits; hits &= hits - 1) {
      const int l = v * KE_W + __builtin_ctzll(hits);

      value[count] = (double)((const real *)x)[l];
      index[count++] = (double)(first + l);
    }
  if (count >= 2 * k) count = ke_least_thin(value, index, count, k, &pool[1]);
  pool[0] = (double)count;
  return (real)pool[1];
}
#endif

#endif
