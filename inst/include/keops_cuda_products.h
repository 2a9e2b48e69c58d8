/* Inner products of a row block with a tile of items by tensor cores (src/cuda/tensor_cuda.h): part of
 * keops_cuda_pairs.h. 16 warps, each 32 rows and 32 items; a thread has 4 rows and 8 items side by side, for
 * which the generated step_given<8>(a, kept, tile, once, task, item, given) does the rest. A squared distance
 * is |x|^2 + |y|^2 - 2 x.y; ke_norms made the squares and their largest, from which each launch sees whether
 * that is exact enough for these data. If not, all pairs go one by one. */
#include "keops_cuda_tensor.h"

enum {
  CHUNK = TENSOR_N > 8 ? 16 : 8, /* components at a time */
  CHUNKS = (TENSOR_N + CHUNK - 1) / CHUNK,
  ROW_PAD = 8, ITEM_PAD = 4 /* threads of a warp then read from different banks */
};

typedef struct {
  __align__(16) float row[2][CHUNK][ROWS_OF_BLOCK + ROW_PAD];
  __align__(16) float item[2][T][CHUNK + ITEM_PAD];
} ke_stage;

/* Warp w: rows 8 (w % 4) ..., items 32 (w / 4) ...; in it thread 4 g + q as keops_cuda_tensor.h says */
K_INLINE int row_of_thread(int thread) { return thread / 32 % 4 * 8 + thread % 32 / 4; }
K_INLINE int lane_of_thread(int thread) { return thread / 128 * 4 + thread % 4; }

/* Error of one exponent: products, their sums within and between chunks, norms; each as a share of
 * |x|^2 + |y|^2 >= 2 |x.y|. In units of 2^-23. */
K_INLINE bool products_will_do(const ke_cuda_task &task, const ke_once &once)
{
  const float norms = task.most[0] + task.most[1];
#if KE_TENSOR_SQUARE
  const float share = (18 + CHUNKS * 0.5f) * 0x1p-23f;
  return fabsf(ONCE(TENSOR_SCALE)) * 0.6931472f * norms * share <= task.accuracy;
#else
  return norms < 1e30f;
#endif
}

/* Chunk c of the rows and of the tile on its way to shared memory. Items are put where thread (g, q) of a
 * matrix b finds number g: q's two of eight become neighbours of one thread in the result. */
K_INLINE void stage_chunk(ke_stage &stage, int c, const real *rows, llong ld, const real *tile)
{
  const int first = c * CHUNK, b = c % 2;

  for (int k = threadIdx.x; k < CHUNK * (ROWS_OF_BLOCK / 4); k += BLOCK) {
    const int component = k / (ROWS_OF_BLOCK / 4), row = k % (ROWS_OF_BLOCK / 4) * 4;
    float *to = &stage.row[b][component][row];

    if (first + component < TENSOR_N)
      k_copy<16>(to, rows + (TENSOR_KEPT + first + component) * ld + row);
    else
      to[0] = to[1] = to[2] = to[3] = 0;
  }
  for (int k = threadIdx.x; k < CHUNK * T; k += BLOCK) {
    const int component = k % CHUNK, item = k / CHUNK, at = item % 32;
    const int place = item / 32 * 32 + at % 8 / 2 * 8 + at / 8 * 2 + at % 2;
    float *to = &stage.item[b][place][component];

    if (first + component < TENSOR_N)
      k_copy<4>(to, tile + (llong)item * RWP + TENSOR_RED + first + component);
    else
      *to = 0;
  }
  k_copy_commit();
}

