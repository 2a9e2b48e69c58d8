/* The R border: reads R's arguments, calls the engine, gives R a value back.
 *
 * With init.c and lazy_text.c the only file that includes R. R may jump out of any allocation, so whatever the engine
 * hands over gets its owner (an external pointer with a finalizer) before it exists, and a failure of
 * the engine goes back as a value, a record of class "keops_engine_error", that R/engine.R turns into a
 * condition. Rf_error is for arguments of the wrong type only: they are R/'s own mistakes. */
#include "ffi.h"

#include "engine.h"

#include "cache.h"
#include "cores.h"
#include "cuda_backend.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef _OPENMP
enum { HAVE_OPENMP = 1 };
#else
enum { HAVE_OPENMP = 0 };
#endif

/* ---- small helpers ---- */

static SEXP text_value(const char *text)
{
  return Rf_ScalarString(Rf_mkCharCE(text ? text : "", CE_UTF8));
}

/* A list with names; the caller protects it before it fills the places. */
static SEXP named_list(int n, const char *const *names)
{
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
  SEXP labels = PROTECT(Rf_allocVector(STRSXP, n));

  for (int k = 0; k < n; k++) SET_STRING_ELT(labels, k, Rf_mkChar(names[k]));
  Rf_setAttrib(list, R_NamesSymbol, labels);
  UNPROTECT(2);
  return list;
}

static const char *arg_string(SEXP x, const char *what)
{
  if (TYPEOF(x) != STRSXP || XLENGTH(x) != 1 || STRING_ELT(x, 0) == NA_STRING)
    Rf_error("%s: one string is needed", what);
  return Rf_translateCharUTF8(STRING_ELT(x, 0));
}

static int arg_int(SEXP x, const char *what)
{
  if (TYPEOF(x) != INTSXP || XLENGTH(x) != 1 || INTEGER(x)[0] == NA_INTEGER)
    Rf_error("%s: one integer is needed", what);
  return INTEGER(x)[0];
}

/* An owner of malloc'd memory; set its address once there is some. */
static void free_memory(SEXP owner)
{
  free(R_ExternalPtrAddr(owner));
  R_ClearExternalPtr(owner);
}

static SEXP new_owner(void (*finalizer)(SEXP))
{
  SEXP owner = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));

  R_RegisterCFinalizerEx(owner, finalizer, FALSE);
  UNPROTECT(1);
  return owner;
}

/* ---- failures as values ---- */

static const char *status_name(ke_status status)
{
  switch (status) {
  case KE_OK: return "ok";
  case KE_ERR_INPUT: return "input";
  case KE_ERR_PARSE: return "parse";
  case KE_ERR_DIMENSION: return "dimension";
  case KE_ERR_COMPILE: return "compile";
  case KE_ERR_DEVICE: return "device";
  case KE_ERR_MEMORY: return "memory";
  case KE_ERR_IO: return "io";
  case KE_ERR_INTERRUPT: return "interrupt";
  case KE_ERR_INTERNAL: return "internal";
  }
  return "internal";
}

/* The record; `owner` (of free_memory) takes err->log while it is copied. */
static SEXP error_record(ke_error *err, SEXP owner)
{
  static const char *const names[] = {"status", "message", "pos", "log"};
  SEXP out;

  R_SetExternalPtrAddr(owner, err->log);
  err->log = NULL;
  out = PROTECT(named_list(4, names));
  SET_VECTOR_ELT(out, 0, text_value(status_name(err->status)));
  SET_VECTOR_ELT(out, 1, text_value(err->message));
  SET_VECTOR_ELT(out, 2, Rf_ScalarInteger(err->pos < 0 ? NA_INTEGER : err->pos));
  if (R_ExternalPtrAddr(owner)) SET_VECTOR_ELT(out, 3, text_value(R_ExternalPtrAddr(owner)));
  Rf_setAttrib(out, R_ClassSymbol, Rf_mkString("keops_engine_error"));
  free_memory(owner);
  UNPROTECT(1);
  return out;
}

