/* Formulas by a grammar, most of them right: what the fuzzers feed on. */
#ifndef MAKE_FORMULA_H
#define MAKE_FORMULA_H

#include "op.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char *text;
  size_t len, most;
  uint64_t random;
  char name[8][16]; /* arguments: one letter and a number */
  int dim[8], category[8], nargs;
} maker;

static unsigned draw(maker *m, unsigned n)
{
  m->random ^= m->random << 13;
  m->random ^= m->random >> 7;
  m->random ^= m->random << 17;
  return (unsigned)(m->random >> 11) % n;
}

static void add(maker *m, const char *text)
{
  size_t n = strlen(text);

  if (m->len + n > m->most) return;
  memcpy(m->text + m->len, text, n);
  m->len += n;
}

static void add_int(maker *m, int n)
{
  char text[16];

  snprintf(text, sizeof text, "%d", n);
  add(m, text);
}

static void add_expression(maker *m, int dim, int depth);

static void add_args(maker *m)
{
  static const int dims[] = {1, 1, 2, 3, 3, 3, 4, 7, 17, 40};
  static const char *const kind[] = {"Vi", "Vj", "Pm"};
  char text[64];

  m->nargs = 1 + (int)draw(m, 6);
  for (int k = 0; k < m->nargs; k++) {
    m->category[k] = (int)draw(m, 3);
    m->dim[k] = dims[draw(m, 10)];
    snprintf(m->name[k], sizeof m->name[k], "%c%d", "xyp"[m->category[k]], k);
    snprintf(text, sizeof text, "%s%s=%s(%d)", k ? ";" : "", m->name[k], kind[m->category[k]],
             m->dim[k]);
    add(m, text);
  }
  add(m, "\n");
}

static bool add_variable(maker *m, int dim)
{
  int k0 = (int)draw(m, (unsigned)m->nargs);
  char text[48];

  for (int t = 0; t < m->nargs; t++) {
    int k = (k0 + t) % m->nargs;
    if (m->dim[k] != dim) continue;
    if (draw(m, 8)) {
      add(m, m->name[k]);
    } else {
      snprintf(text, sizeof text, "Var(%d,%d,%d)", k, m->dim[k], m->category[k]);
      add(m, text);
    }
    return true;
  }
  return false;
}

static void add_leaf(maker *m, int dim)
{
  static const char *const numbers[] = {"0", "1", "2", "-1", "0.5", "3", "1e-3", "1e300", "7", ".25",
                                        "IntCst(2)", "RatCst(1,3)", "IntInv(4)", "1e-320", "2.5"};
  int k;

  if (draw(m, 6) && add_variable(m, dim)) return;
  if (dim == 1) {
    if (draw(m, 4) == 0 || !m->nargs) {
      add(m, numbers[draw(m, sizeof numbers / sizeof *numbers)]);
      return;
    }
    k = (int)draw(m, (unsigned)m->nargs);
    add(m, "Elem(");
    add(m, m->name[k]);
    add(m, ",");
    add_int(m, (int)draw(m, (unsigned)m->dim[k]));
    add(m, ")");
    return;
  }
  for (k = 0; k < m->nargs; k++)
    if (m->dim[k] > dim) {
      add(m, "Extract(");
      add(m, m->name[k]);
      add(m, ",");
      add_int(m, (int)draw(m, (unsigned)(m->dim[k] - dim + 1)));
      add(m, ",");
      add_int(m, dim);
      add(m, ")");
      return;
    }
  if (draw(m, 2)) {
    add(m, "Zero(");
    add_int(m, dim);
    add(m, ")");
  } else {
    add(m, "SumT(");
    add_leaf(m, 1);
    add(m, ",");
    add_int(m, dim);
    add(m, ")");
  }
}

static int any_dim(maker *m)
{
  return m->nargs && draw(m, 4) ? m->dim[draw(m, (unsigned)m->nargs)] : 1 + (int)draw(m, 5);
}

