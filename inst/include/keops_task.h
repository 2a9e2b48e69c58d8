/* One call of a pair kernel: add items [i0, i1) to the states of `nrows` rows. Serial; no R, no threads.
 * Shared by the engine, its interpreter and each generated kernel. */
#ifndef KEOPS_TASK_H
#define KEOPS_TASK_H

typedef struct {
  long long nrows;  /* kept rows, >= 1 */
  long long i0, i1; /* items, i0 < i1; any values: they need not be borders of tiles */
  const void *once; /* real once[once_width] */
  const void *kept; /* real kept[ceil(nrows / R)][kept_width][R]: blocks of R rows, the last row repeated */
  const void *red;  /* real red[ceil(items / T)][red_width][T]: tile t holds items t*T..., the last item
                       repeated to fill the last tile; all items of the pass, whatever i0 and i1 are.
                       kept, red and scratch are aligned to 64 bytes */
  double *state;    /* state[nrows][state_width], read and written; indices as exact whole numbers */
  void *scratch;    /* as many bytes as the kernel's shape asks for, contents undefined */
} ke_task;

#endif
