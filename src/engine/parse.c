/* Recursive descent over the formula text; nodes are made as their text is read.
 *
 * Loosest to tightest:  < <= > >= == !=   |   + -   * /   unary - +   ** ^ (right)   f(...) (...).
 * A value knows, beside its node, the rows it is declared to have: a sum over j has one row an i even
 * where its summand has no i. */
#include "parse.h"

#include "parse_words.h"
#include "spelling.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 250, MAX_OPERANDS = 8, MAX_TEXT = 1 << 20, MAX_ARGS = 10000 };

void ke_parse_advance(ke_parser *p)
{
  p->tok = ke_lex(p->text, p->length, (size_t)(p->tok.pos + p->tok.length));
}

bool ke_parse_at(const ke_parser *p, char c)
{
  return p->tok.kind == KE_TOK_CHAR && p->tok.ch == c;
}

const char *ke_parse_seen(const ke_parser *p, char *buffer, size_t size)
{
  int n = p->tok.length < 40 ? p->tok.length : 40;

  if (p->tok.kind == KE_TOK_END) return "the end of the formula";
  snprintf(buffer, size, "'%.*s'", n, p->text + p->tok.pos);
  return buffer;
}

ke_status ke_parse_expect(ke_parser *p, char c, const char *where)
{
  char buffer[64];

  if (!ke_parse_at(p, c))
    return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "expected '%c' %s, found %s", c, where,
                   ke_parse_seen(p, buffer, sizeof buffer));
  ke_parse_advance(p);
  return KE_OK;
}

ke_status ke_parse_value(ke_parser *p, ke_value *out);
static ke_status parse_unary(ke_parser *p, ke_value *out);

ke_value ke_value_plain(const ke_node *n)
{
  return (ke_value){.node = n, .side = n->idx};
}

/* Rows and kind of something made from operands. */
ke_value ke_value_join(const ke_node *n, const ke_value *v, int count)
{
  ke_value out = ke_value_plain(n);

  for (int k = 0; k < count; k++) {
    out.side |= v[k].side;
    out.reduced |= v[k].reduced;
  }
  return out;
}

/* ---- whole numbers ---- */
ke_status ke_parse_integer(ke_parser *p, const char *what, int *out)
{
  bool negative = ke_parse_at(p, '-');
  char buffer[64];

  if (negative) ke_parse_advance(p);
  if (p->tok.kind != KE_TOK_NUMBER || p->tok.number != floor(p->tok.number) ||
      p->tok.number > KE_MAX_DIM)
    return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "expected a whole number (%s), found %s", what,
                   ke_parse_seen(p, buffer, sizeof buffer));
  *out = (int)p->tok.number * (negative ? -1 : 1);
  ke_parse_advance(p);
  return KE_OK;
}

/* ---- operations ---- */
static ke_status bad_dims(ke_parser *p, int pos, int op, const ke_value *v)
{
  if (ke_ops[op].arity == 2)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                   "%s needs operands of equal dimension, or 1, not %d and %d", ke_ops[op].name,
                   v[0].node->dim, v[1].node->dim);
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                 "%s needs operands of equal dimension, or 1, not %d, %d and %d", ke_ops[op].name,
                 v[0].node->dim, v[1].node->dim, v[2].node->dim);
}

static ke_status check_broadcast(ke_parser *p, int pos, int op, const ke_value *v)
{
  int dim = 1;

  for (int k = 0; k < ke_ops[op].arity; k++) {
    if (v[k].node->dim == 1) continue;
    if (dim > 1 && v[k].node->dim != dim) return bad_dims(p, pos, op, v);
    dim = v[k].node->dim;
  }
  return KE_OK;
}

ke_status ke_parse_range(ke_parser *p, int pos, const char *what, int found, int low, int high)
{
  if (found >= low && found <= high) return KE_OK;
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "%s is %d, allowed is %d to %d", what, found, low,
                 high);
}