static void add_scalar_op(maker *m, int dim, int depth)
{
  int op, wide;

  do op = (int)draw(m, KE_OP_COUNT);
  while (ke_ops[op].kind != KE_SCALAR);
  wide = (int)draw(m, (unsigned)ke_ops[op].arity);
  add(m, ke_ops[op].name);
  add(m, "(");
  for (int k = 0; k < ke_ops[op].arity; k++) {
    if (k) add(m, ",");
    add_expression(m, k == wide || draw(m, 3) ? dim : 1, depth - 1);
  }
  add(m, ")");
}

/* An operation that makes one number of vectors. */
static void add_fold(maker *m, int depth)
{
  static const char *const one[] = {"Sum(", "SqNorm2(", "Norm2("};
  static const char *const two[] = {"SqDist(", "Scalprod(", "WeightedSqNorm(", "("};
  int dim = any_dim(m), w = (int)draw(m, 4);

  if (draw(m, 3) == 0) {
    add(m, one[draw(m, 3)]);
    add_expression(m, dim, depth - 1);
  } else if (draw(m, 8) == 0) {
    add(m, "WeightedSqDist(");
    add_expression(m, draw(m, 2) ? 1 : dim, depth - 2);
    add(m, ",");
    add_expression(m, dim, depth - 2);
    add(m, ",");
    add_expression(m, dim, depth - 2);
  } else {
    add(m, two[w]);
    add_expression(m, w == 2 && draw(m, 2) ? 1 : dim, depth - 1);
    add(m, w == 3 ? "|" : ",");
    add_expression(m, dim, depth - 1);
  }
  add(m, ")");
}

static void add_pieces(maker *m, int dim, int depth)
{
  int n = 1 + (int)draw(m, (unsigned)dim);

  switch (draw(m, 4)) {
  case 0:
    if (n == dim) {
      add_leaf(m, dim);
      return;
    }
    add(m, "Concat(");
    add_expression(m, n, depth - 1);
    add(m, ",");
    add_expression(m, dim - n, depth - 1);
    break;
  case 1:
    add(m, "ElemT(");
    add_expression(m, 1, depth - 1);
    add(m, ",");
    add_int(m, dim);
    add(m, ",");
    add_int(m, n - 1);
    break;
  case 2:
    add(m, "ExtractT(");
    add_expression(m, n, depth - 1);
    add(m, ",");
    add_int(m, (int)draw(m, (unsigned)(dim - n + 1)));
    add(m, ",");
    add_int(m, dim);
    break;
  default:
    add(m, "Extract(");
    add_expression(m, dim + 2, depth - 1);
    add(m, ",");
    add_int(m, (int)draw(m, 3));
    add(m, ",");
    add_int(m, dim);
    break;
  }
  add(m, ")");
}

/* Words with a rule of their own for dimensions. In the pattern: `d` an expression of the dimension wanted,
 * `h` half of it, `2` twice, `k` of a dimension drawn once, `K` its square, `m` k times d, `1` a scalar, `v` a
 * variable of dimension k, `w` one of d; '#' a small number, '@' the dimension wanted; the rest stands for
 * itself. */
