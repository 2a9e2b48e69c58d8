/* Printing the code of a pair program (see emit.h): what is inside the loops over tiles. */
#include "emit.h"

#include "op.h"
#include "shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- checks and analysis ---- */
static bool place_ok(const ke_program *code, const ke_place *p)
{
  switch (p->kind) {
  case KE_AT_CONST:
  case KE_AT_PAIR: return true;
  case KE_AT_TEMP: return p->base >= 0 && p->base < code->ntemp;
  case KE_AT_ONCE:
  case KE_AT_KEPT:
  case KE_AT_RED: return p->base >= 0;
  default: return false;
  }
}

static bool scalar_op(int op)
{
  return op < KE_OP_COUNT && (ke_ops[op].kind == KE_SCALAR || ke_ops[op].kind == KE_FUSED);
}

static bool instr_ok(const ke_program *code, int32_t i)
{
  const ke_instr *ins = &code->code[i];
  int arity = 1;

  if (ins->dst < 0 || ins->dst >= code->ntemp) return false;
  if (ins->op == KE_I_FOLD) {
    if (ins->n < 1 || ins->len < 0 || ins->depth >= KE_MAX_LOOPS) return false;
    if (ins->len > code->ncode - i - 1) return false;
  } else if (scalar_op(ins->op)) {
    arity = ke_ops[ins->op].arity;
  } else {
    return false;
  }
  for (int k = 0; k < arity; k++)
    if (!place_ok(code, &ins->src[k])) return false;
  return true;
}

static ke_status check_code(const ke_program *code, ke_error *err)
{
  for (int32_t i = 0; i < code->ncode; i++)
    if (!instr_ok(code, i))
      return ke_fail(err, KE_ERR_INTERNAL, -1, "instruction %d of a pair program is not one",
                     (int)i);
  for (int32_t s = 0; s < code->nseg; s++) {
    const ke_segment *seg = &code->seg[s];

    if (seg->n < 1 || seg->first < code->nhead || seg->len < 0 ||
        seg->len > code->ncode - seg->first || !place_ok(code, &seg->result))
      return ke_fail(err, KE_ERR_INTERNAL, -1, "segment %d of a pair program is not one", (int)s);
  }
  return KE_OK;
}

int ke_emit_axes(const ke_emit *e, const ke_place *place)
{
  switch (place->kind) {
  case KE_AT_KEPT: return KE_AXIS_ROW;
  case KE_AT_RED: return KE_AXIS_LANE;
  case KE_AT_PAIR: return KE_AXIS_BOTH;
  case KE_AT_TEMP: return e->temp[place->base].axes;
  default: return 0;
  }
}

/* Axes go from operands to results; again until nothing moves, since a fold stands before its
 * body. */
static void find_axes(ke_emit *e)
{
  const ke_program *code = e->code;
  bool moved;

  do {
    moved = false;
    for (int32_t i = 0; i < code->ncode; i++) {
      const ke_instr *ins = &code->code[i];
      int arity = ins->op == KE_I_FOLD ? 1 : ke_ops[ins->op].arity;
      uint8_t *axes = &e->temp[ins->dst].axes, before = *axes;

      for (int k = 0; k < arity; k++) *axes |= (uint8_t)ke_emit_axes(e, &ins->src[k]);
      moved |= *axes != before;
    }
  } while (moved);
}

ke_status ke_emit_open(ke_emit *e, const ke_program *code, ke_strbuf *out, ke_error *err)
{
  *e = (ke_emit){.code = code, .out = out, .open = -1};
  KE_TRY(check_code(code, err));
  e->temp = calloc((size_t)code->ntemp + 1, sizeof *e->temp);
  if (!e->temp) return ke_fail_memory(err);
  find_axes(e);
  return KE_OK;
}

static int uses_in(const ke_program *code, int32_t temp)
{
  int uses = 0;

  for (int32_t i = 0; i < code->ncode; i++) {
    const ke_instr *ins = &code->code[i];
    int arity = ins->op == KE_I_FOLD ? 1 : ke_ops[ins->op].arity;

    for (int k = 0; k < arity; k++)
      uses += ins->src[k].kind == KE_AT_TEMP && ins->src[k].base == temp;
    uses += ins->op == KE_I_FOLD && ins->keep && ins->dst == temp;
  }
  for (int32_t s = 0; s < code->nseg; s++)
    uses += code->seg[s].result.kind == KE_AT_TEMP && code->seg[s].result.base == temp;
  return uses;
}

