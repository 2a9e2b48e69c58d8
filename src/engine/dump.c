/* A plan as text, one line an instruction: the notation of architecture's examples. */
#include "dump.h"

#include "op.h"

static const char *const side_name[] = {"-", "i", "j"};

static void dump_place(ke_strbuf *b, const ke_place *p)
{
  static const char *const array[] = {"", "", "once", "kept", "red", "slot"};

  if (p->kind == KE_AT_CONST) {
    ke_strbuf_addf(b, "%.9g", p->value);
    return;
  }
  if (p->kind == KE_AT_TEMP) {
    ke_strbuf_addf(b, "t%d", p->base);
    return;
  }
  ke_strbuf_add(b, array[p->kind]);
  if (p->kind == KE_AT_SLOT) ke_strbuf_addf(b, "%d", p->slot);
  ke_strbuf_addf(b, "[%d", p->base);
  for (int d = 0; d < KE_MAX_LOOPS; d++) {
    if (p->step[d] == 1) ke_strbuf_addf(b, "+k%d", d);
    if (p->step[d] > 1) ke_strbuf_addf(b, "+%d*k%d", p->step[d], d);
  }
  ke_strbuf_add(b, "]");
}

static const char *instr_name(int op)
{
  switch (op) {
  case KE_I_LOAD: return "load";
  case KE_I_GATHER: return "gather";
  default: return ke_ops[op].name;
  }
}

static void dump_code(ke_strbuf *b, const ke_instr *code, int n, int indent)
{
  for (int k = 0; k < n; k++) {
    const ke_instr *i = &code[k];
    ke_strbuf_addf(b, "%*st%d %s ", indent, "", i->dst, i->op == KE_I_FOLD && i->keep ? "+=" : "=");
    if (i->op == KE_I_FOLD) {
      ke_strbuf_addf(b, "sum k%d<%d ", i->depth, i->n);
      dump_place(b, &i->src[0]);
      ke_strbuf_add(b, "\n");
      dump_code(b, code + k + 1, i->len, indent + 2);
      k += i->len;
      continue;
    }
    ke_strbuf_add(b, instr_name(i->op));
    for (int s = 0; s < (i->op == KE_I_LOAD ? 1 : i->op == KE_I_GATHER ? 2 : ke_ops[i->op].arity); s++) {
      ke_strbuf_add(b, " ");
      dump_place(b, &i->src[s]);
    }
    ke_strbuf_add(b, "\n");
  }
}

static void dump_segments(ke_strbuf *b, const ke_program *p, int first, int n, int indent)
{
  for (int k = first; k < first + n; k++) {
    const ke_segment *s = &p->seg[k];
    ke_strbuf_addf(b, "%*s[%d+k0<%d] = ", indent, "", s->out, s->n);
    dump_place(b, &s->result);
    ke_strbuf_add(b, "\n");
    dump_code(b, p->code + s->first, s->len, indent + 2);
  }
}

static void dump_rows(ke_strbuf *b, const char *name, const ke_program *p)
{
  if (!p->nseg) return;
  ke_strbuf_addf(b, "  %s\n", name);
  dump_code(b, p->code, p->nhead, 4);
  dump_segments(b, p, 0, p->nseg, 4);
}

static void dump_pass(ke_strbuf *b, const ke_pass *p)
{
  static const char *const kinds[] = {"sum", "kahan", "min", "max", "sumexp", "kmin"};

  dump_rows(b, "once", &p->once);
  dump_rows(b, "kept", &p->keptp);
  dump_rows(b, "red", &p->redp);
  if (p->kind == KE_PASS_SCATTER) {
    ke_strbuf_addf(b, "  scatter into slot%d, width %d\n", p->scatter_slot, p->scatter_width);
    return;
  }
  for (int k = 0; k < p->ncenter; k++)
    ke_strbuf_addf(b, "  center kept[%d] red[%d] width %d\n", p->center[k].kept, p->center[k].red,
                   p->center[k].width);
  ke_strbuf_add(b, "  pair\n");
  dump_code(b, p->pair.code, p->pair.nhead, 4);
  for (int k = 0; k < p->nreduce; k++) {
    const ke_reduce *r = &p->reduce[k];
    ke_strbuf_addf(b, "  reduce %s width %d into slot%d", kinds[r->kind], r->width, r->slot);
    if (r->kind == KE_RED_KMIN) ke_strbuf_addf(b, ", %d least", r->k);
    if (r->kind == KE_RED_SUMEXP) {
      ke_strbuf_add(b, " score ");
      dump_place(b, &r->score);
    }
    ke_strbuf_add(b, "\n");
    dump_segments(b, &p->pair, r->seg, r->nseg, 4);
  }
}

void ke_dump_plan(ke_strbuf *b, const ke_plan *plan)
{
  for (int k = 0; k < plan->npass; k++) {
    const ke_pass *p = &plan->pass[k];
    ke_strbuf_addf(b, "pass %d: kept %s, reduced %s%s%s\n", k, side_name[p->kept], side_name[p->red],
                   p->ranged ? ", in ranges" : "", p->fused ? ", fused" : "");
    dump_pass(b, p);
  }
  for (int k = 0; k < plan->nfinal; k++) {
    const ke_final *f = &plan->final[k];
    ke_strbuf_addf(b, "final: rows of %s, width %d\n", side_name[f->side], f->width);
    dump_rows(b, "once", &f->once);
    dump_rows(b, "rows", &f->rows);
  }
}