/* ---- formulas ---- */

static void free_formula(SEXP handle)
{
  ke_formula_free(R_ExternalPtrAddr(handle));
  R_ClearExternalPtr(handle);
}

static ke_formula *arg_formula(SEXP handle)
{
  ke_formula *f = TYPEOF(handle) == EXTPTRSXP ? R_ExternalPtrAddr(handle) : NULL;

  if (!f) Rf_error("not the handle of a formula");
  return f;
}

SEXP ffi_formula_new(SEXP formula, SEXP args, SEXP ranged)
{
  const char *text = arg_string(formula, "formula");
  const char **arg;
  ke_formula *f = NULL;
  ke_error err = {.pos = -1};
  SEXP handle, owner, out;
  int nargs;

  if (TYPEOF(args) != STRSXP || XLENGTH(args) > INT_MAX) Rf_error("args: strings are needed");
  nargs = (int)XLENGTH(args);
  arg = (const char **)R_alloc((size_t)nargs + 1, sizeof *arg);
  for (int k = 0; k < nargs; k++) arg[k] = Rf_translateCharUTF8(STRING_ELT(args, k));
  out = handle = PROTECT(new_owner(free_formula));
  owner = PROTECT(new_owner(free_memory));
  if (ke_formula_new(text, strlen(text), arg, nargs, Rf_asLogical(ranged) == TRUE, &f, &err) == KE_OK)
    R_SetExternalPtrAddr(handle, f);
  else
    out = error_record(&err, owner);
  UNPROTECT(2);
  return out;
}

/* name, category, dim: one entry an argument; out_*: one a result. */
SEXP ffi_formula_info(SEXP handle)
{
  static const char *const names[] = {"name",       "category", "dim",       "out_category", "out_dim",
                                      "out_values", "out_k",    "reduction", "text"};
  const ke_formula_info *info = ke_formula_describe(arg_formula(handle));
  SEXP out = PROTECT(named_list(9, names));
  SEXP name, reduction;
  int *column[7];

  SET_VECTOR_ELT(out, 0, name = Rf_allocVector(STRSXP, info->nargs));
  for (int c = 1; c < 7; c++) {
    SET_VECTOR_ELT(out, c, Rf_allocVector(INTSXP, c < 3 ? info->nargs : info->nresult));
    column[c] = INTEGER(VECTOR_ELT(out, c));
  }
  SET_VECTOR_ELT(out, 7, reduction = Rf_allocVector(STRSXP, info->nresult));
  for (int k = 0; k < info->nargs; k++) {
    SET_STRING_ELT(name, k, Rf_mkCharCE(info->args[k].name, CE_UTF8));
    column[1][k] = info->args[k].category;
    column[2][k] = info->args[k].dim;
  }
  for (int k = 0; k < info->nresult; k++) {
    column[3][k] = info->result[k].category;
    column[4][k] = info->result[k].dim;
    column[5][k] = info->result[k].values;
    column[6][k] = info->result[k].k;
    SET_STRING_ELT(reduction, k, Rf_mkChar(info->result[k].reduction));
  }
  SET_VECTOR_ELT(out, 8, text_value(info->text));
  UNPROTECT(1);
  return out;
}

/* A malloc'd text as an R string, or what went wrong; `owner` frees the text even if R jumps. */
static SEXP text_or_error(ke_status st, char *text, ke_error *err, SEXP owner)
{
  SEXP out;

  if (st != KE_OK) return error_record(err, owner);
  R_SetExternalPtrAddr(owner, text);
  out = PROTECT(text_value(text));
  free_memory(owner);
  UNPROTECT(1);
  return out;
}

/* ---- a run ---- */

