/* What R sees of the shared object: the table of .Call routines. */
#include "ffi.h"

#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#define ROUTINE(name, nargs) {#name, (DL_FUNC)&name, nargs}

static const R_CallMethodDef routines[] = {
    ROUTINE(ffi_formula_new, 3),
    ROUTINE(ffi_formula_info, 1),
    ROUTINE(ffi_formula_run, 10),
    ROUTINE(ffi_op_table, 0),
    ROUTINE(ffi_reduction_table, 0),
    ROUTINE(ffi_cache_counts, 0),
    ROUTINE(ffi_cache_stat, 1),
    ROUTINE(ffi_cache_clear, 2),
    ROUTINE(ffi_compiler, 1),
    ROUTINE(ffi_cpu, 0),
    ROUTINE(ffi_forked, 0),
    ROUTINE(ffi_options, 1),
    ROUTINE(ffi_cuda_info, 0),
    ROUTINE(ffi_cuda_release, 0),
    ROUTINE(ffi_cuda_ms, 0),
    ROUTINE(ffi_cuda_source, 6),
    ROUTINE(ffi_lazy_text, 3),
    ROUTINE(ffi_group_sums, 3),
    {NULL, NULL, 0},
};

attribute_visible void R_init_keops(DllInfo *dll)
{
  ffi_remember_process();
  R_registerRoutines(dll, NULL, routines, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
}
