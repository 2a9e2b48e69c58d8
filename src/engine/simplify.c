/* Constructors that simplify: rules are applied when a node is made, each one line of comment.
 *
 * Rules never change the value at finite arguments by more than rounding, and keep what R does with
 * NaN and Inf: 0 * x stays, x - x stays. Derivatives leave structural zeros out by themselves. */
#include "factors.h"

#include <string.h>

/* ---- plain making ---- */
static const ke_node *plain(ke_graph *g, int op, int dim, const ke_node *const *child, int nchild,
                            const int *ints, int nint)
{
  ke_node n = {.op = (uint16_t)op, .dim = dim, .nchild = (uint8_t)nchild, .nint = (uint16_t)nint, .ints = ints};

  for (int k = 0; k < nchild; k++) {
    n.child[k] = child[k];
    n.idx |= child[k]->idx;
  }
  return ke_intern(g, &n);
}

const ke_node *ke_const(ke_graph *g, double value)
{
  return ke_intern(g, &(ke_node){.op = KE_N_CONST, .dim = 1, .value = value});
}

const ke_node *ke_var(ke_graph *g, int arg, int side, int dim)
{
  return ke_intern(
      g, &(ke_node){.op = KE_N_VAR, .idx = (uint8_t)side, .dim = dim, .nint = 1, .ints = &arg});
}

const ke_node *ke_size(ke_graph *g, int side)
{
  if (!(g->rows_of & side)) return ke_const(g, 1);
  return ke_intern(g, &(ke_node){.op = KE_N_SIZE, .dim = 1, .nint = 1, .ints = &side});
}

const ke_node *ke_unary(ke_graph *g, int op, const ke_node *a)
{
  return ke_make(g, op, &a, NULL);
}

const ke_node *ke_binary(ke_graph *g, int op, const ke_node *a, const ke_node *b)
{
  return ke_make(g, op, (const ke_node *const[]){a, b}, NULL);
}

const ke_node *ke_with_int(ke_graph *g, int op, const ke_node *a, int m, int n)
{
  return ke_make(g, op, &a, (const int[]){m, n});
}

const ke_node *ke_ifelse(ke_graph *g, const ke_node *a, const ke_node *b, const ke_node *c)
{
  return ke_make(g, KE_OP_IfElse, (const ke_node *const[]){a, b, c}, NULL);
}

/* ---- small helpers of the rules ---- */
static const ke_node *minus(ke_graph *g, const ke_node *a)
{
  return ke_unary(g, KE_OP_Minus, a);
}

static int wider(const ke_node *a, const ke_node *b)
{
  return a->dim > b->dim ? a->dim : b->dim;
}

/* A repeated scalar beside an operand of full dimension: the scalar itself is enough. */
static const ke_node *bare(const ke_node *a, const ke_node *other)
{
  return a->op == KE_OP_SumT && other->dim == a->dim && other->op != KE_OP_SumT ? a->child[0] : a;
}

static bool has_const_factor(const ke_node *a)
{
  return a->op == KE_OP_Mult && a->child[0]->op == KE_N_CONST;
}

/* ---- one function an operation that has rules; NULL: none applies ---- */
static const ke_node *rule_add(ke_graph *g, const ke_node *a, const ke_node *b)
{
  if (a->op == KE_N_CONST && b->op == KE_N_CONST) return ke_const(g, a->value + b->value);
  if (ke_is_const(a, 0)) return b; /* 0 + x -> x */
  if (ke_is_const(b, 0)) return a; /* x + 0 -> x */
  if (a == b) return ke_mult(g, ke_const(g, 2), a); /* x + x -> 2 x */
  if (b->op == KE_OP_Minus) return ke_binary(g, KE_OP_Subtract, a, b->child[0]); /* x + -y -> x - y */
  if (a->op == KE_OP_Minus) return ke_binary(g, KE_OP_Subtract, b, a->child[0]); /* -x + y -> y - x */
  return NULL;
}

static const ke_node *rule_subtract(ke_graph *g, const ke_node *a, const ke_node *b)
{
  if (a->op == KE_N_CONST && b->op == KE_N_CONST) return ke_const(g, a->value - b->value);
  if (ke_is_const(a, 0) && b->dim >= a->dim) return minus(g, b); /* 0 - x -> -x */
  if (ke_is_const(b, 0)) return a;                               /* x - 0 -> x */
  if (b->op == KE_OP_Minus) return ke_add(g, a, b->child[0]);       /* x - -y -> x + y */
  return NULL;
}

