/* Prepares programs for the interpreter: the pair program of a pass becomes a kernel like a compiled one,
 * a row program becomes a ke_rows. Nothing is computed here; interp_body.h runs what this makes.
 *
 * In order: find the values that are the same for all rows (flat), see which instructions melt into a fold
 * or a reduction, lower the program to primitives (interp.h), give the temporaries slots by their life
 * spans, choose the tile, and turn views into offsets. */
#include "interp.h"

#include "arena.h"
#include "op.h"

#include <float.h>

enum {
  RED_TILE_BYTES = 32768, /* a tile of reduced data should not be more, */
  TEMP_BYTES = 65536,     /* nor all temporaries: half of a small second-level cache */
  ALIGN_BYTES = 64,
  LONGEST_VECTOR = 64
};

typedef struct {
  bool flat;        /* one row for all */
  int32_t born;     /* instruction that makes it first, -1: none */
  int32_t release;  /* 2 i: free once instruction i has read it; 2 i + 1: once i is done */
  int32_t slot;
  int32_t next;     /* in the list of those released at the same time */
} temp_info;

/* What a segment of a sum comes down to: a SUM... primitive and its operands. */
typedef struct {
  uint16_t op;
  ke_place a, b, c;
} segment_form;

typedef struct {
  ke_arena *arena;
  const ke_program *program;
  const ke_pass *pass; /* NULL: a row program */
  const ki_reduce *reduce;
  int32_t lanes;       /* of a vector */
  ki_instr *code;
  int32_t ncode, room;
  double *constant;
  int32_t nconstant, constant_room;
  int32_t *uses;       /* of a temp of the program: places that read it */
  int32_t *maker;      /* the one instruction that writes it, -1: none or several */
  int32_t *region;     /* of an instruction: straight line that it is in */
  int32_t *body;       /* of a FOLD: region of its body */
  int32_t nregion;
  bool *melted;        /* instruction has become part of another */
  segment_form *form;
  temp_info *temp;
  int32_t ntemp, max_temp;
  int32_t nfull, nflat; /* slots */
  bool no_memory;
  const char *fault;    /* what no plan should hold */
} lowering;

/* ---- small helpers ---- */

static void *take(lowering *w, int64_t count, size_t size)
{
  void *p = w->no_memory ? NULL : ke_arena_alloc(w->arena, ((size_t)count + 1) * size);

  if (!p) w->no_memory = true;
  return p;
}

/* Room for one more element; arenas do not resize, so a full array moves to one twice as large. */
static void *grown(lowering *w, void *old, int32_t count, int32_t *room, size_t size)
{
  void *p;

  if (count < *room) return old;
  p = take(w, 2 * (int64_t)count + 16, size);
  if (!p) return NULL;
  if (count) memcpy(p, old, (size_t)count * size);
  *room = 2 * count + 16;
  return p;
}

static int operand_count(const ke_instr *in)
{
  if (in->op < KE_OP_COUNT) return ke_ops[in->op].arity;
  if (in->op == KE_I_GATHER) return 2;
  return 1;
}

static bool is_elementwise(uint16_t op)
{
  return op < KE_OP_COUNT && (ke_ops[op].kind == KE_SCALAR || ke_ops[op].kind == KE_FUSED);
}

static bool is_temp(const ke_place *p, int32_t temp)
{
  return p->kind == KE_AT_TEMP && p->base == temp;
}

static bool is_row_scalar(const ke_place *p)
{
  return p->kind == KE_AT_KEPT || p->kind == KE_AT_ONCE || p->kind == KE_AT_CONST;
}

/* One of them a scalar of the row (*x), the other an item's (*y). */
static bool is_row_and_item(const ke_place *p, const ke_place *q, const ke_place **x,
                            const ke_place **y)
{
  *x = is_row_scalar(p) ? p : q;
  *y = is_row_scalar(p) ? q : p;
  return is_row_scalar(*x) && (*y)->kind == KE_AT_RED;
}

/* ---- what the program looks like ---- */

static void note_use(lowering *w, const ke_place *p)
{
  if (p->kind == KE_AT_TEMP) w->uses[p->base]++;
}

