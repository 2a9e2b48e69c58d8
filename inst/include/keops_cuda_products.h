/* Inner products of a row block with a tile of items by tensor cores (src/cuda/tensor_cuda.h): part of
 * keops_cuda_pairs.h. 16 warps, each 32 rows and 32 items; a thread has 4 rows and 8 items side by side, for
 * which the generated step_given<8>(a, kept, tile, once, task, item, given) does the rest. A squared distance
 * is |x|^2 + |y|^2 - 2 x.y; ke_norms made the squares and their largest, from which each launch sees whether
 * that is exact enough for these data. If not, all pairs go one by one. */
#include "keops_cuda_tensor.h"

enum {
  CHUNKS = (TENSOR_N + 7) / 8, /* of 8 components */
  GROUP = 4                    /* chunks that are summed by tensor cores, which round towards 0 */
};

/* Matrices a of 16 rows and b of 8 items, one chunk of each, in the order in which threads take them. Of a,
 * first columns q of both rows, then columns q + 4. */
typedef struct {
  float4 row[2][8][2][32];
  float4 item[2][16][32];
} ke_stage;

/* What a thread brings of a chunk */
typedef struct {
  float row[2], item[2];
} ke_share;

/* Warp w: rows 8 (w % 4) ..., items 32 (w / 4) ...; in it thread 4 g + q as keops_cuda_tensor.h says */
K_INLINE int row_of_thread(int thread) { return thread / 32 % 4 * 8 + thread % 32 / 4; }
K_INLINE int lane_of_thread(int thread) { return thread / 128 * 4 + thread % 4; }

/* Error of one exponent: sums of a group, numbers split, norms, sums of groups; each as a share of
 * |x|^2 + |y|^2 >= 2 |x.y|, in units of 2^-23. */
K_INLINE bool products_will_do(const ke_cuda_task &task, const ke_once &once)
{
  const float norms = task.most[0] + task.most[1];
#if KE_TENSOR_SQUARE
  const float share = (3 * GROUP + 10 + 1 + CHUNKS / (2.f * GROUP)) * 0x1p-23f;
  return fabsf(ONCE(TENSOR_SCALE)) * 0.6931472f * norms * share <= task.accuracy;
#else
  return norms < 1e30f;
#endif
}

/* Chunk c of the rows and of the tile. Column g of the n-th b is item 8 (g / 2) + 2 n + g % 2 of the warps' 32:
 * so the columns of the result that a thread has are items side by side. */
K_INLINE ke_share take_share(int c, const real *rows, llong ld, const real *tile)
{
  const int thread = threadIdx.x, g = thread % 32 / 4, q = thread % 4, matrix = thread / 32;
  const int of_row = c * 8 + q + matrix % 2 * 4, of_item = c * 8 + q;
  const int row = matrix / 2 % 2 * 2 * RT + matrix / 4 * 8 + g;
  const int item = matrix / 4 * 32 + g / 2 * 8 + matrix % 4 * 2 + g % 2;
  const real *x = rows + (TENSOR_KEPT + of_row) * ld + row, *y = tile + item * RWP + TENSOR_RED + of_item;
  ke_share s;

  s.row[0] = of_row < TENSOR_N ? x[0] : 0;
  s.row[1] = of_row < TENSOR_N ? x[RT] : 0;
  s.item[0] = of_item < TENSOR_N ? y[0] : 0;
  s.item[1] = of_item + 4 < TENSOR_N ? y[4] : 0;
  return s;
}

K_INLINE void put_share(ke_stage &stage, int c, const ke_share &s)
{
  const int matrix = threadIdx.x / 32, lane = threadIdx.x % 32;

  stage.row[c % 2][matrix / 2][matrix % 2][lane] = k_split_pair(s.row[0], s.row[1]);
  stage.item[c % 2][matrix][lane] = k_split_pair(s.item[0], s.item[1]);
}

/* product[m][n]: rows 16 m ... of the warp's 32, items 8 n ... of its 32 */
K_INLINE void add_chunk(float (&product)[2][4][4], const ke_stage &stage, int c)
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float high[2][4], low[2][4], item_high[4][2], item_low[4][2];

  EACH(m, 2) EACH(h, 2)
  {
    const float4 x = stage.row[c % 2][warp % 4 * 2 + m][h][lane];
    high[m][2 * h] = x.x, high[m][2 * h + 1] = x.y, low[m][2 * h] = x.z, low[m][2 * h + 1] = x.w;
  }
  EACH(n, 4)
  {
    const float4 y = stage.item[c % 2][warp / 4 * 4 + n][lane];
    item_high[n][0] = y.x, item_high[n][1] = y.y, item_low[n][0] = y.z, item_low[n][1] = y.w;
  }
  EACH(m, 2) EACH(n, 4) k_mma(product[m][n], low[m], item_high[n]);
  EACH(m, 2) EACH(n, 4) k_mma(product[m][n], high[m], item_low[n]);
  EACH(m, 2) EACH(n, 4) k_mma(product[m][n], high[m], item_high[n]);
}

/* A whole tile, whose first item is number `first` of the launch */
K_INLINE void product_tile(ke_acc &a, const ke_kept &kept, const real *tile, llong block, llong first,
                           const ke_once &once, const ke_cuda_task &task, ke_stage &stage)
{
  const real *rows = (const real *)task.kept + task.row0 + block * ROWS_OF_BLOCK;
  const int mine = lane_of_thread(threadIdx.x) * JR_OF_STEP;
  float sum[2][4][4], product[2][4][4], given[R][JR_OF_STEP];
  ke_share share = take_share(0, rows, task.kept_ld, tile);

  EACH(m, 2) EACH(n, 4) EACH(k, 4) sum[m][n][k] = product[m][n][k] = 0;
  put_share(stage, 0, share);
  __syncthreads();
  ROLLED for (int c = 0; c < CHUNKS; c++) {
    if (c + 1 < CHUNKS) share = take_share(c + 1, rows, task.kept_ld, tile);
    add_chunk(product, stage, c);
    if (c % GROUP == GROUP - 1 || c + 1 == CHUNKS) {
      EACH(m, 2) EACH(n, 4) EACH(k, 4) sum[m][n][k] += product[m][n][k], product[m][n][k] = 0;
    }
    if (c + 1 < CHUNKS) put_share(stage, c + 1, share);
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
