/* Forward-mode differentiation: the differential of a formula in a direction of one variable.
 *
 * No sums over indices are needed here: a row's differential depends on the same items as the row. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  ke_graph *g;
  const ke_node *v, *u;
  int n;
  const ke_node **memo; /* by id of the nodes that were there before */
  char *known;
} sweep;

static const ke_node *tangent(sweep *s, const ke_node *n);

static const ke_node *scalar_operation(sweep *s, const ke_node *n)
{
  const ke_node *sum = NULL, *t;
  const char *rule;

  for (int k = 0; k < n->nchild; k++) {
    t = tangent(s, n->child[k]);
    rule = ke_ops[n->op].deriv[k];
    if (!t || !rule || !*rule) continue;
    if (ke_op_undefined(n->op, k)) {
      ke_graph_undefined(s->g, n->op, k);
      continue;
    }
    t = ke_binary(s->g, KE_OP_Mult, t, ke_template(s->g, rule, n->child, n->nchild));
    sum = ke_add_or(s->g, sum, ke_widen(s->g, t, n->dim));
  }
  return sum;
}

/* Operations that are linear in their operands together: the same on the differentials. */
static const ke_node *linear(sweep *s, const ke_node *n)
{
  const ke_node *child[KE_MAX_CHILD];
  bool any = false;

  for (int k = 0; k < n->nchild; k++) {
    child[k] = tangent(s, n->child[k]);
    any |= child[k] != NULL;
    if (!child[k]) child[k] = ke_widen(s->g, ke_const(s->g, 0), n->child[k]->dim);
  }
  return any ? ke_rebuild(s->g, n, child) : NULL;
}

static const ke_node *contraction(sweep *s, const ke_node *n)
{
  const ke_node *a = tangent(s, n->child[0]), *b = tangent(s, n->child[1]);

  if (a) a = ke_contract(s->g, a, n->child[1], n->ints, n->nint / 4);
  if (b) b = ke_contract(s->g, n->child[0], b, n->ints, n->nint / 4);
  return ke_add_or(s->g, a, b);
}

static const ke_node *extreme(sweep *s, const ke_node *n)
{
  const ke_node *f = n->child[0], *t = tangent(s, f);

  if (!t) return NULL;
  return ke_scalprod(s->g, t,
                     ke_binary(s->g, KE_OP_Equal, ke_iota(s->g, f->dim),
                               ke_arg_extreme(s->g, f, n->ints[0] == 1)));
}

/* The sum of f over the items that the reduction n is over. */
static const ke_node *sum_over(sweep *s, const ke_node *n, const ke_node *f)
{
  ke_reduction sum = ke_reduction_of(n);

  sum.kind = KE_RED_SUM;
  sum.part = KE_PART_VALUE;
  sum.k = 1;
  return ke_reduce_over(s->g, sum, f, NULL);
}

/* L = log sum exp(F) G: dL = sum exp(F - L) (G dF + dG) */
static const ke_node *reduced_logsumexp(sweep *s, const ke_node *n)
{
  ke_graph *g = s->g;
  const ke_node *f = n->child[0], *w = ke_log_weights(n);
  const ke_node *df = tangent(s, f), *dw = w ? tangent(s, w) : NULL;
  const ke_node *inside = df && w ? ke_binary(g, KE_OP_Mult, df, w) : df;

  inside = ke_add_or(g, inside, dw);
  if (!inside) return NULL;
  inside = ke_binary(g, KE_OP_Mult, ke_binary(g, KE_OP_ExpSub, f, n), inside);
  return sum_over(s, n, ke_widen(g, inside, n->dim));
}