static void note_code(lowering *w, int32_t first, int32_t len, int32_t region, int depth)
{
  for (int32_t i = first; i < first + len; i++) {
    const ke_instr *in = &w->program->code[i];
    const int n = operand_count(in);

    w->region[i] = region;
    w->maker[in->dst] = w->maker[in->dst] == -1 ? i : -2;
    for (int k = 0; k < n; k++) note_use(w, &in->src[k]);
    if (in->op == KE_I_FOLD) {
      if (in->depth >= KE_MAX_LOOPS || depth >= KE_MAX_LOOPS) w->fault = "folds nested too deeply";
      w->body[i] = w->nregion++;
      if (!w->fault) note_code(w, i + 1, in->len, w->body[i], depth + 1);
      i += in->len;
    } else if (in->op < KE_I_LOAD && !is_elementwise(in->op)) {
      w->fault = "an operation that is no elementwise one";
    }
  }
}

static void note_program(lowering *w)
{
  const ke_program *p = w->program;

  for (int32_t t = 0; t < p->ntemp; t++) w->maker[t] = -1;
  w->nregion = 1 + p->nseg;
  note_code(w, 0, p->nhead, 0, 0);
  for (int32_t s = 0; s < p->nseg; s++) {
    note_code(w, p->seg[s].first, p->seg[s].len, 1 + s, 1);
    note_use(w, &p->seg[s].result);
  }
  if (w->pass)
    for (int32_t r = 0; r < w->pass->nreduce; r++)
      if (w->pass->reduce[r].kind == KE_RED_SUMEXP) note_use(w, &w->pass->reduce[r].score);
}

static bool is_flat_place(const lowering *w, const ke_place *p)
{
  return p->kind == KE_AT_TEMP ? w->temp[p->base].flat : p->kind != KE_AT_KEPT;
}

/* Flat until something is found that is not: repeated, since a fold may add to an earlier value. */
static void find_flat_temps(lowering *w)
{
  const ke_program *p = w->program;
  bool changed = true;

  for (int32_t t = 0; t < w->max_temp; t++) w->temp[t].flat = true;
  while (changed) {
    changed = false;
    for (int32_t i = 0; i < p->ncode; i++) {
      const ke_instr *in = &p->code[i];
      const int n = operand_count(in);
      for (int k = 0; k < n; k++) {
        if (is_flat_place(w, &in->src[k]) || !w->temp[in->dst].flat) continue;
        w->temp[in->dst].flat = false;
        changed = true;
      }
    }
  }
}

/* The instruction that makes a value which nobody else reads and which can be made where it is read:
 * in the same straight line, or in the head. -1: there is none. */
static int32_t own_maker(const lowering *w, const ke_place *p, int32_t region)
{
  int32_t i;

  if (p->kind != KE_AT_TEMP || w->uses[p->base] != 1) return -1;
  i = w->maker[p->base];
  if (i < 0 || w->melted[i] || (w->region[i] != region && w->region[i] != 0)) return -1;
  return i;
}

/* ---- which instructions melt into the reductions ---- */

/* A difference of a row's and an item's component, as an operand of a sum. */
static bool melt_difference(lowering *w, const ke_place *p, int32_t region, segment_form *form)
{
  const int32_t i = own_maker(w, p, region);
  const ke_instr *in = i < 0 ? NULL : &w->program->code[i];
  const ke_place *x, *y;

  if (!in || in->op != KE_OP_Subtract || !is_row_and_item(&in->src[0], &in->src[1], &x, &y))
    return false;
  form->op = x == &in->src[0] ? KI_SUM_DIFF : KI_SUM_DIFF_NEG;
  form->b = *y;
  form->c = *x;
  w->melted[i] = true;
  return true;
}

static segment_form form_of_sum(lowering *w, const ke_segment *seg, int32_t region)
{
  segment_form form = {.op = KI_SUM, .a = seg->result};
  const int32_t i = own_maker(w, &seg->result, region);
  const ke_instr *in = i < 0 ? NULL : &w->program->code[i];

  if (in && in->op == KE_OP_Square) {
    w->melted[i] = true;
    form = (segment_form){.op = KI_SUM_MUL, .a = in->src[0], .b = in->src[0]};
  } else if (in && in->op == KE_OP_Mult) {
    w->melted[i] = true;
    form = (segment_form){.op = KI_SUM_MUL, .a = in->src[0], .b = in->src[1]};
    if (is_row_scalar(&form.a) || is_row_scalar(&form.b)) return form;
    if (!melt_difference(w, &in->src[1], region, &form) &&
        melt_difference(w, &in->src[0], region, &form))
      form.a = in->src[1];
  }
  return form;
}

/* `weight`: the temp of the shifted exponentials. */
static segment_form form_of_sumexp(lowering *w, const ke_segment *seg, int32_t region,
                                   int32_t weight)
{
  const ke_place p = {.kind = KE_AT_TEMP, .base = weight};
  segment_form form = {.op = KI_SUM_MUL, .a = p, .b = seg->result};

  if (seg->result.kind == KE_AT_CONST && seg->result.value == 1) form.op = KI_SUM;
  else melt_difference(w, &seg->result, region, &form);
  return form;
}

