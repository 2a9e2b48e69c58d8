/* Rewrites a program as a flat list of primitives (interp.h), with views in components and temps
 * by number. */
#include "interp_lower.h"

/* Room for one more element; arenas do not resize, so a full array moves to one twice as large. */
static void *grown(ki_lowering *w, void *old, int32_t count, int32_t *room, size_t size)
{
  void *p;

  if (count < *room) return old;
  p = ke_interp_take(w, 2 * (int64_t)count + 16, size);
  if (!p) return NULL;
  if (count) memcpy(p, old, (size_t)count * size);
  *room = 2 * count + 16;
  return p;
}

static ki_instr *emit(ki_lowering *w, uint16_t op)
{
  static const ki_view none = {.base = KI_NONE};
  ki_instr *in;

  w->code = grown(w, w->code, w->ncode, &w->room, sizeof *w->code);
  if (w->no_memory) return NULL;
  in = &w->code[w->ncode++];
  *in = (ki_instr){.op = op, .n = 1, .dst = none, .a = none, .b = none, .c = none};
  return in;
}

static int64_t add_constant(ki_lowering *w, double value)
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

static ki_view view_of(ki_lowering *w, const ke_place *p)
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
static ki_view as_vector(ki_lowering *w, ki_view v)
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

static void lower_elementwise(ki_lowering *w, const ke_instr *from)
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
static void lower_muladd(ki_lowering *w, const ke_instr *product, ki_view dst)
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
static void lower_accumulate(ki_lowering *w, const ke_instr *fold, ki_view dst)
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

/* A fold that one primitive does in registers. */
static bool lower_known_fold(ki_lowering *w, const ke_instr *from)
{
  const ki_form form = ke_interp_match_fold(from);
  ki_view a, b, c = {.base = KI_NONE};
  ki_instr *in;

  if (!form.op) return false;
  a = view_of(w, &form.a);
  b = view_of(w, &form.b);
  if (form.op == KI_WSQDIST) c = view_of(w, &form.c);
  in = emit(w, form.op);
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

static void lower_code(ki_lowering *w, int32_t first, int32_t len);

/* Any other fold: the body for each k, its result added to dst. (An extreme needs no start, but
 * its temp must be born before the loop, so as to outlive it.) */
static void lower_fold(ki_lowering *w, int32_t i)
{
  const ke_instr *from = &w->program->code[i];
  const ki_view dst = temp_view(from->dst);
  const int32_t last = ke_interp_own_maker(w, &from->src[0], w->body[i]);
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

static void lower_code(ki_lowering *w, int32_t first, int32_t len)
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

static bool is_flat_view(const ki_lowering *w, const ki_view *v)
{
  return v->base == KI_TEMP ? w->temp[v->offset].flat : v->base == KI_RED;
}

/* The sum's operands in the order that the primitives want: a a vector, b the one that all rows
 * share. */
static void order_operands(ki_lowering *w, const ki_form *form, ki_view *a, ki_view *b)
{
  if (form->op == KI_SUM_MUL && (!a->vector || (b->vector && is_flat_view(w, a)))) {
    const ki_view swap = *a;
    *a = *b;
    *b = swap;
  }
  if (form->op != KI_STORE && form->op != KI_COPY) *a = as_vector(w, *a);
}

static bool all_melted(const ki_lowering *w, const ke_segment *seg)
{
  for (int32_t i = seg->first; i < seg->first + seg->len; i++)
    if (!w->melted[i]) return false;
  return true;
}

/* `dst`: the accumulators (or the output) of component k0, moving with k0. */
static void lower_segment(ki_lowering *w, const ke_segment *seg, const ki_form *form, ki_view dst,
                          ki_view c)
{
  bool at_once = w->pass && all_melted(w, seg); /* one call for all components */
  int32_t loop = -1;
  ki_view a, b = {.base = KI_NONE};
  ki_instr *in;

  if (ke_interp_is_row_scalar(&form->a) &&
      (form->op != KI_SUM_MUL || ke_interp_is_row_scalar(&form->b)))
    at_once = false; /* each component needs a splat */
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
  in->reduce = form->reduce;
  in->dst = dst;
  in->a = a;
  in->b = b;
  in->c = c;
  if (at_once) in->n = seg->n;
  if (loop >= 0) w->code[loop].len = w->ncode - loop - 1;
}

static void lower_reduction(ki_lowering *w, int32_t number, int32_t *weight)
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
    c.step[0] = red->width * component; /* from values to indices, from sums to rests */
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

void ke_interp_lower(ki_lowering *w)
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
