/* Operations with a syntax or a shape rule of their own: constants, powers, products of matrices and
 * tensors, complex numbers, splines, derivatives. Each is built from nodes that exist already, so its
 * derivatives and its code come from theirs. One function a word; the table at the end names them. */
#include "words.h"

#include <math.h>

ke_status ke_words_dims(ke_parser *p, int pos, const char *name, const char *rule, int a, int b)
{
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "%s needs %s, not %d and %d", name, rule, a, b);
}

ke_status ke_words_same_dim(ke_parser *p, int pos, const char *name, const char *what, int found, int wanted)
{
  if (found == wanted) return KE_OK;
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "%s: %s must have dimension %d, not %d", name, what, wanted, found);
}

ke_status ke_words_call(ke_parser *p, const char *name, int n, ke_value *v)
{
  KE_TRY(ke_parse_operands(p, name, n, v));
  return ke_parse_close(p, name);
}

/* `n` whole numbers of the call of `name`, a comma before each (before all but the first where nothing came
 * before). */
static ke_status read_ints(ke_parser *p, const char *name, const char *what, bool first_comma, int n, int *ints)
{
  for (int k = 0; k < n; k++) {
    if (k || first_comma) KE_TRY(ke_parse_comma(p, name));
    KE_TRY(ke_parse_integer(p, what, &ints[k]));
  }
  return KE_OK;
}

/* ---- powers, products, norms ---- */
ke_status word_Pow(ke_parser *p, int pos, ke_value *out)
{
  ke_value v;
  int n;

  (void)pos;
  KE_TRY(ke_parse_operands(p, "Pow", 1, &v));
  KE_TRY(read_ints(p, "Pow", "the exponent of Pow; Powf takes any", true, 1, &n));
  KE_TRY(ke_parse_close(p, "Pow"));
  *out = ke_value_join(ke_power(p->g, v.node, n), &v, 1);
  return KE_OK;
}

ke_status word_Scalprod(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(ke_words_call(p, "Scalprod", 2, v));
  return ke_parse_scalprod(p, pos, v, out);
}

/* s |f|^2, sum s_k f_k^2 or f' S f, by the dimension of the weights, in this order */
static ke_status weighted_norm(ke_parser *p, int pos, const char *name, const ke_value *s, const ke_value *f,
                               ke_value *out)
{
  ke_graph *g = p->g;
  const ke_node *w = s->node, *x = f->node, *n;
  int64_t d = x->dim;

  if (w->dim == 1)
    n = ke_mult(g, w, ke_unary(g, KE_OP_Sum, ke_unary(g, KE_OP_Square, x)));
  else if (w->dim == d)
    n = ke_unary(g, KE_OP_Sum, ke_mult(g, w, ke_unary(g, KE_OP_Square, x)));
  else if (w->dim == d * d)
    n = ke_scalprod(g, x, ke_matvec(g, w, x));
  else
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                         "%s: the weights must have dimension 1, %d (that of the vector) or its square, not %d",
                         name, x->dim, w->dim);
  *out = ke_value_join(n, (const ke_value[]){*s, *f}, 2);
  return KE_OK;
}

ke_status word_WeightedSqNorm(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(ke_words_call(p, "WeightedSqNorm", 2, v));
  return weighted_norm(p, pos, "WeightedSqNorm", &v[0], &v[1], out);
}

ke_status word_WeightedSqDist(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[3], d;

  KE_TRY(ke_words_call(p, "WeightedSqDist", 3, v));
  if (v[1].node->dim != v[2].node->dim && v[1].node->dim != 1 && v[2].node->dim != 1)
    return ke_words_dims(p, pos, "WeightedSqDist", "two vectors of equal dimension, or 1", v[1].node->dim,
                         v[2].node->dim);
  KE_TRY(ke_parse_make(p, pos, KE_OP_Subtract, &v[1], NULL, &d));
  return weighted_norm(p, pos, "WeightedSqDist", &v[0], &d, out);
}

ke_status word_SqNormDiag(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(ke_words_call(p, "SqNormDiag", 2, v));
  KE_TRY(ke_words_same_dim(p, pos, "SqNormDiag", "the weights", v[0].node->dim, v[1].node->dim));
  return weighted_norm(p, pos, "SqNormDiag", &v[0], &v[1], out);
}

ke_status word_SqNormIso(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(ke_words_call(p, "SqNormIso", 2, v));
  KE_TRY(ke_words_same_dim(p, pos, "SqNormIso", "the weight", v[0].node->dim, 1));
  return weighted_norm(p, pos, "SqNormIso", &v[0], &v[1], out);
}

/* Equal sub-formulas are computed once anyway, so this asks for nothing more. */
ke_status word_Factorize(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  (void)pos;
  KE_TRY(ke_words_call(p, "Factorize", 2, v));
  *out = v[0];
  return KE_OK;
}

ke_status word_AutoFactorize(ke_parser *p, int pos, ke_value *out)
{
  (void)pos;
  return ke_words_call(p, "AutoFactorize", 1, out);
}

/* ---- rounding and clamping ---- */