static segment_form form_of_rows(lowering *w, const ke_segment *seg, int32_t region)
{
  segment_form form = {.op = KI_STORE, .a = seg->result};
  const int32_t i = own_maker(w, &seg->result, region);

  if (i >= 0 && w->program->code[i].op == KE_I_LOAD) {
    w->melted[i] = true;
    form = (segment_form){.op = KI_COPY, .a = w->program->code[i].src[0]};
  }
  return form;
}

static void find_forms(lowering *w)
{
  const ke_program *p = w->program;
  int32_t weight = p->ntemp;

  if (!w->pass) {
    for (int32_t s = 0; s < p->nseg; s++) w->form[s] = form_of_rows(w, &p->seg[s], 1 + s);
    return;
  }
  for (int32_t r = 0; r < w->pass->nreduce; r++) {
    const ke_reduce *red = &w->pass->reduce[r];
    for (int32_t s = red->seg; s < red->seg + red->nseg; s++) {
      const ke_segment *seg = &p->seg[s];
      switch (red->kind) {
      case KE_RED_SUM: w->form[s] = form_of_sum(w, seg, 1 + s); break;
      case KE_RED_MIN: w->form[s] = (segment_form){.op = KI_MIN, .a = seg->result}; break;
      case KE_RED_MAX: w->form[s] = (segment_form){.op = KI_MAX, .a = seg->result}; break;
      case KE_RED_SUMEXP: w->form[s] = form_of_sumexp(w, seg, 1 + s, weight); break;
      }
    }
    if (red->kind == KE_RED_SUMEXP) weight++;
  }
}

/* ---- lowering ---- */

static ki_instr *emit(lowering *w, uint16_t op)
{
  static const ki_view none = {.base = KI_NONE};
  ki_instr *in;

  w->code = grown(w, w->code, w->ncode, &w->room, sizeof *w->code);
  if (w->no_memory) return NULL;
  in = &w->code[w->ncode++];
  *in = (ki_instr){.op = op, .n = 1, .dst = none, .a = none, .b = none, .c = none};
  return in;
}

static int64_t add_constant(lowering *w, double value)
{
  w->constant = grown(w, w->constant, w->nconstant, &w->constant_room, sizeof *w->constant);
  if (w->no_memory) return 0;
  w->constant[w->nconstant] = value;
  return w->nconstant++;
}

static ki_view temp_view(int32_t temp)
{
  return (ki_view){.base = KI_TEMP, .vector = true, .offset = temp};
}

static ki_view view_of(lowering *w, const ke_place *p)
{
  ki_view v = {.offset = p->base, .slot = p->slot};

  switch (p->kind) {
  case KE_AT_TEMP: return temp_view(p->base);
  case KE_AT_CONST: return (ki_view){.base = KI_CONST, .offset = add_constant(w, p->value)};
  case KE_AT_ONCE: v.base = KI_ONCE; break;
  case KE_AT_KEPT:
    v.base = KI_KEPT;
    v.row = 1;
    break;
  case KE_AT_RED:
    v.base = KI_RED;
    v.vector = true;
    break;
  default: v.base = KI_SLOT; break;
  }
  for (int d = 0; d < KE_MAX_LOOPS; d++) {
    v.step[d] = p->step[d];
    v.moves |= p->step[d] != 0;
  }
  return v;
}

/* The same value in all lanes of a new temp, where a primitive needs a vector. */
static ki_view as_vector(lowering *w, ki_view v)
{
  const int32_t temp = w->ntemp;
  ki_instr *in;

  if (v.vector) return v;
  in = emit(w, KI_SPLAT);
  if (!in) return v;
  w->ntemp++;
  w->temp[temp].flat = v.base != KI_KEPT;
  in->dst = temp_view(temp);
  in->a = v;
  return in->dst;
}

static void lower_elementwise(lowering *w, const ke_instr *from)
{
  const int arity = ke_ops[from->op].arity;
  ki_view v[3] = {{.base = KI_NONE}, {.base = KI_NONE}, {.base = KI_NONE}};
  bool one_scalar = arity == 2;
  ki_instr *in;

  for (int k = 0; k < arity; k++) v[k] = view_of(w, &from->src[k]);
  if (one_scalar && !v[0].vector && !v[1].vector) v[0] = as_vector(w, v[0]);
  for (int k = 0; k < arity && !one_scalar; k++) v[k] = as_vector(w, v[k]);
  in = emit(w, from->op);
  if (!in) return;
  if (one_scalar) in->mode = !v[0].vector ? KI_SV : !v[1].vector ? KI_VS : KI_VV;
  in->dst = temp_view(from->dst);
  in->a = v[0];
  in->b = v[1];
  in->c = v[2];
}