static const ke_node *rule_mult(ke_graph *g, const ke_node *a, const ke_node *b)
{
  /* constants come first: operands are in order */
  if (a->op == KE_N_CONST && b->op == KE_N_CONST) return ke_const(g, a->value * b->value);
  if (ke_is_const(a, 1)) return b;            /* 1 x -> x */
  if (ke_is_const(a, -1)) return minus(g, b); /* -1 x -> -x */
  if (a->op == KE_N_CONST && has_const_factor(b)) /* c (d x) -> (c d) x */
    return ke_mult(g, ke_const(g, a->value * b->child[0]->value), b->child[1]);
  if (a->op == KE_N_CONST && b->op == KE_OP_Minus) /* c -x -> (-c) x */
    return ke_mult(g, ke_const(g, -a->value), b->child[0]);
  if (a->op == KE_OP_Minus && b->op == KE_OP_Minus) return ke_mult(g, a->child[0], b->child[0]);
  if (a->op == KE_OP_Minus && a->dim >= b->dim) return minus(g, ke_mult(g, a->child[0], b));
  if (b->op == KE_OP_Minus && b->dim >= a->dim) return minus(g, ke_mult(g, a, b->child[0]));
  if (a->op == KE_OP_Minus || b->op == KE_OP_Minus) /* -x y -> -(x y) */
    return minus(g, ke_mult(g, a->op == KE_OP_Minus ? a->child[0] : a,
                         b->op == KE_OP_Minus ? b->child[0] : b));
  if (has_const_factor(a)) /* (c x) y -> c (x y) */
    return ke_mult(g, a->child[0], ke_mult(g, a->child[1], b));
  if (a->op != KE_N_CONST && has_const_factor(b)) /* x (c y) -> c (x y) */
    return ke_mult(g, b->child[0], ke_mult(g, a, b->child[1]));
  if (a == b) return ke_unary(g, KE_OP_Square, a); /* x x -> x^2 */
  return NULL;
}

static const ke_node *rule_divide(ke_graph *g, const ke_node *a, const ke_node *b)
{
  if (a->op == KE_N_CONST && b->op == KE_N_CONST) return ke_const(g, a->value / b->value);
  if (ke_is_const(b, 1)) return a;                                           /* x / 1 -> x */
  if (ke_is_const(b, 2)) return ke_mult(g, ke_const(g, 0.5), a);                /* exact */
  if (ke_is_const(a, 1) && a->dim <= b->dim) return ke_unary(g, KE_OP_Inv, b); /* 1 / x */
  if (a->op == KE_OP_Minus) /* -x / y -> -(x / y) */
    return minus(g, ke_binary(g, KE_OP_Divide, a->child[0], b));
  if (b->op == KE_OP_Minus) return minus(g, ke_binary(g, KE_OP_Divide, a, b->child[0]));
  return NULL;
}

static const ke_node *rule_minus(ke_graph *g, const ke_node *a)
{
  if (a->op == KE_N_CONST) return ke_const(g, -a->value);
  if (a->op == KE_OP_Minus) return a->child[0]; /* - -x -> x */
  if (has_const_factor(a))                      /* -(c x) -> (-c) x */
    return ke_mult(g, ke_const(g, -a->child[0]->value), a->child[1]);
  return NULL;
}

static const ke_node *rule_square(ke_graph *g, const ke_node *a)
{
  if (a->op == KE_N_CONST) return ke_const(g, a->value * a->value);
  if (a->op == KE_OP_Minus || a->op == KE_OP_Abs) /* (-x)^2 -> x^2 */
    return ke_unary(g, KE_OP_Square, a->child[0]);
  if (a->op == KE_OP_Subtract && ke_compare(a->child[0], a->child[1]) > 0) /* (x-y)^2 = (y-x)^2 */
    return ke_unary(g, KE_OP_Square,
                    ke_binary(g, KE_OP_Subtract, a->child[1], a->child[0]));
  return NULL;
}

static const ke_node *rule_sum(ke_graph *g, const ke_node *a)
{
  if (a->dim == 1) return a;     /* Sum of one */
  if (a->op == KE_OP_SumT)       /* Sum of d equal ones */
    return ke_mult(g, ke_const(g, a->dim), a->child[0]);
  if (a->op == KE_OP_Minus) return minus(g, ke_unary(g, KE_OP_Sum, a->child[0]));
  for (int k = 0; k < 2 && a->op == KE_OP_Mult; k++)
    if (a->child[k]->dim == 1) /* Sum(s x) -> s Sum(x) */
      return ke_mult(g, a->child[k], ke_unary(g, KE_OP_Sum, a->child[1 - k]));
  return NULL;
}