/* compiler, include_dir, cache_dir, fallback_dir, version; NA: none */
static ke_compile_settings arg_compile(SEXP x)
{
  ke_compile_settings s = {0};
  const char *part[5] = {0};

  if (TYPEOF(x) != STRSXP || XLENGTH(x) != 5) Rf_error("compile: five strings are needed");
  for (int k = 0; k < 5; k++)
    if (STRING_ELT(x, k) != NA_STRING) part[k] = Rf_translateChar(STRING_ELT(x, k)); /* paths */
  s.compiler = part[0];
  s.include_dir = part[1];
  s.cache_dir = part[2];
  s.fallback_dir = part[3];
  s.version = part[4];
  return s;
}

/* list(choice, numbers, memory, accuracy, launch): what is done with GPUs */
static ke_gpu_settings arg_gpu(SEXP x, ke_device_choice *choice)
{
  ke_gpu_settings s = {.hint = KEOPS_CUDA_HINT};
  SEXP numbers;

  if (TYPEOF(x) != VECSXP || XLENGTH(x) != 5 || TYPEOF(VECTOR_ELT(x, 1)) != INTSXP ||
      XLENGTH(VECTOR_ELT(x, 1)) > 1024 || TYPEOF(VECTOR_ELT(x, 2)) != REALSXP ||
      TYPEOF(VECTOR_ELT(x, 3)) != REALSXP || TYPEOF(VECTOR_ELT(x, 4)) != REALSXP)
    Rf_error("gpu: a choice, numbers of devices, bytes, an accuracy and milliseconds are needed");
  numbers = VECTOR_ELT(x, 1);
  *choice = (ke_device_choice)arg_int(VECTOR_ELT(x, 0), "choice");
  s.device = INTEGER(numbers);
  s.ndevice = (int)XLENGTH(numbers);
  s.memory = Rf_asReal(VECTOR_ELT(x, 2));
  s.launch_ms = Rf_asReal(VECTOR_ELT(x, 4));
  s.accuracy = Rf_asReal(VECTOR_ELT(x, 3));
  s.accurate = s.accuracy < 2e-6; /* that of the approximate functions */
  return s;
}

static void check_interrupt(void *unused)
{
  (void)unused;
  R_CheckUserInterrupt();
}

/* R_ToplevelExec keeps R's jump from crossing the engine; R/engine.R signals the interrupt again. */
static bool poll_interrupt(void *unused)
{
  return !R_ToplevelExec(check_interrupt, unused);
}

/* Rows of each argument, and pointers to its data, checked against what the formula declares. All
 * pointers are taken here, on R's own thread: for ALTREP vectors that may allocate. */
static void take_data(const ke_formula_info *info, SEXP data, SEXP rows, const double **pointer,
                      int64_t *nrow)
{
  if (TYPEOF(data) != VECSXP || XLENGTH(data) != info->nargs || TYPEOF(rows) != REALSXP ||
      XLENGTH(rows) != info->nargs)
    Rf_error("data, rows: one entry for each argument is needed");
  for (int k = 0; k < info->nargs; k++) {
    SEXP x = VECTOR_ELT(data, k);
    double n = REAL(rows)[k];

    if (TYPEOF(x) != REALSXP || !(n >= 0) || (double)XLENGTH(x) != n * info->args[k].dim)
      Rf_error("argument %d: its data are not what `rows` and the formula say", k + 1);
    nrow[k] = (int64_t)n;
    pointer[k] = REAL(x);
  }
}

static int64_t result_rows(const ke_formula_info *info, int result, const int64_t *nrow)
{
  int category = info->result[result].category;

  for (int k = 0; k < info->nargs; k++)
    if (category != 2 && info->args[k].category == category) return nrow[k];
  return 1;
}

static const int64_t *whole_numbers(SEXP x)
{
  R_xlen_t n = XLENGTH(x);
  int64_t *out = (int64_t *)R_alloc((size_t)n + 1, sizeof *out);

  for (R_xlen_t k = 0; k < n; k++) out[k] = (int64_t)REAL(x)[k];
  return out;
}

