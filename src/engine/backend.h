/* What a backend is to the driver (run_cpu.c): a shape and a serial kernel for one pass.
 *
 * The interpreter (interp.c) and the C compiler's backend (emit_c.c, compile_cc.c) each turn a pass
 * into one ke_kernel. The driver packs data as the shape says, cuts the work into units, owns threads
 * and polling, and merges states in the order of the items. */
#ifndef KE_BACKEND_H
#define KE_BACKEND_H

#include "error.h"
#include "plan.h"

#include "keops_task.h"

#include <stddef.h>

/* ---- shape: the sizes that fit a pass to a machine (shape.c) ---- */
typedef enum { KE_ISA_BASE, KE_ISA_AVX2, KE_ISA_AVX512 } ke_isa;

typedef struct {
  int real_bytes;       /* 4: float, 8: double */
  int rows;             /* R: rows of a block */
  int tile;             /* T: items of a tile, a multiple of every vector width */
  size_t scratch_bytes; /* of one running kernel */
} ke_shape;

typedef struct ke_kernel {
  ke_shape shape;
  void (*run)(const struct ke_kernel *kernel, const ke_task *task);
  void *impl; /* the backend's own */
} ke_kernel;

/* Vector instructions of this CPU; KEOPS_ISA=base|avx2|avx512 in the environment lowers it. */
ke_isa ke_cpu_isa(void);
const char *ke_isa_name(ke_isa isa);

/* ---- interpreter (interp.c; interp_base.c, interp_avx2.c, interp_avx512.c) ---- */
/* All memory comes from `arena`; the kernel lives as long. */
ke_status ke_interp_prepare(ke_arena *arena, const ke_pass *pass, int real_bytes, ke_isa isa,
                            ke_kernel *out, ke_error *err) KE_MUST_USE;

/* ---- row machine (same files): row programs, in double ---- */
typedef struct {
  const double *data; /* component c of row r is data[c * ld + r] */
  int64_t ld;
} ke_column;

typedef struct ke_rows ke_rows;

enum { KE_ROWS_LANES = 256 }; /* most lanes a call */

ke_status ke_rows_prepare(ke_arena *arena, const ke_program *program, ke_isa isa, ke_rows **out,
                          ke_error *err) KE_MUST_USE;
size_t ke_rows_scratch(const ke_rows *rows); /* bytes, 64-aligned by the caller */
/* Component c of row first + l goes to out[c * out_ld + l], l < n <= KE_ROWS_LANES. Nothing is read past
 * row first + n - 1 of a slot's column. `slots` is indexed as plan->slot is. */
void ke_rows_run(const ke_rows *rows, const ke_column *slots, const double *once, int64_t first,
                 int n, double *out, int64_t out_ld, void *scratch);

/* ---- what rows see ---- */
/* Which items the rows of one side see: rows [row[2c], row[2c + 1]) those of the intervals
 * [item[2k], item[2k + 1]), slice[c - 1] <= k < slice[c] (slice[-1] is 0), in this order. Clusters of rows
 * do not overlap; rows of none see nothing. */
typedef struct {
  int64_t nclusters;
  const int64_t *row, *slice, *item;
} ke_ranges;

/* ---- a device that runs pair programs from packed data (src/cuda) ---- */
typedef struct {
  const ke_pass *pass;
  int real_bytes;
  int64_t nkept, nred; /* >= 1 */
  const void *once;    /* real once[once_width] */
  const ke_ranges *ranges; /* of a ranged pass, whose rows are those of `kept`; else NULL */
  void **memo;         /* the runner's own between runs; what hangs there is in `arena` */
  ke_arena *arena;
  void *data; /* of the calls below, which only the thread that runs the job may make */
  /* Component c of row first + r, as real: to[c * ld + r], r < n */
  void (*pack_kept)(void *data, int64_t first, int64_t n, void *to, int64_t ld);
  /* Component c of item first + r, as real: to[r * width + c]; 0 from red_width on */
  void (*pack_red)(void *data, int64_t first, int64_t n, void *to, int width);
  /* States of rows, double c of row first + r at state[c * ld + r], are what they should be */
  void (*finish)(void *data, int64_t first, int64_t n, const double *state, int64_t ld);
  /* Add those of later items, both n rows of the same form */
  void (*merge)(void *data, int64_t n, double *into, const double *from, int64_t ld);
  bool (*stop)(void *data); /* to be asked at least ten times a second; true: leave */
} ke_pairs_job;

typedef struct ke_pairs_runner {
  ke_status (*run)(void *device, const ke_pairs_job *job, ke_error *err); /* KE_ERR_DEVICE, ... */
  void *device;
} ke_pairs_runner;

/* ---- emitter of C (shape.c, emit.c, emit_c.c): no compiler is run here ---- */
/* Source of a kernel `void ke_kernel_run(const ke_task *)`; `shape` says how its data must be packed. */
ke_status ke_emit_c(const ke_pass *pass, int real_bytes, ke_isa isa, ke_shape *shape, char **source,
                    ke_error *err) KE_MUST_USE; /* *source: malloc'd, the caller frees */

/* ---- compile, cache, load (compile_cc.c, cache.c) ---- */
typedef struct {
  const char *compiler;    /* program and leading words, e.g. "gcc" or "ccache gcc"; NULL: search */
  const char *include_dir; /* where keops_kernel.h and keops_task.h lie */
  const char *cache_dir;   /* first place for finished kernels */
  const char *fallback_dir; /* used when that cannot be written or loaded from (the session's temporary
                               directory); NULL: none */
  const char *version;     /* package version, part of the key */
} ke_compile_settings;

typedef struct {
  int64_t hits_memory, hits_disk, compiles, rejected;
} ke_cache_counters;

/* ---- a GPU (src/cuda/cuda_backend.h) ---- */
typedef struct {
  const int *device; /* numbers of devices; one may be named again, and then counts as another */
  int ndevice;
  double memory; /* bytes a device may be used for; 0: most of what is free */
  double launch_ms; /* that a launch may take by estimate; 0: enough for Ctrl-C to be answered soon */
  double accuracy; /* relative error that is allowed in single precision */
  bool accurate;   /* no approximate functions there */
  const char *hint; /* a folder of CUDA, or NULL */
  ke_compile_settings compile;
} ke_gpu_settings;

typedef struct ke_gpu {
  bool (*present)(void); /* is there a device at all? */
  /* A runner on these devices, for one run; starts CUDA. `close` it. */
  ke_status (*open)(const ke_gpu_settings *settings, ke_pairs_runner *out, ke_error *err);
  void (*close)(ke_pairs_runner *runner);
} ke_gpu;

typedef void (*ke_kernel_fn)(const ke_task *);

/* Function ke_kernel_run of the shared object made from `source`: from the table of loaded kernels,
 * from disk, or compiled now. `note` (may be NULL) gets one sentence when a place had to be left. */
ke_status ke_cc_fetch(const char *source, const ke_compile_settings *settings, ke_kernel_fn *fn,
                      char *note, size_t note_size, ke_error *err) KE_MUST_USE;
/* The compiler that would be used (malloc'd path), or KE_ERR_COMPILE with what was searched. */
ke_status ke_cc_find(const ke_compile_settings *settings, char **path, ke_error *err) KE_MUST_USE;
ke_cache_counters ke_cache_counts(void);
/* Add to the counts what another compiler's objects did. */
void ke_cache_count(ke_cache_counters more);

#endif
