/* Words for complex numbers: a vector of n entries is a real one of 2n, interleaved (re, im, re, im, ..).
 *
 * Real and imaginary parts are picked, worked on by real operations, and put beside each other again. */
#include "words.h"

typedef struct {
  const ke_node *re, *im;
} complex_node;

static ke_status need_even(ke_parser *p, int pos, const char *name, const ke_value *v)
{
  if (v->node->dim % 2 == 0) return KE_OK;
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "%s needs a complex operand, of even dimension, not %d", name,
                       v->node->dim);
}

static complex_node parts(ke_graph *g, const ke_node *f)
{
  return (complex_node){ke_pick(g, f, 0, 2, f->dim / 2), ke_pick(g, f, 1, 2, f->dim / 2)};
}

static const ke_node *interleave(ke_graph *g, const ke_node *re, const ke_node *im)
{
  int n = re->dim > im->dim ? re->dim : im->dim;

  return ke_add(g, ke_put(g, ke_widen(g, re, n), 0, 2, 2 * n), ke_put(g, ke_widen(g, im, n), 1, 2, 2 * n));
}

static ke_status one_complex(ke_parser *p, int pos, const char *name, ke_value *v, complex_node *c)
{
  KE_TRY(ke_words_call(p, name, 1, v));
  KE_TRY(need_even(p, pos, name, v));
  *c = parts(p->g, v->node);
  return KE_OK;
}

static ke_status two_complex(ke_parser *p, int pos, const char *name, ke_value *v, complex_node *c)
{
  int a, b;

  KE_TRY(ke_words_call(p, name, 2, v));
  for (int k = 0; k < 2; k++) {
    KE_TRY(need_even(p, pos, name, &v[k]));
    c[k] = parts(p->g, v[k].node);
  }
  a = v[0].node->dim;
  b = v[1].node->dim;
  if (a != b && a != 2 && b != 2) return ke_words_dims(p, pos, name, "equally many complex numbers, or one (dimension 2)", a, b);
  return KE_OK;
}

static const ke_node *zero_like(ke_graph *g, const ke_node *f)
{
  return ke_widen(g, ke_const(g, 0), f->dim);
}

static complex_node complex_mult(ke_graph *g, complex_node a, complex_node b)
{
  return (complex_node){ke_sub(g, ke_mult(g, a.re, b.re), ke_mult(g, a.im, b.im)),
                        ke_add(g, ke_mult(g, a.re, b.im), ke_mult(g, a.im, b.re))};
}

static const ke_node *square_abs(ke_graph *g, complex_node c)
{
  return ke_add(g, ke_unary(g, KE_OP_Square, c.re), ke_unary(g, KE_OP_Square, c.im));
}

