/* Graph -> plan (plan.c), with the program writer it uses (program.c). */
#ifndef KE_BUILD_PLAN_H
#define KE_BUILD_PLAN_H

#include "graph.h"
#include "parse.h"
#include "plan.h"

/* The plan of a parsed formula, in the graph's arena. Adds nodes to the graph. */
ke_status ke_plan_formula(ke_graph *g, const ke_parsed *formula, ke_sum_scheme scheme, ke_plan **out,
                          ke_error *err) KE_MUST_USE;

/* ---- program.c: nodes -> instructions ---- */

/* Which nodes lie ready as components of a flat array: offset by node id, -1 none. */
typedef struct {
  const ke_node **node; /* in the order of their offsets */
  int n, size;
  int32_t width;
  int32_t *at; /* by node id */
} ke_table;

typedef struct {
  ke_graph *g;
  int nnodes;
  const ke_table *once, *kept, *red; /* NULL: none; kept, red in pair programs only */
  const int32_t *slot_of;            /* by node id: slot of a leaf; row programs only */
} ke_writer_input;

typedef struct ke_writer ke_writer;

ke_writer *ke_writer_new(const ke_writer_input *in); /* NULL: no memory */
/* Segments that give all components of `n`, the first as component `out`. */
void ke_writer_segments(ke_writer *w, const ke_node *n, int32_t out);
void ke_writer_constant(ke_writer *w, double value, int32_t out);
ke_place ke_writer_scalar(ke_writer *w, const ke_node *n); /* in the head */
int ke_writer_nseg(const ke_writer *w);
/* The program, in the graph's arena; frees the writer. Sets g->failed where memory was short. */
void ke_writer_finish(ke_writer *w, int32_t width, ke_program *out);

#endif