/* Numbers of intervals: they do not decrease, and end with all of them. */
static bool are_slices(const int64_t *slice, R_xlen_t n, R_xlen_t intervals)
{
  int64_t before = 0;

  for (R_xlen_t k = 0; k < n; before = slice[k++])
    if (slice[k] < before) return false;
  return before == intervals;
}

/* list(rows, slices, items, rows, slices, items): of rows i over items j, then of rows j over items i, as
 * ke_ranges wants them; R/ranges.R has checked them against the data. */
static const ke_ranges *take_ranges(SEXP x)
{
  ke_ranges *out;

  if (x == R_NilValue) return NULL;
  if (TYPEOF(x) != VECSXP || XLENGTH(x) != 6) Rf_error("ranges: six vectors are needed");
  for (int k = 0; k < 6; k++)
    if (TYPEOF(VECTOR_ELT(x, k)) != REALSXP) Rf_error("ranges: vectors of doubles are needed");
  out = (ke_ranges *)R_alloc(2, sizeof *out);
  for (int k = 0; k < 2; k++) {
    R_xlen_t n = XLENGTH(VECTOR_ELT(x, 3 * k + 1));

    if (XLENGTH(VECTOR_ELT(x, 3 * k)) != 2 * n) Rf_error("ranges: two borders a cluster are needed");
    out[k] = (ke_ranges){.nclusters = n,
                         .row = whole_numbers(VECTOR_ELT(x, 3 * k)),
                         .slice = whole_numbers(VECTOR_ELT(x, 3 * k + 1)),
                         .item = whole_numbers(VECTOR_ELT(x, 3 * k + 2))};
    if (XLENGTH(VECTOR_ELT(x, 3 * k + 2)) % 2 != 0 ||
        !are_slices(out[k].slice, n, XLENGTH(VECTOR_ELT(x, 3 * k + 2)) / 2))
      Rf_error("ranges: two borders an interval are needed");
  }
  return out;
}

static SEXP value_matrix(const double *from, int64_t rows, int cols)
{
  SEXP out = Rf_allocMatrix(REALSXP, (int)rows, cols);

  if (XLENGTH(out) > 0) memcpy(REAL(out), from, (size_t)XLENGTH(out) * sizeof(double));
  return out;
}

/* Row numbers from 0 become R's, from 1, and "none" (below 0) becomes NA; doubles only where integers
 * are too short. */
static SEXP index_matrix(const double *from, int64_t rows, int cols, int64_t items)
{
  SEXP out = Rf_allocMatrix(items > INT_MAX ? REALSXP : INTSXP, (int)rows, cols);
  R_xlen_t n = XLENGTH(out);

  if (TYPEOF(out) == INTSXP) {
    int *to = INTEGER(out);
    for (R_xlen_t k = 0; k < n; k++) to[k] = from[k] >= 0 ? (int)from[k] + 1 : NA_INTEGER;
  } else {
    double *to = REAL(out);
    for (R_xlen_t k = 0; k < n; k++) to[k] = from[k] >= 0 ? from[k] + 1 : NA_REAL;
  }
  return out;
}

static int64_t most_rows(int nargs, const int64_t *nrow)
{
  int64_t most = 1;

  for (int k = 0; k < nargs; k++)
    if (nrow[k] > most) most = nrow[k];
  return most;
}

/* list(values, indices, k): matrices, or NULL where the result has no such part. */
static SEXP result_value(const ke_result_info *r, SEXP whole, int64_t items)
{
  static const char *const names[] = {"values", "indices", "k"};
  int64_t n = Rf_nrows(whole);
  SEXP out = PROTECT(named_list(3, names));

  if (r->values == r->dim)
    SET_VECTOR_ELT(out, 0, whole);
  else if (r->values > 0)
    SET_VECTOR_ELT(out, 0, value_matrix(REAL(whole), n, r->values));
  if (r->values < r->dim)
    SET_VECTOR_ELT(out, 1, index_matrix(REAL(whole) + n * r->values, n, r->dim - r->values, items));
  SET_VECTOR_ELT(out, 2, Rf_ScalarInteger(r->k));
  UNPROTECT(1);
  return out;
}