static const struct {
  char wants; /* 's' scalars, 'e' even, 'a' any */
  const char *name, *pattern;
} words_made[] = {
    {'s', "SymSqNorm", "(K,k)"}, {'s', "SqNormIso", "(1,k)"}, {'s', "SqNormDiag", "(k,k)"},
    {'s', "Max", "(k)"}, {'s', "Min", "(k)"}, {'s', "ArgMax", "(k)"}, {'s', "ArgMin", "(k)"},
    {'s', "SoftDTW_SqDist", "(k,k,1)"}, {'s', "GaussKernel", "(1,k,k,1)"},
    {'s', "Matern52Kernel", "(1,k,k,1)"}, {'s', "ThinPlateKernel", "(k,k,1)"},
    {'s', "PeriodicKernel", "(1,1,k,k,1)"}, {'s', "Divergence", "(k,v)"}, {'s', "Laplacian", "(1,v)"},
    {'s', "TraceOperator", "(k,v)"}, {'s', "Elem(GradMatrix", "(1,v),0)"},
    {'e', "Conj", "(d)"}, {'e', "ComplexMult", "(d,d)"}, {'e', "ComplexDivide", "(d,d)"},
    {'e', "Real2Complex", "(h)"}, {'e', "Imag2Complex", "(h)"}, {'e', "ComplexExp", "(d)"},
    {'e', "ComplexExp1j", "(h)"}, {'e', "ComplexAdd", "(d,d)"}, {'e', "ComplexRealScal", "(1,d)"},
    {'a', "ComplexReal", "(2)"}, {'a', "ComplexAbs", "(2)"}, {'a', "ComplexAngle", "(2)"},
    {'a', "MatVecMult", "(m,k)"}, {'a', "VecMatMult", "(k,m)"}, {'e', "TensorProd", "(h,Concat(1,1))"},
    {'a', "OneHot", "(1,@)"}, {'a', "Normalize", "(d)"}, {'a', "Round", "(d,#)"},
    {'a', "ClampInt", "(d,-1,#)"}, {'a', "DiffClampInt", "(d,0,#)"}, {'a', "Diff", "(d,v,k)"},
    {'a', "AdjointOperator", "(k,w,k)"}, {'a', "Factorize", "(d,1)"}, {'a', "AutoFactorize", "(d)"},
    {'a', "Extract(BSpline", "(Concat(d,SumT(1,5)),1,#),0,@)"},
    {'a', "TensorDot", "(k,m,[@,1],[@,1],[1],[0])"}, {'a', "Kron", "(d,1,[@],[1])"},
    {'e', "TensorDot", "(h,Concat(1,1),[1,1],[2],[],[])"}};

static void add_word(maker *m, int dim, int depth)
{
  unsigned n = sizeof words_made / sizeof *words_made, r = draw(m, n);
  int k = 1 + (int)draw(m, 3);
  const char *p;

  while (words_made[r].wants == 's' ? dim != 1 : words_made[r].wants == 'e' && dim % 2) r = (r + 1) % n;
  add(m, words_made[r].name);
  for (p = words_made[r].pattern; *p; p++) {
    char one[2] = {*p, '\0'};
    int of = *p == 'd'   ? dim
             : *p == 'h' ? dim / 2
             : *p == '2' ? 2 * dim
             : *p == 'k' ? k
             : *p == 'K' ? k * k
             : *p == 'm' ? k * dim
                         : 0;
    if (strchr("CSE", *p)) { /* a name inside: Concat, SumT, Elem */
      while (p[1] != '(') add(m, (char[]){*p++, '\0'});
      add(m, (char[]){*p, '\0'});
    } else if (of) {
      add_expression(m, of, depth - 2);
    } else if (*p == '1' && (p[1] == ',' || p[1] == ')') && (p[-1] == '(' || p[-1] == ',') &&
               !strchr("[", p[-1])) {
      add_expression(m, 1, depth - 2);
    } else if (*p == 'v' || *p == 'w') {
      if (!add_variable(m, *p == 'v' ? k : dim)) add_leaf(m, *p == 'v' ? k : dim);
    } else if (*p == '#') {
      add_int(m, (int)draw(m, 3) + 1);
    } else if (*p == '@') {
      add_int(m, dim);
    } else {
      add(m, one);
    }
  }
}

/* What stands after the formula, up to the axis. */
static void end_reduction(maker *m)
{
  add(m, draw(m, 2) ? ",1)" : ",0)");
}

static void add_sumexp(maker *m, int dim, int depth)
{
  static const char *const weighted[] = {"LogSumExp", "LogSumExpWeight", "SumSoftMaxWeight"};

  if (dim == 1 && draw(m, 2)) {
    add(m, "LogSumExp_Reduction(");
    add_expression(m, 1, depth - 1);
  } else {
    bool raw = dim > 1 && draw(m, 4) == 0;
    add(m, raw ? "Max_SumShiftExpWeight" : weighted[draw(m, 3)]);
    add(m, "_Reduction(");
    add_expression(m, 1, depth - 1);
    add(m, ",");
    add_expression(m, raw ? dim - 1 : dim, depth - 1);
  }
  end_reduction(m);
}