/* Component m of something whose operands can be asked instead. */
static const ke_node *rule_elem(ke_graph *g, const ke_node *a, int m)
{
  const ke_node *child[KE_MAX_CHILD];

  if (a->dim == 1) return a;
  if (a->op == KE_OP_SumT) return a->child[0];
  if (a->op == KE_OP_Concat)
    return m < a->child[0]->dim
               ? ke_with_int(g, KE_OP_Elem, a->child[0], m, 0)
               : ke_with_int(g, KE_OP_Elem, a->child[1], m - a->child[0]->dim, 0);
  if (a->op == KE_OP_Extract) return ke_with_int(g, KE_OP_Elem, a->child[0], m + a->ints[0], 0);
  if (a->op == KE_OP_ElemT) return a->ints[1] == m ? a->child[0] : ke_const(g, 0);
  if (a->op == KE_N_IOTA) return ke_const(g, m);
  if (a->op == KE_N_PICK)
    return ke_with_int(g, KE_OP_Elem, a->child[0], a->ints[0] + a->ints[1] * m, 0);
  if (a->op == KE_N_PUT) {
    m -= a->ints[0];
    return m < 0 || m % a->ints[1] || m / a->ints[1] >= a->child[0]->dim
               ? ke_const(g, 0)
               : ke_with_int(g, KE_OP_Elem, a->child[0], m / a->ints[1], 0);
  }
  if (a->op == KE_OP_ExtractT) {
    m -= a->ints[0];
    return m < 0 || m >= a->child[0]->dim ? ke_const(g, 0)
                                          : ke_with_int(g, KE_OP_Elem, a->child[0], m, 0);
  }
  if (!ke_is_scalar_op(a)) return NULL;
  for (int k = 0; k < a->nchild; k++)
    child[k] = a->child[k]->dim == 1 ? a->child[k] : ke_with_int(g, KE_OP_Elem, a->child[k], m, 0);
  return ke_make(g, a->op, child, NULL);
}

static const ke_node *rule_extract(ke_graph *g, const ke_node *a, int start, int d)
{
  int left;

  if (d == a->dim) return a;
  if (d == 1) return ke_with_int(g, KE_OP_Elem, a, start, 0);
  if (a->op == KE_OP_Extract) return ke_with_int(g, KE_OP_Extract, a->child[0], start + a->ints[0], d);
  if (a->op == KE_OP_SumT) return ke_widen(g, a->child[0], d);
  if (a->op == KE_OP_Concat) {
    left = a->child[0]->dim;
    if (start + d <= left) return ke_with_int(g, KE_OP_Extract, a->child[0], start, d);
    if (start >= left) return ke_with_int(g, KE_OP_Extract, a->child[1], start - left, d);
  }
  return NULL;
}

static const ke_node *rule_vector(ke_graph *g, int op, const ke_node *const *c, const int *ints)
{
  switch (op) {
  case KE_OP_Sum: return rule_sum(g, c[0]);
  case KE_OP_SumT: return ints[0] == c[0]->dim ? c[0] : NULL;
  case KE_OP_Elem: return rule_elem(g, c[0], ints[0]);
  case KE_OP_ElemT: return ints[0] == 1 ? c[0] : NULL;
  case KE_OP_Extract: return rule_extract(g, c[0], ints[0], ints[1]);
  case KE_OP_ExtractT:
    if (ints[1] == c[0]->dim) return c[0];
    return c[0]->dim == 1 ? ke_with_int(g, KE_OP_ElemT, c[0], ints[1], ints[0]) : NULL;
  default: return NULL;
  }
}

static int vector_dim(int op, const ke_node *const *c, const int *ints)
{
  switch (op) {
  case KE_OP_SumT: return ints[0];
  case KE_OP_Concat: return c[0]->dim + c[1]->dim;
  case KE_OP_ElemT: return ints[0];
  case KE_OP_Extract:
  case KE_OP_ExtractT: return ints[1];
  default: return 1; /* Sum, Elem */
  }
}

static const ke_node *make_vector(ke_graph *g, int op, const ke_node *const *c, const int *ints)
{
  const ke_node *simpler = rule_vector(g, op, c, ints);

  if (simpler) return simpler;
  return plain(g, op, vector_dim(op, c, ints), c, ke_ops[op].arity, ints, ke_ops[op].nint);
}