/* dst += a b, which ends a fold's body. */
static void lower_muladd(lowering *w, const ke_instr *product, ki_view dst)
{
  ki_view a = view_of(w, &product->src[0]), b = view_of(w, &product->src[1]);
  ki_instr *in;

  if (!a.vector) {
    const ki_view scalar = a;
    a = as_vector(w, b);
    b = scalar;
  }
  in = emit(w, KI_MULADD);
  if (!in) return;
  in->mode = b.vector ? KI_VV : KI_VS;
  in->dst = dst;
  in->a = a;
  in->b = b;
}

/* dst = dst + a, or the larger or smaller of them. */
static void lower_accumulate(lowering *w, const ke_instr *fold, ki_view dst)
{
  ki_view a = view_of(w, &fold->src[0]);
  ki_instr *in;

  if (fold->fold != KE_FOLD_SUM) a = as_vector(w, a);
  in = emit(w, fold->fold == KE_FOLD_SUM   ? KE_OP_Add
               : fold->fold == KE_FOLD_MAX ? KI_FOLD_MAX
                                           : KI_FOLD_MIN);
  if (!in) return;
  in->dst = dst;
  in->a = a;
  in->depth = fold->depth;
  in->keep = fold->keep;
  if (fold->fold != KE_FOLD_SUM) return;
  in->a = dst;
  in->b = a;
  in->mode = a.vector ? KI_VV : KI_VS;
}

/* Does the body of the fold at `i` square a difference of a row and an item, times a weight or not? */
static uint16_t match_square(const ke_instr *body, int32_t len, const ke_place *result,
                             const ke_place **weight)
{
  const int32_t t = body[0].dst, u = body[1].dst;
  const ke_instr *second = &body[1], *third = &body[2];
  const bool square =
      second->op == KE_OP_Square ||
      (second->op == KE_OP_Mult && is_temp(&second->src[0], t) && is_temp(&second->src[1], t));

  *weight = NULL;
  if (len == 2 && is_temp(result, u)) return square ? KI_SQDIST : second->op == KE_OP_Abs ? KI_L1 : 0;
  if (len != 3 || !is_temp(result, third->dst) || third->op != KE_OP_Mult) return 0;
  if (square) { /* w * t^2 */
    const int k = is_temp(&third->src[0], u) ? 1 : 0;
    if (is_temp(&third->src[1 - k], u) && is_row_scalar(&third->src[k])) *weight = &third->src[k];
  } else if (second->op == KE_OP_Mult) { /* (w * t) * t */
    const int k = is_temp(&second->src[0], t) ? 1 : 0;
    const bool twice = (is_temp(&third->src[0], u) && is_temp(&third->src[1], t)) ||
                       (is_temp(&third->src[0], t) && is_temp(&third->src[1], u));
    if (twice && is_temp(&second->src[1 - k], t) && is_row_scalar(&second->src[k]))
      *weight = &second->src[k];
  }
  return *weight ? KI_WSQDIST : 0;
}

/* A fold that one primitive does in registers. */
static bool lower_known_fold(lowering *w, const ke_instr *from)
{
  const ke_instr *body = from + 1;
  const ke_place *x, *y, *weight = NULL;
  uint16_t op = 0;
  ki_view a, b, c = {.base = KI_NONE};
  ki_instr *in;

  if (from->fold != KE_FOLD_SUM || from->len < 1 || from->len > 3 || !is_elementwise(body[0].op))
    return false;
  if (ke_ops[body[0].op].arity != 2 || !is_row_and_item(&body[0].src[0], &body[0].src[1], &x, &y))
    return false;
  if (body[0].op == KE_OP_Mult && from->len == 1 && is_temp(&from->src[0], body[0].dst))
    op = KI_DOT;
  else if (body[0].op == KE_OP_Subtract && from->len > 1)
    op = match_square(body, from->len, &from->src[0], &weight);
  if (!op) return false;
  a = view_of(w, x);
  b = view_of(w, y);
  if (weight) c = view_of(w, weight);
  in = emit(w, op);
  if (!in) return true;
  in->dst = temp_view(from->dst);
  in->a = a;
  in->b = b;
  in->c = c;
  in->n = from->n;
  in->depth = from->depth;
  in->keep = from->keep;
  return true;
}