#define REAL_TO_COMPLEX(name, real, imaginary)                                                     \
  ke_status word_##name(ke_parser *p, int pos, ke_value *out)                                      \
  {                                                                                                \
    ke_value v;                                                                                    \
    (void)pos;                                                                                     \
    KE_TRY(ke_words_call(p, #name, 1, &v));                                                        \
    ke_graph *g = p->g;                                                                            \
    const ke_node *f = v.node;                                                                     \
    *out = ke_value_join(interleave(g, real, imaginary), &v, 1);                                   \
    return KE_OK;                                                                                  \
  }
REAL_TO_COMPLEX(Real2Complex, f, zero_like(g, f))
REAL_TO_COMPLEX(Imag2Complex, zero_like(g, f), f)
REAL_TO_COMPLEX(ComplexExp1j, ke_unary(g, KE_OP_Cos, f), ke_unary(g, KE_OP_Sin, f))

#define COMPLEX_UNARY(name, result)                                                                \
  ke_status word_##name(ke_parser *p, int pos, ke_value *out)                                      \
  {                                                                                                \
    ke_value v;                                                                                    \
    complex_node c;                                                                                \
    KE_TRY(one_complex(p, pos, #name, &v, &c));                                                    \
    ke_graph *g = p->g;                                                                            \
    *out = ke_value_join(result, &v, 1);                                                           \
    return KE_OK;                                                                                  \
  }
COMPLEX_UNARY(ComplexReal, ((void)g, c.re))
COMPLEX_UNARY(ComplexImag, ((void)g, c.im))
COMPLEX_UNARY(Conj, interleave(g, c.re, ke_unary(g, KE_OP_Minus, c.im)))
COMPLEX_UNARY(ComplexSquareAbs, square_abs(g, c))
COMPLEX_UNARY(ComplexAbs, ke_unary(g, KE_OP_Sqrt, square_abs(g, c)))
COMPLEX_UNARY(ComplexAngle, ke_binary(g, KE_OP_Atan2, c.im, c.re))
COMPLEX_UNARY(ComplexSum, interleave(g, ke_unary(g, KE_OP_Sum, c.re), ke_unary(g, KE_OP_Sum, c.im)))
COMPLEX_UNARY(ComplexExp, interleave(g, ke_mult(g, ke_unary(g, KE_OP_Exp, c.re), ke_unary(g, KE_OP_Cos, c.im)),
                                     ke_mult(g, ke_unary(g, KE_OP_Exp, c.re), ke_unary(g, KE_OP_Sin, c.im))))

#define COMPLEX_BINARY(name, real, imaginary)                                                      \
  ke_status word_##name(ke_parser *p, int pos, ke_value *out)                                      \
  {                                                                                                \
    ke_value v[2];                                                                                 \
    complex_node c[2], r;                                                                          \
    KE_TRY(two_complex(p, pos, #name, v, c));                                                      \
    ke_graph *g = p->g;                                                                            \
    complex_node a = c[0], b = c[1];                                                               \
    r = (complex_node){real, imaginary};                                                           \
    *out = ke_value_join(interleave(g, r.re, r.im), v, 2);                                         \
    return KE_OK;                                                                                  \
  }
COMPLEX_BINARY(ComplexAdd, ke_add(g, a.re, b.re), ke_add(g, a.im, b.im))
COMPLEX_BINARY(ComplexSubtract, ke_sub(g, a.re, b.re), ke_sub(g, a.im, b.im))
COMPLEX_BINARY(ComplexMult, complex_mult(g, a, b).re, complex_mult(g, a, b).im)
COMPLEX_BINARY(ComplexScal, complex_mult(g, a, b).re, complex_mult(g, a, b).im)
COMPLEX_BINARY(ComplexDivide,
               ke_binary(g, KE_OP_Divide, ke_add(g, ke_mult(g, a.re, b.re), ke_mult(g, a.im, b.im)), square_abs(g, b)),
               ke_binary(g, KE_OP_Divide, ke_sub(g, ke_mult(g, a.im, b.re), ke_mult(g, a.re, b.im)), square_abs(g, b)))

/* A real scalar times a complex vector, in either order. */
ke_status word_ComplexRealScal(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  const ke_node *s, *f;

  KE_TRY(ke_words_call(p, "ComplexRealScal", 2, v));
  s = v[0].node->dim == 1 ? v[0].node : v[1].node;
  f = v[0].node->dim == 1 ? v[1].node : v[0].node;
  if (s->dim != 1 || f->dim % 2)
    return ke_words_dims(p, pos, "ComplexRealScal", "a real operand of dimension 1 and a complex one", v[0].node->dim,
                     v[1].node->dim);
  *out = ke_value_join(ke_mult(p->g, s, f), v, 2);
  return KE_OK;
}

/* ComplexSumT(f, d): a complex number repeated d / 2 times */
ke_status word_ComplexSumT(ke_parser *p, int pos, ke_value *out)
{
  ke_value v;
  complex_node c;
  int d;

  KE_TRY(ke_parse_operands(p, "ComplexSumT", 1, &v));
  KE_TRY(ke_parse_comma(p, "ComplexSumT"));
  KE_TRY(ke_parse_integer(p, "the dimension in ComplexSumT", &d));
  KE_TRY(ke_parse_close(p, "ComplexSumT"));
  KE_TRY(ke_parse_range(p, pos, "the dimension in ComplexSumT", d, 2, KE_MAX_DIM - 1));
  if (v.node->dim != 2 || d % 2)
    return ke_words_dims(p, pos, "ComplexSumT", "one complex number (dimension 2) and an even dimension", v.node->dim, d);
  c = parts(p->g, v.node);
  *out = ke_value_join(interleave(p->g, ke_widen(p->g, c.re, d / 2), ke_widen(p->g, c.im, d / 2)), &v, 1);
  return KE_OK;
}
