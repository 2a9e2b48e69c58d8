/* Looks through a program before it is lowered: which temps are the same for all rows (flat), who
 * reads and who makes each, and which instructions melt into a fold or a reduction that is one
 * primitive. */
#include "interp_lower.h"

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

bool ke_interp_is_row_scalar(const ke_place *p)
{
  return p->kind == KE_AT_KEPT || p->kind == KE_AT_ONCE || p->kind == KE_AT_CONST;
}

/* One of them a scalar of the row (*x), the other an item's (*y). */
static bool is_row_and_item(const ke_place *p, const ke_place *q, const ke_place **x,
                            const ke_place **y)
{
  *x = ke_interp_is_row_scalar(p) ? p : q;
  *y = ke_interp_is_row_scalar(p) ? q : p;
  return ke_interp_is_row_scalar(*x) && (*y)->kind == KE_AT_RED;
}

/* ---- what the program looks like ---- */

static void note_use(ki_lowering *w, const ke_place *p)
{
  if (p->kind == KE_AT_TEMP) w->uses[p->base]++;
}

static void note_code(ki_lowering *w, int32_t first, int32_t len, int32_t region, int depth)
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

static void note_program(ki_lowering *w)
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

static bool is_flat_place(const ki_lowering *w, const ke_place *p)
{
  return p->kind == KE_AT_TEMP ? w->temp[p->base].flat : p->kind != KE_AT_KEPT;
}

/* Flat until something is found that is not: repeated, since a fold may add to an earlier value. */
static void find_flat_temps(ki_lowering *w)
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

int32_t ke_interp_own_maker(const ki_lowering *w, const ke_place *p, int32_t region)
{
  const ke_instr *in;
  int32_t i;
  int n;

  if (p->kind != KE_AT_TEMP || w->uses[p->base] != 1) return -1;
  i = w->maker[p->base];
  if (i < 0 || w->melted[i] || (w->region[i] != region && w->region[i] != 0)) return -1;
  in = &w->program->code[i];
  n = operand_count(in);
  for (int k = 0; k < n; k++) /* an operand that a fold adds to is another one later */
    if (in->src[k].kind == KE_AT_TEMP && w->maker[in->src[k].base] < 0) return -1;
  return i;
}

/* ---- which folds are one primitive ---- */

/* The body begins with the difference of a row and an item: does it go on to square it (times a
 * weight or not), or to its absolute value? */
static uint16_t match_square(const ke_instr *body, int32_t len, const ke_place *result,
                             const ke_place **weight)
{
  const int32_t t = body[0].dst, u = body[1].dst;
  const ke_instr *second = &body[1], *third = &body[2];
  const bool square =
      second->op == KE_OP_Square ||
      (second->op == KE_OP_Mult && is_temp(&second->src[0], t) && is_temp(&second->src[1], t));

  *weight = NULL;
  if (len == 2) {
    if (!is_temp(result, u)) return 0;
    return square ? KI_SQDIST : second->op == KE_OP_Abs ? KI_L1 : 0;
  }
  if (!is_temp(result, third->dst) || third->op != KE_OP_Mult) return 0;
  if (square) { /* w * t^2 */
    const int k = is_temp(&third->src[0], u) ? 1 : 0;
    if (is_temp(&third->src[1 - k], u) && ke_interp_is_row_scalar(&third->src[k]))
      *weight = &third->src[k];
  } else if (second->op == KE_OP_Mult) { /* (w * t) * t */
    const int k = is_temp(&second->src[0], t) ? 1 : 0;
    const bool twice = (is_temp(&third->src[0], u) && is_temp(&third->src[1], t)) ||
                       (is_temp(&third->src[0], t) && is_temp(&third->src[1], u));
    if (twice && is_temp(&second->src[1 - k], t) && ke_interp_is_row_scalar(&second->src[k]))
      *weight = &second->src[k];
  }
  return *weight ? KI_WSQDIST : 0;
}

