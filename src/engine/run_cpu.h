/* The one driver of both CPU backends: a plan, data and kernels in, the result out. */
#ifndef KE_RUN_CPU_H
#define KE_RUN_CPU_H

#include "backend.h"
#include "error.h"
#include "plan.h"

#include <stdbool.h>
#include <stdint.h>

/* Of the two in ke_run.ranges, those of the rows of `side`; NULL if there are none. */
static inline const ke_ranges *ke_ranges_of(const ke_ranges *both, int side)
{
  return both ? &both[side == KE_I ? 0 : 1] : NULL;
}
/* Pairs of a row and an item, roughly (a double). */
double ke_ranges_pairs(const ke_ranges *ranges);

typedef struct {
  const double *const *data; /* one pointer an argument: rows of its side x width, column-major */
  int64_t size_i, size_j;    /* rows of the two sides, >= 0 */
  const ke_ranges *ranges;   /* two: of rows i, of rows j; NULL if no pass is ranged */
  const ke_kernel *kernels;  /* one a pass; those of scatter passes are not looked at */
  const ke_pairs_runner *runner; /* runs the pair programs in place of `kernels`; NULL: none */
  int real_bytes;                /* its precision */
  void **memo;                   /* what it keeps between runs: one pointer a pass, */
  ke_arena *memo_arena;          /* made there */
  ke_isa isa;                /* for the row programs */
  int threads;               /* 1: no parallel region is entered (as must be in a forked child) */
  bool (*poll)(void *data);  /* called on the calling thread only; true: stop. May be NULL */
  void *poll_data;
} ke_run;

/* out[k], one a result: [rows of its side][its width], column-major; undefined after a failure. The bits
 * do not depend on the number of threads. Fails with KE_ERR_MEMORY or KE_ERR_INTERRUPT, or with
 * KE_ERR_INTERNAL on a plan that does not hold together. */
ke_status ke_run_plan(const ke_plan *plan, const ke_run *run, double *const *out,
                      ke_error *err) KE_MUST_USE;

#endif
