/* The plan: what the interpreter, the C emitter and the CUDA emitter share. No text, no tile sizes.
 *
 * A formula is cut at its reductions into passes, run in order. A pass pairs the rows of its *kept*
 * side with the items of its *reduced* side; there is no i and j any more inside it. Five programs:
 *
 *   once    values that depend on nothing (parameters, constants, reductions to one row): one lane
 *   kept    values of one kept row                                              lanes are kept rows
 *   red     values of one item                                                  lanes are items
 *   pair    everything that needs both, and the reductions over the items       lanes are items
 *   final   (one a plan) the result from arguments and finished reductions      lanes are result rows
 *
 * once, kept, red and final are *row programs*: always in double, run by the interpreter's row
 * machine (rows.h) whatever the backend, since they cost M + N only. Their outputs are the flat arrays
 *   once[once_width]   kept[kept_width] of each row   red[red_width] of each item
 * from which the pair program reads. Only the pair program runs in the precision asked for, and only
 * it has an interpreted and a compiled form. It reads components of those arrays and nothing else. */
#ifndef KE_PLAN_H
#define KE_PLAN_H

#include "arena.h"
#include "error.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- sides ---- */
enum { KE_NONE = 0, KE_I = 1, KE_J = 2 }; /* also the bits of an index set */

/* ---- places: where an operand is read ---- */
typedef enum {
  KE_AT_CONST, /* `value`, a literal */
  KE_AT_TEMP,  /* scalar temporary number `base` (one value a lane; per row and item in a pair program) */
  KE_AT_ONCE,  /* once[component]: the same for all lanes and rows */
  KE_AT_KEPT,  /* pair program: kept[component] of the row: the same for all lanes */
  KE_AT_RED,   /* pair program: red[component] of the item: one a lane, the same for all rows */
  KE_AT_SLOT,  /* row program: component of slot `slot`; only as source of LOAD and GATHER */
  KE_AT_PAIR   /* pair program of a GPU: what was made of the pair before (src/cuda/dots_cuda.h) */
} ke_place_kind;

enum { KE_MAX_LOOPS = 3 };

/* component = base + step[0]*k0 + step[1]*k1 + step[2]*k2, kd the counter of the enclosing loop of depth d:
 * depth 0 is a segment's own loop over output components, folds inside go deeper (a fold in the head
 * has depth 0). TEMP and CONST have no steps. */
typedef struct {
  uint8_t kind; /* ke_place_kind */
  int32_t slot;
  int32_t base;
  int32_t step[KE_MAX_LOOPS];
  double value;
} ke_place;

/* ---- instructions ---- */
/* `op` below KE_OP_COUNT is a row of op_list.h (KE_OP_Exp, ...); these go beyond it. */
enum {
  KE_I_LOAD = 1000, /* row program: temp dst = slot component src[0] of the lane's row */
  KE_I_GATHER,      /* row program: temp dst = slot component src[0] of row number src[1] (a double,
                       0-based; below 0 or NaN: 0) */
  KE_I_FOLD         /* temp dst = sum (or extreme: `fold`) over k < n of the body's result src[0]; the `len`
                       instructions that follow are the body (it may hold folds); `keep`: dst goes on from
                       what it holds. An extreme without keep starts with the value of k = 0; a later
                       value replaces it only where it compares as larger (smaller) */
};

typedef enum { KE_FOLD_SUM, KE_FOLD_MAX, KE_FOLD_MIN } ke_fold_kind;

typedef struct {
  uint16_t op;
  uint8_t depth; /* FOLD: which loop counter runs */
  uint8_t fold;  /* FOLD: ke_fold_kind */
  bool keep;     /* FOLD: add to what dst holds already */
  int32_t dst;   /* temp; single assignment but for FOLD with keep */
  int32_t n;     /* FOLD: trips, >= 1 */
  int32_t len;   /* FOLD: instructions in the body; may be 0 */
  ke_place src[3];
} ke_instr;

/* for k0 < n: run code[first, first + len), then component out + k0 is `result`. */
typedef struct {
  int32_t out, n;
  int32_t first, len;
  ke_place result;
} ke_segment;

/* Straight line code[0, nhead), then the segments, whose bodies lie in code[nhead, ncode). Temps of
 * the head are seen by all segments; temps of a body only by that body. Temps are numbered 0..ntemp-1. */