static void lower_code(lowering *w, int32_t first, int32_t len);

/* Any other fold: the body for each k, its result added to dst. (An extreme needs no start, but its temp
 * must be born before the loop, so as to outlive it.) */
static void lower_fold(lowering *w, int32_t i)
{
  const ke_instr *from = &w->program->code[i];
  const ki_view dst = temp_view(from->dst);
  const int32_t last = own_maker(w, &from->src[0], w->body[i]);
  const bool muladd =
      from->fold == KE_FOLD_SUM && last > i && w->program->code[last].op == KE_OP_Mult;
  ki_instr *in;
  int32_t loop;

  if (lower_known_fold(w, from)) return;
  if (!from->keep) {
    const int64_t zero = add_constant(w, 0);
    in = emit(w, KI_SPLAT);
    if (!in) return;
    in->dst = dst;
    in->a = (ki_view){.base = KI_CONST, .offset = zero};
  }
  in = emit(w, KI_LOOP);
  if (!in) return;
  in->n = from->n;
  in->depth = from->depth;
  loop = w->ncode - 1;
  if (muladd) w->melted[last] = true;
  lower_code(w, i + 1, from->len);
  if (muladd) lower_muladd(w, &w->program->code[last], dst);
  else lower_accumulate(w, from, dst);
  if (!w->no_memory) w->code[loop].len = w->ncode - loop - 1;
}

static void lower_code(lowering *w, int32_t first, int32_t len)
{
  for (int32_t i = first; i < first + len && !w->no_memory; i++) {
    const ke_instr *from = &w->program->code[i];
    ki_view a, b = {.base = KI_NONE};
    ki_instr *in;

    if (from->op == KE_I_FOLD) {
      lower_fold(w, i);
      i += from->len;
    } else if (w->melted[i]) {
      continue;
    } else if (from->op < KE_OP_COUNT) {
      lower_elementwise(w, from);
    } else {
      a = view_of(w, &from->src[0]);
      if (from->op == KE_I_GATHER) {
        b = a;
        a = as_vector(w, view_of(w, &from->src[1]));
      }
      in = emit(w, from->op == KE_I_GATHER ? KI_GATHER : KI_LOAD);
      if (!in) return;
      in->dst = temp_view(from->dst);
      in->a = a;
      in->b = b;
    }
  }
}

static bool is_flat_view(const lowering *w, const ki_view *v)
{
  return v->base == KI_TEMP ? w->temp[v->offset].flat : v->base == KI_RED;
}

/* The sum's operands in the order that the primitives want: a a vector, b the one that all rows share. */
static void order_operands(lowering *w, const segment_form *form, ki_view *a, ki_view *b)
{
  if (form->op == KI_SUM_MUL && (!a->vector || (b->vector && is_flat_view(w, a)))) {
    const ki_view swap = *a;
    *a = *b;
    *b = swap;
  }
  if (form->op != KI_STORE && form->op != KI_COPY) *a = as_vector(w, *a);
}

static bool all_melted(const lowering *w, const ke_segment *seg)
{
  for (int32_t i = seg->first; i < seg->first + seg->len; i++)
    if (!w->melted[i]) return false;
  return true;
}

/* `dst`: the accumulators (or the output) of component k0, moving with k0. */
static void lower_segment(lowering *w, const ke_segment *seg, const segment_form *form, ki_view dst,
                          ki_view c)
{
  const bool sums = form->op == KI_SUM || form->op == KI_SUM_MUL;
  bool at_once = w->pass && all_melted(w, seg); /* one call for all components */
  int32_t loop = -1;
  ki_view a, b = {.base = KI_NONE};
  ki_instr *in;

  if (at_once && is_row_scalar(&form->a) && (!sums || form->op == KI_SUM || is_row_scalar(&form->b)))
    at_once = false; /* a splat for each */
  if (!at_once && seg->n > 1) {
    in = emit(w, KI_LOOP);
    if (!in) return;
    in->n = seg->n;
    loop = w->ncode - 1;
  }
  lower_code(w, seg->first, seg->len);
  a = view_of(w, &form->a);
  if (form->op == KI_SUM_MUL || form->op == KI_SUM_DIFF || form->op == KI_SUM_DIFF_NEG)
    b = view_of(w, &form->b);
  if (form->op == KI_SUM_DIFF || form->op == KI_SUM_DIFF_NEG) c = view_of(w, &form->c);
  order_operands(w, form, &a, &b);
  in = emit(w, form->op);
  if (!in) return;
  in->mode = b.base != KI_NONE && !b.vector ? KI_VS : KI_VV;
  in->dst = dst;
  in->a = a;
  in->b = b;
  in->c = c;
  if (at_once) in->n = seg->n;
  if (loop >= 0) w->code[loop].len = w->ncode - loop - 1;
}

