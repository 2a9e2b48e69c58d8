/* The .Call routines of ffi.c and lazy_text.c; R/engine.R says what each is given and gives back. */
#ifndef FFI_H
#define FFI_H

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

void ffi_remember_process(void);

SEXP ffi_formula_new(SEXP formula, SEXP args, SEXP ranged);
SEXP ffi_formula_info(SEXP handle);
SEXP ffi_formula_run(SEXP handle, SEXP data, SEXP rows, SEXP real_bytes, SEXP backend, SEXP threads,
                     SEXP scheme, SEXP ranges, SEXP compile, SEXP gpu);
SEXP ffi_op_table(void);
SEXP ffi_reduction_table(void);
SEXP ffi_cache_counts(void);
SEXP ffi_cache_stat(SEXP dir);
SEXP ffi_cache_clear(SEXP dir, SEXP older_than);
SEXP ffi_compiler(SEXP compile);
SEXP ffi_cpu(void);
SEXP ffi_forked(void);
SEXP ffi_group_sums(SEXP x, SEXP label, SEXP groups);
SEXP ffi_options(SEXP names);
SEXP ffi_cuda_info(void);
SEXP ffi_cuda_release(void);
SEXP ffi_cuda_ms(void);
SEXP ffi_cuda_source(SEXP handle, SEXP real_bytes, SEXP sizes, SEXP arch, SEXP nvrtc, SEXP compile);

/* lazy_text.c */
SEXP ffi_lazy_text(SEXP nodes, SEXP swap, SEXP becomes);

#endif