typedef struct {
  ke_instr *code;
  int32_t nhead, ncode, ntemp;
  ke_segment *seg;
  int32_t nseg;
  int32_t width; /* components written by the segments (row programs) */
} ke_program;

/* ---- reductions ---- */

/* How sums are made. Items are summed in the precision of the kernel, some in a row ("block"), then
 * blocks in double. DIRECT: long blocks; KAHAN: compensated in both. */
typedef enum { KE_SUM_BLOCK, KE_SUM_DIRECT, KE_SUM_KAHAN } ke_sum_scheme;

enum { KE_BLOCK_ITEMS = 1024, KE_DIRECT_ITEMS = 1 << 20 };

typedef enum {
  KE_RED_SUM,    /* state: width sums                                            result: width values */
  KE_RED_KAHAN,  /* state: width sums, then what rounding took off them             result: width values */
  KE_RED_MIN,    /* state: width values (+Inf), then width indices (-1: none)    result: both */
  KE_RED_MAX,    /* the same with -Inf */
  KE_RED_SUMEXP, /* score t (one scalar) and weights g[width] (the segments)
                    state: m (-Inf), then width sums s = sum exp(t - m) g        result: m, s.. */
  KE_RED_KMIN    /* the k least. state: k values (+Inf) of each component as a heap (keops_least.h), then
                    their indices (-1: none)    result: values, then indices; the k-th of component c
                    is number k * width + c of each, the least first */
} ke_reduce_kind;

typedef struct {
  ke_reduce_kind kind;
  int32_t width;       /* components reduced */
  int32_t k;           /* KMIN: how many */
  int32_t seg, nseg;   /* segments of the pair program that give them: component out + k0 < width */
  ke_place score;      /* SUMEXP: the exponent; weights are the segments (1 for plain LogSumExp) */
  int32_t state;       /* first double of the row's state */
  int32_t state_width; /* doubles, as reduction_list.h says */
  int32_t slot;        /* where the finished state goes */
} ke_reduce;

/* ---- slots: columns that row programs read ---- */
enum { KE_SLOT_PASS = -1, KE_SLOT_SIZE_I = -2, KE_SLOT_SIZE_J = -3 }; /* in place of an argument */

typedef struct {
  int side;      /* KE_I, KE_J or KE_NONE: whose rows; KE_NONE has one row */
  int32_t width; /* components */
  int32_t arg;   /* number of the argument; or PASS: made by a pass, SIZE_*: the number of rows of a side */
} ke_slot;

/* Kept and reduced components that enter the pair program only through differences of each other:
 * in single precision a common centre is taken from both before they are rounded to float. */
typedef struct {
  int32_t kept, red, width; /* kept[kept + k] and red[red + k], k < width */
} ke_center;

typedef enum { KE_PASS_PAIRS, KE_PASS_SCATTER } ke_pass_kind;

typedef struct {
  ke_pass_kind kind;
  int kept; /* KE_I, KE_J, or KE_NONE: one row */
  int red;  /* KE_I or KE_J */
  bool ranged; /* over the items that the row's ranges name */
  int32_t block; /* most items summed before they go to the state */
  ke_program once, keptp, redp, pair;
  int32_t once_width, kept_width, red_width;
  ke_reduce *reduce;
  int32_t nreduce;
  int32_t state_width; /* doubles of one row's state */
  ke_center *center;
  int32_t ncenter;
  double cost; /* ns per 16 pairs, roughly; from the op table */
  bool fused;  /* all of the pair program is made of instructions that the interpreter has fused */
  /* SCATTER: slot[out] (side `kept`) += for each row of side `red`, in order: red components
   * 0..width-1 added at the kept row whose number is red component `width` (below 0: nowhere). Only
   * once and redp are used. */
  int32_t scatter_slot, scatter_width;
} ke_pass;

/* One result, from arguments and what the passes gave. */
typedef struct {
  int side; /* KE_I, KE_J, KE_NONE: lanes of `rows` */
  int32_t width, once_width;
  ke_program once, rows;
} ke_final;

typedef struct {
  ke_slot *slot; /* the arguments first, in their order */
  int32_t nslot, nargs;
  ke_pass *pass;
  int32_t npass;
  ke_final *final; /* one a result */
  int32_t nfinal;
} ke_plan;

#endif
