/* Squared distances and inner products of many components, on tensor cores; included by keops_cuda_pairs.h
 * where the generated source has set KE_DOTS to the number of bfloat16 terms that a component is split into.
 *
 *   ke_norms    squared lengths of rows or items and the largest one; what else an item has, packed
 *   ke_split    components as terms: x = hi + lo (+ lower), in the order in which the cores want them
 *   add_items   products of a block's 128 rows with tiles of 128 items, and a step for each 2 items of 4 rows
 *
 * Products of terms a and b are taken where a + b < KE_DOTS: 3 of 2 x 2, 6 of 3 x 3; the rest lies below what
 * is kept. A warp has 32 rows and 64 items of a tile as 2 x 8 fragments of m16n8k16: thread 4 g + q of it has
 * rows g, g + 8, g + 16, g + 24 and of each 8 items 2 q and 2 q + 1. KSTEPS steps of 16 components are taken
 * CHUNK at a time, copied to shared memory one chunk ahead; the rows' terms stay there where they fit
 * (KE_RESIDENT). */
#ifndef KEOPS_CUDA_DOTS_H
#define KEOPS_CUDA_DOTS_H

enum {
  CHUNK = 2,
  CHUNKS = KSTEPS / CHUNK,
  UNITS = 256, /* quads of a term of 16 components of 128 rows or items: 8 fragments x 32 threads */
  CHUNK_UNITS = CHUNK * KE_DOTS * UNITS,
  KEPT_UNITS = KE_RESIDENT ? KSTEPS * KE_DOTS * UNITS : 2 * CHUNK_UNITS,
  REST_REALS = KE_SHARED ? 2 * T * RWP : 0
};

/* ---- once for each row and item ---------------------------------------------------------------- */
extern "C" __global__ void __launch_bounds__(256) ke_norms(const ke_cuda_split task)
{
  const llong row = (llong)blockIdx.x * 256 + threadIdx.x;
  const float *from = (const float *)task.from + row * task.row_step;
  double sum = 0;

  if (row >= task.padded) return;
  if (row < task.n)
    for (int k = 0; k < DOTS; k += 16) {
      float part = 0;
      for (int c = k; c < k + 16 && c < DOTS; c++) {
        const float x = from[(task.first + c) * task.column_step];
        part += x * x;
      }
      sum += (double)part;
    }
  if (!task.rest) {
    task.norms[row] = (float)sum;
  } else {
    float *rest = task.rest + row * RWP;
    for (int c = 0; c < RWP; c++) {
      const int at = c < task.first ? c : c + DOTS;
      rest[c] = row < task.n && c < RW - KE_DISTANCE ? from[at * task.column_step] : 0;
    }
    if (KE_DISTANCE) rest[RW - 1] = (float)sum;
  }
  if (row < task.n) k_largest(task.largest, (float)sum);
}

