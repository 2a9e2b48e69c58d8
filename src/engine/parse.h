/* Formula text and argument list -> graph. */
#ifndef KE_PARSE_H
#define KE_PARSE_H

#include "graph.h"

typedef struct {
  char *name;   /* "" without one; in the graph's arena */
  int category; /* 0: i, 1: j, 2: parameter */
  int dim;
} ke_arg;

enum { KE_MAX_RESULTS = 64 };

/* What one formula gives; a text may hold several, with ';' between them. */
typedef struct {
  const ke_node *node;
  int side;   /* rows: KE_I, KE_J or KE_NONE */
  int values; /* the first components are values, the rest indices */
  int k;      /* KMin and the like: how many are taken; else 0 */
  const char *reduction; /* outermost; "" if something else stands outside */
} ke_result;

typedef struct {
  ke_arg *arg; /* malloc'd */
  int nargs, size;
  ke_result result[KE_MAX_RESULTS];
  int nresult;
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