static ke_status check_vector(ke_parser *p, int pos, int op, const ke_value *v, const int *ints)
{
  int d = v[0].node->dim;

  switch (op) {
  case KE_OP_SumT:
    if (d != 1)
      return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "SumT needs an operand of dimension 1, not %d", d);
    return ke_parse_range(p, pos, "the dimension in SumT", ints[0], 1, KE_MAX_DIM);
  case KE_OP_Concat:
    if (d > KE_MAX_DIM - v[1].node->dim)
      return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "Concat makes a vector of more than %d components",
                     KE_MAX_DIM);
    return KE_OK;
  case KE_OP_Elem: return ke_parse_range(p, pos, "the position in Elem", ints[0], 0, d - 1);
  case KE_OP_ElemT:
    if (d != 1)
      return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "ElemT needs an operand of dimension 1, not %d", d);
    KE_TRY(ke_parse_range(p, pos, "the length in ElemT", ints[0], 1, KE_MAX_DIM));
    return ke_parse_range(p, pos, "the position in ElemT", ints[1], 0, ints[0] - 1);
  case KE_OP_Extract:
    KE_TRY(ke_parse_range(p, pos, "the length in Extract", ints[1], 1, d));
    return ke_parse_range(p, pos, "the start in Extract", ints[0], 0, d - ints[1]);
  case KE_OP_ExtractT:
    KE_TRY(ke_parse_range(p, pos, "the length in ExtractT", ints[1], d, KE_MAX_DIM));
    return ke_parse_range(p, pos, "the start in ExtractT", ints[0], 0, ints[1] - d);
  default: return KE_OK;
  }
}

/* Orders of special functions; where one is no constant, the value is NaN outside these. */
static ke_status check_order(ke_parser *p, int pos, int op, const ke_value *v)
{
  const ke_node *n;
  double order, least = 0, most = 1000;
  bool whole = false, zero = true;

  switch (op) {
  case KE_OP_Polygamma: whole = true; break;
  case KE_OP_BesselK: least = -most; break;
  case KE_OP_Matern:
  case KE_OP_MaternKernel: zero = false; break;
  default: return KE_OK;
  }
  n = v[1].node;
  order = n->value;
  /* derivatives go on to higher orders */
  if (n->op != KE_N_CONST || p->template_pos >= 0) return KE_OK;
  if (order >= least && order <= most && !(whole && order != floor(order)) && (zero || order > 0))
    return KE_OK;
  return ke_parse_fail(p, KE_ERR_PARSE, pos, "the order in %s is %g, allowed is %s%g to %g", ke_ops[op].name, order,
                       whole ? "a whole number from " : zero ? "" : "a number above ", least, most);
}

ke_status ke_parse_make(ke_parser *p, int pos, int op, const ke_value *v, const int *ints, ke_value *out)
{
  const ke_node *child[KE_MAX_CHILD];
  int n = ke_ops[op].arity;

  if (ke_ops[op].kind == KE_SCALAR || (ke_ops[op].kind == KE_SUGAR && n <= 2))
    KE_TRY(check_broadcast(p, pos, op, v));
  KE_TRY(check_order(p, pos, op, v));
  if (ke_ops[op].kind == KE_SUGAR) return ke_parse_template(p, pos, ke_ops[op].name, ke_ops[op].formula, v, n, out);
  if (ke_ops[op].kind == KE_VECTOR) KE_TRY(check_vector(p, pos, op, v, ints));
  for (int k = 0; k < n; k++) child[k] = v[k].node;
  *out = ke_value_join(ke_make(p->g, op, child, ints), v, n);
  return KE_OK;
}

static ke_status make_power(ke_parser *p, int pos, const ke_value *v, ke_value *out)
{
  const ke_node *e = v[1].node, *n;

  KE_TRY(check_broadcast(p, pos, KE_OP_Powf, v));
  if (e->op == KE_N_CONST && e->value == floor(e->value) && fabs(e->value) < 1e9)
    n = ke_power(p->g, v[0].node, (int)e->value);
  else if (ke_is_const(e, 0.5))
    n = ke_unary(p->g, KE_OP_Sqrt, v[0].node);
  else
    n = ke_binary(p->g, KE_OP_Powf, v[0].node, e);
  *out = ke_value_join(n, v, 2);
  return KE_OK;
}

ke_status ke_parse_scalprod(ke_parser *p, int pos, const ke_value *v, ke_value *out)
{
  int a = v[0].node->dim, b = v[1].node->dim;

  if (a != b && a != 1 && b != 1)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                   "Scalprod needs operands of equal dimension, or 1, not %d and %d", a, b);
  *out = ke_value_join(ke_scalprod(p->g, v[0].node, v[1].node), v, 2);
  return KE_OK;
}

/* "Elem(), which has 1 operand and 1 whole number", from the table. */
static const char *call_shape(const char *name, char *buffer, size_t size)
{
  int op = ke_op_find(name, strlen(name)), n, m;

  if (op < 0) {
    snprintf(buffer, size, "%.50s()", name);
    return buffer;
  }
  n = ke_ops[op].arity;
  m = ke_ops[op].nint;
  snprintf(buffer, size, "%.50s(), which has", name);
  if (n) snprintf(buffer + strlen(buffer), size - strlen(buffer), " %d operand%s", n, n == 1 ? "" : "s");
  if (m > 0)
    snprintf(buffer + strlen(buffer), size - strlen(buffer), "%s %d whole number%s", n ? " and" : "", m,
             m == 1 ? "" : "s");
  if (m < 0) snprintf(buffer + strlen(buffer), size - strlen(buffer), " and lists");
  return buffer;
}

