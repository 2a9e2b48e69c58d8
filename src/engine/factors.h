/* The factors of a product, picked by what they depend on: for sums (simplify.c) and for the plan (plan.c). */
#ifndef KE_FACTORS_H
#define KE_FACTORS_H

#include "graph.h"

enum { KE_MAX_FACTORS = 64 }; /* what is longer stays together in the last */

typedef struct {
  const ke_node *f[KE_MAX_FACTORS];
  int n;
} ke_factors;

/* ke_mult, or ke_plain_mult where no rule may be applied. */
typedef const ke_node *(*ke_times)(ke_graph *g, const ke_node *a, const ke_node *b);

/* NULL stands for 1. */
static inline const ke_node *ke_times_or(ke_graph *g, ke_times times, const ke_node *a, const ke_node *b)
{
  return !a ? b : !b ? a : times(g, a, b);
}

/* Product of those factors whose index set and width (1 or more) are the ones asked for; NULL: none. */
static inline const ke_node *ke_product_of(ke_graph *g, ke_times times, const ke_factors *l, int idx,
                                           bool vector)
{
  const ke_node *p = NULL;

  for (int k = 0; k < l->n; k++)
    if (l->f[k]->idx == idx && (l->f[k]->dim > 1) == vector) p = ke_times_or(g, times, p, l->f[k]);
  return p;
}

#endif
