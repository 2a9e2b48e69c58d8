/* Patterns for tensor cores (tensor_cuda.h). */
#include "tensor_cuda.h"

#include "op.h"

enum { LEAST_COLUMNS = 21 }; /* fewer are done sooner one by one */

static bool is_temp(const ke_place *p, int32_t temp)
{
  return p->kind == KE_AT_TEMP && p->base == temp;
}

/* Does the loop of this depth, and no other, step through neighbouring components? */
static bool steps_by_one(const ke_place *p, int depth)
{
  for (int d = 0; d < KE_MAX_LOOPS; d++)
    if (p->step[d] != (d == depth)) return false;
  return true;
}

static int arity_of(const ke_instr *ins)
{
  return ins->op == KE_I_FOLD ? 1 : ke_ops[ins->op].arity;
}

static int uses_of(const ke_program *p, int32_t temp)
{
  int uses = 0;

  for (int32_t i = 0; i < p->ncode; i++) {
    for (int k = 0; k < arity_of(&p->code[i]); k++) uses += is_temp(&p->code[i].src[k], temp);
    uses += p->code[i].op == KE_I_FOLD && p->code[i].keep && p->code[i].dst == temp;
  }
  for (int32_t s = 0; s < p->nseg; s++) uses += is_temp(&p->seg[s].result, temp);
  return uses;
}

/* Uses by reductions themselves: the score of an exponential */
static bool is_score(const ke_pass *pass, int32_t temp)
{
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind == KE_RED_SUMEXP && is_temp(&pass->reduce[q].score, temp)) return true;
  return false;
}

/* ---- squared distances ---- */

/* sum of (kept - red)^2 over neighbouring components of both */
static bool match_fold(const ke_instr *fold, ke_tensor *t)
{
  const ke_instr *body = fold + 1, *second = fold + 2;
  const ke_place *x = &body->src[0], *y = &body->src[1];

  if (fold->op != KE_I_FOLD || fold->fold != KE_FOLD_SUM || fold->keep || fold->len != 2) return false;
  if (body->op != KE_OP_Subtract || second->op != KE_OP_Square || !is_temp(&second->src[0], body->dst)) return false;
  if (!is_temp(&fold->src[0], second->dst)) return false;
  if (x->kind != KE_AT_KEPT) x = &body->src[1], y = &body->src[0];
  if (x->kind != KE_AT_KEPT || y->kind != KE_AT_RED) return false;
  if (!steps_by_one(x, fold->depth) || !steps_by_one(y, fold->depth)) return false;
  t->n = fold->n;
  t->kept = x->base;
  t->red = y->base;
  return true;
}

/* Is the distance of use as an exponent of 2 alone, times something that is known before? Then its error is
 * known too: a share of the norms. As an argument of a root, say, it must be right next to 0. */
static bool is_exponent(const ke_pass *pass, int32_t temp, int32_t *scale)
{
  const ke_program *p = &pass->pair;
  int found = 0;

  for (int32_t i = 0; i < p->nhead; i++) {
    const ke_instr *ins = &p->code[i];

    if (ins->op == KE_OP_Exp2Mul && is_temp(&ins->src[0], temp) && ins->src[1].kind == KE_AT_ONCE) {
      *scale = ins->src[1].base;
      found++;
    }
    if (ins->op == KE_I_FOLD) i += ins->len;
  }
  return found == 1 && uses_of(p, temp) == 1 && !is_score(pass, temp);
}

/* ---- wide sums ---- */
static bool made_in_head(const ke_program *p, int32_t temp)
{
  for (int32_t i = 0; i < p->nhead; i++)
    if (p->code[i].dst == temp) return true;
  return false;
}

static bool match_wide(const ke_pass *pass, ke_tensor *t)
{
  const ke_program *p = &pass->pair;
  const ke_reduce *r = &pass->reduce[0];
  const ke_segment *seg;
  const ke_instr *ins;

  if (pass->nreduce != 1 || r->kind != KE_RED_SUM || r->nseg != 1 || r->width < LEAST_COLUMNS) return false;
  seg = &p->seg[r->seg];
  if (seg->len != 1 || seg->n != r->width || seg->out != 0) return false;
  ins = &p->code[seg->first];
  if (ins->op != KE_OP_Mult || !is_temp(&seg->result, ins->dst)) return false;
  for (int k = 0; k < 2; k++) {
    const ke_place *b = &ins->src[k], *factor = &ins->src[1 - k];

    if (b->kind != KE_AT_RED || !steps_by_one(b, 0) || factor->kind != KE_AT_TEMP) continue;
    if (!made_in_head(p, factor->base)) continue;
    *t = (ke_tensor){.kind = KE_TENSOR_WIDE, .n = r->width, .red = b->base, .factor = *factor};
    return true;
  }
  return false;
}

ke_tensor ke_tensor_match(const ke_pass *pass)
{
  ke_tensor t = {.kind = KE_TENSOR_NONE};

  if (pass->kind != KE_PASS_PAIRS || pass->ranged || match_wide(pass, &t)) return t;
  return (ke_tensor){.kind = KE_TENSOR_NONE};
}

/* ---- scaled distances ---- */

/* Does the place lie among n components from `first` on, somewhere in its loops? Steps reach as far as any loop
 * could. */
static bool may_touch(const ke_place *p, int kind, int32_t first, int32_t n)
{
  if (p->kind != kind || p->base >= first + n) return false;
  if (p->base >= first) return true;
  for (int d = 0; d < KE_MAX_LOOPS; d++)
    if (p->step[d]) return true;
  return false;
}

static bool touches(const ke_tensor *t, const ke_place *p)
{
  return may_touch(p, KE_AT_KEPT, t->kept, t->n) || may_touch(p, KE_AT_RED, t->red, t->n) ||
         may_touch(p, KE_AT_ONCE, t->scale, 1);
}

ke_tensor ke_scale_match(const ke_pass *pass)
{
  const ke_tensor none = {.kind = KE_TENSOR_NONE};
  const ke_program *p = &pass->pair;
  ke_tensor t = none;
  int others = 0;

  if (pass->kind != KE_PASS_PAIRS || p->nhead < 3 || !match_fold(&p->code[0], &t)) return none;
  if (!is_exponent(pass, p->code[0].dst, &t.scale)) return none;
  for (int32_t i = 0; i < p->ncode; i++)
    for (int k = 0; k < arity_of(&p->code[i]); k++) others += touches(&t, &p->code[i].src[k]);
  for (int32_t s = 0; s < p->nseg; s++) others += touches(&t, &p->seg[s].result);
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind == KE_RED_SUMEXP) others += touches(&t, &pass->reduce[q].score);
  if (others != 3) return none; /* two in the fold, one in the exponent */
  t.kind = KE_TENSOR_SCALED;
  return t;
}