static const ke_node *rule_scalar(ke_graph *g, int op, const ke_node *const *c)
{
  switch (op) {
  case KE_OP_Add: return rule_add(g, c[0], c[1]);
  case KE_OP_Subtract: return rule_subtract(g, c[0], c[1]);
  case KE_OP_Mult: return rule_mult(g, c[0], c[1]);
  case KE_OP_Divide: return rule_divide(g, c[0], c[1]);
  case KE_OP_Minus: return rule_minus(g, c[0]);
  case KE_OP_Square: return rule_square(g, c[0]);
  default: return NULL;
  }
}

static const ke_node *make_scalar(ke_graph *g, int op, const ke_node *const *child)
{
  const ke_node *c[KE_MAX_CHILD] = {NULL}, *simpler;
  int n = ke_ops[op].arity, dim = 1;
  bool widened = n > 0;

  for (int k = 0; k < n; k++) {
    c[k] = child[k];
    if (c[k]->dim > dim) dim = c[k]->dim;
  }
  /* op of repeated scalars -> repeated op of scalars */
  for (int k = 0; k < n; k++) widened &= c[k]->op == KE_OP_SumT || c[k]->dim == 1;
  if (widened && dim > 1) {
    for (int k = 0; k < n; k++) c[k] = c[k]->op == KE_OP_SumT ? c[k]->child[0] : c[k];
    return ke_widen(g, make_scalar(g, op, c), dim);
  }
  if (n == 2) {
    c[0] = bare(child[0], child[1]);
    c[1] = bare(child[1], child[0]);
    if ((op == KE_OP_Add || op == KE_OP_Mult) && ke_compare(c[0], c[1]) > 0) { /* order of structure */
      const ke_node *t = c[0];
      c[0] = c[1];
      c[1] = t;
    }
  }
  simpler = rule_scalar(g, op, c);
  if (simpler) return ke_widen(g, simpler, dim);
  return plain(g, op, n == 2 ? wider(c[0], c[1]) : dim, c, n, NULL, 0);
}

const ke_node *ke_make(ke_graph *g, int op, const ke_node *const *child, const int *ints)
{
  switch (ke_ops[op].kind) {
  case KE_VECTOR: return make_vector(g, op, child, ints);
  case KE_SUGAR: return ke_template(g, ke_ops[op].formula, child, ke_ops[op].arity);
  default: return make_scalar(g, op, child);
  }
}

const ke_node *ke_plain_mult(ke_graph *g, const ke_node *a, const ke_node *b)
{
  const ke_node *c[2] = {bare(a, b), bare(b, a)};

  if (c[0]->op == KE_N_CONST && c[1]->op == KE_N_CONST)
    return ke_const(g, c[0]->value * c[1]->value);
  return plain(g, KE_OP_Mult, wider(c[0], c[1]), c, 2, NULL, 0);
}

/* Rows are those of the index, whatever rows the column has. */
static const ke_node *gather_node(ke_graph *g, const ke_node *column, const ke_node *index)
{
  ke_node n = {.op = KE_N_GATHER,
               .dim = column->dim,
               .idx = index->idx,
               .nchild = 2,
               .child = {column, index}};

  return ke_intern(g, &n);
}

const ke_node *ke_rebuild(ke_graph *g, const ke_node *n, const ke_node *const *child)
{
  if (n->op < KE_OP_COUNT) return ke_make(g, n->op, child, n->ints);
  if (n->op == KE_N_REDUCE)
    return ke_reduce_over(g, ke_reduction_of(n), child[0], n->nchild > 1 ? child[1] : NULL);
  if (n->op == KE_N_PICK) return ke_pick(g, child[0], n->ints[0], n->ints[1], n->dim);
  if (n->op == KE_N_PUT) return ke_put(g, child[0], n->ints[0], n->ints[1], n->dim);
  if (n->op == KE_N_CONTRACT) return ke_contract(g, child[0], child[1], n->ints, n->nint / 4);
  if (n->op == KE_N_EXTREME) return ke_extreme(g, child[0], n->ints[0] == 1);
  if (n->op == KE_N_GATHER) return gather_node(g, child[0], child[1]);
  if (n->op == KE_N_SCATTER) return ke_scatter(g, child[0], n->ints[0], n->ints[1], child[1]);
  return n;
}

/* ---- what formulas and derivatives ask for ---- */
const ke_node *ke_widen(ke_graph *g, const ke_node *a, int d)
{
  return a->dim == d ? a : ke_with_int(g, KE_OP_SumT, a, d, 0);
}