/* list(results, compiled, note, gpu); a result as above. */
SEXP ffi_formula_run(SEXP handle, SEXP data, SEXP rows, SEXP real_bytes, SEXP backend, SEXP threads,
                     SEXP scheme, SEXP ranges, SEXP compile, SEXP gpu)
{
  static const char *const names[] = {"results", "compiled", "note", "gpu"};
  ke_formula *f = arg_formula(handle);
  const ke_formula_info *info = ke_formula_describe(f);
  const double **pointer = (const double **)R_alloc((size_t)info->nargs + 1, sizeof *pointer);
  double **to = (double **)R_alloc((size_t)info->nresult, sizeof *to);
  int64_t *nrow = (int64_t *)R_alloc((size_t)info->nargs + 1, sizeof *nrow);
  ke_call call = {
      .data = pointer,
      .rows = nrow,
      .real_bytes = arg_int(real_bytes, "real_bytes"),
      .backend = (ke_backend_choice)arg_int(backend, "backend"),
      .threads = arg_int(threads, "threads"),
      .scheme = (ke_sum_scheme)arg_int(scheme, "scheme"),
      .ranges = take_ranges(ranges),
      .compile = arg_compile(compile),
      .poll = poll_interrupt,
  };
  ke_report report = {0};
  ke_error err = {.pos = -1};
  SEXP owner, results, out;

  call.gpu = ke_cuda_backend();
  call.gpu_settings = arg_gpu(gpu, &call.device);
  call.gpu_settings.compile = call.compile;
  take_data(info, data, rows, pointer, nrow);
  owner = PROTECT(new_owner(free_memory));
  results = PROTECT(Rf_allocVector(VECSXP, info->nresult));
  for (int k = 0; k < info->nresult; k++) {
    int64_t n = result_rows(info, k, nrow);

    if (n > INT_MAX) Rf_error("the result would have more rows than an R matrix can have");
    SET_VECTOR_ELT(results, k, Rf_allocMatrix(REALSXP, (int)n, info->result[k].dim));
    to[k] = REAL(VECTOR_ELT(results, k));
  }
  if (ke_formula_run(f, &call, to, &report, &err) != KE_OK) {
    out = error_record(&err, owner);
    UNPROTECT(2);
    return out;
  }
  out = PROTECT(named_list(4, names));
  for (int k = 0; k < info->nresult; k++)
    SET_VECTOR_ELT(results, k,
                   result_value(&info->result[k], VECTOR_ELT(results, k), most_rows(info->nargs, nrow)));
  SET_VECTOR_ELT(out, 0, results);
  SET_VECTOR_ELT(out, 1, Rf_ScalarLogical(report.compiled));
  if (report.note[0]) SET_VECTOR_ELT(out, 2, text_value(report.note));
  SET_VECTOR_ELT(out, 3, Rf_ScalarLogical(report.gpu));
  UNPROTECT(3);
  return out;
}

/* ---- tables ---- */

