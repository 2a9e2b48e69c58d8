/* Graph -> formula text, in canonical form: operations as calls, the usual operators as operators. */
#include "print.h"

#include "reduction_name.h"

static const char *infix(int op)
{
  switch (op) {
  case KE_OP_Add: return "+";
  case KE_OP_Subtract: return "-";
  case KE_OP_Mult: return "*";
  case KE_OP_Divide: return "/";
  default: return NULL;
  }
}

static void print_call(ke_strbuf *b, const ke_node *n, const char *name, const ke_parsed *f)
{
  ke_strbuf_addf(b, "%s(", name);
  for (int k = 0; k < n->nchild; k++) {
    if (k) ke_strbuf_add(b, ",");
    ke_print_node(b, n->child[k], f);
  }
  for (int k = 0; k < n->nint; k++) ke_strbuf_addf(b, ",%d", n->ints[k]);
  ke_strbuf_add(b, ")");
}

/* Nodes that words of the language are made of, and that have no word of their own: name_(operands,
 * numbers), not to be parsed. */
static void print_part(ke_strbuf *b, const ke_node *n, const char *name, const ke_parsed *f)
{
  ke_strbuf_addf(b, "%s_[%d](", name, n->dim);
  for (int k = 0; k < n->nchild; k++) {
    if (k) ke_strbuf_add(b, ",");
    ke_print_node(b, n->child[k], f);
  }
  for (int k = 0; k < n->nint; k++) ke_strbuf_addf(b, ",%d", n->ints[k]);
  ke_strbuf_add(b, ")");
}

static void print_extreme(ke_strbuf *b, const ke_node *n, const ke_parsed *f)
{
  ke_strbuf_add(b, n->ints[0] ? "Max(" : "Min(");
  ke_print_node(b, n->child[0], f);
  ke_strbuf_add(b, ")");
}

static void print_var(ke_strbuf *b, const ke_node *n, const ke_parsed *f)
{
  const ke_arg *a = &f->arg[n->ints[0]];

  if (a->name[0])
    ke_strbuf_add(b, a->name);
  else
    ke_strbuf_addf(b, "Var(%d,%d,%d)", n->ints[0], a->dim, a->category);
}

static const char *reduction_name(const ke_node *n)
{
  const ke_reduction_name *names;
  int count = ke_reduction_names(&names);

  for (int k = 0; k < count; k++)
    if ((int)names[k].kind == n->ints[0] && (int)names[k].part == n->ints[2] && !names[k].then_index &&
        (n->nchild > 1 ? names[k].weights != KE_WEIGHT_NONE : names[k].weights != KE_WEIGHT_MUST))
      return names[k].name;
  return "Norm_"; /* KE_PART_NORM, for which there is no word */
}

static void print_reduce(ke_strbuf *b, const ke_node *n, const ke_parsed *f)
{
  ke_strbuf_addf(b, "%s_Reduction(", reduction_name(n));
  ke_print_node(b, n->child[0], f);
  ke_strbuf_add(b, ",");
  if (n->ints[0] == KE_RED_KMIN) ke_strbuf_addf(b, "%d,", n->ints[3]);
  if (n->nchild > 1) {
    bool ratio = n->ints[2] == KE_PART_RATIO; /* its weights are Concat(1, those of the formula) */

    ke_strbuf_add(b, ratio ? "Extract(" : "");
    ke_print_node(b, n->child[1], f);
    if (ratio) ke_strbuf_addf(b, ",1,%d)", n->dim);
    ke_strbuf_add(b, ",");
  }
  ke_strbuf_addf(b, "%d)", n->ints[1] == KE_I ? 0 : 1);
}

void ke_print_node(ke_strbuf *b, const ke_node *n, const ke_parsed *f)
{
  if (b->len > KE_PRINT_LIMIT || b->failed) return; /* a shared graph may be endless as text */
  switch (n->op) {
  case KE_N_CONST: ke_strbuf_addf(b, n->value < 0 ? "(%.17g)" : "%.17g", n->value); return;
  case KE_N_VAR: print_var(b, n, f); return;
  case KE_N_SIZE: ke_strbuf_addf(b, "Size_(%d)", n->ints[0] == KE_I ? 0 : 1); return;
  case KE_N_IOTA: print_part(b, n, "Iota", f); return;
  case KE_N_CONTRACT: print_part(b, n, "Contract", f); return;
  case KE_N_PICK: print_part(b, n, "Pick", f); return;
  case KE_N_PUT: print_part(b, n, "Put", f); return;
  case KE_N_EXTREME: print_extreme(b, n, f); return;
  case KE_N_GATHER: print_call(b, n, "Gather_", f); return;
  case KE_N_SCATTER: print_call(b, n, "Scatter_", f); return;
  case KE_N_REDUCE: print_reduce(b, n, f); return;
  case KE_OP_Minus:
    ke_strbuf_add(b, "(-");
    ke_print_node(b, n->child[0], f);
    ke_strbuf_add(b, ")");
    return;
  default: break;
  }
  if (!infix(n->op)) {
    print_call(b, n, ke_ops[n->op].name, f);
    return;
  }
  ke_strbuf_add(b, "(");
  ke_print_node(b, n->child[0], f);
  ke_strbuf_add(b, infix(n->op));
  ke_print_node(b, n->child[1], f);
  ke_strbuf_add(b, ")");
}