/* The nearest bfloat16 of x, in the upper half of the result */
K_INLINE unsigned k_upper(float x)
{
  const unsigned bits = __float_as_uint(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
}

/* Components 2 by 2 of `row`, from k on: their terms */
K_INLINE void split_two(const ke_cuda_split &task, llong row, int k, unsigned (&to)[KE_DOTS])
{
  float x = 0, y = 0;

  if (row < task.n) {
    const float *from = (const float *)task.from + row * task.row_step + task.first * task.column_step;
    if (k < DOTS) x = from[k * task.column_step];
    if (k + 1 < DOTS) y = from[(k + 1) * task.column_step];
  }
  EACH(term, KE_DOTS)
  {
    const unsigned a = k_upper(x), b = k_upper(y);
    to[term] = a >> 16 | b;
    x -= __uint_as_float(a), y -= __uint_as_float(b);
  }
}

extern "C" __global__ void __launch_bounds__(256) ke_split(const ke_cuda_split task)
{
  const llong unit = (llong)blockIdx.x * 256 + threadIdx.x, step = unit / UNITS;
  const int fragment = unit % UNITS / 32, g = unit % 32 / 4, k = (int)(step % KSTEPS) * 16 + unit % 4 * 2;
  const llong row = step / KSTEPS * 128 + fragment * 16 + g;
  k_quad *to = (k_quad *)task.terms + step * (KE_DOTS * UNITS) + unit % UNITS;
  unsigned a[KE_DOTS], b[KE_DOTS], c[KE_DOTS], d[KE_DOTS];

  if (row >= task.padded) return;
  split_two(task, row, k, a);
  split_two(task, row + 8, k, b);
  split_two(task, row, k + 8, c);
  split_two(task, row + 8, k + 8, d);
  EACH(term, KE_DOTS)
  {
    const k_quad rows = {a[term], b[term], c[term], d[term]}, items = {a[term], c[term], b[term], d[term]};
    to[term * UNITS] = task.rest ? items : rows;
  }
}

/* ---- a block's rows with tiles of items -------------------------------------------------------- */
/* Which of the block's RT groups of rows, and which of the S threads that share them */
K_INLINE int group_of_thread() { return threadIdx.x / 32 % 4 * 8 + threadIdx.x % 32 / 4; }
K_INLINE int lane_of_thread() { return threadIdx.x / 128 * 4 + threadIdx.x % 4; }
K_INLINE int row_of(int group, int r) { return group / 8 * 32 + group % 8 + 8 * r; }

K_INLINE void copy_units(k_quad *to, const k_quad *from, int n)
{
  for (int k = threadIdx.x; k < n; k += BLOCK) k_copy_ahead(to + k, from + k);
}

/* Start the copies that iteration number `it` of the tiles t0.. needs */
K_INLINE void fetch(const ke_cuda_task &task, k_quad *kept, k_quad *red, real *rest, llong row_block,
                    llong t0, llong it)
{
  const llong tile = task.i0 / T + t0 + it / CHUNKS;
  const int chunk = (int)(it % CHUNKS), stage = (int)(it & 1);

  copy_units(red + stage * CHUNK_UNITS,
             (const k_quad *)task.red_terms + (tile * CHUNKS + chunk) * CHUNK_UNITS, CHUNK_UNITS);
  if (!KE_RESIDENT)
    copy_units(kept + stage * CHUNK_UNITS,
               (const k_quad *)task.kept_terms + (row_block * CHUNKS + chunk) * CHUNK_UNITS, CHUNK_UNITS);
  if (KE_SHARED && chunk == 0)
    copy_units((k_quad *)rest + (it / CHUNKS & 1) * (T * RWP / 4),
               (const k_quad *)task.rest + tile * (T * RWP / 4), T * RWP / 4);
}

/* The products of one chunk, added to those of the tile */
K_INLINE void multiply(float (&sum)[2][8][4], const k_quad *kept, const k_quad *red)
{
  const int lane = threadIdx.x % 32, across = threadIdx.x / 32 % 4, along = threadIdx.x / 128;

  EACH(s, CHUNK)
  {
    k_quad x[KE_DOTS][2];

    EACH(term, KE_DOTS)
    EACH(m, 2) x[term][m] = kept[(s * KE_DOTS + term) * UNITS + (2 * across + m) * 32 + lane];
    EACH(h, 4)
    {
      k_quad y[KE_DOTS];

      EACH(term, KE_DOTS) y[term] = red[(s * KE_DOTS + term) * UNITS + (4 * along + h) * 32 + lane];
      EACH(a, KE_DOTS)
      EACH(b, KE_DOTS - a)
      EACH(m, 2)
      {
        k_multiply(sum[m][2 * h], x[a][m], y[b].x, y[b].y);
        k_multiply(sum[m][2 * h + 1], x[a][m], y[b].z, y[b].w);
      }
    }
  }
}

/* A step for each two items; the last tile may end within them */
K_INLINE void add_products(ke_acc &a, const ke_kept &kept, const float (&sum)[2][8][4],
                           const real (&norm)[R], const real *rest, int n, const ke_once &once,
                           const ke_cuda_task &task, int item)
{
  EACH(h, 8)
  {
    const int at = threadIdx.x / 128 * 64 + 8 * h + threadIdx.x % 4 * 2;
    const real *here = rest + at * RWP;
    real pair[R][2];

    EACH(r, R)
    EACH(v, 2)
    {
      const real x = sum[r / 2][h][r % 2 * 2 + v];
      pair[r][v] = KE_DISTANCE ? k_max(norm[r] + here[v * RWP + RW - 1] - 2 * x, 0) : x;
    }
    if (at + 1 < n) {
      step<2>(a, kept, here, once, task, item + at, pair);
    } else if (at < n) {
      real first[R][1];
      EACH(r, R) first[r][0] = pair[r][0];
      step<1>(a, kept, here, once, task, item + at, first);
    }
  }
  acc_settle(a);
}

K_INLINE void add_items(ke_acc &a, const ke_kept &kept, const ke_row_block &rows, llong t0, llong t1,
                        const real, const ke_once &once, const ke_cuda_task &task)
{
  K_DYNAMIC_SHARED(k_quad, memory);
  k_quad *const of_kept = memory, *const of_red = memory + KEPT_UNITS;
  real *const of_rest = (real *)(of_red + 2 * CHUNK_UNITS);
  const llong all = (t1 - t0) * CHUNKS, block = (task.row0 + rows.row) / ROWS_OF_BLOCK;
  float sum[2][8][4];
  real norm[R];

  EACH(r, R)
  norm[r] = KE_DISTANCE ? task.norms[task.row0 + rows.row + row_of(group_of_thread(), r)] : 0;
  __syncthreads(); /* who comes from another row block still reads */
  if (KE_RESIDENT)
    copy_units(of_kept, (const k_quad *)task.kept_terms + block * (KSTEPS * KE_DOTS * UNITS), KEPT_UNITS);
  fetch(task, of_kept, of_red, of_rest, block, t0, 0);
  k_copies_end();
  for (llong t = t0, it = 0; t < t1; t++) {
    const llong left = task.nitems - t * T;
    const llong first = task.i0 + t * T;
    const int n = left < T ? (int)left : T;
    const real *rest = KE_SHARED ? of_rest + (t - t0 & 1) * (T * RWP) : task.rest + first * RWP;

    EACH(m, 2) EACH(h, 8) EACH(c, 4) sum[m][h][c] = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; chunk++, it++) {
      k_copies_wait();
      __syncthreads();
      if (it + 1 < all) fetch(task, of_kept, of_red, of_rest, block, t0, it + 1);
      k_copies_end();
      multiply(sum, of_kept + (KE_RESIDENT ? chunk : it & 1) * CHUNK_UNITS, of_red + (it & 1) * CHUNK_UNITS);
    }
    add_products(a, kept, sum, norm, rest, n, once, task, (int)first);
  }
  k_copies_wait();
}

#endif