/* A list of columns, one entry an operation: domains are matrices with a row an operation. */
SEXP ffi_op_table(void)
{
  static const char *const names[] = {"name", "kind", "arity", "nint", "low", "high",
                                      "smooth", "deriv", "about"};
  const ke_op_info *table;
  int n = ke_op_table(&table);
  SEXP out = PROTECT(named_list(9, names));
  SEXP name, kind, arity, nint, low, high, smooth, deriv, about;

  SET_VECTOR_ELT(out, 0, name = Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(out, 1, kind = Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(out, 2, arity = Rf_allocVector(INTSXP, n));
  SET_VECTOR_ELT(out, 3, nint = Rf_allocVector(INTSXP, n));
  SET_VECTOR_ELT(out, 4, low = Rf_allocMatrix(REALSXP, n, 3));
  SET_VECTOR_ELT(out, 5, high = Rf_allocMatrix(REALSXP, n, 3));
  SET_VECTOR_ELT(out, 6, smooth = Rf_allocVector(LGLSXP, n));
  SET_VECTOR_ELT(out, 7, deriv = Rf_allocMatrix(STRSXP, n, 3));
  SET_VECTOR_ELT(out, 8, about = Rf_allocVector(STRSXP, n));
  for (int k = 0; k < n; k++) {
    SET_STRING_ELT(name, k, Rf_mkChar(table[k].name));
    SET_STRING_ELT(kind, k, Rf_mkChar(table[k].kind));
    INTEGER(arity)[k] = table[k].arity;
    INTEGER(nint)[k] = table[k].nint;
    LOGICAL(smooth)[k] = table[k].smooth;
    SET_STRING_ELT(about, k, Rf_mkChar(table[k].about));
    for (int a = 0; a < 3; a++) {
      REAL(low)[k + a * n] = table[k].low[a];
      REAL(high)[k + a * n] = table[k].high[a];
      SET_STRING_ELT(deriv, k + a * n, Rf_mkChar(table[k].deriv[a]));
    }
  }
  UNPROTECT(1);
  return out;
}

/* A list of columns, one entry a reduction. */
SEXP ffi_reduction_table(void)
{
  static const char *const names[] = {"name", "operands", "about"};
  const ke_reduction_info *table;
  int n = ke_reduction_table(&table);
  SEXP out = PROTECT(named_list(3, names));

  for (int c = 0; c < 3; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(STRSXP, n));
  for (int k = 0; k < n; k++) {
    SET_STRING_ELT(VECTOR_ELT(out, 0), k, Rf_mkChar(table[k].name));
    SET_STRING_ELT(VECTOR_ELT(out, 1), k, Rf_mkChar(table[k].operands));
    SET_STRING_ELT(VECTOR_ELT(out, 2), k, Rf_mkChar(table[k].about));
  }
  UNPROTECT(1);
  return out;
}

/* ---- cache ---- */

static SEXP number_vector(int n, const char *const *names, const double *values)
{
  SEXP out = PROTECT(Rf_allocVector(REALSXP, n));
  SEXP labels = PROTECT(Rf_allocVector(STRSXP, n));

  for (int k = 0; k < n; k++) {
    REAL(out)[k] = values[k];
    SET_STRING_ELT(labels, k, Rf_mkChar(names[k]));
  }
  Rf_setAttrib(out, R_NamesSymbol, labels);
  UNPROTECT(2);
  return out;
}

SEXP ffi_cache_counts(void)
{
  static const char *const names[] = {"hits_memory", "hits_disk", "compiles", "rejected"};
  ke_cache_counters c = ke_cache_counts();
  double values[] = {(double)c.hits_memory, (double)c.hits_disk, (double)c.compiles,
                     (double)c.rejected};

  return number_vector(4, names, values);
}

static const char *arg_path(SEXP x)
{
  if (TYPEOF(x) != STRSXP || XLENGTH(x) != 1 || STRING_ELT(x, 0) == NA_STRING)
    Rf_error("dir: one path is needed");
  return Rf_translateChar(STRING_ELT(x, 0));
}

SEXP ffi_cache_stat(SEXP dir)
{
  static const char *const names[] = {"files", "bytes"};
  int64_t files = 0, bytes = 0;

  ke_cache_dir_stat(arg_path(dir), &files, &bytes);
  return number_vector(2, names, (double[]){(double)files, (double)bytes});
}

/* Number of removed files; `older_than` in seconds, 0: all. */
SEXP ffi_cache_clear(SEXP dir, SEXP older_than)
{
  const char *path = arg_path(dir);
  SEXP owner = PROTECT(new_owner(free_memory)), out;
  int64_t removed = 0;
  ke_error err = {.pos = -1};

  if (TYPEOF(older_than) != REALSXP || XLENGTH(older_than) != 1)
    Rf_error("older_than: one number is needed");
  if (ke_cache_clear(path, REAL(older_than)[0], &removed, &err) == KE_OK)
    out = Rf_ScalarReal((double)removed);
  else
    out = error_record(&err, owner);
  UNPROTECT(1);
  return out;
}

/* ---- what there is ---- */

/* Path of the compiler that would be used. */
SEXP ffi_compiler(SEXP compile)
{
  ke_compile_settings settings = arg_compile(compile);
  SEXP owner = PROTECT(new_owner(free_memory)), out;
  char *path = NULL;
  ke_error err = {.pos = -1};
  ke_status st = ke_cc_find(&settings, &path, &err);

  out = text_or_error(st, path, &err, owner);
  UNPROTECT(1);
  return out;
}

SEXP ffi_cpu(void)
{
  static const char *const names[] = {"isa", "openmp", "cores", "compiler", "cuda_hint"};
  SEXP out = PROTECT(named_list(5, names));

  SET_VECTOR_ELT(out, 0, text_value(ke_isa_name(ke_cpu_isa())));
  SET_VECTOR_ELT(out, 1, Rf_ScalarLogical(HAVE_OPENMP));
  SET_VECTOR_ELT(out, 2, Rf_ScalarInteger(ke_cores()));
  SET_VECTOR_ELT(out, 3, text_value(KE_CC_DEFAULT));
  SET_VECTOR_ELT(out, 4, text_value(KEOPS_CUDA_HINT));
  UNPROTECT(1);
  return out;
}

/* ---- GPUs ---- */

/* list(driver, nvrtc, nvrtc_path, problem, name, arch, processors, memory): versions as 13000, the last four
 * with one entry a device. Starts no device. */
SEXP ffi_cuda_info(void)
{
  static const char *const names[] = {"driver", "nvrtc",      "nvrtc_path", "problem", "name",
                                      "arch",   "processors", "memory"};
  ke_cuda_info info;
  ke_cuda_device_info d;
  ke_error err = {.pos = -1};
  SEXP out = PROTECT(named_list(8, names)), name, arch, processors, memory;

  ke_cuda_look(KEOPS_CUDA_HINT, &info);
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(info.driver));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(info.nvrtc));
  SET_VECTOR_ELT(out, 2, text_value(info.nvrtc_path));
  SET_VECTOR_ELT(out, 3, text_value(info.problem));
  SET_VECTOR_ELT(out, 4, name = Rf_allocVector(STRSXP, info.devices));
  SET_VECTOR_ELT(out, 5, arch = Rf_allocVector(INTSXP, info.devices));
  SET_VECTOR_ELT(out, 6, processors = Rf_allocVector(INTSXP, info.devices));
  SET_VECTOR_ELT(out, 7, memory = Rf_allocVector(REALSXP, info.devices));
  for (int k = 0; k < info.devices; k++) {
    if (ke_cuda_look_at(k, &d, &err) != KE_OK) d = (ke_cuda_device_info){.name = "unknown"};
    SET_STRING_ELT(name, k, Rf_mkChar(d.name));
    INTEGER(arch)[k] = d.arch;
    INTEGER(processors)[k] = d.processors;
    REAL(memory)[k] = d.memory;
  }
  UNPROTECT(1);
  return out;
}