void ke_emit_sink(ke_emit *e, const ke_place *place)
{
  const ke_program *code = e->code;

  if (place->kind != KE_AT_TEMP || uses_in(code, place->base) != 1) return;
  for (int32_t i = 0; i < code->nhead; i++) {
    const ke_instr *ins = &code->code[i];

    if (ins->op == KE_I_FOLD)
      i += ins->len;
    else if (ins->op == KE_OP_Mult && ins->dst == place->base)
      e->temp[place->base].sunk = ins;
  }
}

void ke_emit_close(ke_emit *e)
{
  free(e->temp);
  e->temp = NULL;
}

void ke_emit_restart(ke_emit *e, bool dry)
{
  e->dry = dry;
  e->nest = 0;
  e->open = -1;
  e->indent = 0;
  e->loops = 0;
}

/* ---- operands ---- */
static void print_operation(ke_emit *e, const ke_instr *ins);

void ke_emit_indent(ke_emit *e)
{
  KE_TEXT(e, "%*s", 2 * e->indent, "");
}

/* Exact in any locale: a whole hexadecimal number times a power of two. */
static void print_const(ke_emit *e, double x)
{
  const char *sign = signbit(x) ? "-" : "";
  uint64_t whole;
  int exponent;

  if (isnan(x)) {
    KE_TEXT(e, "k_set(K(K_NAN))");
  } else if (isinf(x)) {
    KE_TEXT(e, "k_set(K(%sK_INF))", sign);
  } else {
    whole = (uint64_t)ldexp(frexp(fabs(x), &exponent), 53);
    exponent = x == 0 ? 0 : exponent - 53;
    while (whole && !(whole & 1)) {
      whole /= 2;
      exponent++;
    }
    KE_TEXT(e, "k_set(K(%s0x%" PRIx64 "p%d))", sign, whole, exponent);
  }
}

static void print_component(ke_emit *e, const ke_place *p)
{
  KE_TEXT(e, "%" PRId32, p->base);
  for (int d = 0; d < KE_MAX_LOOPS; d++) {
    if (!p->step[d] || !(e->loops & (1u << d))) continue;
    if (p->step[d] == 1)
      KE_TEXT(e, " + k%d", d);
    else
      KE_TEXT(e, " + %" PRId32 " * k%d", p->step[d], d);
  }
}

static const char *index_text(const ke_emit_temp *t)
{
  if (!t->shared) return "";
  switch (t->axes) {
  case KE_AXIS_BOTH: return "[r][v]";
  case KE_AXIS_ROW: return "[r]";
  case KE_AXIS_LANE: return "[v]";
  default: return "";
  }
}

static void print_temp(ke_emit *e, int32_t number)
{
  KE_TEXT(e, "t%" PRId32 "%s", number, index_text(&e->temp[number]));
}

void ke_emit_place(ke_emit *e, const ke_place *place)
{
  ke_emit_temp *t;

  switch (place->kind) {
  case KE_AT_TEMP:
    t = &e->temp[place->base];
    if (t->sunk) {
      print_operation(e, t->sunk);
      return;
    }
    if (t->nest != e->nest) t->shared = true;
    print_temp(e, place->base);
    return;
  case KE_AT_CONST: print_const(e, place->value); return;
  case KE_AT_PAIR: KE_TEXT(e, "pair[r][v]"); return;
  case KE_AT_ONCE: KE_TEXT(e, "ONCE("); break;
  case KE_AT_KEPT: KE_TEXT(e, "KEPT("); break;
  default: KE_TEXT(e, "RED("); break;
  }
  print_component(e, place);
  KE_TEXT(e, ")");
}

/* ---- loop nests ---- */
static void close_nest(ke_emit *e)
{
  if (e->open < 0) return;
  e->indent--;
  KE_LINE(e, "}");
  e->open = -1;
}

static void open_nest(ke_emit *e, int axes)
{
  static const char *const loops[] = {"", "ROWS ", "VECS ", "ROWS VECS "};

  if (e->open == axes) return;
  close_nest(e);
  e->nest++;
  e->open = axes;
  KE_LINE(e, "%s{", loops[axes]);
  e->indent++;
}

/* ---- instructions ---- */
static void print_operation(ke_emit *e, const ke_instr *ins)
{
  e->used[ins->op] = true;
  KE_TEXT(e, "KE_OP_%s(", ke_ops[ins->op].name);
  for (int k = 0; k < ke_ops[ins->op].arity; k++) {
    if (k) KE_TEXT(e, ", ");
    ke_emit_place(e, &ins->src[k]);
  }
  KE_TEXT(e, ")");
}

