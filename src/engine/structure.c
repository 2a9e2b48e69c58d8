/* Nodes that move, contract or compare components: all matrix, tensor and complex operations are made of
 * them, so that each of these has its derivatives and its code from here. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static const ke_node *make(ke_graph *g, int op, int dim, const ke_node *a, const ke_node *b,
                           const int *ints, int nint)
{
  ke_node n = {.op = (uint16_t)op,
               .dim = dim,
               .nchild = (uint8_t)(b ? 2 : a ? 1 : 0),
               .nint = (uint16_t)nint,
               .ints = ints,
               .child = {a, b}};

  n.idx = (uint8_t)((a ? a->idx : 0) | (b ? b->idx : 0));
  return ke_intern(g, &n);
}

const ke_node *ke_iota(ke_graph *g, int dim)
{
  return dim == 1 ? ke_const(g, 0) : make(g, KE_N_IOTA, dim, NULL, NULL, NULL, 0);
}

const ke_node *ke_pick(ke_graph *g, const ke_node *f, int start, int step, int n)
{
  if (step == 1 || n == 1)
    return n == 1 ? ke_with_int(g, KE_OP_Elem, f, start, 0) : ke_with_int(g, KE_OP_Extract, f, start, n);
  if (f->op == KE_N_PUT && f->ints[0] == start && f->ints[1] == step && f->child[0]->dim == n)
    return f->child[0];
  return make(g, KE_N_PICK, n, f, NULL, (const int[]){start, step}, 2);
}

const ke_node *ke_put(ke_graph *g, const ke_node *f, int start, int step, int dim)
{
  if (f->dim == 1) return ke_with_int(g, KE_OP_ElemT, f, dim, start);
  if (step == 1) return ke_with_int(g, KE_OP_ExtractT, f, start, dim);
  return make(g, KE_N_PUT, dim, f, NULL, (const int[]){start, step}, 2);
}

const ke_node *ke_extreme(ke_graph *g, const ke_node *f, bool largest)
{
  return f->dim == 1 ? f : make(g, KE_N_EXTREME, 1, f, NULL, (const int[]){largest}, 1);
}

const ke_node *ke_arg_extreme(ke_graph *g, const ke_node *f, bool largest)
{
  const ke_node *equal, *place, *last = ke_const(g, f->dim - 0.5);

  if (f->dim == 1) return ke_const(g, 0);
  equal = ke_binary(g, KE_OP_Equal, f, ke_extreme(g, f, largest));
  place = ke_ifelse(g, ke_binary(g, KE_OP_Subtract, equal, ke_const(g, 0.5)), ke_iota(g, f->dim),
                    ke_const(g, f->dim));
  place = ke_extreme(g, place, false);
  return ke_ifelse(g, ke_binary(g, KE_OP_Subtract, place, last), ke_const(g, 0), place);
}

/* ---- contractions ---- */
int64_t ke_contract_dim(const int *axes, int naxes)
{
  int64_t dim = 1;

  for (int a = 0; a < naxes; a++)
    if (axes[4 * a + 3] && dim <= KE_MAX_DIM) dim *= axes[4 * a];
  return dim;
}

const ke_node *ke_contract(ke_graph *g, const ke_node *f, const ke_node *h, const int *axes, int naxes)
{
  return make(g, KE_N_CONTRACT, (int)ke_contract_dim(axes, naxes), f, h, axes, 4 * naxes);
}

const ke_node *ke_matvec(ke_graph *g, const ke_node *a, const ke_node *b)
{
  int p = b->dim, n = a->dim / p;

  return ke_contract(g, a, b, (const int[]){n, p, 0, 1, p, 1, 1, 0}, 2);
}

const ke_node *ke_vecmat(ke_graph *g, const ke_node *b, const ke_node *a)
{
  int n = b->dim, p = a->dim / n;

  return ke_contract(g, b, a, (const int[]){p, 0, 1, 1, n, 1, p, 0}, 2);
}

const ke_node *ke_tensorprod(ke_graph *g, const ke_node *a, const ke_node *b)
{
  return ke_contract(g, a, b, (const int[]){a->dim, 1, 0, b->dim, b->dim, 0, 1, 1}, 2);
}