const ke_node *ke_power(ke_graph *g, const ke_node *a, int n)
{
  switch (n) {
  case 0: return ke_widen(g, ke_const(g, 1), a->dim);
  case 1: return a;
  case 2: return ke_unary(g, KE_OP_Square, a);
  case 3: return ke_mult(g, a, ke_unary(g, KE_OP_Square, a));
  case 4: return ke_unary(g, KE_OP_Square, ke_unary(g, KE_OP_Square, a));
  case -1: return ke_unary(g, KE_OP_Inv, a);
  case -2: return ke_unary(g, KE_OP_Inv, ke_unary(g, KE_OP_Square, a));
  default: return ke_binary(g, KE_OP_Powf, a, ke_const(g, n));
  }
}

const ke_node *ke_scalprod(ke_graph *g, const ke_node *a, const ke_node *b)
{
  if (a->dim == 1) return ke_mult(g, a, ke_unary(g, KE_OP_Sum, b));
  if (b->dim == 1) return ke_mult(g, b, ke_unary(g, KE_OP_Sum, a));
  return ke_unary(g, KE_OP_Sum, ke_mult(g, a, b));
}

const ke_node *ke_sum_over(ke_graph *g, int context, int kept, const ke_node *f)
{
  ke_reduction sum = {.kind = KE_RED_SUM, .k = 1, .ranged = g->ranged && context == (KE_I | KE_J)};

  for (sum.side = KE_J; sum.side >= KE_I; sum.side--)
    if (context & ~kept & sum.side) {
      f = ke_reduce_over(g, sum, f, NULL);
      sum.ranged = false; /* what is left has one side */
    }
  return f;
}

/* ---- sums: factors that do not depend on the reduced index go outside ---- */
/* Factors of a product, in `in` those that depend on `side`, in `out` the others. `waiting` operands of
 * products above are still to come: a place is kept for each. */
static void split_product(ke_graph *g, int side, const ke_node *f, ke_factors *in, ke_factors *out,
                          int waiting)
{
  bool room = in->n + out->n + waiting + 2 <= KE_MAX_FACTORS;

  if (room && f->op == KE_OP_Mult) {
    split_product(g, side, f->child[0], in, out, waiting + 1);
    split_product(g, side, f->child[1], in, out, waiting);
  } else if (room && f->op == KE_OP_Minus) {
    out->f[out->n++] = ke_const(g, -1);
    split_product(g, side, f->child[0], in, out, waiting);
  } else if (room && f->op == KE_OP_SumT && (f->idx & side)) {
    split_product(g, side, f->child[0], in, out, waiting);
  } else if (room && f->op == KE_OP_Divide && !(f->child[1]->idx & side)) {
    split_product(g, side, f->child[0], in, out, waiting + 1);
    out->f[out->n++] = ke_unary(g, KE_OP_Inv, f->child[1]);
  } else if (f->idx & side) {
    in->f[in->n++] = f;
  } else {
    out->f[out->n++] = f;
  }
}

static void sort_factors(ke_factors *l)
{
  for (int k = 1; k < l->n; k++)
    for (int m = k; m > 0 && ke_compare(l->f[m - 1], l->f[m]) > 0; m--) {
      const ke_node *t = l->f[m];
      l->f[m] = l->f[m - 1];
      l->f[m - 1] = t;
    }
}

/* What belongs together comes together: ({} scalars)(side scalars)(side vectors), (pair scalars)
 * (pair vectors), so that the plan computes each product once on its own side. */
static const ke_node *group_product(ke_graph *g, ke_factors *l)
{
  const ke_node *narrow = NULL, *wide = NULL;

  sort_factors(l);
  for (int idx = 0; idx <= (KE_I | KE_J); idx++) {
    narrow = ke_times_or(g, ke_mult, narrow, ke_product_of(g, ke_mult, l, idx, false));
    wide = ke_times_or(g, ke_mult, wide, ke_product_of(g, ke_mult, l, idx, true));
  }
  return ke_times_or(g, ke_mult, narrow, wide);
}