static void emit_assign(ke_emit *e, const ke_instr *ins)
{
  ke_emit_temp *t = &e->temp[ins->dst];

  if (t->sunk) return;
  open_nest(e, t->axes);
  ke_emit_indent(e);
  KE_TEXT(e, "%s", t->shared ? "" : "vr ");
  print_temp(e, ins->dst);
  KE_TEXT(e, " = ");
  print_operation(e, ins);
  KE_TEXT(e, ";\n");
  t->nest = e->nest; /* last: an operand may be the same temporary of another body */
}

/* Is a fold short enough, with its body, to be written out? */
static bool written_out(const ke_emit *e, int32_t i)
{
  enum { MOST_STATEMENTS = 1024 };
  const ke_instr *ins = &e->code->code[i];
  int64_t size = ke_code_size(e->code, i + 1, ins->len, e->unroll) + 1;

  return ins->n <= e->unroll && size * ins->n * e->cells <= MOST_STATEMENTS;
}

/* One trip. An extreme starts with the first, and takes what compares as larger (smaller). */
static void print_trip(ke_emit *e, const void *data)
{
  const ke_instr *ins = data;

  ke_emit_indent(e);
  if (ins->fold == KE_FOLD_SUM) {
    print_temp(e, ins->dst);
    KE_TEXT(e, " += ");
    ke_emit_place(e, &ins->src[0]);
    KE_TEXT(e, ";\n");
    return;
  }
  KE_TEXT(e, "const vr x = ");
  ke_emit_place(e, &ins->src[0]);
  KE_TEXT(e, ";\n");
  ke_emit_indent(e);
  print_temp(e, ins->dst);
  KE_TEXT(e, " = ");
  if (!ins->keep) KE_TEXT(e, ins->n > 1 ? "k%d == 0 ? x : " : "1 ? x : ", ins->depth);
  KE_TEXT(e, "k_select(x %c ", ins->fold == KE_FOLD_MAX ? '>' : '<');
  print_temp(e, ins->dst);
  KE_TEXT(e, ", x, ");
  print_temp(e, ins->dst);
  KE_TEXT(e, ");\n");
}

static void emit_fold(ke_emit *e, int32_t i)
{
  const ke_instr *ins = &e->code->code[i];
  ke_emit_temp *t = &e->temp[ins->dst];
  const ke_emit_tail trip = {t->axes, print_trip, ins};
  unsigned loops = e->loops;

  t->shared = true;
  if (!ins->keep && ins->fold == KE_FOLD_SUM) {
    open_nest(e, t->axes);
    ke_emit_indent(e);
    print_temp(e, ins->dst);
    KE_TEXT(e, " = k_set(0);\n");
  }
  close_nest(e);
  t->nest = -1;
  if (ins->n > 1) {
    if (written_out(e, i)) KE_LINE(e, "UNROLL");
    KE_LINE(e, "for (long k%d = 0; k%d < %" PRId32 "; k%d++) {", ins->depth, ins->depth, ins->n,
            ins->depth);
    e->loops |= 1u << ins->depth;
  } else {
    KE_LINE(e, "{");
    e->loops &= ~(1u << ins->depth);
  }
  e->indent++;
  ke_emit_list(e, i + 1, ins->len, &trip);
  e->indent--;
  KE_LINE(e, "}");
  e->loops = loops;
}

/* Arrays for what this list defines and other nests use. */
static void declare(ke_emit *e, int32_t first, int32_t len)
{
  static const char *const sizes[] = {"", "[R]", "[JR]", "[R][JR]"};

  for (int32_t i = first; i < first + len; i++) {
    const ke_instr *ins = &e->code->code[i];
    const ke_emit_temp *t = &e->temp[ins->dst];

    if (t->shared && !(ins->op == KE_I_FOLD && ins->keep))
      KE_LINE(e, "vr t%" PRId32 "%s;", ins->dst, sizes[t->axes]);
    if (ins->op == KE_I_FOLD) i += ins->len;
  }
}

void ke_emit_list(ke_emit *e, int32_t first, int32_t len, const ke_emit_tail *tail)
{
  declare(e, first, len);
  for (int32_t i = first; i < first + len; i++) {
    const ke_instr *ins = &e->code->code[i];

    if (ins->op == KE_I_FOLD) {
      emit_fold(e, i);
      i += ins->len;
    } else {
      emit_assign(e, ins);
    }
  }
  if (tail) {
    open_nest(e, tail->axes);
    tail->print(e, tail->data);
  }
  close_nest(e);
}

void ke_emit_ops(ke_emit *e)
{
  static const char *const operands[] = {"a", "a, b", "a, b, c"};

  for (int op = 0; op < KE_OP_COUNT; op++)
    if (e->used[op])
      KE_LINE(e, "#define KE_OP_%s(%s) (%s)", ke_ops[op].name, operands[ke_ops[op].arity - 1],
              ke_ops[op].value);
}