SEXP ffi_cuda_release(void)
{
  ke_cuda_free_pools();
  return R_NilValue;
}

SEXP ffi_cuda_ms(void)
{
  return Rf_ScalarReal(ke_cuda_last_ms());
}

/* Source for a GPU of a formula with so many rows of i and j (a string); with an architecture (90) it is
 * compiled instead, and the number of bytes is the answer. */
SEXP ffi_cuda_source(SEXP handle, SEXP real_bytes, SEXP sizes, SEXP arch, SEXP nvrtc, SEXP compile)
{
  const ke_plan *plan = ke_formula_plan(arg_formula(handle));
  int bytes = arg_int(real_bytes, "real_bytes"), target = arg_int(arch, "arch");
  int newest = arg_int(nvrtc, "nvrtc");
  ke_gpu_settings settings = {.hint = KEOPS_CUDA_HINT, .compile = arg_compile(compile)};
  SEXP owner = PROTECT(new_owner(free_memory)), out;
  ke_error err = {.pos = -1};
  double image = 0;
  char *source = NULL;
  int64_t rows[2];

  if (TYPEOF(sizes) != REALSXP || XLENGTH(sizes) != 2) Rf_error("sizes: two numbers are needed");
  for (int k = 0; k < 2; k++) rows[k] = (int64_t)REAL(sizes)[k];
  if (target <= 0) {
    ke_status st = ke_cuda_source(plan, bytes, rows[0], rows[1], &source, &err);
    out = text_or_error(st, source, &err, owner);
  } else if (ke_cuda_try(plan, bytes, rows[0], rows[1], target, newest, &settings, &image, &err) == KE_OK) {
    out = Rf_ScalarReal(image);
  } else {
    out = error_record(&err, owner);
  }
  UNPROTECT(1);
  return out;
}