ke_status ke_parse_comma(ke_parser *p, const char *name)
{
  char where[144] = "in ";

  call_shape(name, where + 3, sizeof where - 3);
  return ke_parse_expect(p, ',', where);
}

/* Arguments of a call, up to `n` formulas, commas between; the name and '(' are read. */
ke_status ke_parse_operands(ke_parser *p, const char *name, int n, ke_value *v)
{
  for (int k = 0; k < n; k++) {
    if (k) KE_TRY(ke_parse_comma(p, name));
    KE_TRY(ke_parse_value(p, &v[k]));
  }
  return KE_OK;
}

ke_status ke_parse_close(ke_parser *p, const char *name)
{
  char where[144] = "to close ";

  call_shape(name, where + 9, sizeof where - 9);
  return ke_parse_expect(p, ')', where);
}

static ke_status parse_operation(ke_parser *p, int pos, int op, ke_value *out)
{
  ke_value v[MAX_OPERANDS];
  int ints[KE_MAX_INT] = {0};
  const char *name = ke_ops[op].name;

  KE_TRY(ke_parse_operands(p, name, ke_ops[op].arity, v));
  for (int k = 0; k < ke_ops[op].nint; k++) {
    KE_TRY(ke_parse_comma(p, name));
    KE_TRY(ke_parse_integer(p, name, &ints[k]));
  }
  KE_TRY(ke_parse_close(p, name));
  return ke_parse_make(p, pos, op, v, ints, out);
}

/* ---- arguments ---- */
static ke_status add_arg(ke_parser *p, ke_parsed *out, const char *name, size_t length, int category,
                         int dim)
{
  ke_arg *grown;
  char *copy;

  if (out->nargs == out->size) {
    out->size = out->size ? 2 * out->size : 8;
    grown = realloc(out->arg, (size_t)out->size * sizeof *grown);
    if (!grown) return ke_fail_memory(p->err);
    out->arg = grown;
  }
  copy = ke_arena_alloc(p->g->arena, length + 1);
  if (!copy) return ke_fail_memory(p->err);
  memcpy(copy, name, length);
  out->arg[out->nargs++] = (ke_arg){.name = copy, .category = category, .dim = dim};
  p->g->rows_of |= ke_category_side(category);
  return KE_OK;
}

static const ke_node *argument_node(ke_parser *p, int k)
{
  const ke_arg *a = &p->out->arg[k];

  return ke_var(p->g, k, ke_category_side(a->category), a->dim);
}

ke_status ke_parse_positional(ke_parser *p, int pos, int number, int dim, int category, ke_value *out)
{
  const ke_arg *a;

  KE_TRY(ke_parse_range(p, pos, "the argument number in Var", number, 0,
                        p->out->nargs < MAX_ARGS ? p->out->nargs : MAX_ARGS - 1));
  if (number == p->out->nargs) KE_TRY(add_arg(p, p->out, "", 0, category, dim));
  a = &p->out->arg[number];
  if (a->dim != dim || a->category != category)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos,
                         "argument %d has dimension %d and category %d, not %d and %d", number, a->dim,
                         a->category, dim, category);
  *out = ke_value_plain(argument_node(p, number));
  return KE_OK;
}

/* "x, y, b", cut where it gets long */
static void list_arguments(const ke_parser *p, char *buffer, size_t size)
{
  size_t used = 0;

  buffer[0] = '\0';
  for (int k = 0; p->out && k < p->out->nargs; k++) {
    const char *name = p->out->arg[k].name;
    if (!*name) continue;
    if (used + strlen(name) + 8 > size) {
      snprintf(buffer + used, size - used, ", ...");
      return;
    }
    used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", name);
  }
}

/* A name without '(': an argument misspelt, or an operation without its operands. */
static ke_status unknown_argument(ke_parser *p, const ke_token *name)
{
  const char *text = p->text + name->pos;
  int shown = name->length < 80 ? name->length : 80, op = ke_op_find(text, (size_t)name->length);
  ke_spelling s = ke_spelling_of(text, (size_t)name->length);
  char known[200];

  if (op >= 0)
    return ke_parse_fail(p, KE_ERR_PARSE, name->pos, "'%.*s' is not among the arguments; the operation is written %s(...)",
                         shown, text, ke_ops[op].name);
  for (int k = 0; p->out && k < p->out->nargs; k++) ke_spelling_try(&s, p->out->arg[k].name);
  if (s.best[0])
    return ke_parse_fail(p, KE_ERR_PARSE, name->pos, "'%.*s' is not among the arguments; did you mean '%s'?", shown,
                         text, s.best);
  list_arguments(p, known, sizeof known);
  return ke_parse_fail(p, KE_ERR_PARSE, name->pos, "'%.*s' is not among the arguments%s%s", shown, text,
                       known[0] ? ": " : ", which have no names", known);
}

