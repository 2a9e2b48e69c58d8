/* Reverse-mode differentiation: the cotangent of a variable, as a graph again, so to any order.
 *
 * One rule for indices: where a node of index set A is used in a wider set B, its cotangent is summed
 * over B without A. The sum is taken at the edge where the set narrows, so what follows is work per
 * row, and a reduction never sees a third index. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  ke_graph *g;
  const ke_node *v;
  bool pairwise;
  int n;               /* nodes with ids below this one may hold a cotangent */
  const ke_node **cot; /* by id; NULL: zero */
  signed char *needs;  /* by id: depends on v (1) or not (0), -1 not asked yet */
  const ke_node *extra; /* added to the variable's cotangent from gradients through an argument */
} sweep;

static bool depends(sweep *s, const ke_node *n)
{
  if (n == s->v) return true;
  if (s->needs[n->id] < 0) {
    s->needs[n->id] = 0;
    for (int k = 0; k < n->nchild; k++)
      if (depends(s, n->child[k])) s->needs[n->id] = 1;
  }
  return s->needs[n->id] == 1;
}

/* Add `c` to the cotangent of `child`, which is used where the index set is `context`. */
static void contribute(sweep *s, const ke_node *child, int context, const ke_node *c)
{
  if (!c || !depends(s, child)) return;
  if (!s->pairwise) c = ke_sum_over(s->g, context, child->idx, c);
  s->cot[child->id] = ke_add_or(s->g, s->cot[child->id], ke_widen(s->g, c, child->dim));
}

static void scalar_operation(sweep *s, const ke_node *n, const ke_node *cot)
{
  const char *rule;
  const ke_node *c;

  for (int k = 0; k < n->nchild; k++) {
    rule = ke_ops[n->op].deriv[k];
    if (!rule || !*rule || !depends(s, n->child[k])) continue;
    if (ke_op_undefined(n->op, k)) {
      ke_graph_undefined(s->g, n->op, k);
      continue;
    }
    c = ke_template(s->g, rule, n->child, n->nchild);
    c = ke_widen(s->g, ke_mult(s->g, cot, c), n->dim);
    if (n->child[k]->dim < n->dim) c = ke_unary(s->g, KE_OP_Sum, c);
    contribute(s, n->child[k], n->idx, c);
  }
}

static void vector_operation(sweep *s, const ke_node *n, const ke_node *cot)
{
  ke_graph *g = s->g;
  const ke_node *a = n->child[0], *c = NULL;

  switch (n->op) {
  case KE_OP_Sum: c = ke_widen(g, cot, a->dim); break;
  case KE_OP_SumT: c = ke_unary(g, KE_OP_Sum, cot); break;
  case KE_OP_Elem: c = ke_with_int(g, KE_OP_ElemT, cot, a->dim, n->ints[0]); break;
  case KE_OP_ElemT: c = ke_with_int(g, KE_OP_Elem, cot, n->ints[1], 0); break;
  case KE_OP_Extract: c = ke_with_int(g, KE_OP_ExtractT, cot, n->ints[0], a->dim); break;
  case KE_OP_ExtractT: c = ke_with_int(g, KE_OP_Extract, cot, n->ints[0], a->dim); break;
  case KE_OP_Concat:
    contribute(s, n->child[1], n->idx,
               ke_with_int(g, KE_OP_Extract, cot, a->dim, n->child[1]->dim));
    c = ke_with_int(g, KE_OP_Extract, cot, 0, a->dim);
    break;
  default: break;
  }
  contribute(s, a, n->idx, c);
}

/* A contraction is linear in each factor: the other one is contracted with the cotangent. */
static void contraction(sweep *s, const ke_node *n, const ke_node *cot)
{
  int naxes = n->nint / 4;
  int *axes;

  for (int which = 0; which < 2; which++) {
    axes = ke_arena_alloc(s->g->arena, (size_t)(n->nint + 1) * sizeof *axes);
    if (!axes) {
      s->g->failed = true;
      return;
    }
    for (int a = 0; a < naxes; a++) {
      const int *from = n->ints + 4 * a;
      int *to = axes + 4 * a;
      to[0] = from[0];
      to[1] = from[3];
      to[2] = from[2 - which];
      to[3] = from[1 + which];
    }
    contribute(s, n->child[which], n->idx,
               ke_contract(s->g, cot, n->child[1 - which], axes, naxes));
  }
}

