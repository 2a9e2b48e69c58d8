/* Formula text and argument list -> graph. */
#ifndef KE_PARSE_H
#define KE_PARSE_H

#include "graph.h"

typedef struct {
  char *name;   /* "" without one; in the graph's arena */
  int category; /* 0: i, 1: j, 2: parameter */
  int dim;
} ke_arg;

typedef struct {
  ke_arg *arg; /* malloc'd */
  int nargs, size;
  const ke_node *root;
  int side;  /* rows of the result: KE_I, KE_J or KE_NONE */
  int values; /* the first components of the result are values, the rest indices */
  const char *reduction; /* outermost; "" if something else stands outside */
} ke_parsed;

static inline int ke_category_side(int category)
{
  return category == 0 ? KE_I : category == 1 ? KE_J : KE_NONE;
}

static inline int ke_side_category(int side)
{
  return side == KE_I ? 0 : side == KE_J ? 1 : 2;
}

ke_status ke_parse_arguments(ke_graph *g, const char *const *args, int nargs, ke_parsed *out,
                             ke_error *err) KE_MUST_USE;
ke_status ke_parse_formula(ke_graph *g, const char *text, size_t length, ke_parsed *out,
                           ke_error *err) KE_MUST_USE;
void ke_parsed_clear(ke_parsed *p);

#endif
