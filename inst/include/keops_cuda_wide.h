/* One sum of many components p * b[k] by tensor cores (src/cuda/tensor_cuda.h), in place of keops_cuda_pairs.h.
 * 4 warps, each 16 rows; a step is 8 items: of thread 4 g + q, rows g and g + 8, items 2 q and 2 q + 1, for which
 * the generated step_factor<2>(factor, kept, tile, once, task) makes p. That is a matrix a of 16 x 8 at once, since
 * the order of its columns is free. Sums go to float after a tile, and to double, in the block's slot, after
 * some. Numbers that cannot be split (Inf, NaN, the largest ones) are added one by one. */
#include "keops_cuda_tensor.h"
#include "keops_cuda_units.h"

enum { COLUMNS = (TENSOR_N + 7) / 8, STEPS = T / 8, TILES_OF_SUM = 8 };

/* A tile as it came, and the matrices b of its columns in the order in which threads take them */
typedef struct {
  __align__(16) real tile[T * STRIDE + 8];
  float4 column[STEPS][COLUMNS][32];
} ke_stage;

/* p and b as they are, for 8 items */
K_INLINE void add_each(float (&sum)[COLUMNS][4], const float (&factor)[R][2], const real *tile)
{
  const int q = threadIdx.x % 4;

  ROLLED for (int k = 0; k < 8; k++) {
    float p[R];

    EACH(r, R) p[r] = k_from_lane(k % 2 ? factor[r][1] : factor[r][0], threadIdx.x % 32 / 4 * 4 + k / 2);
    EACH(c, COLUMNS) EACH(e, 2)
    {
      const float b = tile[k * STRIDE + TENSOR_RED + 8 * c + 2 * q + e];

      EACH(r, R) sum[c][2 * r + e] += p[r] * b;
    }
  }
}

K_INLINE void add_products(float (&product)[COLUMNS][4], const float (&factor)[R][2], const float4 (&column)[COLUMNS][32])
{
  enum { AT_ONCE = 4 }; /* products that do not wait for each other */
  const int lane = threadIdx.x % 32;
  const float4 first = k_split_pair(factor[0][0], factor[1][0]), second = k_split_pair(factor[0][1], factor[1][1]);
  const float high[4] = {first.x, first.y, second.x, second.y}, low[4] = {first.z, first.w, second.z, second.w};

  EACH(c0, (COLUMNS + AT_ONCE - 1) / AT_ONCE)
  {
    float b_high[AT_ONCE][2], b_low[AT_ONCE][2];

#define EACH_COLUMN(c) EACH(c, AT_ONCE) if (c0 * AT_ONCE + c < COLUMNS)
    EACH_COLUMN(c)
    {
      const float4 b = column[c0 * AT_ONCE + c][lane];
      b_high[c][0] = b.x, b_high[c][1] = b.y, b_low[c][0] = b.z, b_low[c][1] = b.w;
    }
    EACH_COLUMN(c) k_mma(product[c0 * AT_ONCE + c], low, b_high[c]);
    EACH_COLUMN(c) k_mma(product[c0 * AT_ONCE + c], high, b_low[c]);
    EACH_COLUMN(c) k_mma(product[c0 * AT_ONCE + c], high, b_high[c]);
  }
}

/* Items [0, n) of a tile, with zeros up to a whole step */
K_INLINE void add_tile(float (&sum)[COLUMNS][4], const ke_kept &kept, const ke_stage &stage, int n, bool odd_tile,
                       const ke_once &once, const ke_cuda_task &task)
{
  const int mine = threadIdx.x % 4 * 2;
  float product[COLUMNS][4];

  EACH(c, COLUMNS) EACH(k, 4) product[c][k] = 0;
  ROLLED for (int k = 0; k < n; k += 8) {
    real factor[R][2];
    bool odd = odd_tile;

    step_factor<2>(factor, kept, stage.tile + (k + mine) * STRIDE, once, task);
    EACH(r, R) EACH(v, 2)
    {
      if (k + mine + v >= n) factor[r][v] = 0;
      odd |= k_unsplit(factor[r][v]);
    }
    if (k_any_of_warp(odd))
      add_each(sum, factor, stage.tile + k * STRIDE);
    else
      add_products(product, factor, stage.column[k / 8]);
  }
  EACH(c, COLUMNS) EACH(k, 4) sum[c][k] += product[c][k];
}