void ke_split(ke_graph *g, int side, const ke_node *f, const ke_node **outside, const ke_node **inside)
{
  ke_factors in = {.n = 0}, out = {.n = 0};
  const ke_node *o[2], *i[2];

  if ((f->op == KE_OP_Add || f->op == KE_OP_Subtract) && f->child[0]->dim == f->child[1]->dim) {
    for (int k = 0; k < 2; k++) ke_split(g, side, f->child[k], &o[k], &i[k]);
    if (o[0] && o[0] == o[1]) { /* a x + a y -> a (x + y), and a + a y -> a (1 + y) */
      for (int k = 0; k < 2; k++)
        if (!i[k]) i[k] = ke_const(g, 1);
      *outside = o[0];
      *inside = ke_binary(g, f->op, i[0], i[1]);
      return;
    }
  }
  split_product(g, side, f, &in, &out, 0);
  *outside = out.n ? group_product(g, &out) : NULL;
  *inside = in.n ? group_product(g, &in) : NULL;
}

ke_reduction ke_reduction_of(const ke_node *n)
{
  return (ke_reduction){.kind = (ke_reduce_kind)n->ints[0],
                        .side = n->ints[1],
                        .part = (ke_part)n->ints[2],
                        .k = n->ints[3],
                        .ranged = n->ints[4]};
}

static const ke_node *reduce_plain(ke_graph *g, ke_reduction how, const ke_node *f, const ke_node *weights)
{
  int width = weights ? weights->dim : f->dim;
  ke_node n = {.op = KE_N_REDUCE,
               .nchild = weights ? 2 : 1,
               .nint = 5,
               .ints = (const int[]){(int)how.kind, how.side, (int)how.part, how.k, how.ranged},
               .child = {f, weights}};

  n.dim = how.part == KE_PART_RAW     ? width + 1
          : how.part == KE_PART_NORM  ? 1
          : how.part == KE_PART_RATIO ? width - 1
                                      : width * how.k;
  n.idx = (uint8_t)((f->idx | (weights ? weights->idx : 0)) & ~how.side);
  if (how.ranged) n.idx = (uint8_t)((KE_I | KE_J) & ~how.side);
  return ke_intern(g, &n);
}

static const ke_node *reduce_sum(ke_graph *g, ke_reduction how, const ke_node *f)
{
  const ke_node *outside, *inside, *sum;

  if (!(f->idx & how.side)) { /* of equal ones */
    sum = how.ranged ? reduce_plain(g, how, ke_const(g, 1), NULL) : ke_size(g, how.side);
    return ke_mult(g, sum, f);
  }
  ke_split(g, how.side, f, &outside, &inside);
  sum = reduce_plain(g, how, inside, NULL);
  return ke_widen(g, outside ? ke_mult(g, outside, sum) : sum, f->dim);
}

const ke_node *ke_reduce_over(ke_graph *g, ke_reduction how, const ke_node *f, const ke_node *weights)
{
  return how.kind == KE_RED_SUM ? reduce_sum(g, how, f) : reduce_plain(g, how, f, weights);
}

/* ---- gather and scatter ---- */
static const ke_node *gather_in(ke_graph *g, const ke_node *f, int side, const ke_node *index,
                                const ke_node **memo, int nmemo)
{
  const ke_node *child[KE_MAX_CHILD], *made;

  if (!(f->idx & side)) return f;
  if (f->id < nmemo && memo[f->id]) return memo[f->id];
  if (f->op == KE_N_VAR || f->op == KE_N_SCATTER || (f->op == KE_N_REDUCE && f->idx == side)) {
    made = gather_node(g, f, index);
  } else if (f->op == KE_N_GATHER) {
    made = gather_node(g, f->child[0], gather_in(g, f->child[1], side, index, memo, nmemo));
  } else {
    for (int k = 0; k < f->nchild; k++)
      child[k] = gather_in(g, f->child[k], side, index, memo, nmemo);
    made = ke_rebuild(g, f, child);
  }
  if (f->id < nmemo) memo[f->id] = made;
  return made;
}

const ke_node *ke_gather(ke_graph *g, const ke_node *f, int side, const ke_node *index)
{
  int n = g->n;
  const ke_node **memo = ke_arena_alloc(g->arena, (size_t)n * sizeof *memo);

  if (!memo) {
    g->failed = true;
    return &g->dummy;
  }
  return gather_in(g, f, side, index, memo, n);
}

const ke_node *ke_scatter(ke_graph *g, const ke_node *f, int from, int to, const ke_node *index)
{
  ke_node n = {.op = KE_N_SCATTER,
               .dim = f->dim,
               .idx = (uint8_t)to,
               .nchild = 2,
               .nint = 2,
               .ints = (const int[]){from, to},
               .child = {f, index}};

  return ke_intern(g, &n);
}