static ke_status named_argument(ke_parser *p, const ke_token *name, ke_value *out)
{
  for (int k = 0; p->out && k < p->out->nargs; k++)
    if (strlen(p->out->arg[k].name) == (size_t)name->length &&
        !memcmp(p->out->arg[k].name, p->text + name->pos, (size_t)name->length)) {
      *out = ke_value_plain(argument_node(p, k));
      return KE_OK;
    }
  return unknown_argument(p, name);
}

/* ---- reductions and gradients ---- */
static int side_of_axis(int axis)
{
  return axis == 0 ? KE_I : KE_J;
}

/* What stands in name_Reduction(...). */
typedef struct {
  const ke_reduction_name *which;
  int pos;
  char name[48];
  ke_value f, weights; /* weights.node NULL: none */
  int k, axis;         /* k: the dimension in Zero_Reduction */
} reduction;

/* Reductions of pairs are over the ranges, where there are some; those of values of rows never. */
static bool is_ranged(const ke_parser *p, const reduction *r)
{
  int sides = r->f.side | r->weights.side;

  return p->g->ranged && (sides == (KE_I | KE_J) || !(r->f.reduced || r->weights.reduced));
}

/* The node(s) of a reduction: values, indices, or values and then indices. */
static const ke_node *reduction_node(ke_parser *p, const reduction *r)
{
  ke_graph *g = p->g;
  ke_reduction how = {.kind = r->which->kind,
                      .side = side_of_axis(r->axis),
                      .part = r->which->part,
                      .k = r->k,
                      .ranged = is_ranged(p, r)};
  const ke_node *weights = r->weights.node, *values;

  if (r->which->zero) return ke_widen(g, ke_const(g, 0), r->k);
  if (how.part == KE_PART_RATIO) weights = ke_binary(g, KE_OP_Concat, ke_const(g, 1), weights);
  values = ke_reduce_over(g, how, r->f.node, weights);
  if (!r->which->then_index) return values;
  how.part = KE_PART_INDEX;
  return ke_binary(g, KE_OP_Concat, values, ke_reduce_over(g, how, r->f.node, weights));
}

/* The last operand is the axis; a number before it is a weight. */
static bool at_last_number(const ke_parser *p)
{
  ke_token next = ke_lex(p->text, p->length, (size_t)(p->tok.pos + p->tok.length));

  return p->tok.kind == KE_TOK_NUMBER &&
         (next.kind == KE_TOK_END || (next.kind == KE_TOK_CHAR && next.ch == ')'));
}

/* Dimensions that fit, and a result that is not too wide. */
static ke_status check_reduction(ke_parser *p, const reduction *r)
{
  int width = r->weights.node ? r->weights.node->dim : r->f.node->dim;

  if (r->which->kind == KE_RED_SUMEXP && r->f.node->dim != 1)
    return ke_parse_fail(p, KE_ERR_DIMENSION, r->pos, "%s needs a formula of dimension 1, not %d", r->name,
                         r->f.node->dim);
  if (r->which->counted && r->k > KE_MAX_DIM / 2 / width)
    return ke_parse_fail(p, KE_ERR_DIMENSION, r->pos,
                         "%s of %d values in dimension %d gives too wide a result, allowed are %d values",
                         r->name, r->k, width, KE_MAX_DIM / 2 / width);
  return KE_OK;
}

/* Up to the axis: F, or F and a number or weights, or a dimension. */
static ke_status reduction_operands(ke_parser *p, reduction *r)
{
  const ke_reduction_name *which = r->which;
  char where[96];
  int pos;

  snprintf(where, sizeof where, "in %s(%s axis)", r->name,
           which->zero                        ? "dimension,"
           : which->counted                   ? "F, K,"
           : which->weights == KE_WEIGHT_MUST ? "F, weights,"
                                              : "F,");
  if (!which->zero) {
    KE_TRY(ke_parse_value(p, &r->f));
    KE_TRY(ke_parse_expect(p, ',', where));
  }
  if (which->zero || which->counted) {
    pos = p->tok.pos;
    KE_TRY(ke_parse_integer(p, which->zero ? "a dimension" : "K, how many are taken", &r->k));
    KE_TRY(ke_parse_range(p, pos, which->zero ? "the dimension of Zero_Reduction" : "K", r->k, 1, KE_MAX_DIM));
    KE_TRY(ke_parse_expect(p, ',', where));
  }
  if (which->weights == KE_WEIGHT_MUST || (which->weights == KE_WEIGHT_MAY && !at_last_number(p))) {
    KE_TRY(ke_parse_value(p, &r->weights));
    KE_TRY(ke_parse_expect(p, ',', where));
  }
  return KE_OK;
}

