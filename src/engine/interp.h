/* What interp.c (which prepares) and interp_body.h (which runs, compiled once for each instruction
 * set and precision) share: a program as a flat list of calls of primitives. Nobody else includes
 * this.
 *
 * A primitive works on a tile: `rows` kept rows times `tile` items, lanes being items. An operand
 * is a *view*, a place with strides. Either it is a vector (one value a lane) or a scalar (one
 * value for all lanes); from one row to the next it moves by `row`, which is 0 where all rows see
 * the same. */
#ifndef KE_INTERP_H
#define KE_INTERP_H

#include "backend.h"
#include "op_enum.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  KI_ROWS = 8,       /* rows of a block */
  KI_MIN_TILE = 32,  /* two of the longest vectors */
  KI_MAX_TILE = 128  /* items of a tile */
};

/* Primitives beyond the elementwise ones, whose numbers are KE_OP_<name>. `n` components at once
 * go on by step[0] of each view. */
enum {
  KI_LOOP = 2000, /* run the `len` instructions that follow for counter[depth] = 0..n-1 */
  KI_SPLAT,       /* dst = a, a scalar */
  KI_MULADD,      /* dst += a * b */
  KI_SQDIST,      /* dst (+)= sum over k < n of (a[k] - b[k])^2; a scalars of the row, b vectors */
  KI_WSQDIST,     /* the same times c[k], a scalar */
  KI_DOT,         /* dst (+)= sum of a[k] b[k] */
  KI_L1,          /* dst (+)= sum of |a[k] - b[k]| */
  KI_FOLD_MAX,    /* dst = a where a is larger, but a itself in the first round of loop `depth` */
  KI_FOLD_MIN,    /* (keep: there too only where it is larger) */
  KI_SUM,         /* acc[k] += sum over the items of a[k] */
  KI_SUM_MUL,     /* acc[k] += sum of a[k] b[k] */
  KI_SUM_DIFF,    /* acc[k] += sum of a (c[k] - b[k]), c a scalar of the row: a gradient */
  KI_SUM_DIFF_NEG, /* acc[k] -= that */
  KI_MIN,         /* acc[k] = the smaller of it and a[k], with its index */
  KI_MAX,
  KI_KAHAN,       /* acc[k] += sum of a[k], with what rounding takes off it */
  KI_LEAST,       /* a[k] into the state's k least, if it is less than acc[k], the largest of them */
  KI_EXP_SHIFT,   /* dst = exp(a - m); m, the largest a so far, stays with the accumulators */
  KI_LOAD,        /* row programs: dst = component of slot */
  KI_GATHER,      /* dst = component of slot of the row whose number is a */
  KI_STORE,       /* component k of the output = a */
  KI_COPY         /* component k of the output = component of slot */
};

typedef enum {
  KI_TEMP,  /* offset: temp, then its place in scratch */
  KI_CONST,
  KI_ONCE,
  KI_KEPT,
  KI_RED,
  KI_ACC,   /* accumulators: one vector a component and row */
  KI_NBASE,
  KI_SLOT = KI_NBASE, /* row programs; offsets are components, multiplied by the column's length */
  KI_OUT,
  KI_NONE
} ki_base;

typedef struct {
  uint8_t base; /* ki_base */
  bool vector;
  bool moves;   /* has a step */
  int32_t slot;
  int64_t offset, row, step[KE_MAX_LOOPS]; /* in reals */
} ki_view;

/* vector or scalar: the first two operands */
typedef enum { KI_VV, KI_VS, KI_SV, KI_MODES } ki_mode;

typedef struct {
  uint16_t op;
  uint8_t mode;    /* ki_mode */
  uint8_t depth;   /* LOOP */
  bool flat;       /* dst has one row, which stands for all */
  bool keep;       /* folds: add to what dst holds */
  int32_t n, len;
  int32_t reduce;  /* EXP_SHIFT, LEAST: number of its reduction */
  ki_view dst, a, b, c;
} ki_instr;

typedef struct {
  ke_reduce_kind kind;
  int32_t width, k, state;
  /* its accumulators, in vectors. SUM: width * KI_ROWS sums; KAHAN: sums, what rounding took off
   * them; MIN, MAX: values, indices; KMIN: the largest of the k least, then for a
   * small k lists of them, [component][row][vectors], then their numbers, for a larger one pools; SUMEXP: sums, then KI_ROWS
   * vectors, of whose front m[KI_ROWS] is used */
  int64_t acc;
} ki_reduce;

typedef struct {
  ki_instr *code;
  int32_t ncode;
  int tile;
  int32_t block; /* items of a chunk: accumulated before they go to the state */
  double *constant;
  int32_t nconstant;
  ki_reduce *reduce;
  int32_t nreduce;
  int32_t state_width, kept_width, red_width;
  size_t temp_at, constant_at, mask_at, acc_at, scratch_bytes; /* bytes, multiples of 64 */
} ki_program;

typedef void ki_rows_fn(const ke_rows *rows, const ke_column *slots, const double *once,
                        int64_t first, int n, double *out, int64_t out_ld, void *scratch);

struct ke_rows {
  ki_program program;
  ki_rows_fn *run;
};

/* What one compilation of interp_body.h gives. */
typedef struct {
  int vector_bytes;
  void (*pair)(const ke_kernel *kernel, const ke_task *task);
  ki_rows_fn *rows; /* double precision only */
} ki_target;

extern const ki_target ke_interp_base_4, ke_interp_base_8;
#ifdef __x86_64__
#define KI_HAVE_X86 1
extern const ki_target ke_interp_avx2_4, ke_interp_avx2_8, ke_interp_avx512_4, ke_interp_avx512_8;
#else
#define KI_HAVE_X86 0
#endif

/* Merge of two states (m, s) of a LogSumExp: the larger m, and what each side's sums are
 * multiplied by. An infinite m stands for the largest finite number here, so that -Inf - -Inf
 * gives 1 (times sums that are 0) and not NaN. */
double ke_interp_merge_sumexp(double m1, double m2, double *factor1, double *factor2);

#endif