/* A tile to shared memory; is there a number that cannot be split? */
K_INLINE bool take_tile(real *shared, const real *from, int n)
{
  enum { QUARTERS = RWP / 4 };
  bool odd = false;

  for (int k = threadIdx.x; k < (n + 7) / 8 * 8 * QUARTERS; k += BLOCK) {
    const int item = k / QUARTERS, at = k % QUARTERS * 4;
    real x[4] = {0, 0, 0, 0};

    if (item < n) k_take(x, from + (llong)item * RWP + at);
    EACH(c, 4) odd |= k_unsplit(x[c]);
    *(float4 *)(shared + item * STRIDE + at) = float4{x[0], x[1], x[2], x[3]};
  }
  return odd;
}

/* Of the tile in shared memory, rows 2 q and 2 q + 1 and column g of each 8 x 8: the order of rows is that of
 * thread q's items. */
K_INLINE void split_tile(ke_stage &stage, int n)
{
  const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;

  for (int k = threadIdx.x / 32; k < (n + 7) / 8 * COLUMNS; k += BLOCK / 32) {
    const int step = k / COLUMNS, column = k % COLUMNS;
    const real *at = stage.tile + (8 * step + 2 * q) * STRIDE + TENSOR_RED + 8 * column + g;

    stage.column[step][column][threadIdx.x % 32] = k_split_pair(at[0], at[STRIDE]);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS)
ke_pairs(const ke_cuda_task task, const ke_once once)
{
  __shared__ ke_stage stage;
  const int tx = threadIdx.x / 32 * 8 + threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const llong begin = share_of(task, blockIdx.x), end = share_of(task, blockIdx.x + 1);

  for (llong u = begin; u < end;) {
    const llong block = u / task.tiles, t0 = u - block * task.tiles, left = end - u;
    const llong t1 = task.tiles - t0 < left ? task.tiles : t0 + left;
    const llong row0 = block * ROWS_OF_BLOCK + tx;
    const bool whole = t0 == 0 && t1 == task.tiles;
    double *state = slot_at(task, 2 * (llong)blockIdx.x + (u > begin), 0, tx);
    float sum[COLUMNS][4];
    ke_kept kept;

#define EACH_SUM(c, r, e)                                                                          \
  EACH(c, COLUMNS) EACH(r, R) EACH(e, 2) if (8 * c + 2 * q + e < TENSOR_N)
#define STATE(c, r, e) state[(8 * c + 2 * q + e) * ROWS_OF_BLOCK + r * RT]
    EACH_SUM(c, r, e) STATE(c, r, e) = 0;
    EACH(c, COLUMNS) EACH(k, 4) sum[c][k] = 0;
    kept_take(kept, (const real *)task.kept + task.row0 + row0, task.kept_ld, 1);
    for (llong t = t0; t < t1; t++) {
      const llong left_items = task.nitems - t * T;
      const int n = left_items < T ? (int)left_items : T;
      bool odd;

      __syncthreads();
      odd = take_tile(stage.tile, (const real *)task.red + (task.i0 + t * T) * RWP, n);
      odd = __syncthreads_or(odd);
      split_tile(stage, n);
      __syncthreads();
      add_tile(sum, kept, stage, n, odd, once, task);
      if ((t - t0) % TILES_OF_SUM == TILES_OF_SUM - 1 || t + 1 == t1) {
        EACH_SUM(c, r, e)
        {
          STATE(c, r, e) += (double)sum[c][2 * r + e];
          sum[c][2 * r + e] = 0;
        }
      }
    }
    if (whole) {
      EACH_SUM(c, r, e)
        if (row0 + r * RT < task.nrows)
          task.fresh[(8 * c + 2 * q + e) * task.state_ld + task.row0 + row0 + r * RT] = STATE(c, r, e);
    }
    u += t1 - t0;
  }
}