/* The process that loaded the package; in a child made by fork, OpenMP must not be entered. */
static pid_t loader;

void ffi_remember_process(void)
{
  loader = getpid();
}

SEXP ffi_forked(void)
{
  return Rf_ScalarLogical(getpid() != loader);
}

/* ---- what R alone is slow at ---- */
/* Sums of the rows of each group: x[n, d], label[n] of 1..k, result [k, d]. In double within some rows, then
 * in long double. */
SEXP ffi_group_sums(SEXP x, SEXP label, SEXP groups)
{
  const int k = arg_int(groups, "groups");
  const R_xlen_t n = XLENGTH(label);
  const void *memory = vmaxget();
  const R_xlen_t block = 65536;
  long double *total;
  double *sum;
  int *group;
  R_xlen_t d;
  SEXP out;

  if (TYPEOF(x) != REALSXP || (TYPEOF(label) != REALSXP && TYPEOF(label) != INTSXP) || k < 1 || n < 1 || XLENGTH(x) % n)
    Rf_error("x, label: doubles and numbers of groups are needed");
  d = XLENGTH(x) / n;
  total = (long double *)R_alloc((size_t)k, sizeof *total);
  sum = (double *)R_alloc((size_t)k, sizeof *sum);
  group = (int *)R_alloc((size_t)n, sizeof *group);
  for (R_xlen_t i = 0; i < n; i++) {
    const double l = TYPEOF(label) == INTSXP ? (double)INTEGER(label)[i] : REAL(label)[i];

    if (!(l >= 1 && l <= k)) Rf_error("label: a number of a group is needed");
    group[i] = (int)l - 1;
  }
  out = PROTECT(Rf_allocMatrix(REALSXP, k, (int)d));
  for (R_xlen_t c = 0; c < d; c++) {
    const double *column = REAL(x) + c * n;

    for (int g = 0; g < k; g++) total[g] = 0;
    for (R_xlen_t first = 0; first < n; first += block) {
      const R_xlen_t end = n - first < block ? n : first + block;

      for (int g = 0; g < k; g++) sum[g] = 0;
      for (R_xlen_t i = first; i < end; i++) sum[group[i]] += column[i];
      for (int g = 0; g < k; g++) total[g] += sum[g];
    }
    for (int g = 0; g < k; g++) REAL(out)[c * k + g] = (double)total[g];
  }
  vmaxset(memory);
  UNPROTECT(1);
  return out;
}

/* Values of options, NULL where there is none. */
SEXP ffi_options(SEXP names)
{
  SEXP out;

  if (TYPEOF(names) != STRSXP) Rf_error("names of options: strings are needed");
  out = PROTECT(Rf_allocVector(VECSXP, XLENGTH(names)));
  for (R_xlen_t k = 0; k < XLENGTH(names); k++)
    SET_VECTOR_ELT(out, k, Rf_GetOption1(Rf_installTrChar(STRING_ELT(names, k))));
  UNPROTECT(1);
  return out;
}
