/* Finding products for tensor cores (dots_cuda.h). */
#include "dots_cuda.h"

#include "op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading programs ---- */
static int arity_of(const ke_instr *ins)
{
  return ins->op == KE_I_FOLD ? 1 : ke_ops[ins->op].arity;
}

static bool is_temp(const ke_place *p, int32_t temp)
{
  return p->kind == KE_AT_TEMP && p->base == temp;
}

static bool is_fixed(const ke_place *p)
{
  static const int32_t none[KE_MAX_LOOPS];

  return p->kind == KE_AT_CONST ||
         (p->kind == KE_AT_ONCE && memcmp(p->step, none, sizeof none) == 0);
}

/* Component base + k of the fold's own counter, and of no other? */
static bool runs_along(const ke_place *p, uint8_t kind, int depth)
{
  if (p->kind != kind) return false;
  for (int d = 0; d < KE_MAX_LOOPS; d++)
    if (p->step[d] != (d == depth)) return false;
  return true;
}

/* a is a kept and b a reduced component, or the other way round. */
static bool takes_both(const ke_instr *ins, int depth, ke_dots *out)
{
  const ke_place *a = &ins->src[0], *b = &ins->src[1];

  if (runs_along(a, KE_AT_RED, depth)) {
    const ke_place *t = a;
    a = b;
    b = t;
  }
  if (!runs_along(a, KE_AT_KEPT, depth) || !runs_along(b, KE_AT_RED, depth)) return false;
  out->kept = a->base;
  out->red = b->base;
  return true;
}

static bool is_product(const ke_program *p, int32_t i, ke_dots *out)
{
  const ke_instr *fold = &p->code[i], *body = fold + 1;

  if (fold->op != KE_I_FOLD || fold->fold != KE_FOLD_SUM || fold->keep || fold->n < KE_DOTS_LEAST)
    return false;
  *out = (ke_dots){.at = i, .n = fold->n, .distance = fold->len == 2};
  if (fold->len == 1)
    return body->op == KE_OP_Mult && is_temp(&fold->src[0], body->dst) && takes_both(body, fold->depth, out);
  return fold->len == 2 && body[0].op == KE_OP_Subtract && body[1].op == KE_OP_Square &&
         is_temp(&body[1].src[0], body[0].dst) && is_temp(&fold->src[0], body[1].dst) &&
         takes_both(&body[0], fold->depth, out);
}

/* ---- what the value is used for ---- */

/* The same factor at each use, or none yet. */
static bool note_factor(ke_dots *dots, const ke_place *factor, bool *known)
{
  const ke_place *f = &dots->factor;

  if (*known)
    return f->kind == factor->kind &&
           (f->kind == KE_AT_CONST ? f->value == factor->value : f->base == factor->base);
  dots->factor = *factor;
  *known = true;
  return true;
}

static bool is_score(const ke_pass *pass, int32_t temp)
{
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind == KE_RED_SUMEXP && is_temp(&pass->reduce[q].score, temp)) return true;
  return false;
}

static int count_reads(const ke_program *p, int32_t temp)
{
  int n = 0;

  for (int32_t i = 0; i < p->ncode; i++)
    for (int k = 0; k < arity_of(&p->code[i]); k++) n += is_temp(&p->code[i].src[k], temp);
  return n;
}

static int count_results(const ke_program *p, int32_t temp)
{
  int n = 0;

  for (int32_t s = 0; s < p->nseg; s++) n += is_temp(&p->seg[s].result, temp);
  return n;
}

/* Is a value that is linear in the product only multiplied by what is none, and summed? */
static bool is_linear(const ke_pass *pass, int32_t temp, int32_t from)
{
  const ke_program *p = &pass->pair;

  for (int32_t i = from; i < p->ncode; i++) {
    const ke_instr *ins = &p->code[i];
    int reads = 0;

    for (int k = 0; k < arity_of(ins); k++) reads += is_temp(&ins->src[k], temp);
    if (reads == 0) continue;
    if (reads > 1 || ins->op != KE_OP_Mult || !is_linear(pass, ins->dst, i + 1)) return false;
  }
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind != KE_RED_SUM) return false;
  return true;
}

/* What reads the value, and of what it is an exponent. */
static bool is_understood(const ke_pass *pass, ke_dots *dots)
{
  const ke_program *p = &pass->pair;
  const int32_t temp = p->code[dots->at].dst;
  const ke_place one = {.kind = KE_AT_CONST, .value = 1};
  bool known = false;
  int reads = 0;

  for (int32_t i = 0; i < p->ncode; i++) {
    const ke_instr *ins = &p->code[i];
    const ke_place *other = &ins->src[1];
    bool mine = false;

    for (int k = 0; k < arity_of(ins); k++) mine |= is_temp(&ins->src[k], temp);
    if (!mine) continue;
    reads++;
    if (ins->op == KE_OP_Exp2) {
      if (!note_factor(dots, &one, &known)) return false;
      continue;
    }
    if (ins->op == KE_OP_Mult && is_temp(other, temp)) other = &ins->src[0];
    if ((ins->op != KE_OP_Exp2Mul && ins->op != KE_OP_Mult) || !is_fixed(other)) break;
    if (ins->op == KE_OP_Mult && (!is_score(pass, ins->dst) || count_reads(p, ins->dst))) break;
    if (!note_factor(dots, other, &known)) return false;
  }
  if (is_score(pass, temp) && !note_factor(dots, &one, &known)) return false;
  if (known) return reads == count_reads(p, temp) && count_results(p, temp) == 0;
  dots->factor = (ke_place){.kind = KE_AT_CONST};
  return !dots->distance && is_linear(pass, temp, dots->at + 2);
}

