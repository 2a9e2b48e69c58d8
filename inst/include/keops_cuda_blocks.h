/* Row blocks and tiles of a launch: with KE_RANGED from its tables (keops_cuda_task.h), else all rows see all
 * items. */
#ifndef KEOPS_CUDA_BLOCKS_H
#define KEOPS_CUDA_BLOCKS_H

/* Rows [row, row + nrows) of the launch; its tiles are the units from `unit` on */
typedef struct {
  llong row, nrows, unit, tiles;
#ifdef KE_RANGED
  llong item, nitems;
#endif
} ke_row_block;

#ifdef KE_RANGED
K_INLINE ke_row_block row_block(const ke_cuda_task &task, llong b)
{
  const ke_cuda_rows *rows = task.rows + b;
  return {rows->row, rows->nrows, rows->unit, rows[1].unit - rows->unit, rows->item, rows->nitems};
}
/* The last of n entries whose member is not above `value`; the first one's is not */
#define K_LAST_NOT_ABOVE(table, n, member, value)                                                  \
  llong low = 0, high = (n) - 1;                                                                   \
  while (low < high) {                                                                             \
    const llong middle = low + (high - low + 1) / 2;                                               \
    if ((table)[middle].member <= (value))                                                         \
      low = middle;                                                                                \
    else                                                                                           \
      high = middle - 1;                                                                           \
  }
K_INLINE ke_row_block block_of_unit(const ke_cuda_task &task, llong u)
{
  K_LAST_NOT_ABOVE(task.rows, task.row_blocks, unit, u)
  return row_block(task, low);
}
K_INLINE ke_row_block block_of_row(const ke_cuda_task &task, llong row)
{
  K_LAST_NOT_ABOVE(task.rows, task.row_blocks, row, row)
  return row_block(task, low);
}
/* Items of tile t: the first, and how many; none where the rows see nothing */
K_INLINE int items_of_tile(const ke_cuda_task &task, const ke_row_block &block, llong t, llong &first)
{
  const ke_cuda_items *items = task.items + block.item;
  llong n;

  first = 0;
  if (block.nitems == 0) return 0;
  K_LAST_NOT_ABOVE(items, block.nitems, tile, t)
  n = (t - items[low].tile) * T;
  first = items[low].first + n;
  n = items[low].n - n;
  return n < T ? (int)n : T;
}
#else
K_INLINE ke_row_block row_block(const ke_cuda_task &task, llong b)
{
  const llong left = task.nrows - b * ROWS_OF_BLOCK;
  return {b * ROWS_OF_BLOCK, left < ROWS_OF_BLOCK ? left : ROWS_OF_BLOCK, b * task.tiles, task.tiles};
}
K_INLINE ke_row_block block_of_unit(const ke_cuda_task &task, llong u)
{
  return row_block(task, u / task.tiles);
}
K_INLINE ke_row_block block_of_row(const ke_cuda_task &task, llong row)
{
  return row_block(task, row / ROWS_OF_BLOCK);
}
K_INLINE int items_of_tile(const ke_cuda_task &task, const ke_row_block &, llong t, llong &first)
{
  first = t * T;
  return task.nitems - first < T ? (int)(task.nitems - first) : T;
}
#endif

#endif