/* The sides of the pairs that a reduction is over. */
static int pairs_of(const ke_node *n)
{
  int sides = n->idx | n->ints[1];

  for (int k = 0; k < n->nchild; k++) sides |= n->child[k]->idx;
  return sides;
}

/* Sum over i or j: each item gets the row's cotangent. */
static void reduced_sum(sweep *s, const ke_node *n, const ke_node *cot)
{
  contribute(s, n->child[0], ke_reduction_of(n).ranged ? pairs_of(n) : n->child[0]->idx | n->ints[1], cot);
}

/* L = log sum exp(F) G: dF gets exp(F - L) G, dG gets exp(F - L). */
static void reduced_logsumexp(sweep *s, const ke_node *n, const ke_node *cot)
{
  const ke_node *f = n->child[0], *w = ke_log_weights(n);
  const ke_node *share = ke_mult(s->g, cot, ke_binary(s->g, KE_OP_ExpSub, f, n));

  if (w) contribute(s, w, pairs_of(n), share);
  if (w) share = ke_scalprod(s->g, share, w);
  contribute(s, f, pairs_of(n), share);
}

const ke_node *ke_log_weights(const ke_node *n)
{
  return n->nchild > 1 && ke_reduction_of(n).part != KE_PART_NORM ? n->child[1] : NULL;
}

ke_softmax ke_softmax_of(ke_graph *g, const ke_node *ratio)
{
  const ke_node *f = ratio->child[0], *w = ratio->child[1];
  ke_reduction how = ke_reduction_of(ratio);

  how.part = KE_PART_NORM;
  return (ke_softmax){.share = ke_binary(g, KE_OP_ExpSub, f, ke_reduce_over(g, how, f, w)),
                      .beyond = ke_sub(g, ke_with_int(g, KE_OP_Extract, w, 1, ratio->dim), ratio)};
}

/* S = sum p G, p = exp(F - L): dG gets p, dF gets p (G - S). */
static void reduced_ratio(sweep *s, const ke_node *n, const ke_node *cot)
{
  ke_softmax soft = ke_softmax_of(s->g, n);
  const ke_node *share = ke_mult(s->g, cot, soft.share);

  contribute(s, n->child[1], pairs_of(n), ke_with_int(s->g, KE_OP_ExtractT, share, 1, n->child[1]->dim));
  contribute(s, n->child[0], pairs_of(n), ke_scalprod(s->g, share, soft.beyond));
}

const ke_node *ke_sumexp_apart(ke_graph *g, const ke_node *raw)
{
  const ke_node *f = raw->child[0], *w = raw->nchild > 1 ? raw->child[1] : NULL, *top, *e;
  ke_reduction how = ke_reduction_of(raw);

  how.part = KE_PART_VALUE;
  how.kind = KE_RED_MAX;
  top = ke_reduce_over(g, how, f, NULL);
  how.kind = KE_RED_SUM;
  e = ke_binary(g, KE_OP_ExpSub, f, top);
  return ke_binary(g, KE_OP_Concat, top, ke_reduce_over(g, how, w ? ke_mult(g, e, w) : e, NULL));
}

