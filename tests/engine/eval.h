/* A slow reading of plan.h, for tests: one lane of any program, in plain C and double. Shares
 * nothing with the row machine, the interpreter or the emitters, so it can judge them. */
#ifndef TEST_EVAL_H
#define TEST_EVAL_H

#include "backend.h"
#include "op_enum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const ke_column *slots; /* row programs */
  int64_t row;
  const double *once, *kept, *red;
  double *temp;
} eval_lane;

/* Only what the plans of tests are made of. */
static inline double eval_op(int op, double a, double b)
{
  switch (op) {
  case KE_OP_Add:
    return a + b;
  case KE_OP_Subtract:
    return a - b;
  case KE_OP_Mult:
    return a * b;
  case KE_OP_Minus:
    return -a;
  case KE_OP_Square:
    return a * a;
  case KE_OP_Exp:
    return exp(a);
  case KE_OP_Log:
    return log(a);
  case KE_OP_Exp2Mul:
    return exp2(a * b);
  }
  fprintf(stderr, "eval.h does not know operation %d\n", op);
  abort();
}

static inline int64_t eval_component(const ke_place *p, const int32_t *k)
{
  int64_t c = p->base;

  for (int d = 0; d < KE_MAX_LOOPS; d++) c += (int64_t)p->step[d] * k[d];
  return c;
}

static inline double eval_place(const eval_lane *lane, const ke_place *p, const int32_t *k)
{
  int64_t c = eval_component(p, k);

  switch (p->kind) {
  case KE_AT_CONST: return p->value;
  case KE_AT_TEMP: return lane->temp[p->base];
  case KE_AT_ONCE: return lane->once[c];
  case KE_AT_KEPT: return lane->kept[c];
  case KE_AT_RED: return lane->red[c];
  }
  abort();
}

static inline double eval_slot(const eval_lane *lane, const ke_place *p, const int32_t *k,
                               double row)
{
  const ke_column *column = &lane->slots[p->slot];

  if (!(row >= 0)) return 0;
  return column->data[eval_component(p, k) * column->ld + (int64_t)row];
}

static inline void eval_code(const eval_lane *lane, const ke_instr *code, int32_t n, int32_t *k)
{
  for (int32_t at = 0; at < n; at++) {
    const ke_instr *in = &code[at];
    double *dst = &lane->temp[in->dst];

    if (in->op == KE_I_LOAD) {
      *dst = eval_slot(lane, &in->src[0], k, (double)lane->row);
    } else if (in->op == KE_I_GATHER) {
      *dst = eval_slot(lane, &in->src[0], k, eval_place(lane, &in->src[1], k));
    } else if (in->op == KE_I_FOLD) {
      double sum = in->keep ? *dst : 0;

      for (k[in->depth] = 0; k[in->depth] < in->n; k[in->depth]++) {
        eval_code(lane, in + 1, in->len, k);
        sum += eval_place(lane, &in->src[0], k);
      }
      k[in->depth] = 0;
      *dst = sum;
      at += in->len;
    } else {
      *dst = eval_op(in->op, eval_place(lane, &in->src[0], k), eval_place(lane, &in->src[1], k));
    }
  }
}

static inline void eval_head(const ke_program *p, const eval_lane *lane)
{
  int32_t k[KE_MAX_LOOPS] = {0};

  eval_code(lane, p->code, p->nhead, k);
}

/* Segments [first, first + n), after the head: out[component]. */
static inline void eval_segments(const ke_program *p, const eval_lane *lane, int32_t first,
                                 int32_t n, double *out)
{
  int32_t k[KE_MAX_LOOPS] = {0};

  for (int32_t s = first; s < first + n; s++) {
    const ke_segment *seg = &p->seg[s];

    for (k[0] = 0; k[0] < seg->n; k[0]++) {
      eval_code(lane, p->code + seg->first, seg->len, k);
      out[seg->out + k[0]] = eval_place(lane, &seg->result, k);
    }
    k[0] = 0;
  }
}

#endif