static ke_status parse_reduction(ke_parser *p, int pos, const ke_reduction_name *which, ke_value *out)
{
  reduction r = {.which = which, .pos = pos, .k = 1};
  int sides, side;

  snprintf(r.name, sizeof r.name, "%s_Reduction", which->name);
  KE_TRY(reduction_operands(p, &r));
  KE_TRY(ke_parse_integer(p, "the axis: 0 reduces over i, 1 over j", &r.axis));
  if (r.axis != 0 && r.axis != 1)
    return ke_parse_fail(p, KE_ERR_PARSE, pos, "the axis of %s is %d, allowed are 0 (over i) and 1 (over j)",
                   r.name, r.axis);
  KE_TRY(ke_parse_close(p, r.name));
  if (!which->zero) KE_TRY(check_reduction(p, &r));
  side = side_of_axis(r.axis);
  sides = r.f.side | r.weights.side;
  out->node = reduction_node(p, &r);
  out->reduced = true;
  /* one row an i (or j), but a reduction of reduced rows leaves what these have */
  out->side = (r.f.reduced || r.weights.reduced ? sides : KE_I | KE_J) & ~side;
  p->last_reduction = which;
  p->last_k = r.k;
  p->last_node = out->node;
  return KE_OK;
}

ke_status ke_parse_fail(ke_parser *p, ke_status status, int pos, const char *format, ...)
{
  char message[sizeof p->err->message];
  va_list ap;

  va_start(ap, format);
  vsnprintf(message, sizeof message, format, ap);
  va_end(ap);
  if (p->template_name) return ke_fail(p->err, status, p->template_pos, "in %s, %s", p->template_name, message);
  return ke_fail(p->err, status, p->template_pos >= 0 ? p->template_pos : pos, "%s", message);
}

static bool spelled(const ke_parser *p, const ke_token *t, const char *name)
{
  return strlen(name) == (size_t)t->length && !memcmp(name, p->text + t->pos, (size_t)t->length);
}

static const char tail[] = "_Reduction";

static bool has_tail(const ke_parser *p, const ke_token *t)
{
  size_t n = sizeof tail - 1, length = (size_t)t->length;

  return length > n && !memcmp(p->text + t->pos + length - n, tail, n);
}

static const ke_reduction_name *find_reduction(const ke_parser *p, const ke_token *t)
{
  size_t n = sizeof tail - 1, length = (size_t)t->length;
  const ke_reduction_name *names;
  int count = ke_reduction_names(&names);

  if (!has_tail(p, t)) return NULL;
  for (int k = 0; k < count; k++)
    if (strlen(names[k].name) == length - n && !memcmp(names[k].name, p->text + t->pos, length - n))
      return &names[k];
  return NULL;
}