/* product[m][n]: rows 16 m ... of the warp's 32, items 8 n ... of its 32 */
K_INLINE void add_chunk(float (&sum)[2][4][4], const ke_stage &stage, int b)
{
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const int row = warp % 4 * 8 + g, item = warp / 4 * 32 + g;
  float product[2][4][4];

  EACH(m, 2) EACH(n, 4) EACH(k, 4) product[m][n][k] = 0;
  EACH(s, CHUNK / 8)
  {
    float high[2][4], low[2][4];

    EACH(m, 2)
    {
      const float a[4] = {stage.row[b][8 * s + q][2 * m * RT + row], stage.row[b][8 * s + q][(2 * m + 1) * RT + row],
                          stage.row[b][8 * s + q + 4][2 * m * RT + row],
                          stage.row[b][8 * s + q + 4][(2 * m + 1) * RT + row]};
      k_split_all(a, high[m], low[m]);
    }
    EACH(n, 4)
    {
      const float y[2] = {stage.item[b][item + 8 * n][8 * s + q], stage.item[b][item + 8 * n][8 * s + q + 4]};
      float y_high[2], y_low[2];

      k_split_all(y, y_high, y_low);
      EACH(m, 2)
      {
        k_mma(product[m][n], low[m], y_high);
        k_mma(product[m][n], high[m], y_low);
        k_mma(product[m][n], high[m], y_high);
      }
    }
  }
  EACH(m, 2) EACH(n, 4) EACH(k, 4) sum[m][n][k] += product[m][n][k];
}

/* A whole tile, whose first item is number `first` of the launch */
K_INLINE void product_tile(ke_acc &a, const ke_kept &kept, const real *tile, llong block, llong first,
                           const ke_once &once, const ke_cuda_task &task, ke_stage &stage)
{
  const real *rows = (const real *)task.kept + task.row0 + block * ROWS_OF_BLOCK;
  const int mine = lane_of_thread(threadIdx.x) * JR_OF_STEP;
  float sum[2][4][4], given[R][JR_OF_STEP];

  EACH(m, 2) EACH(n, 4) EACH(k, 4) sum[m][n][k] = 0;
  stage_chunk(stage, 0, rows, task.kept_ld, tile);
  ROLLED for (int c = 0; c < CHUNKS; c++) {
    if (c + 1 < CHUNKS) {
      stage_chunk(stage, c + 1, rows, task.kept_ld, tile);
      k_copies_left<1>();
    } else {
      k_copies_left<0>();
    }
    __syncthreads();
    add_chunk(sum, stage, c % 2);
    __syncthreads();
  }
#if KE_TENSOR_SQUARE
  const float *x = task.kept_norm + task.row0 + block * ROWS_OF_BLOCK + row_of_thread(threadIdx.x);
  const float *y = task.red_norm + task.i0 + first + mine;
  float norm[JR_OF_STEP];

  k_take(norm, y);
  EACH(r, R) EACH(v, JR_OF_STEP)
    given[r][v] = fmaf(-2, sum[r / 2][v / 2][r % 2 * 2 + v % 2], __ldg(x + r * RT) + norm[v]);
#else
  EACH(r, R) EACH(v, JR_OF_STEP) given[r][v] = sum[r / 2][v / 2][r % 2 * 2 + v % 2];
#endif
  step_given<JR_OF_STEP>(a, kept, tile + mine * RWP, once, task, (int)(task.i0 + first) + mine, given);
  acc_settle(a);
}

/* Squares of lengths of `count` rows (or items), and the largest, in what was 0 */
extern "C" __global__ void __launch_bounds__(256)
ke_norms(const ke_cuda_task task, const int of_items, const llong count)
{
  const llong k = (llong)blockIdx.x * blockDim.x + threadIdx.x;
  const llong step = of_items ? 1 : task.kept_ld;
  const real *at = of_items ? (const real *)task.red + k * RWP + TENSOR_RED
                            : (const real *)task.kept + TENSOR_KEPT * step + k;
  double sum = 0;

  if (k >= count) return;
  for (int c = 0; c < TENSOR_N; c++) sum += (double)at[c * step] * (double)at[c * step];
  (of_items ? task.red_norm : task.kept_norm)[k] = (float)sum;
  /* order of bits is that of numbers above 0, NaN the largest */
  atomicMax((unsigned *)task.most + of_items, __float_as_uint((float)sum));
}
