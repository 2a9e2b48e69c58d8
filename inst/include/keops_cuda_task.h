/* One launch of a CUDA pair kernel: states of rows [row0, row0 + nrows) from items [i0, i0 + nitems).
 * Shared by the driver (src/cuda/run_cuda.c) and each generated kernel; all pointers are the device's. */
#ifndef KEOPS_CUDA_TASK_H
#define KEOPS_CUDA_TASK_H

/* With ranges, what a launch does is said in tables. A row block: its rows, its first unit, its intervals. It
 * has a unit for each tile of these, or one without items. */
typedef struct {
  long long row, nrows; /* from the launch's first row on */
  long long unit;
  long long item, nitems;
} ke_cuda_rows;
/* An interval: its items, from the launch's first item on, and how many tiles of the row block lie before */
typedef struct {
  long long first, n, tile;
} ke_cuda_items;

typedef struct {
  const void *kept; /* real kept[kept_width][kept_ld], readable up to a whole row block past the last row */
  const void *red;  /* real red[items][RWP]: an item's components side by side, aligned to 16 bytes */
  const void *once; /* real once[once_width], where it is too long to be an argument */
  double *fresh;    /* [state_width][state_ld]: the states of this launch; `state` itself unless `add` */
  double *state;    /* [state_width][state_ld]: those of all launches so far */
  double *partial;  /* two slots a block, for states of row blocks that several blocks share */
  long long kept_ld, state_ld;
  long long row0, nrows;
  long long i0, nitems;
  long long number; /* of item 0 of `red` among all items */
  long long tiles;  /* of nitems; with ranges, of the row block with most */
  long long units;  /* row blocks x tiles: what the blocks share out */
  const ke_cuda_rows *rows; /* with ranges: row_blocks of them, and where units end */
  const ke_cuda_items *items;
  long long row_blocks;
  int blocks;       /* that share them */
  int add;          /* merge into states that are there */
  /* where tensor cores are used (keops_cuda_dots.h), else null; in whole row blocks and tiles */
  const void *kept_terms, *red_terms; /* components of products as terms */
  const float *norms;                 /* of rows: squared lengths */
  const float *rest;                  /* [items][RWP]: what else an item has, its squared length last */
} ke_cuda_task;

/* Rows or items made ready for tensor cores: component first + c of number k is from[k * row_step +
 * (first + c) * column_step]. */
typedef struct {
  const void *from;
  long long row_step, column_step;
  long long n, padded; /* to whole row blocks or tiles */
  void *terms;
  float *norms;      /* of rows */
  float *rest;       /* of items; null: these are rows */
  unsigned *largest; /* bits of the largest squared length, which order as the numbers do */
  int first;
} ke_cuda_split;

#endif