static void lower_reduction(lowering *w, int32_t number, int32_t *weight)
{
  const ke_reduce *red = &w->pass->reduce[number];
  const ki_reduce *to = &w->reduce[number];
  const int64_t vector = w->lanes, component = KI_ROWS * vector;
  ki_view c = {.base = KI_NONE};

  if (red->kind == KE_RED_SUMEXP) {
    const ki_view score = as_vector(w, view_of(w, &red->score));
    ki_instr *in = emit(w, KI_EXP_SHIFT);
    if (!in) return;
    w->temp[*weight].flat = false;
    in->dst = temp_view((*weight)++);
    in->a = score;
    in->reduce = number;
  } else if (red->kind != KE_RED_SUM) {
    c.step[0] = red->width * component; /* from values to indices */
  }
  for (int32_t s = red->seg; s < red->seg + red->nseg; s++) {
    const ke_segment *seg = &w->program->seg[s];
    const ki_view dst = {.base = KI_ACC,
                         .moves = seg->n > 1,
                         .offset = to->acc * vector + seg->out * component,
                         .row = vector,
                         .step = {component}};
    lower_segment(w, seg, &w->form[s], dst, c);
  }
}

static void lower_program(lowering *w)
{
  const ke_program *p = w->program;
  const ki_view none = {.base = KI_NONE};
  int32_t weight = p->ntemp;

  lower_code(w, 0, p->nhead);
  if (w->pass) {
    for (int32_t r = 0; r < w->pass->nreduce && !w->no_memory; r++) lower_reduction(w, r, &weight);
    return;
  }
  for (int32_t s = 0; s < p->nseg && !w->no_memory; s++) {
    const ki_view dst = {
        .base = KI_OUT, .moves = p->seg[s].n > 1, .offset = p->seg[s].out, .step = {1}};
    lower_segment(w, &p->seg[s], &w->form[s], dst, none);
  }
}

/* ---- life spans and slots ---- */

typedef struct {
  int32_t start[KE_MAX_LOOPS + 1], end[KE_MAX_LOOPS + 1], depth;
} loop_stack;

static void follow_loops(loop_stack *loops, const ki_instr *code, int32_t i)
{
  while (loops->depth && loops->end[loops->depth - 1] < i) loops->depth--;
  if (code[i].op == KI_LOOP) {
    loops->start[loops->depth] = i;
    loops->end[loops->depth++] = i + code[i].len;
  }
}

/* Temp read (or added to) by instruction i: it lives on to the end of a loop that began after its birth. */
static void note_life(lowering *w, const ki_view *v, const loop_stack *loops, int32_t i)
{
  temp_info *t;
  int32_t until = 2 * i;

  if (v->base != KI_TEMP) return;
  t = &w->temp[v->offset];
  for (int32_t d = loops->depth; d-- > 0;)
    if (t->born <= loops->start[d]) until = 2 * loops->end[d] + 1;
  if (until > t->release) t->release = until;
}

static void find_lives(lowering *w)
{
  loop_stack loops = {.depth = 0};

  for (int32_t t = 0; t < w->ntemp; t++) w->temp[t].born = w->temp[t].release = -1;
  for (int32_t i = 0; i < w->ncode; i++) {
    const ki_instr *in = &w->code[i];
    follow_loops(&loops, w->code, i);
    if (in->dst.base == KI_TEMP) {
      if (w->temp[in->dst.offset].born < 0) {
        w->temp[in->dst.offset].born = i;
        w->temp[in->dst.offset].release = 2 * i + 1;
      }
      note_life(w, &in->dst, &loops, i);
    }
    note_life(w, &in->a, &loops, i);
    note_life(w, &in->b, &loops, i);
    note_life(w, &in->c, &loops, i);
  }
}

/* Free slots of one kind. */
typedef struct {
  int32_t *free, nfree, *made;
} slot_pool;

static void give_slots_back(lowering *w, slot_pool pool[2], const int32_t *released, int32_t when)
{
  for (int32_t t = released[when]; t >= 0; t = w->temp[t].next) {
    slot_pool *of = &pool[w->temp[t].flat];
    of->free[of->nfree++] = w->temp[t].slot;
  }
}

