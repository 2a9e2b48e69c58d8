/* How blocks share the work of a launch, and how states of rows come together again.
 *
 * Units of work are (row block, tile), rows slowest; each block has an equal share of them in a row. A row
 * block that one block has for itself goes to `fresh`; states of others go to slots, and ke_merge makes
 * them one, in the order of the items. So the result depends on sizes and the number of blocks only. */
#ifndef KEOPS_CUDA_UNITS_H
#define KEOPS_CUDA_UNITS_H

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

/* States in a slot: those of SLOTS threads a row, of which the first holds the sum in the end */
K_INLINE double *slot_at(const ke_cuda_task &task, llong slot, int lane, int row)
{
  return task.partial + (slot * SLOTS + lane) * ((llong)SW * ROWS_OF_BLOCK) + row;
}

K_INLINE void copy_state(double *to, llong step, const double *from, llong from_step)
{
  for (int c = 0; c < SW; c++) to[c * step] = from[c * from_step];
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

#endif
