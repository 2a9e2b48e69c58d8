/* Words for derivatives: reverse mode (Grad), forward mode (Diff) and the operators made of them. */
#include "words.h"

enum { BOTH = KE_I | KE_J };

/* ---- derivatives ---- */
static ke_status need_variable(ke_parser *p, int pos, const char *name, const ke_value *v)
{
  if (v->node->op == KE_N_VAR || p->g->failed || p->g->too_big) return KE_OK;
  return ke_parse_fail(p, KE_ERR_PARSE, pos, "%s needs a variable as second operand, not a formula", name);
}

static ke_status need_no_mixture(ke_parser *p, int pos, const char *name, const ke_value *f)
{
  if (!f->reduced || f->side != BOTH) return KE_OK;
  return ke_parse_fail(p, KE_ERR_PARSE, pos,
                       "%s of a formula of i and j that holds a reduction is not defined: take it of the whole reduction",
                       name);
}

static const ke_node *or_zero(ke_graph *g, const ke_node *n, int dim)
{
  return n ? n : ke_widen(g, ke_const(g, 0), dim);
}

/* Grad(F, v, cotangent): of a reduction the true gradient, summed over what v does not index; of a
 * formula of pairs the derivative at each pair. */
ke_status word_Grad(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[3];
  const ke_node *n;

  KE_TRY(ke_words_call(p, "Grad", 3, v));
  KE_TRY(need_variable(p, pos, "Grad", &v[1]));
  KE_TRY(need_no_mixture(p, pos, "Grad", &v[0]));
  if (v[2].node->dim != v[0].node->dim)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                         "the cotangent in Grad must have the formula's dimension %d, not %d",
                         v[0].node->dim, v[2].node->dim);
  if (v[0].reduced && (v[2].side & ~v[0].side))
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                         "the cotangent in Grad must have the rows of the reduction (%s)",
                         v[0].side == KE_I   ? "those of i"
                         : v[0].side == KE_J ? "those of j"
                                             : "one row");
  n = ke_gradient(p->g, v[0].node, v[0].side, v[1].node, v[2].node, !v[0].reduced);
  n = or_zero(p->g, n, v[1].node->dim);
  if (v[0].reduced)
    *out = (ke_value){.node = n, .side = v[1].node->idx, .reduced = true};
  else
    *out = ke_value_join(n, (const ke_value[]){v[0], v[2]}, 2);
  return KE_OK;
}

/* ---- forward mode and operators made of it ---- */

/* F differentiated with respect to v: what F's rows are, the result's are. */
static ke_status read_derivative(ke_parser *p, int pos, const char *name, int n, ke_value *v)
{
  KE_TRY(ke_words_call(p, name, n, v));
  KE_TRY(need_variable(p, pos, name, &v[1]));
  return need_no_mixture(p, pos, name, &v[0]);
}

static ke_status need_pairwise(ke_parser *p, int pos, const char *name, const ke_value *f)
{
  if (!f->reduced) return KE_OK;
  return ke_parse_fail(p, KE_ERR_PARSE, pos, "%s is for formulas inside a reduction, not of a reduction", name);
}

/* Diff(F, v, u): the differential of F in the direction u of v */
ke_status word_Diff(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[3];

  KE_TRY(read_derivative(p, pos, "Diff", 3, v));
  KE_TRY(ke_words_same_dim(p, pos, "Diff", "the direction", v[2].node->dim, v[1].node->dim));
  if (v[0].reduced && (v[2].node->idx & ~v[1].node->idx))
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "the direction in Diff has rows of its own; it must have those of the variable");
  *out = ke_value_join(or_zero(p->g, ke_tangent(p->g, v[0].node, v[1].node, v[2].node), v[0].node->dim), v, 1);
  if (!v[0].reduced) out->side |= v[2].side;
  return KE_OK;
}

/* Unit vector k of dimension d. */
static const ke_node *unit(ke_graph *g, int d, int k)
{
  return ke_with_int(g, KE_OP_ElemT, ke_const(g, 1), d, k);
}

/* One derivative a component is made: graphs of more would pass the limits of depth and size. */
enum { MAX_COMPONENTS = 2048 };

static ke_status few_components(ke_parser *p, int pos, const char *name, const ke_node *v)
{
  if (v->dim <= MAX_COMPONENTS) return KE_OK;
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "%s of a variable with %d components, allowed are %d",
                       name, v->dim, MAX_COMPONENTS);
}

