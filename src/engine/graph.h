/* Expression graphs: immutable nodes, made once each (hash-consing), all in one arena.
 *
 * Equal sub-expressions are one node, so comparison is pointer equality and a value that a gradient
 * needs again is computed once. Nodes know their dimension and index set. Derivatives, simplified
 * forms and substitutions are nodes of the same graph.
 *
 * Making a node never fails visibly: want of memory or excessive size is remembered in the graph, and
 * ke_graph_check() tells. Operands must fit (parse.c and words.c look first, with the place in the
 * text); the constructors below rely on it. */
#ifndef KE_GRAPH_H
#define KE_GRAPH_H

#include "arena.h"
#include "error.h"
#include "op.h"
#include "plan.h" /* KE_I, KE_J, KE_NONE */

#include <stdbool.h>
#include <stdint.h>

/* Nodes that are not rows of op_list.h. */
enum {
  KE_N_CONST = KE_OP_COUNT, /* value */
  KE_N_VAR,                 /* ints: argument number */
  KE_N_SIZE,                /* ints: side; number of rows of it */
  KE_N_IOTA,                /* 0, 1, .., dim - 1 */
  KE_N_CONTRACT,            /* out[so . k] = sum f[sf . k] g[sg . k]: ints: axes of the loops k, four
                               numbers each: extent, sf, sg, so (0: not an axis of it) */
  KE_N_PICK,                /* out[k] = f[start + step k]; ints: start, step */
  KE_N_PUT,                 /* out[start + step k] = f[k], else 0; ints: start, step */
  KE_N_EXTREME,             /* largest (ints: 1) or smallest (0) component */
  KE_N_GATHER,              /* child 0 (a column of one side) at the row that child 1 numbers, 0-based */
  KE_N_SCATTER,             /* child 0, of the side ints[0], added at the rows of side ints[1] that
                               child 1 numbers: the transpose of GATHER */
  KE_N_REDUCE               /* ints: those of a ke_reduction; child 0 the summand, child 1 weights */
};

/* What a node shows of a reduction's state; nodes of one summand share the state in the plan. Of SUMEXP
 * (m, s): VALUE is m + log s, RAW both; where the first weight is 1, NORM is m + log s[0] and RATIO
 * s[1], s[2], .. over s[0]. */
typedef enum { KE_PART_VALUE, KE_PART_INDEX, KE_PART_RAW, KE_PART_NORM, KE_PART_RATIO } ke_part;

typedef struct {
  ke_reduce_kind kind;
  int side; /* reduced */
  ke_part part;
  int k;    /* KMIN: how many, else 1 */
  bool ranged; /* over the items that the row's ranges name, so of both sides whatever the summand is */
} ke_reduction;

enum {
  KE_MAX_CHILD = 3,
  KE_MAX_INT = 4, /* that an operation of op_list.h has */
  KE_MAX_DEPTH = 3000,     /* of a graph: bounds every recursion over it */
  KE_MAX_NODES = 2000000,
  KE_MAX_TAKEN = 1024, /* components of a Min or Max whose derivative is taken, one by one */
  KE_MAX_DIM = 1 << 24
};

typedef struct ke_node ke_node;

struct ke_node {
  uint16_t op; /* KE_OP_* or KE_N_* */
  uint8_t idx; /* index set: KE_I | KE_J */
  uint8_t nchild;
  uint16_t nint;
  int dim;
  int id;    /* children have smaller ones */
  int depth;
  uint64_t hash; /* of the structure, the same in every session */
  double value;  /* CONST */
  const int *ints; /* nint whole numbers: parameters, places, axes */
  const ke_node *child[KE_MAX_CHILD];
};

typedef struct {
  ke_arena *arena;
  const ke_node **node; /* by id */
  int n, size;
  int *bucket; /* open addressing: id + 1 */
  int nbucket;
  bool failed;  /* no memory */
  bool too_big; /* KE_MAX_DEPTH, KE_MAX_NODES or KE_MAX_TAKEN passed */
  bool undefined; /* a derivative was asked for that cannot be written: in operand undefined_operand */
  int undefined_op, undefined_operand;
  ke_node dummy; /* what constructors return then */
  int rows_of; /* sides that the argument list has variables of; others have one row */
  bool ranged; /* reductions of pairs are over ranges */
} ke_graph;

ke_status ke_graph_init(ke_graph *g, ke_error *err) KE_MUST_USE;
void ke_graph_clear(ke_graph *g);
ke_status ke_graph_check(const ke_graph *g, ke_error *err) KE_MUST_USE;

/* The node with these parts, made if it is new: no rule is applied. */
const ke_node *ke_intern(ke_graph *g, const ke_node *like);
/* Order of structure, not of making: for operands of commutative operations. */
int ke_compare(const ke_node *a, const ke_node *b);