static void assign_slots(lowering *w)
{
  int32_t *released = take(w, 2 * (int64_t)w->ncode + 2, sizeof *released);
  int32_t *room = take(w, 2 * (int64_t)w->ntemp, sizeof *room);
  slot_pool pool[2];

  if (w->no_memory) return;
  pool[0] = (slot_pool){.free = room, .made = &w->nfull};
  pool[1] = (slot_pool){.free = room + w->ntemp, .made = &w->nflat};
  for (int32_t k = 0; k < 2 * w->ncode + 2; k++) released[k] = -1;
  for (int32_t t = 0; t < w->ntemp; t++) {
    if (w->temp[t].born < 0) continue; /* melted away */
    w->temp[t].next = released[w->temp[t].release];
    released[w->temp[t].release] = t;
  }
  for (int32_t i = 0; i < w->ncode; i++) {
    const ki_view *dst = &w->code[i].dst;
    give_slots_back(w, pool, released, 2 * i);
    if (dst->base == KI_TEMP && w->temp[dst->offset].born == i) {
      slot_pool *of = &pool[w->temp[dst->offset].flat];
      w->temp[dst->offset].slot = of->nfree ? of->free[--of->nfree] : (*of->made)++;
    }
    give_slots_back(w, pool, released, 2 * i + 1);
  }
}

/* ---- sizes ---- */