static const ke_node *divergence(ke_graph *g, const ke_node *f, const ke_node *v)
{
  const ke_node *sum = NULL, *t;

  for (int k = 0; k < v->dim && !g->too_big && !g->failed; k++) {
    t = ke_tangent(g, f, v, unit(g, v->dim, k));
    if (!t) continue;
    t = ke_with_int(g, KE_OP_Elem, t, f->dim == 1 ? 0 : k, 0);
    sum = sum ? ke_binary(g, KE_OP_Add, sum, t) : t;
  }
  return or_zero(g, sum, 1);
}

/* Divergence(F, v): trace of the Jacobian */
ke_status word_Divergence(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(read_derivative(p, pos, "Divergence", 2, v));
  KE_TRY(need_pairwise(p, pos, "Divergence", &v[0]));
  KE_TRY(few_components(p, pos, "Divergence", v[1].node));
  KE_TRY(ke_words_same_dim(p, pos, "Divergence", "the formula", v[0].node->dim, v[1].node->dim));
  *out = ke_value_join(divergence(p->g, v[0].node, v[1].node), v, 1);
  return KE_OK;
}

/* TraceOperator(F, v): trace of F, linear in v; of a scalar F the sum of its row */
ke_status word_TraceOperator(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(read_derivative(p, pos, "TraceOperator", 2, v));
  KE_TRY(need_pairwise(p, pos, "TraceOperator", &v[0]));
  KE_TRY(few_components(p, pos, "TraceOperator", v[1].node));
  if (v[0].node->dim != 1)
    KE_TRY(ke_words_same_dim(p, pos, "TraceOperator", "the formula", v[0].node->dim, v[1].node->dim));
  *out = ke_value_join(divergence(p->g, v[0].node, v[1].node), v, 1);
  return KE_OK;
}

/* Laplacian(F, v): divergence of the gradient */
ke_status word_Laplacian(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  const ke_node *n;

  KE_TRY(read_derivative(p, pos, "Laplacian", 2, v));
  KE_TRY(need_pairwise(p, pos, "Laplacian", &v[0]));
  KE_TRY(few_components(p, pos, "Laplacian", v[1].node));
  KE_TRY(ke_words_same_dim(p, pos, "Laplacian", "the formula", v[0].node->dim, 1));
  n = ke_gradient(p->g, v[0].node, v[0].side, v[1].node, ke_const(p->g, 1), true);
  *out = ke_value_join(n ? divergence(p->g, n, v[1].node) : ke_const(p->g, 0), v, 1);
  return KE_OK;
}

/* AdjointOperator(F, v, u): the transpose of the linear map v -> F, applied to u */
ke_status word_AdjointOperator(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[3];
  const ke_node *n;

  KE_TRY(read_derivative(p, pos, "AdjointOperator", 3, v));
  KE_TRY(need_pairwise(p, pos, "AdjointOperator", &v[0]));
  KE_TRY(ke_words_same_dim(p, pos, "AdjointOperator", "the last operand", v[2].node->dim, v[0].node->dim));
  n = ke_gradient(p->g, v[0].node, v[0].side, v[1].node, v[2].node, true);
  *out = ke_value_join(or_zero(p->g, n, v[1].node->dim), (const ke_value[]){v[0], v[2]}, 2);
  return KE_OK;
}

/* GradMatrix(F, v): the Jacobian, row-major: a row a component of F */
ke_status word_GradMatrix(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  ke_graph *g = p->g;
  const ke_node *rows = NULL, *row;
  int d, dv;

  KE_TRY(read_derivative(p, pos, "GradMatrix", 2, v));
  KE_TRY(need_pairwise(p, pos, "GradMatrix", &v[0]));
  d = v[0].node->dim;
  dv = v[1].node->dim;
  if ((int64_t)d * dv > 65536)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "GradMatrix makes %lld components, allowed are 65536",
                         (long long)d * dv);
  for (int k = 0; k < d && !g->too_big && !g->failed; k++) {
    row = or_zero(g, ke_gradient(g, v[0].node, v[0].side, v[1].node, unit(g, d, k), true), dv);
    rows = rows ? ke_binary(g, KE_OP_Concat, rows, row) : row;
  }
  *out = ke_value_join(rows, v, 1);
  return KE_OK;
}