/* Round(f, d): d decimals, halves away from zero */
ke_status word_Round(ke_parser *p, int pos, ke_value *out)
{
  ke_value v;
  ke_graph *g = p->g;
  const ke_node *scale;
  int d;

  KE_TRY(ke_parse_operands(p, "Round", 1, &v));
  KE_TRY(read_ints(p, "Round", "the number of decimals in Round", true, 1, &d));
  KE_TRY(ke_parse_close(p, "Round"));
  KE_TRY(ke_parse_range(p, pos, "the number of decimals in Round", d, -300, 300));
  if (d == 0) {
    *out = ke_value_join(ke_unary(g, KE_OP_RoundHalfAway, v.node), &v, 1);
    return KE_OK;
  }
  scale = ke_const(g, pow(10, d < 0 ? -d : d)); /* exact up to 10^22, unlike its inverse */
  *out = ke_value_join(
      d > 0 ? ke_binary(g, KE_OP_Divide,
                        ke_unary(g, KE_OP_RoundHalfAway, ke_mult(g, v.node, scale)), scale)
            : ke_mult(g, ke_unary(g, KE_OP_RoundHalfAway, ke_binary(g, KE_OP_Divide, v.node, scale)),
                            scale),
      &v, 1);
  return KE_OK;
}

static ke_status clamp_bounds(ke_parser *p, const char *name, ke_value *v, const ke_node **bound)
{
  int n[2];

  KE_TRY(ke_parse_operands(p, name, 1, v));
  KE_TRY(read_ints(p, name, "a bound", true, 2, n));
  KE_TRY(ke_parse_close(p, name));
  for (int k = 0; k < 2; k++) bound[k] = ke_const(p->g, n[k]);
  return KE_OK;
}

ke_status word_ClampInt(ke_parser *p, int pos, ke_value *out)
{
  ke_value v;
  const ke_node *b[2];

  (void)pos;
  KE_TRY(clamp_bounds(p, "ClampInt", &v, b));
  *out = ke_value_join(ke_make(p->g, KE_OP_Clamp, (const ke_node *const[]){v.node, b[0], b[1]}, NULL), &v, 1);
  return KE_OK;
}

/* 1 inside the bounds and at NaN, else 0 */
ke_status word_DiffClampInt(ke_parser *p, int pos, ke_value *out)
{
  ke_value v;
  ke_graph *g = p->g;
  const ke_node *b[2], *one = ke_const(p->g, 1);

  (void)pos;
  KE_TRY(clamp_bounds(p, "DiffClampInt", &v, b));
  *out = ke_value_join(
      ke_mult(g, ke_sub(g, one, ke_binary(g, KE_OP_LessThan, v.node, b[0])),
                    ke_sub(g, one, ke_binary(g, KE_OP_LessThan, b[1], v.node))),
      &v, 1);
  return KE_OK;
}

/* ---- constants ---- */
static ke_status constant(ke_parser *p, const char *name, double value, ke_value *out)
{
  KE_TRY(ke_parse_close(p, name));
  *out = ke_value_plain(ke_const(p->g, value));
  return KE_OK;
}

static ke_status zero_divisor(ke_parser *p, int pos, const char *name)
{
  return ke_parse_fail(p, KE_ERR_PARSE, pos, "%s has the denominator 0, allowed are other whole numbers", name);
}

ke_status word_IntCst(ke_parser *p, int pos, ke_value *out)
{
  int n;

  (void)pos;
  KE_TRY(ke_parse_integer(p, "the value of IntCst", &n));
  return constant(p, "IntCst", n, out);
}

ke_status word_RatCst(ke_parser *p, int pos, ke_value *out)
{
  int n[2];

  KE_TRY(read_ints(p, "RatCst", "numerator and denominator of RatCst", false, 2, n));
  if (n[1] == 0) return zero_divisor(p, pos, "RatCst");
  return constant(p, "RatCst", (double)n[0] / n[1], out);
}

ke_status word_IntInv(ke_parser *p, int pos, ke_value *out)
{
  int n;

  KE_TRY(ke_parse_integer(p, "the denominator of IntInv", &n));
  if (n == 0) return zero_divisor(p, pos, "IntInv");
  return constant(p, "IntInv", 1.0 / n, out);
}

ke_status word_Zero(ke_parser *p, int pos, ke_value *out)
{
  int d;

  KE_TRY(ke_parse_integer(p, "the dimension of Zero", &d));
  KE_TRY(ke_parse_range(p, pos, "the dimension in Zero", d, 1, KE_MAX_DIM));
  KE_TRY(constant(p, "Zero", 0, out));
  out->node = ke_widen(p->g, out->node, d);
  return KE_OK;
}

/* Var(number, dimension, category) */
ke_status word_Var(ke_parser *p, int pos, ke_value *out)
{
  int n[3];

  if (!p->out) return ke_parse_fail(p, KE_ERR_PARSE, pos, "Var(...) has no arguments here");
  KE_TRY(read_ints(p, "Var", "number, dimension, category (0 i, 1 j, 2 parameter)", false, 3, n));
  KE_TRY(ke_parse_close(p, "Var"));
  KE_TRY(ke_parse_range(p, pos, "the dimension in Var", n[1], 1, KE_MAX_DIM));
  KE_TRY(ke_parse_range(p, pos, "the category in Var", n[2], 0, 2));
  return ke_parse_positional(p, pos, n[0], n[1], n[2], out);
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