/* X_Reduction( with an X that there is not: the nearest, by X alone, or all there are. */
static ke_status unknown_reduction(ke_parser *p, const ke_token *t)
{
  const char *text = p->text + t->pos;
  int shown = t->length < 80 ? t->length : 80;
  ke_spelling s = ke_spelling_of(text, (size_t)t->length - (sizeof tail - 1));
  const ke_reduction_name *names;
  int count = ke_reduction_names(&names);
  char known[400] = "";
  size_t used = 0;

  for (int k = 0; k < count; k++) {
    ke_spelling_try(&s, names[k].name);
    if (used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", k ? ", " : "", names[k].name);
  }
  if (s.best[0])
    return ke_parse_fail(p, KE_ERR_PARSE, t->pos, "there is no reduction called '%.*s'; did you mean '%s%s'?", shown,
                         text, s.best, tail);
  return ke_parse_fail(p, KE_ERR_PARSE, t->pos, "there is no reduction called '%.*s'; before %s may stand %s", shown,
                       text, tail, known);
}

static ke_status unknown_operation(ke_parser *p, const ke_token *t)
{
  const char *text = p->text + t->pos;
  int shown = t->length < 80 ? t->length : 80;
  ke_spelling s = ke_spelling_of(text, (size_t)t->length);
  const ke_reduction_name *names;
  int count = ke_reduction_names(&names);
  char reduction[KE_SPELLING_MAX];

  if (has_tail(p, t)) return unknown_reduction(p, t);
  for (int k = 0; p->out && k < p->out->nargs; k++)
    if (spelled(p, t, p->out->arg[k].name))
      return ke_parse_fail(p, KE_ERR_PARSE, t->pos, "'%.*s' is an argument and takes no operands in parentheses", shown,
                           text);
  for (int k = 0; k < KE_OP_COUNT; k++)
    if (ke_ops[k].kind != KE_FUSED) ke_spelling_try(&s, ke_ops[k].name);
  for (int k = 0; k < count; k++) {
    snprintf(reduction, sizeof reduction, "%s%s", names[k].name, tail);
    ke_spelling_try(&s, reduction);
  }
  if (s.best[0])
    return ke_parse_fail(p, KE_ERR_PARSE, t->pos, "there is no operation called '%.*s'; did you mean '%s'?", shown,
                         text, s.best);
  return ke_parse_fail(p, KE_ERR_PARSE, t->pos, "there is no operation called '%.*s'; ?keops_formula lists them", shown,
                       text);
}

/* Words that differentiate may meet an operand in which there is no derivative. */
static ke_status check_defined(ke_parser *p, int pos, const char *name)
{
  if (!p->g->undefined) return KE_OK;
  return ke_parse_fail(p, KE_ERR_PARSE, pos,
                       "%s needs the derivative of %s in operand %d of it, which the language does not "
                       "have: that operand must not depend on the variable",
                       name, ke_ops[p->g->undefined_op].name, p->g->undefined_operand + 1);
}

/* name(...): the name is read, '(' is next */
static ke_status parse_call(ke_parser *p, const ke_token *name, ke_value *out)
{
  const ke_reduction_name *which;
  int op;

  ke_parse_advance(p);
  which = find_reduction(p, name);
  if (which) return parse_reduction(p, name->pos, which, out);
  op = ke_op_find(p->text + name->pos, (size_t)name->length);
  if (op >= 0 && ke_ops[op].kind == KE_WORD) {
    KE_TRY(ke_word_of(op)(p, name->pos, out));
    return check_defined(p, name->pos, ke_ops[op].name);
  }
  if (op >= 0) return parse_operation(p, name->pos, op, out);
  if (spelled(p, name, "Vi") || spelled(p, name, "Vj") || spelled(p, name, "Pm"))
    return ke_parse_fail(p, KE_ERR_PARSE, name->pos,
                   "%.2s(...) belongs into the argument list; the formula calls an argument by its "
                   "name or by Var(number, dimension, category)",
                   p->text + name->pos);
  return unknown_operation(p, name);
}

/* ---- levels of precedence ---- */
static ke_status parse_primary(ke_parser *p, ke_value *out)
{
  ke_token t = p->tok;
  char buffer[64];

  if (t.kind == KE_TOK_NUMBER) {
    ke_parse_advance(p);
    *out = ke_value_plain(ke_const(p->g, t.number));
    return KE_OK;
  }
  if (t.kind == KE_TOK_NAME) {
    ke_parse_advance(p);
    return ke_parse_at(p, '(') ? parse_call(p, &t, out) : named_argument(p, &t, out);
  }
  if (t.kind == KE_TOK_OPERAND && t.number < p->noperand) {
    ke_parse_advance(p);
    *out = p->operand[(int)t.number];
    return KE_OK;
  }
  if (ke_parse_at(p, '(')) {
    ke_parse_advance(p);
    KE_TRY(ke_parse_value(p, out));
    return ke_parse_expect(p, ')', "to close '('");
  }
  return ke_parse_fail(p, KE_ERR_PARSE, t.pos, "expected a formula, found %s",
                 ke_parse_seen(p, buffer, sizeof buffer));
}

static ke_status parse_power(ke_parser *p, ke_value *out)
{
  ke_value v[2];
  int pos;

  KE_TRY(parse_primary(p, &v[0]));
  if (p->tok.kind != KE_TOK_POWER) {
    *out = v[0];
    return KE_OK;
  }
  pos = p->tok.pos;
  ke_parse_advance(p);
  KE_TRY(parse_unary(p, &v[1])); /* right associative, and 2^-x */
  return make_power(p, pos, v, out);
}

static ke_status parse_unary(ke_parser *p, ke_value *out)
{
  bool negative = ke_parse_at(p, '-');
  ke_status st;

  if (++p->nesting > MAX_NESTING)
    return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "the formula is nested more than %d levels deep",
                   MAX_NESTING);
  if (negative || ke_parse_at(p, '+')) {
    ke_parse_advance(p);
    st = parse_unary(p, out);
    if (st == KE_OK && negative) out->node = ke_unary(p->g, KE_OP_Minus, out->node);
  } else {
    st = parse_power(p, out);
  }
  p->nesting--;
  return st;
}