/* Trips of the longest loop but the product's own. */
static int32_t longest_loop(const ke_program *p, int32_t but)
{
  int32_t n = 1;

  for (int32_t i = 0; i < p->ncode; i++)
    if (i != but && p->code[i].op == KE_I_FOLD && p->code[i].n > n) n = p->code[i].n;
  for (int32_t s = 0; s < p->nseg; s++)
    if (p->seg[s].n > n) n = p->seg[s].n;
  return n;
}

static bool reads_items(const ke_place *p, const ke_dots *dots, int64_t trips)
{
  int64_t last = p->base;

  if (p->kind != KE_AT_RED) return false;
  for (int d = 0; d < KE_MAX_LOOPS; d++) last += (trips - 1) * p->step[d];
  return last >= dots->red && p->base < dots->red + dots->n;
}

/* Does nothing else read the items' components? Then they need not be there. */
static bool are_alone(const ke_pass *pass, const ke_dots *dots)
{
  const ke_program *p = &pass->pair;
  const int64_t trips = longest_loop(p, dots->at);
  const int32_t body = dots->distance ? 2 : 1;

  for (int32_t i = 0; i < p->ncode; i++) {
    if (i > dots->at && i <= dots->at + body) continue;
    for (int k = 0; k < arity_of(&p->code[i]); k++)
      if (reads_items(&p->code[i].src[k], dots, trips)) return false;
  }
  for (int32_t s = 0; s < p->nseg; s++)
    if (reads_items(&p->seg[s].result, dots, trips)) return false;
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (reads_items(&pass->reduce[q].score, dots, trips)) return false;
  return true;
}

bool ke_dots_find(const ke_pass *pass, ke_dots *out)
{
  const ke_program *p = &pass->pair;

  if (pass->kind != KE_PASS_PAIRS || pass->ranged || pass->kept == KE_NONE) return false;
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind != KE_RED_SUM && pass->reduce[q].kind != KE_RED_SUMEXP) return false;
  for (int32_t i = 0; i < p->nhead; i++) {
    if (is_product(p, i, out) && are_alone(pass, out) && is_understood(pass, out)) return true;
    if (p->code[i].op == KE_I_FOLD) i += p->code[i].len;
  }
  return false;
}

/* ---- how exact ---- */

/* Errors, as parts of the largest exponent. Terms: what is left out of a product (2^-16 of x y and less, of
 * either sign). Steps: the cores cut off sums of 16 products, each time by up to 2^-24 or so of the sum. */
int ke_dots_terms(const ke_dots *dots, double kept, double red, const float *once,
                  double accuracy)
{
  const double steps = (dots->n + 15) / 16;
  const double factor = dots->factor.kind == KE_AT_ONCE ? (double)once[dots->factor.base] : dots->factor.value;
  const double length = sqrt(kept) + sqrt(red), size = fabs(factor) * length * length / 4;

  if (!isfinite(kept) || !isfinite(red) || kept + red > 1e30 || !isfinite(size)) return 0;
  if (factor == 0 && dots->factor.kind == KE_AT_CONST) return 3; /* as exact as single precision is */
  if (size * (4e-6 + 3 * steps * 1.5e-8) <= accuracy) return 2;
  return size * (1e-7 + 6 * steps * 1.5e-8) <= accuracy ? 3 : 0;
}

/* ---- the pass without it ---- */
int ke_dots_steps(const ke_dots *dots)
{
  return (dots->n + 31) / 32 * 2;
}


int32_t ke_dots_rest(const ke_pass *pass, const ke_dots *dots)
{
  return pass->red_width - dots->n + dots->distance;
}

static void replace_place(ke_place *p, const ke_dots *dots, int32_t temp)
{
  if (is_temp(p, temp))
    *p = (ke_place){.kind = KE_AT_PAIR};
  else if (p->kind == KE_AT_RED && p->base >= dots->red + dots->n)
    p->base -= dots->n;
}

ke_status ke_dots_pass(const ke_pass *pass, const ke_dots *dots, ke_pass *out, ke_error *err)
{
  const ke_program *from = &pass->pair;
  const int32_t gone = dots->distance ? 3 : 2, temp = from->code[dots->at].dst;
  ke_program *to = &out->pair;

  *out = *pass;
  to->code = malloc(sizeof *to->code * (size_t)(from->ncode + 1));
  to->seg = malloc(sizeof *to->seg * (size_t)(from->nseg + 1));
  out->reduce = malloc(sizeof *out->reduce * (size_t)(pass->nreduce + 1));
  if (!to->code || !to->seg || !out->reduce) {
    ke_dots_pass_free(out);
    return ke_fail_memory(err);
  }
  memcpy(to->code, from->code, sizeof *to->code * (size_t)dots->at);
  memcpy(to->code + dots->at, from->code + dots->at + gone,
         sizeof *to->code * (size_t)(from->ncode - dots->at - gone));
  memcpy(to->seg, from->seg, sizeof *to->seg * (size_t)from->nseg);
  memcpy(out->reduce, pass->reduce, sizeof *out->reduce * (size_t)pass->nreduce);
  to->ncode -= gone;
  to->nhead -= gone;
  for (int32_t i = 0; i < to->ncode; i++)
    for (int k = 0; k < arity_of(&to->code[i]); k++) replace_place(&to->code[i].src[k], dots, temp);
  for (int32_t s = 0; s < to->nseg; s++) {
    to->seg[s].first -= gone;
    replace_place(&to->seg[s].result, dots, temp);
  }
  for (int32_t q = 0; q < pass->nreduce; q++) replace_place(&out->reduce[q].score, dots, temp);
  out->red_width = ke_dots_rest(pass, dots);
  return KE_OK;
}

void ke_dots_pass_free(ke_pass *pass)
{
  free(pass->pair.code);
  free(pass->pair.seg);
  free(pass->reduce);
}
