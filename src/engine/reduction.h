/* The table of reducers: states of one kept row, in double, and how they are made one.
 *
 * Kernels add items to states; the driver (run_cpu.c) starts them, merges those of different items
 * in the order of the items, and finishes them. A state is ke_reduce.state_width doubles (plan.h).
 */
#ifndef KE_REDUCTION_H
#define KE_REDUCTION_H

#include "plan.h"

#include <stdint.h>

typedef struct {
  int32_t (*states)(const ke_reduce *r);  /* doubles of a state */
  int32_t (*results)(const ke_reduce *r); /* columns of a result */
  void (*start)(const ke_reduce *r, double *state);
  /* `from` belongs to items after those of `into`; equal values keep the lower index either way. */
  void (*merge)(const ke_reduce *r, double *into, const double *from);
  /* Component c of the result goes to column[c * ld]; the state is spent. */
  void (*finish)(const ke_reduce *r, double *state, double *column, int64_t ld);
} ke_reducer;

const ke_reducer *ke_reducer_of(ke_reduce_kind kind);

#endif