/* Binary operators, loosest level first; all associate to the left. */
static int operator_of(const ke_parser *p, int level)
{
  switch (p->tok.kind) {
  case KE_TOK_EQ: return level == 0 ? KE_OP_Equal : -1;
  case KE_TOK_NE: return level == 0 ? KE_OP_NotEqual : -1;
  case KE_TOK_LE:
  case KE_TOK_GE: return level == 0 ? KE_OP_LessOrEqual : -1;
  case KE_TOK_CHAR: break;
  default: return -1;
  }
  switch (p->tok.ch) {
  case '<':
  case '>': return level == 0 ? KE_OP_LessThan : -1;
  case '|': return level == 1 ? KE_OP_COUNT : -1;
  case '+': return level == 2 ? KE_OP_Add : -1;
  case '-': return level == 2 ? KE_OP_Subtract : -1;
  case '*': return level == 3 ? KE_OP_Mult : -1;
  case '/': return level == 3 ? KE_OP_Divide : -1;
  default: return -1;
  }
}

enum { NLEVELS = 4 };

static ke_status parse_level(ke_parser *p, int level, ke_value *out)
{
  ke_value v[2], t;
  int op, pos;
  bool swapped;

  KE_TRY(level + 1 < NLEVELS ? parse_level(p, level + 1, &v[0]) : parse_unary(p, &v[0]));
  for (op = operator_of(p, level); op >= 0; op = operator_of(p, level)) {
    pos = p->tok.pos;
    swapped = p->tok.kind == KE_TOK_GE || ke_parse_at(p, '>');
    ke_parse_advance(p);
    KE_TRY(level + 1 < NLEVELS ? parse_level(p, level + 1, &v[1]) : parse_unary(p, &v[1]));
    if (swapped) {
      t = v[0];
      v[0] = v[1];
      v[1] = t;
    }
    if (op == KE_OP_COUNT)
      KE_TRY(ke_parse_scalprod(p, pos, v, &t));
    else
      KE_TRY(ke_parse_make(p, pos, op, v, NULL, &t));
    v[0] = t;
  }
  *out = v[0];
  return KE_OK;
}

ke_status ke_parse_value(ke_parser *p, ke_value *out)
{
  ke_status st;

  if (++p->nesting > MAX_NESTING)
    return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "the formula is nested more than %d levels deep",
                   MAX_NESTING);
  st = parse_level(p, 0, out);
  p->nesting--;
  return st;
}

/* ---- entries ---- */
static ke_status not_at_end(ke_parser *p)
{
  char buffer[64];

  return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "expected an operator or the end, found %s",
                 ke_parse_seen(p, buffer, sizeof buffer));
}

static ke_status whole_formula(ke_parser *p, ke_value *v)
{
  KE_TRY(ke_parse_value(p, v));
  return p->tok.kind == KE_TOK_END ? KE_OK : not_at_end(p);
}

/* One of the results: a formula up to ';' or the end. */
static ke_status parse_result(ke_parser *p)
{
  int pos = p->tok.pos;
  ke_result *r;
  ke_value v;
  bool outermost;

  if (p->out->nresult == KE_MAX_RESULTS)
    return ke_parse_fail(p, KE_ERR_PARSE, pos, "more than %d results", KE_MAX_RESULTS);
  KE_TRY(ke_parse_value(p, &v));
  if (p->tok.kind != KE_TOK_END && !ke_parse_at(p, ';')) return not_at_end(p);
  if (!v.reduced)
    return ke_parse_fail(p, KE_ERR_PARSE, pos,
                   "the formula has no reduction: write Sum_Reduction(F, 1), or another one");
  if (v.side == (KE_I | KE_J))
    return ke_parse_fail(p, KE_ERR_PARSE, pos,
                   "the formula still depends on i and j: a reduction must stand around it");
  outermost = v.node == p->last_node;
  r = &p->out->result[p->out->nresult++];
  *r = (ke_result){.node = v.node, .side = v.side, .values = v.node->dim, .reduction = ""};
  if (!outermost) return KE_OK;
  r->reduction = p->last_reduction->name;
  if (p->last_reduction->then_index) r->values /= 2;
  if (p->last_reduction->part == KE_PART_INDEX) r->values = 0;
  if (p->last_reduction->counted) r->k = p->last_k;
  return KE_OK;
}

static ke_status parse_results(ke_parser *p)
{
  KE_TRY(parse_result(p));
  while (ke_parse_at(p, ';')) {
    ke_parse_advance(p);
    KE_TRY(parse_result(p));
  }
  return KE_OK;
}

