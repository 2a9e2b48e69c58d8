/* What the parts of the CPU driver share: memory, row programs, and one pass over pairs.
 *
 * run_cpu.c takes a plan from pass to pass, run_pairs.c does one pass over pairs (run_elsewhere.c
 * has it done by a GPU), team.c owns the
 * threads. Nobody else includes this. */
#ifndef KE_DRIVER_H
#define KE_DRIVER_H

#include "run_cpu.h"
#include "team.h"

enum { KE_LINE = 64 }; /* alignment of all buffers, and what two threads must not share */

/* ---- memory: sizes are checked, buffers grow ---- */

/* a * b * size bytes; SIZE_MAX, which nobody grants, where that is no size. */
size_t ke_bytes(int64_t a, int64_t b, size_t size);
size_t ke_line_up(size_t bytes); /* to a multiple of KE_LINE */

/* Kept while it is large enough; contents are lost when it grows. Aligned to KE_LINE. */
typedef struct {
  char *at;
  size_t size;
} ke_buffer;

ke_status ke_reserve(ke_buffer *buffer, size_t bytes, ke_error *err) KE_MUST_USE;

/* ---- the run ---- */
typedef struct {
  const ke_plan *plan;
  const ke_run *run;
  ke_arena *arena; /* row machines and small arrays */
  ke_team team;
  ke_column *columns;             /* one a slot */
  double **results;               /* the same columns where the run fills them, else NULL; owned */
  ke_buffer pool, tiles, partial; /* scratch of threads; packed items; states of split items */
} ke_driver;

int64_t ke_side_rows(const ke_driver *d, int side);
ke_status ke_check_stop(ke_driver *d, ke_error *err) KE_MUST_USE; /* KE_ERR_INTERRUPT if so */

/* ---- row programs ---- */
typedef struct {
  ke_rows *rows; /* NULL: nothing to compute */
  const double *once;
  int32_t width;
  int lanes;      /* of a call whose output is held in between */
  size_t held;    /* bytes of `width` components of `lanes` lanes, in double */
  size_t scratch; /* bytes of the row machine */
  double ns;      /* of a lane, roughly */
} ke_row_code;

/* `width`: what the plan says elsewhere that the program writes. */
ke_status ke_row_code_prepare(ke_driver *d, const ke_program *program, int32_t width,
                              const double *once, ke_row_code *out, ke_error *err) KE_MUST_USE;
/* As ke_rows_run; `scratch` is code->scratch bytes. */
void ke_row_code_run(const ke_driver *d, const ke_row_code *code, int64_t first, int n, double *out,
                     int64_t ld, void *scratch);
/* Values that depend on no row: once[width], in the arena. Uses the pool. */
ke_status ke_run_once(ke_driver *d, const ke_program *program, int32_t width, double **once,
                      ke_error *err) KE_MUST_USE;

/* once[width] in the precision of a kernel, in the arena. */
ke_status ke_round_once(ke_driver *d, const double *once, int32_t width, int real_bytes, void **out,
                        ke_error *err) KE_MUST_USE;

/* ---- single precision (centre.c) ---- */
/* What is subtracted from each kept and reduced component before it becomes float; nred >= 1. Uses the
 * pool. */
ke_status ke_find_centre(ke_driver *d, const ke_pass *pass, const ke_row_code *red, int64_t nred,
                         double **kept_shift, double **red_shift, ke_error *err) KE_MUST_USE;

/* ---- passes over pairs (run_pairs.c) ---- */
ke_status ke_run_pairs(ke_driver *d, const ke_pass *pass, const ke_kernel *kernel,
                       ke_error *err) KE_MUST_USE;
/* The same by d->run->runner (run_elsewhere.c); `number` is the pass's. */
ke_status ke_run_elsewhere(ke_driver *d, const ke_pass *pass, int32_t number, ke_error *err) KE_MUST_USE;

/* ---- numbers ---- */
static inline void ke_put_real(int real_bytes, void *at, int64_t k, double value)
{
  if (real_bytes == 4)
    ((float *)at)[k] = (float)value;
  else
    ((double *)at)[k] = value;
}

static inline int64_t ke_min(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static inline int64_t ke_max(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* a / b, upwards; a >= 0, b > 0 */
static inline int64_t ke_parts(int64_t a, int64_t b)
{
  return a / b + (a % b != 0);
}

static inline int64_t ke_round_up(int64_t a, int64_t unit)
{
  return ke_parts(a, unit) * unit;
}

#endif