static size_t aligned(size_t bytes)
{
  return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static int choose_tile(int64_t nfull, int64_t red_width, int real_bytes)
{
  int64_t tile = KI_MAX_TILE;

  while (tile > KI_MIN_TILE && (tile * red_width * real_bytes > RED_TILE_BYTES ||
                                tile * nfull * KI_ROWS * real_bytes > TEMP_BYTES))
    tile /= 2;
  return (int)tile;
}

static void place_view(const lowering *w, ki_view *v, int64_t rows, int64_t tile)
{
  int64_t scale = 1;

  if (v->base == KI_TEMP) {
    const temp_info *t = &w->temp[v->offset];
    v->offset = t->flat ? (w->nfull * rows + t->slot) * tile : t->slot * rows * tile;
    v->row = t->flat ? 0 : tile;
  } else if (v->base == KI_KEPT) {
    scale = KI_ROWS;
  } else if (v->base == KI_RED) {
    scale = tile;
  }
  v->offset *= scale;
  for (int d = 0; d < KE_MAX_LOOPS; d++) v->step[d] *= scale;
}

static void finish_program(lowering *w, ki_program *out, int rows, int tile, int real_bytes,
                           int64_t acc_vectors)
{
  const size_t real = (size_t)real_bytes, lanes = (size_t)tile;

  for (int32_t i = 0; i < w->ncode; i++) {
    ki_instr *in = &w->code[i];
    in->flat = in->dst.base == KI_TEMP && w->temp[in->dst.offset].flat;
    place_view(w, &in->dst, rows, tile);
    place_view(w, &in->a, rows, tile);
    place_view(w, &in->b, rows, tile);
    place_view(w, &in->c, rows, tile);
  }
  out->code = w->code;
  out->ncode = w->ncode;
  out->tile = tile;
  out->constant = w->constant;
  out->nconstant = w->nconstant;
  out->temp_at = 0;
  out->constant_at =
      aligned(((size_t)w->nfull * (size_t)rows + (size_t)w->nflat) * lanes * real);
  out->mask_at = out->constant_at + aligned((size_t)w->nconstant * real);
  out->acc_at = out->mask_at + aligned(lanes * real);
  out->scratch_bytes = out->acc_at + (size_t)acc_vectors * LONGEST_VECTOR;
}

/* ---- both kinds of program ---- */

static ke_status lower(lowering *w, ke_error *err)
{
  const ke_program *p = w->program;
  int64_t most = p->ntemp; /* three splats an instruction, one a segment and reduction, the weights */

  most += 3 * (int64_t)p->ncode + 2 * (int64_t)p->nseg + (w->pass ? 2 * (int64_t)w->pass->nreduce : 0);
  if (most > INT32_MAX / 4) return ke_fail(err, KE_ERR_INPUT, -1, "the formula is too large");
  w->max_temp = (int32_t)most;
  w->ntemp = p->ntemp + (w->pass ? w->pass->nreduce : 0);
  w->uses = take(w, p->ntemp, sizeof *w->uses);
  w->maker = take(w, p->ntemp, sizeof *w->maker);
  w->region = take(w, p->ncode, sizeof *w->region);
  w->body = take(w, p->ncode, sizeof *w->body);
  w->melted = take(w, p->ncode, sizeof *w->melted);
  w->form = take(w, p->nseg, sizeof *w->form);
  w->temp = take(w, most, sizeof *w->temp);
  if (w->no_memory) return ke_fail_memory(err);
  note_program(w);
  if (w->fault)
    return ke_fail(err, KE_ERR_INTERNAL, -1, "The interpreter was given %s.", w->fault);
  find_flat_temps(w);
  find_forms(w);
  lower_program(w);
  if (w->no_memory) return ke_fail_memory(err);
  find_lives(w);
  assign_slots(w);
  return w->no_memory ? ke_fail_memory(err) : KE_OK;
}

static const ki_target *find_target(ke_isa isa, int real_bytes)
{
  const bool single = real_bytes == 4;

#if KI_HAVE_X86
  if (isa == KE_ISA_AVX512) return single ? &ki_avx512_4 : &ki_avx512_8;
  if (isa == KE_ISA_AVX2) return single ? &ki_avx2_4 : &ki_avx2_8;
#else
  (void)isa;
#endif
  return single ? &ki_base_4 : &ki_base_8;
}

static int64_t accumulator_vectors(const ki_reduce *r)
{
  const int64_t values = (int64_t)r->width * KI_ROWS;

  if (r->kind == KE_RED_SUM) return values;
  return r->kind == KE_RED_SUMEXP ? values + KI_ROWS : 2 * values;
}

ke_status ke_interp_prepare(ke_arena *arena, const ke_pass *pass, int real_bytes, ke_isa isa,
                            ke_kernel *out, ke_error *err)
{
  const ki_target *target = find_target(isa, real_bytes);
  lowering w = {.arena = arena, .program = &pass->pair, .pass = pass};
  ki_program *p = take(&w, 1, sizeof *p);
  ki_reduce *reduce = take(&w, pass->nreduce, sizeof *reduce);
  int64_t acc = 0;

  if (w.no_memory) return ke_fail_memory(err);
  for (int32_t r = 0; r < pass->nreduce; r++) {
    const ke_reduce *from = &pass->reduce[r];
    reduce[r] = (ki_reduce){
        .kind = from->kind, .width = from->width, .state = from->state, .acc = acc};
    acc += accumulator_vectors(&reduce[r]);
  }
  w.reduce = reduce;
  w.lanes = target->vector_bytes / real_bytes;
  KE_TRY(lower(&w, err));
  p->reduce = reduce;
  p->nreduce = pass->nreduce;
  p->state_width = pass->state_width;
  p->kept_width = pass->kept_width;
  p->red_width = pass->red_width;
  finish_program(&w, p, KI_ROWS, choose_tile(w.nfull, pass->red_width, real_bytes), real_bytes, acc);
  *out = (ke_kernel){.shape = {.real_bytes = real_bytes,
                               .rows = KI_ROWS,
                               .tile = p->tile,
                               .scratch_bytes = p->scratch_bytes},
                     .run = target->pair,
                     .impl = p};
  return KE_OK;
}

ke_status ke_rows_prepare(ke_arena *arena, const ke_program *program, ke_isa isa, ke_rows **out,
                          ke_error *err)
{
  lowering w = {.arena = arena, .program = program, .lanes = 1};
  ke_rows *rows = take(&w, 1, sizeof *rows);

  if (!rows) return ke_fail_memory(err);
  KE_TRY(lower(&w, err));
  finish_program(&w, &rows->program, 1, KE_ROWS_LANES, (int)sizeof(double), 0);
  rows->run = find_target(isa, (int)sizeof(double))->rows;
  *out = rows;
  return KE_OK;
}

size_t ke_rows_scratch(const ke_rows *rows)
{
  return rows->program.scratch_bytes;
}

void ke_rows_run(const ke_rows *rows, const ke_column *slots, const double *once, int64_t first, int n,
                 double *out, int64_t out_ld, void *scratch)
{
  if (n > 0) rows->run(rows, slots, once, first, n, out, out_ld, scratch);
}

static double clamp_finite(double m)
{
  return m > DBL_MAX ? DBL_MAX : m < -DBL_MAX ? -DBL_MAX : m;
}

double ki_merge_sumexp(double m1, double m2, double *factor1, double *factor2)
{
  const double m = m1 > m2 ? m1 : m2;

  *factor1 = exp(clamp_finite(m1) - clamp_finite(m));
  *factor2 = exp(clamp_finite(m2) - clamp_finite(m));
  return m;
}
