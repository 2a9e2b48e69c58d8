/* The kernels around what is generated for a pass: included last. The generated source has defined
 *   ke_once   once[once_width], where it is short      ke_kept   components of a thread's R rows
 *   ke_acc    what a thread adds items to, with
 *     acc_start(a), step<items>(a, kept, tile, once, task, item), acc_settle(a) after each tile,
 *     acc_put(a, r, to, step, number): the state of row r
 *     a.mine, with KE_IN_SLOT: where part of the state lies from the start, row r at mine + r * RT
 *   merge_state(into, step, from, from_step)
 * With KE_DOTS a step is given what tensor cores have made of its pairs (keops_cuda_dots.h). */
#include "keops_cuda_units.h"

#if KE_DOTS
#include "keops_cuda_dots.h"
#else
/* Which of the block's RT groups of rows, and which of the S threads that share them */
K_INLINE int group_of_thread() { return threadIdx.x % RT; }
K_INLINE int lane_of_thread() { return threadIdx.x / RT; }
K_INLINE int row_of(int group, int r) { return group + r * RT; }

/* Items [0, n) of a tile, of which this thread has every S-th step */
K_INLINE void add_tile(ke_acc &a, const ke_kept &kept, const real *tile, int n, int lane,
                       const ke_once &once, const ke_cuda_task &task, int item)
{
#pragma unroll UN
  for (int k = lane * JR_OF_STEP; k <= n - JR_OF_STEP; k += S * JR_OF_STEP)
    step<JR_OF_STEP>(a, kept, tile + k * RWP, once, task, item + k);
  if (JR_OF_STEP > 1) {
#pragma unroll 1
    for (int k = n / JR_OF_STEP * JR_OF_STEP + lane; k < n; k += S)
      step<1>(a, kept, tile + k * RWP, once, task, item + k);
  }
  acc_settle(a);
}

/* The items of tiles [t0, t1) */
K_INLINE void add_items(ke_acc &a, const ke_kept &kept, const ke_row_block &block, llong t0, llong t1, const real scale,
                        const ke_once &once, const ke_cuda_task &task)
{
#if KE_SHARED
  __shared__ __align__(16) real shared[T * RWP];
#endif

  for (llong t = t0; t < t1; t++) {
    llong first;
    const int n = items_of_tile(task, block, t, first);
    const real *tile = (const real *)task.red + (task.i0 + first) * RWP;
#if KE_SHARED
    const float4 *from = (const float4 *)tile;
    __syncthreads();
    for (int k = threadIdx.x; k < n * (RWP * KE_REAL_BYTES / 16); k += BLOCK) {
      ((float4 *)shared)[k] = from[k];
      if (KE_SCALED) {
        EACH(c, 16 / KE_REAL_BYTES)
          shared[k * (16 / KE_REAL_BYTES) + c] *=
            scale_of(scale, (k * (16 / KE_REAL_BYTES) + c) % RWP, TENSOR_RED);
      }
    }
    __syncthreads();
    tile = shared;
#endif
    add_tile(a, kept, tile, n, lane_of_thread(), once, task, (int)(task.i0 + first));
  }
}
#endif

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS)
ke_pairs(const ke_cuda_task task, const ke_once once)
{
  const int group = group_of_thread(), lane = lane_of_thread();
  const llong begin = share_of(task, blockIdx.x), end = share_of(task, blockIdx.x + 1);

#if KE_SCALED
  const real scale = K_F(sqrt)(-once.v[TENSOR_SCALE]);
#else
  const real scale = 1;
#endif
#ifdef KE_EXP2_TABLE
  for (int k = threadIdx.x; k < 256; k += BLOCK) k_exp2_table[k] = exp2(k / 256.);
  __syncthreads();
#endif
  for (llong u = begin; u < end;) {
    const ke_row_block block = block_of_unit(task, u);
    const llong slot = 2 * (llong)blockIdx.x + (u > begin);
    const llong t0 = u - block.unit, left = end - u;
    const llong t1 = block.tiles - t0 < left ? block.tiles : t0 + left;
    const llong row0 = block.row;
    const bool whole = t0 == 0 && t1 == block.tiles;
    ke_kept kept;
    ke_acc a;

    kept_take(kept, (const real *)task.kept + task.row0 + row0 + row_of(group, 0), task.kept_ld,
              scale);
#ifdef KE_IN_SLOT
    a.mine = slot_at(task, slot, lane, row_of(group, 0));
#endif
    acc_start(a);
    add_items(a, kept, block, t0, t1, scale, once, task);
    if (S > 1 || !whole) {
      EACH(r, R) acc_put(a, r, slot_at(task, slot, lane, row_of(group, r)), ROWS_OF_BLOCK, task.number);
    }
    if (S > 1) {
      for (int half = S / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) {
          EACH(r, R) merge_state(slot_at(task, slot, lane, row_of(group, r)), ROWS_OF_BLOCK,
                                 slot_at(task, slot, lane + half, row_of(group, r)), ROWS_OF_BLOCK);
        }
      }
      __syncthreads();
    }
    if (whole && lane == 0) {
      EACH(r, R)
      {
        const llong row = row0 + row_of(group, r);
        double *to = task.fresh + task.row0 + row;

        if (row_of(group, r) >= block.nrows) continue;
        if (S > 1)
          copy_state(to, task.state_ld, slot_at(task, slot, 0, row_of(group, r)), ROWS_OF_BLOCK);
        else
          acc_put(a, r, to, task.state_ld, task.number);
      }
    }
    u += t1 - t0;
  }
}
