/* The engine's public face: all that ffi.c sees.
 *
 * Ownership: ke_formula is made by ke_formula_new and freed by ke_formula_free; everything it returns
 * lives as long as it does. Inputs and outputs of ke_formula_run belong to the caller. No function
 * prints, exits, or keeps a pointer to the caller's data. */
#ifndef KE_ENGINE_H
#define KE_ENGINE_H

#include "error.h"

#include <stdbool.h>
#include <stdint.h>

#include "run_cpu.h" /* ke_ranges */
#include "backend.h" /* ke_compile_settings, ke_cache_counters, ke_isa */

typedef struct ke_formula ke_formula;

typedef struct {
  const char *name; /* "" for an argument without a name */
  int category;     /* 0: i-variable, 1: j-variable, 2: parameter */
  int dim;
} ke_arg_info;

typedef struct {
  int category; /* rows: 0: one an i, 1: one a j, 2: one row */
  int dim;      /* columns */
  int values;   /* of these, the first are values, the rest indices (0-based, -1: none) */
  int k;        /* KMin and the like: values and indices are k blocks of columns, the least first; else 0 */
  const char *reduction; /* name of the outermost reduction, "" if there is another operation outside */
} ke_result_info;

typedef struct {
  int nargs;
  const ke_arg_info *args;
  int nresult; /* formulas separated by ';' */
  const ke_result_info *result;
  const char *text; /* the formula, printed back in canonical form */
} ke_formula_info;

/* Parse and check `formula` (`length` bytes) with its arguments ("x=Vi(3)", "Pm(1)", "b=Vj(2,1)", ...).
 * `ranged`: reductions of pairs are over ranges, given with each call. On an error in an argument text,
 * err->pos is -1 and the message names the argument. */
ke_status ke_formula_new(const char *formula, size_t length, const char *const *args, int nargs, bool ranged,
                         ke_formula **out, ke_error *err) KE_MUST_USE;
const ke_formula_info *ke_formula_describe(const ke_formula *f);
const ke_plan *ke_formula_plan(const ke_formula *f);
void ke_formula_free(ke_formula *f);

typedef enum { KE_BACKEND_AUTO, KE_BACKEND_INTERPRETED, KE_BACKEND_COMPILED } ke_backend_choice;
/* AUTO: a GPU where there is one and the work is large enough; falls back to the CPU. */
typedef enum { KE_DEVICE_CPU, KE_DEVICE_GPU, KE_DEVICE_AUTO } ke_device_choice;

typedef struct {
  const double *const *data; /* one pointer an argument: rows[k] x dim, column-major */
  const int64_t *rows;       /* of each argument; a parameter has 1 */
  int real_bytes;            /* 8 double, 4 single */
  ke_device_choice device;
  const ke_gpu *gpu; /* NULL: there is none, and `device` is CPU or AUTO */
  ke_gpu_settings gpu_settings;
  ke_backend_choice backend; /* on the CPU */
  int threads;               /* >= 1 */
  ke_sum_scheme scheme;
  const ke_ranges *ranges;   /* of kept rows of i, of j; looked at if the formula is ranged */
  ke_compile_settings compile;
  bool (*poll)(void *data);  /* called on the calling thread at least ten times a second; true: stop */
  void *poll_data;
} ke_call;

typedef struct {
  bool gpu;        /* where it ran (all passes alike), */
  bool compiled;   /* and on the CPU, which backend */
  char note[512];  /* one sentence for the user (a fall-back), or "" */
} ke_report;

/* out[k], one a result: [its rows][its dim], column-major. All i-variables must have one number of rows, all
 * j-variables too: checked here again. */
ke_status ke_formula_run(ke_formula *f, const ke_call *call, double *const *out, ke_report *report,
                         ke_error *err) KE_MUST_USE;

/* Source of the compiled kernels of a formula, for the curious and for tests (malloc'd). */
ke_status ke_formula_source(ke_formula *f, int real_bytes, char **source, ke_error *err) KE_MUST_USE;

/* The operation and reduction tables, for the generic table test and the docs. */
typedef struct {
  const char *name;
  const char *kind; /* "scalar", "vector", "sugar" */
  int arity, nint;
  double low[3], high[3]; /* domains of a scalar operation */
  bool smooth;            /* has a derivative in each argument */
} ke_op_info;
int ke_op_table(const ke_op_info **table); /* number of rows */
int ke_reduction_table(const char *const **names);

#endif