/* ---- constructors that simplify (simplify.c) ---- */
const ke_node *ke_const(ke_graph *g, double value);
const ke_node *ke_var(ke_graph *g, int arg, int side, int dim);
const ke_node *ke_size(ke_graph *g, int side);
/* Any operation of op_list.h; operands and ints must fit. */
const ke_node *ke_make(ke_graph *g, int op, const ke_node *const *child, const int *ints);
const ke_node *ke_unary(ke_graph *g, int op, const ke_node *a);
const ke_node *ke_binary(ke_graph *g, int op, const ke_node *a, const ke_node *b);
const ke_node *ke_with_int(ke_graph *g, int op, const ke_node *a, int m, int n);
const ke_node *ke_ifelse(ke_graph *g, const ke_node *a, const ke_node *b, const ke_node *c);
/* f^n for a whole number */
const ke_node *ke_power(ke_graph *g, const ke_node *a, int n);
const ke_node *ke_scalprod(ke_graph *g, const ke_node *a, const ke_node *b);
/* a repeated to dimension d (a has dimension 1 or d) */
const ke_node *ke_widen(ke_graph *g, const ke_node *a, int d);
/* weights may be NULL. */
const ke_node *ke_reduce_over(ke_graph *g, ke_reduction how, const ke_node *f, const ke_node *weights);
ke_reduction ke_reduction_of(const ke_node *n);
/* The sum over what `context`, the sides that f is used with, has more than `kept`. */
const ke_node *ke_sum_over(ke_graph *g, int context, int kept, const ke_node *f);
/* f = outside * inside, where outside does not depend on `side`; NULL stands for 1. */
void ke_split(ke_graph *g, int side, const ke_node *f, const ke_node **outside, const ke_node **inside);
/* f with everything of `side` taken at the rows that `index` numbers. */
const ke_node *ke_gather(ke_graph *g, const ke_node *f, int side, const ke_node *index);
const ke_node *ke_scatter(ke_graph *g, const ke_node *f, int from, int to, const ke_node *index);
/* The product as the plan wants it: no rule is applied. */
const ke_node *ke_plain_mult(ke_graph *g, const ke_node *a, const ke_node *b);
/* The same operation on other operands: rules are applied. */
const ke_node *ke_rebuild(ke_graph *g, const ke_node *n, const ke_node *const *child);

/* ---- structure (structure.c) ---- */
const ke_node *ke_iota(ke_graph *g, int dim);
const ke_node *ke_pick(ke_graph *g, const ke_node *f, int start, int step, int n);
const ke_node *ke_put(ke_graph *g, const ke_node *f, int start, int step, int dim);
/* Axes as in KE_N_CONTRACT, `naxes` times four numbers. */
const ke_node *ke_contract(ke_graph *g, const ke_node *f, const ke_node *h, const int *axes, int naxes);
/* Dimension of a contraction's result by these axes. */
int64_t ke_contract_dim(const int *axes, int naxes);
const ke_node *ke_extreme(ke_graph *g, const ke_node *f, bool largest);
/* 0-based position of the first extreme component; 0 where all are NaN. */
const ke_node *ke_arg_extreme(ke_graph *g, const ke_node *f, bool largest);
/* A (n x p, row-major) times b; b times A (p x n). */
const ke_node *ke_matvec(ke_graph *g, const ke_node *a, const ke_node *b);
const ke_node *ke_vecmat(ke_graph *g, const ke_node *b, const ke_node *a);
const ke_node *ke_tensorprod(ke_graph *g, const ke_node *a, const ke_node *b);

/* ---- derivatives (diff.c, tangent.c) ---- */
/* Cotangent of variable `v` for the cotangent `cot` of `root` (dimension of root; NULL result: zero).
 * pairwise: the derivative at each pair, nothing is summed; else the true gradient of root, whose rows
 * are those of `side`, summed over everything that v does not index. */
const ke_node *ke_gradient(ke_graph *g, const ke_node *root, int side, const ke_node *v,
                           const ke_node *cot, bool pairwise);
/* Differential of root in the direction u of variable v (forward mode); NULL: zero. */
const ke_node *ke_tangent(ke_graph *g, const ke_node *root, const ke_node *v, const ke_node *u);
/* What the derivatives of sum p G, p = exp(F - L), are made of: p, and G minus that sum. */
typedef struct {
  const ke_node *share, *beyond;
} ke_softmax;
ke_softmax ke_softmax_of(ke_graph *g, const ke_node *ratio);
/* The weights that a logarithm of a SUMEXP (VALUE, NORM) depends on; NULL: none. */
const ke_node *ke_log_weights(const ke_node *n);
/* The raw (m, s) of a SUMEXP as reductions that have derivatives: max F, sum exp(F - m) G. */
const ke_node *ke_sumexp_apart(ke_graph *g, const ke_node *raw);
/* A formula with $0 $1 $2 for operands (parse.c): for derivatives and sugar of the table. */
const ke_node *ke_template(ke_graph *g, const char *text, const ke_node *const *operand, int n);

static inline void ke_graph_undefined(ke_graph *g, int op, int operand)
{
  if (g->undefined) return;
  g->undefined = true;
  g->undefined_op = op;
  g->undefined_operand = operand;
}

static inline const ke_node *ke_add(ke_graph *g, const ke_node *a, const ke_node *b)
{
  return ke_binary(g, KE_OP_Add, a, b);
}

static inline const ke_node *ke_sub(ke_graph *g, const ke_node *a, const ke_node *b)
{
  return ke_binary(g, KE_OP_Subtract, a, b);
}

static inline const ke_node *ke_mult(ke_graph *g, const ke_node *a, const ke_node *b)
{
  return ke_binary(g, KE_OP_Mult, a, b);
}

/* The sum of two derivatives; NULL stands for zero. */
static inline const ke_node *ke_add_or(ke_graph *g, const ke_node *a, const ke_node *b)
{
  return !a ? b : !b ? a : ke_add(g, a, b);
}

static inline bool ke_is_scalar_op(const ke_node *n)
{
  return n->op < KE_OP_COUNT && ke_ops[n->op].kind <= KE_FUSED;
}

static inline bool ke_is_const(const ke_node *n, double value)
{
  return n->op == KE_N_CONST && n->value == value;
}

#endif
