/* The kernels around what is generated for a pass: included last. The generated source has defined
 *   ke_once   once[once_width], where it is short      ke_kept   components of a thread's R rows
 *   ke_acc    what a thread adds items to, with
 *     acc_start(a), step<items>(a, kept, tile, once, task, item), acc_settle(a) after each tile,
 *     acc_put(a, r, to, step, number): the state of row r
 *     a.mine, with KE_IN_SLOT: where part of the state lies from the start, row r at mine + r * RT
 *   merge_state(into, step, from, from_step)
 *
 * Units of work are (row block, tile), rows slowest; each block has an equal share of them in a row. A row
 * block that one block has for itself goes to `fresh`; states of others go to slots, and ke_merge makes
 * them one, in the order of the items. So the result depends on sizes and the number of blocks only. */
#include "keops_cuda_blocks.h"

/* First unit of block g, 0 <= g <= blocks; and the block that has unit u */
K_INLINE llong share_of(const ke_cuda_task &task, llong g)
{
  return g * task.units / task.blocks;
}
K_INLINE llong owner_of(const ke_cuda_task &task, llong u)
{
  return ((u + 1) * task.blocks - 1) / task.units;
}

/* States in a slot: those of S threads a row, of which the first holds the sum in the end */
K_INLINE double *slot_at(const ke_cuda_task &task, llong slot, int lane, int row)
{
  return task.partial + (slot * S + lane) * ((llong)SW * ROWS_OF_BLOCK) + row;
}

K_INLINE void copy_state(double *to, llong step, const double *from, llong from_step)
{
  for (int c = 0; c < SW; c++) to[c * step] = from[c * from_step];
}

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

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS)
ke_pairs(const ke_cuda_task task, const ke_once once)
{
#if KE_SHARED
  __shared__ __align__(16) real shared[T * RWP];
#endif
  const int tx = threadIdx.x % RT, lane = threadIdx.x / RT;
  const llong begin = share_of(task, blockIdx.x), end = share_of(task, blockIdx.x + 1);

#ifdef KE_EXP2_TABLE
  for (int k = threadIdx.x; k < 256; k += BLOCK) k_exp2_table[k] = exp2(k / 256.);
  __syncthreads();
#endif
  for (llong u = begin; u < end;) {
    const ke_row_block block = block_of_unit(task, u);
    const llong slot = 2 * (llong)blockIdx.x + (u > begin);
    const llong t0 = u - block.unit, left = end - u;
    const llong t1 = block.tiles - t0 < left ? block.tiles : t0 + left;
    const llong row0 = block.row + tx;
    const bool whole = t0 == 0 && t1 == block.tiles;
    ke_kept kept;
    ke_acc a;

    kept_take(kept, (const real *)task.kept + task.row0 + row0, task.kept_ld);
#ifdef KE_IN_SLOT
    a.mine = slot_at(task, slot, lane, tx);
#endif
    acc_start(a);
    for (llong t = t0; t < t1; t++) {
      llong first;
      const int n = items_of_tile(task, block, t, first);
      const real *tile = (const real *)task.red + (task.i0 + first) * RWP;
#if KE_SHARED
      const float4 *from = (const float4 *)tile;
      __syncthreads();
      for (int k = threadIdx.x; k < n * (RWP * KE_REAL_BYTES / 16); k += BLOCK)
        ((float4 *)shared)[k] = from[k];
      __syncthreads();
      tile = shared;
#endif
      add_tile(a, kept, tile, n, lane, once, task, (int)(task.i0 + first));
    }
    if (S > 1 || !whole) {
      EACH(r, R) acc_put(a, r, slot_at(task, slot, lane, r * RT + tx), ROWS_OF_BLOCK, task.number);
    }
    if (S > 1) {
      for (int half = S / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) {
          EACH(r, R) merge_state(slot_at(task, slot, lane, r * RT + tx), ROWS_OF_BLOCK,
                                 slot_at(task, slot, lane + half, r * RT + tx), ROWS_OF_BLOCK);
        }
      }
      __syncthreads();
    }
    if (whole && lane == 0) {
      EACH(r, R)
      {
        const llong row = row0 + r * RT;
        double *to = task.fresh + task.row0 + row;

        if (r * RT + tx >= block.nrows) continue;
        if (S > 1)
          copy_state(to, task.state_ld, slot_at(task, slot, 0, r * RT + tx), ROWS_OF_BLOCK);
        else
          acc_put(a, r, to, task.state_ld, task.number);
      }
    }
    u += t1 - t0;
  }
}

/* A row's states, by blockDim.y threads: each makes one of a run of them, the first one of all. */
extern "C" __global__ void __launch_bounds__(1024) ke_merge(const ke_cuda_task task)
{
  const llong row = (llong)blockIdx.x * blockDim.x + threadIdx.x;
  const bool mine = row < task.nrows;
  const ke_row_block block = block_of_row(task, mine ? row : 0);
  const int in_block = (int)(row - block.row);
  const llong unit = block.unit;
  const llong first = mine ? owner_of(task, unit) : 0;
  const llong n = mine ? owner_of(task, unit + block.tiles - 1) - first + 1 : 1;
  const llong run = (n + blockDim.y - 1) / blockDim.y, from = threadIdx.y * run;
  double *fresh = task.fresh + task.row0 + row, *state = task.state + task.row0 + row;
  /* the row block is the first thing its first block does only where that begins with it */
#define STATE_OF(k)                                                                                \
  slot_at(task, 2 * (first + (k)) + (share_of(task, first + (k)) < unit), 0, in_block)

  if (n > 1)
    for (llong k = from + 1; k < n && k < from + run; k++)
      merge_state(STATE_OF(from), ROWS_OF_BLOCK, STATE_OF(k), ROWS_OF_BLOCK);
  __syncthreads();
  if (!mine || threadIdx.y > 0) return;
  if (n > 1) {
    for (llong k = run; k < n; k += run)
      merge_state(STATE_OF(0), ROWS_OF_BLOCK, STATE_OF(k), ROWS_OF_BLOCK);
    if (task.add)
      merge_state(state, task.state_ld, STATE_OF(0), ROWS_OF_BLOCK);
    else
      copy_state(fresh, task.state_ld, STATE_OF(0), ROWS_OF_BLOCK);
  } else if (task.add) {
    merge_state(state, task.state_ld, fresh, task.state_ld);
  }
#undef STATE_OF
}