/* Min, Max and KMin: through the items that were taken, each component its own. */
static void reduced_extreme(sweep *s, const ke_node *n, const ke_node *cot)
{
  ke_graph *g = s->g;
  const ke_node *f = n->child[0], *taken, *c, *at;
  ke_reduction how = ke_reduction_of(n);
  const ke_node *index;

  how.part = KE_PART_INDEX;
  index = ke_reduce_over(g, how, f, NULL);
  if (n->dim > KE_MAX_TAKEN) g->too_big = true;
  for (int k = 0; k < n->dim && !g->too_big && !g->failed; k++) {
    at = ke_with_int(g, KE_OP_Elem, index, k, 0);
    taken = ke_gather(g, ke_with_int(g, KE_OP_Elem, f, k % f->dim, 0), how.side, at);
    c = ke_with_int(g, KE_OP_Elem, cot, k, 0);
    c = ke_ifelse(g, at, c, ke_const(g, 0)); /* no item taken (-1): nothing flows */
    s->extra = ke_add_or(g, s->extra, ke_gradient(g, taken, n->idx, s->v, c, false));
  }
}

static void reduction(sweep *s, const ke_node *n, const ke_node *cot)
{
  ke_reduction how = ke_reduction_of(n);

  if (how.part == KE_PART_INDEX) return; /* constant where it is smooth */
  switch (how.kind) {
  case KE_RED_SUM: reduced_sum(s, n, cot); break;
  case KE_RED_SUMEXP:
    if (how.part == KE_PART_RATIO)
      reduced_ratio(s, n, cot);
    else if (how.part == KE_PART_RAW)
      s->extra = ke_add_or(s->g, s->extra,
                           ke_gradient(s->g, ke_sumexp_apart(s->g, n), n->idx, s->v, cot, false));
    else
      reduced_logsumexp(s, n, cot);
    break;
  default: reduced_extreme(s, n, cot); break;
  }
}

static void node_step(sweep *s, const ke_node *n, const ke_node *cot)
{
  if (n->op < KE_OP_COUNT) {
    if (ke_is_scalar_op(n))
      scalar_operation(s, n, cot);
    else
      vector_operation(s, n, cot);
    return;
  }
  switch (n->op) {
  case KE_N_PICK:
    contribute(s, n->child[0], n->idx,
               ke_put(s->g, cot, n->ints[0], n->ints[1], n->child[0]->dim));
    break;
  case KE_N_PUT:
    contribute(s, n->child[0], n->idx,
               ke_pick(s->g, cot, n->ints[0], n->ints[1], n->child[0]->dim));
    break;
  case KE_N_CONTRACT: contraction(s, n, cot); break;
  case KE_N_EXTREME: /* to the first extreme component only */
    contribute(s, n->child[0], n->idx,
               ke_mult(s->g, cot,
                    ke_binary(s->g, KE_OP_Equal, ke_iota(s->g, n->child[0]->dim),
                              ke_arg_extreme(s->g, n->child[0], n->ints[0] == 1))));
    break;
  case KE_N_GATHER:
    if (depends(s, n->child[0]))
      s->cot[n->child[0]->id] =
          ke_add_or(s->g, s->cot[n->child[0]->id],
              ke_scatter(s->g, cot, n->idx, n->child[0]->idx, n->child[1]));
    break;
  case KE_N_SCATTER: /* gathered, at the rows of the side it came from */
    contribute(s, n->child[0], n->ints[0], ke_gather(s->g, cot, n->ints[1], n->child[1]));
    break;
  case KE_N_REDUCE: reduction(s, n, cot); break;
  default: break;
  }
}

const ke_node *ke_gradient(ke_graph *g, const ke_node *root, int side, const ke_node *v,
                           const ke_node *cot, bool pairwise)
{
  int first = root->id > v->id ? root->id : v->id;
  sweep s = {.g = g, .v = v, .pairwise = pairwise, .n = first + 1};
  const ke_node *result = NULL;

  s.cot = calloc((size_t)s.n, sizeof *s.cot);
  s.needs = malloc((size_t)s.n);
  if (!s.cot || !s.needs) {
    g->failed = true;
    goto done;
  }
  memset(s.needs, -1, (size_t)s.n);
  contribute(&s, root, side, cot);
  for (int id = root->id; id >= 0; id--)
    if (s.cot[id] && g->node[id] != v) node_step(&s, g->node[id], s.cot[id]);
  result = ke_add_or(g, s.cot[v->id], s.extra);

done:
  free(s.cot);
  free(s.needs);
  return result;
}
