/* Operations with a syntax or a shape rule of their own: constants, powers, products of matrices and
 * tensors, complex numbers, splines, derivatives. Each is built from nodes that exist already, so its
 * derivatives and its code come from theirs. One function a word; the table at the end names them. */
#include "parse_words.h"

#include <string.h>

enum { BOTH = KE_I | KE_J };

__attribute__((unused)) static ke_status fail_dims(ke_parser *p, int pos, const char *name, const char *rule, int a, int b)
{
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "%s needs %s, not %d and %d", name, rule, a, b);
}

/* n operands and ')' */
static ke_status read_call(ke_parser *p, const char *name, int n, ke_value *v)
{
  KE_TRY(ke_parse_operands(p, name, n, v));
  return ke_parse_close(p, name);
}

/* `n` whole numbers, a comma before each (before all but the first where nothing came before). */
static ke_status read_ints(ke_parser *p, const char *name, bool first_comma, int n, int *ints)
{
  for (int k = 0; k < n; k++) {
    if (k || first_comma) KE_TRY(ke_parse_expect(p, ',', "before a whole number"));
    KE_TRY(ke_parse_integer(p, name, &ints[k]));
  }
  return KE_OK;
}

static const ke_node *mult(ke_graph *g, const ke_node *a, const ke_node *b)
{
  return ke_binary(g, KE_OP_Mult, a, b);
}

/* ---- powers, products, norms ---- */
static ke_status word_Pow(ke_parser *p, int pos, ke_value *out)
{
  ke_value v;
  int n;

  (void)pos;
  KE_TRY(ke_parse_operands(p, "Pow", 1, &v));
  KE_TRY(read_ints(p, "the exponent of Pow; Powf takes any", true, 1, &n));
  KE_TRY(ke_parse_close(p, "Pow"));
  *out = ke_value_join(ke_power(p->g, v.node, n), &v, 1);
  return KE_OK;
}

static ke_status word_Scalprod(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(read_call(p, "Scalprod", 2, v));
  return ke_parse_scalprod(p, pos, v, out);
}

/* s |f|^2, sum s_k f_k^2 or f' S f, by the dimension of the weights, in this order */
static ke_status weighted_norm(ke_parser *p, int pos, const ke_value *s, const ke_value *f, ke_value *out)
{
  ke_graph *g = p->g;
  const ke_node *w = s->node, *x = f->node, *n;
  int64_t d = x->dim;

  if (w->dim == 1)
    n = mult(g, w, ke_unary(g, KE_OP_Sum, ke_unary(g, KE_OP_Square, x)));
  else if (w->dim == d)
    n = ke_unary(g, KE_OP_Sum, mult(g, w, ke_unary(g, KE_OP_Square, x)));
  else if (w->dim == d * d)
    n = ke_scalprod(g, x, ke_matvec(g, w, x));
  else
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                         "the weights must have dimension 1, %d (that of the vector) or its square, not %d",
                         x->dim, w->dim);
  *out = ke_value_join(n, (const ke_value[]){*s, *f}, 2);
  return KE_OK;
}

static ke_status word_WeightedSqNorm(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(read_call(p, "WeightedSqNorm", 2, v));
  return weighted_norm(p, pos, &v[0], &v[1], out);
}

static ke_status word_WeightedSqDist(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[3], d;

  KE_TRY(read_call(p, "WeightedSqDist", 3, v));
  KE_TRY(ke_parse_make(p, pos, KE_OP_Subtract, &v[1], NULL, &d));
  return weighted_norm(p, pos, &v[0], &d, out);
}

/* ---- constants ---- */
static ke_status constant(ke_parser *p, const char *name, double value, ke_value *out)
{
  KE_TRY(ke_parse_close(p, name));
  *out = ke_value_plain(ke_const(p->g, value));
  return KE_OK;
}

static ke_status zero_divisor(ke_parser *p, int pos)
{
  return ke_parse_fail(p, KE_ERR_PARSE, pos, "a constant with denominator 0");
}

static ke_status word_IntCst(ke_parser *p, int pos, ke_value *out)
{
  int n;

  (void)pos;
  KE_TRY(ke_parse_integer(p, "a constant", &n));
  return constant(p, "IntCst", n, out);
}

static ke_status word_RatCst(ke_parser *p, int pos, ke_value *out)
{
  int n[2];

  KE_TRY(read_ints(p, "numerator and denominator", false, 2, n));
  if (n[1] == 0) return zero_divisor(p, pos);
  return constant(p, "RatCst", (double)n[0] / n[1], out);
}

static ke_status word_IntInv(ke_parser *p, int pos, ke_value *out)
{
  int n;

  KE_TRY(ke_parse_integer(p, "a denominator", &n));
  if (n == 0) return zero_divisor(p, pos);
  return constant(p, "IntInv", 1.0 / n, out);
}

static ke_status word_Zero(ke_parser *p, int pos, ke_value *out)
{
  int d;

  KE_TRY(ke_parse_integer(p, "a dimension", &d));
  KE_TRY(ke_parse_range(p, pos, "the dimension in Zero", d, 1, KE_MAX_DIM));
  KE_TRY(constant(p, "Zero", 0, out));
  out->node = ke_widen(p->g, out->node, d);
  return KE_OK;
}

/* Var(number, dimension, category) */
static ke_status word_Var(ke_parser *p, int pos, ke_value *out)
{
  int n[3];

  if (!p->out) return ke_parse_fail(p, KE_ERR_PARSE, pos, "Var(...) has no arguments here");
  KE_TRY(read_ints(p, "number, dimension, category (0 i, 1 j, 2 parameter)", false, 3, n));
  KE_TRY(ke_parse_close(p, "Var"));
  KE_TRY(ke_parse_range(p, pos, "the dimension in Var", n[1], 1, KE_MAX_DIM));
  KE_TRY(ke_parse_range(p, pos, "the category in Var", n[2], 0, 2));
  return ke_parse_positional(p, pos, n[0], n[1], n[2], out);
}

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
                       "%s of a formula of i and j that holds a reduction: take it of the whole reduction",
                       name);
}

static const ke_node *or_zero(ke_graph *g, const ke_node *n, int dim)
{
  return n ? n : ke_widen(g, ke_const(g, 0), dim);
}

/* Grad(F, v, cotangent): of a reduction the true gradient, summed over what v does not index; of a
 * formula of pairs the derivative at each pair. */
static ke_status word_Grad(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[3];
  const ke_node *n;

  KE_TRY(read_call(p, "Grad", 3, v));
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

/* ---- table ---- */
static const ke_word table[KE_OP_COUNT] = {
#define WORD_OP(name, arity, ints) [KE_OP_##name] = word_##name,
#include "op_list.h"
};

ke_word ke_word_of(int op)
{
  return table[op];
}