ke_status ke_parse_formula(ke_graph *g, const char *text, size_t length, ke_parsed *out, ke_error *err)
{
  ke_parser p = {.g = g, .text = text, .length = length, .template_pos = -1, .out = out, .err = err};
  ke_status st;

  if (length > MAX_TEXT)
    return ke_fail(err, KE_ERR_PARSE, 0, "the formula has %zu characters, allowed are %d", length,
                   MAX_TEXT);
  p.tok = ke_lex(text, length, 0);
  st = parse_results(&p);
  KE_TRY(ke_graph_check(g, err)); /* the true cause, should both have failed */
  return st;
}

ke_status ke_parse_template(ke_parser *p, int pos, const char *name, const char *text, const ke_value *v, int n,
                            ke_value *out)
{
  ke_parser t = {.g = p->g,
                 .text = text,
                 .length = strlen(text),
                 .nesting = p->nesting,
                 .template_pos = p->template_pos >= 0 ? p->template_pos : pos,
                 .template_name = p->template_pos >= 0 ? p->template_name : name,
                 .operand = v,
                 .noperand = n,
                 .err = p->err};

  t.tok = ke_lex(text, t.length, 0);
  return whole_formula(&t, out);
}

const ke_node *ke_template(ke_graph *g, const char *text, const ke_node *const *operand, int n)
{
  ke_error err = {0};
  ke_parser p = {.g = g, .template_pos = -1, .err = &err};
  ke_value v[MAX_OPERANDS], out;

  for (int k = 0; k < n; k++) v[k] = ke_value_plain(operand[k]);
  if (ke_parse_template(&p, 0, NULL, text, v, n, &out) != KE_OK) { /* a faulty row: a test walks them all */
    g->failed = true;
    return &g->dummy;
  }
  return out.node;
}

/* "x=Vi(3)", "x=Vi(0,3)", "Vi(3)" */
static ke_status parse_argument(ke_parser *p, int number, ke_parsed *out)
{
  static const char *const kinds[] = {"Vi", "Vj", "Pm", "Vx", "Vy"};
  ke_token name = {.length = 0};
  int category = -1, a, b = 0;
  const char *shape = "in an argument like x=Vi(3)";
  char buffer[64];

  if (p->tok.kind == KE_TOK_NAME) {
    name = p->tok;
    ke_parse_advance(p);
    if (ke_parse_at(p, '=')) {
      ke_parse_advance(p);
    } else {
      p->tok = name;
      name.length = 0;
    }
  }
  for (int k = 0; k < 5 && p->tok.kind == KE_TOK_NAME; k++)
    if (spelled(p, &p->tok, kinds[k])) category = k % 3;
  if (category < 0)
    return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "expected Vi, Vj or Pm, found %s",
                         ke_parse_seen(p, buffer, sizeof buffer));
  ke_parse_advance(p);
  KE_TRY(ke_parse_expect(p, '(', shape));
  KE_TRY(ke_parse_integer(p, "a dimension", &a));
  if (ke_parse_at(p, ',')) {
    ke_parse_advance(p);
    KE_TRY(ke_parse_integer(p, "a dimension", &b));
    if (a != number)
      return ke_parse_fail(p, KE_ERR_PARSE, 0, "position %d is given to argument number %d (from 0)", a,
                     number);
    a = b;
  }
  KE_TRY(ke_parse_expect(p, ')', shape));
  KE_TRY(ke_parse_range(p, 0, "the dimension", a, 1, KE_MAX_DIM));
  if (p->tok.kind != KE_TOK_END) return ke_parse_expect(p, ')', "and nothing behind it");
  for (int k = 0; k < out->nargs; k++)
    if (name.length && spelled(p, &name, out->arg[k].name))
      return ke_parse_fail(p, KE_ERR_PARSE, 0, "the name '%s' is given twice: names must differ", out->arg[k].name);
  return add_arg(p, out, p->text + name.pos, (size_t)name.length, category, a);
}

ke_status ke_parse_arguments(ke_graph *g, const char *const *args, int nargs, ke_parsed *out,
                             ke_error *err)
{
  char message[sizeof err->message];

  if (nargs > MAX_ARGS)
    return ke_fail(err, KE_ERR_INPUT, -1, "%d arguments, allowed are %d", nargs, MAX_ARGS);
  for (int k = 0; k < nargs; k++) {
    ke_parser p = {.g = g, .text = args[k], .length = strlen(args[k]), .template_pos = -1, .err = err};
    p.tok = ke_lex(p.text, p.length, 0);
    if (parse_argument(&p, k, out) != KE_OK) {
      snprintf(message, sizeof message, "%s", err->message);
      return ke_fail(err, KE_ERR_INPUT, -1, "argument %d, \"%.60s\": %s", k + 1, args[k], message);
    }
  }
  return KE_OK;
}

void ke_parsed_clear(ke_parsed *p)
{
  free(p->arg);
  p->arg = NULL;
}