static void add_kmin(maker *m, int dim, int depth)
{
  static const char *const names[] = {"KMin", "ArgKMin", "KMin_ArgKMin"};
  unsigned which = dim % 2 ? draw(m, 2) : draw(m, 3);
  int entries = which == 2 ? dim / 2 : dim, k = entries % 3 == 0 ? 3 : entries % 2 == 0 ? 2 : 1;

  if (draw(m, 3) == 0) k = entries;
  add(m, names[which]);
  add(m, "_Reduction(");
  add_expression(m, entries / k, depth - 1);
  add(m, ",");
  add_int(m, k);
  end_reduction(m);
}

static void add_reduction(maker *m, int dim, int depth)
{
  static const char *const names[] = {"Sum", "Min", "Max", "ArgMin", "ArgMax", "Min_ArgMin", "Max_ArgMax"};
  unsigned which = draw(m, 3) ? 0 : draw(m, 9);

  if (which == 7) {
    add_sumexp(m, dim, depth);
    return;
  }
  if (which == 8) {
    add_kmin(m, dim, depth);
    return;
  }
  if (which > 4 && dim % 2) which -= 4;
  add(m, names[which]);
  add(m, "_Reduction(");
  add_expression(m, which > 4 ? dim / 2 : dim, depth - 1);
  end_reduction(m);
}

/* Grad(F, v, e): as wide as v */
static void add_grad(maker *m, int dim, int depth)
{
  int k0 = (int)draw(m, (unsigned)m->nargs), d = draw(m, 2) ? 1 : any_dim(m);

  for (int t = 0; t < m->nargs; t++) {
    int k = (k0 + t) % m->nargs;
    if (m->dim[k] != dim) continue;
    add(m, "Grad(");
    if (draw(m, 2)) add_reduction(m, d, depth - 1);
    else add_expression(m, d, depth - 1);
    add(m, ",");
    add(m, m->name[k]);
    add(m, ",");
    if (draw(m, 4)) add_leaf(m, d);
    else add_expression(m, d, depth - 2);
    add(m, ")");
    return;
  }
  add_leaf(m, dim);
}

static void add_expression(maker *m, int dim, int depth)
{
  static const char *const infix[] = {"+", "-", "*", "/", "<", ">=", "==", "**", "!=", "^"};
  unsigned w;

  if (depth <= 0 || m->len > m->most / 2) {
    add_leaf(m, dim);
    return;
  }
  w = draw(m, 19);
  if (w >= 16) {
    add_word(m, dim, depth);
  } else if (w < 5) {
    add(m, "(");
    add_expression(m, draw(m, 3) ? dim : 1, depth - 1);
    add(m, infix[draw(m, draw(m, 2) ? 4 : 10)]);
    add_expression(m, dim, depth - 1);
    add(m, ")");
  } else if (w < 9) {
    add_scalar_op(m, dim, depth);
  } else if (w == 9) {
    add(m, "Pow(");
    add_expression(m, dim, depth - 1);
    add(m, ",");
    add_int(m, (int)draw(m, 9) - 4);
    add(m, ")");
  } else if (w < 12 && dim == 1) {
    add_fold(m, depth);
  } else if (w < 12) {
    add_pieces(m, dim, depth);
  } else if (w == 12) {
    add_reduction(m, dim, depth);
  } else if (w == 13) {
    add_grad(m, dim, depth);
  } else if (w == 14) {
    add(m, "-");
    add_expression(m, dim, depth - 1);
  } else {
    add_leaf(m, dim);
  }
}

/* An input of fuzz_parse.c: arguments, a line break, a formula; its length. */
static inline size_t make_input(uint8_t *to, size_t most, uint64_t *random)
{
  maker m = {.text = (char *)to, .most = most, .random = *random};

  add_args(&m);
  if (draw(&m, 3)) add_reduction(&m, any_dim(&m), 2 + (int)draw(&m, 5));
  else if (draw(&m, 2)) add_grad(&m, any_dim(&m), 3 + (int)draw(&m, 4));
  else add_expression(&m, any_dim(&m), 2 + (int)draw(&m, 5));
  if (draw(&m, 8) == 0) {
    add(&m, ";");
    add_reduction(&m, any_dim(&m), 2 + (int)draw(&m, 3));
  }
  *random = m.random;
  return m.len;
}

#endif