ki_form ke_interp_match_fold(const ke_instr *fold)
{
  const ke_instr *body = fold + 1;
  const ke_place *x, *y, *weight = NULL;
  ki_form form = {.op = 0};

  if (fold->fold != KE_FOLD_SUM || fold->len < 1 || fold->len > 3 || !is_elementwise(body[0].op))
    return form;
  if (ke_ops[body[0].op].arity != 2 || !is_row_and_item(&body[0].src[0], &body[0].src[1], &x, &y))
    return form;
  if (body[0].op == KE_OP_Mult && fold->len == 1 && is_temp(&fold->src[0], body[0].dst))
    form.op = KI_DOT;
  else if (body[0].op == KE_OP_Subtract && fold->len > 1)
    form.op = match_square(body, fold->len, &fold->src[0], &weight);
  form.a = *x;
  form.b = *y;
  if (weight) form.c = *weight;
  return form;
}

/* ---- which instructions melt into the reductions ---- */

/* A difference of a row's and an item's component, as an operand of a sum. */
static bool melt_difference(ki_lowering *w, const ke_place *p, int32_t region, ki_form *form)
{
  const int32_t i = ke_interp_own_maker(w, p, region);
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

static ki_form form_of_sum(ki_lowering *w, const ke_segment *seg, int32_t region)
{
  ki_form form = {.op = KI_SUM, .a = seg->result};
  const int32_t i = ke_interp_own_maker(w, &seg->result, region);
  const ke_instr *in = i < 0 ? NULL : &w->program->code[i];

  if (in && in->op == KE_OP_Square) {
    w->melted[i] = true;
    form = (ki_form){.op = KI_SUM_MUL, .a = in->src[0], .b = in->src[0]};
  } else if (in && in->op == KE_OP_Mult) {
    w->melted[i] = true;
    form = (ki_form){.op = KI_SUM_MUL, .a = in->src[0], .b = in->src[1]};
    if (ke_interp_is_row_scalar(&form.a) || ke_interp_is_row_scalar(&form.b)) return form;
    if (!melt_difference(w, &in->src[1], region, &form) &&
        melt_difference(w, &in->src[0], region, &form))
      form.a = in->src[1];
  }
  return form;
}

/* `weight`: the temp of the shifted exponentials. */
static ki_form form_of_sumexp(ki_lowering *w, const ke_segment *seg, int32_t region,
                              int32_t weight)
{
  const ke_place p = {.kind = KE_AT_TEMP, .base = weight};
  ki_form form = {.op = KI_SUM_MUL, .a = p, .b = seg->result};

  if (seg->result.kind == KE_AT_CONST && seg->result.value == 1) form.op = KI_SUM;
  else melt_difference(w, &seg->result, region, &form);
  return form;
}

static ki_form form_of_rows(ki_lowering *w, const ke_segment *seg, int32_t region)
{
  ki_form form = {.op = KI_STORE, .a = seg->result};
  const int32_t i = ke_interp_own_maker(w, &seg->result, region);

  if (i >= 0 && w->program->code[i].op == KE_I_LOAD) {
    w->melted[i] = true;
    form = (ki_form){.op = KI_COPY, .a = w->program->code[i].src[0]};
  }
  return form;
}

static void find_forms(ki_lowering *w)
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
      case KE_RED_MIN: w->form[s] = (ki_form){.op = KI_MIN, .a = seg->result}; break;
      case KE_RED_MAX: w->form[s] = (ki_form){.op = KI_MAX, .a = seg->result}; break;
      case KE_RED_SUMEXP: w->form[s] = form_of_sumexp(w, seg, 1 + s, weight); break;
      case KE_RED_KAHAN: w->form[s] = (ki_form){.op = KI_KAHAN, .a = seg->result}; break;
      case KE_RED_KMIN:
        w->form[s] = (ki_form){.op = KI_LEAST, .reduce = r, .a = seg->result};
        break;
      }
    }
    if (red->kind == KE_RED_SUMEXP) weight++;
  }
}

void ke_interp_look(ki_lowering *w)
{
  note_program(w);
  if (w->fault) return;
  find_flat_temps(w);
  find_forms(w);
}