/* S = sum p G, p = exp(F - L): dS = sum p (dF (G - S) + dG) */
static const ke_node *reduced_ratio(sweep *s, const ke_node *n)
{
  ke_graph *g = s->g;
  const ke_node *df = tangent(s, n->child[0]), *dw = tangent(s, n->child[1]);
  ke_softmax soft = ke_softmax_of(g, n);
  const ke_node *inside = df ? ke_mult(g, df, soft.beyond) : NULL;

  if (dw) inside = ke_add_or(g, inside, ke_with_int(g, KE_OP_Extract, dw, 1, n->dim));
  if (!inside) return NULL;
  return sum_over(s, n, ke_widen(g, ke_mult(g, soft.share, inside), n->dim));
}

static const ke_node *reduced_extreme(sweep *s, const ke_node *n)
{
  ke_graph *g = s->g;
  const ke_node *t = tangent(s, n->child[0]), *index, *at, *out = NULL, *one;
  ke_reduction how = ke_reduction_of(n);

  if (!t) return NULL;
  how.part = KE_PART_INDEX;
  index = ke_reduce_over(g, how, n->child[0], NULL);
  if (n->dim > KE_MAX_TAKEN) g->too_big = true;
  for (int k = 0; k < n->dim && !g->too_big && !g->failed; k++) {
    at = ke_with_int(g, KE_OP_Elem, index, k, 0);
    one = ke_gather(g, ke_with_int(g, KE_OP_Elem, t, k % t->dim, 0), how.side, at);
    one = ke_ifelse(g, at, one, ke_const(g, 0));
    out = out ? ke_binary(g, KE_OP_Concat, out, one) : one;
  }
  return out;
}

static const ke_node *reduction(sweep *s, const ke_node *n)
{
  ke_reduction how = ke_reduction_of(n);
  const ke_node *t;

  if (how.part == KE_PART_INDEX) return NULL;
  switch (how.kind) {
  case KE_RED_SUM:
    t = tangent(s, n->child[0]);
    return t ? sum_over(s, n, t) : NULL;
  case KE_RED_SUMEXP:
    return how.part == KE_PART_RATIO ? reduced_ratio(s, n)
           : how.part == KE_PART_RAW ? tangent(s, ke_sumexp_apart(s->g, n))
                                     : reduced_logsumexp(s, n);
  default: return reduced_extreme(s, n);
  }
}

static const ke_node *node_tangent(sweep *s, const ke_node *n)
{
  const ke_node *t;

  if (ke_is_scalar_op(n)) return scalar_operation(s, n);
  switch (n->op) {
  case KE_N_CONST:
  case KE_N_VAR:
  case KE_N_SIZE:
  case KE_N_IOTA: return NULL;
  case KE_N_CONTRACT: return contraction(s, n);
  case KE_N_EXTREME: return extreme(s, n);
  case KE_N_REDUCE: return reduction(s, n);
  case KE_N_GATHER:
    t = tangent(s, n->child[0]);
    return t ? ke_gather(s->g, t, n->child[0]->idx, n->child[1]) : NULL;
  case KE_N_SCATTER:
    t = tangent(s, n->child[0]);
    return t ? ke_scatter(s->g, t, n->ints[0], n->ints[1], n->child[1]) : NULL;
  default: return linear(s, n);
  }
}

static const ke_node *tangent(sweep *s, const ke_node *n)
{
  if (n == s->v) return s->u;
  if (n->id >= s->n) return node_tangent(s, n);
  if (!s->known[n->id]) {
    s->memo[n->id] = node_tangent(s, n);
    s->known[n->id] = 1;
  }
  return s->memo[n->id];
}

const ke_node *ke_tangent(ke_graph *g, const ke_node *root, const ke_node *v, const ke_node *u)
{
  sweep s = {.g = g, .v = v, .u = u, .n = root->id + 1};
  const ke_node *t = NULL;

  s.memo = calloc((size_t)s.n, sizeof *s.memo);
  s.known = calloc((size_t)s.n, 1);
  if (s.memo && s.known)
    t = tangent(&s, root);
  else
    g->failed = true;
  free(s.memo);
  free(s.known);
  return t;
}
