/* What formulas call the reductions, as <name>_Reduction(...). */
#ifndef KE_REDUCTION_NAME_H
#define KE_REDUCTION_NAME_H

#include "graph.h"

typedef enum { KE_WEIGHT_NONE, KE_WEIGHT_MAY, KE_WEIGHT_MUST } ke_weight_use;

typedef struct {
  const char *name;
  ke_reduce_kind kind;
  ke_part part;
  bool then_index; /* indices come after the values */
  bool zero;       /* reduces nothing: name_Reduction(dimension, axis) */
  bool counted;    /* name_Reduction(F, K, axis) */
  ke_weight_use weights; /* name_Reduction(F, G, axis) */
  const char *about;     /* its value, for the help page */
} ke_reduction_name;

int ke_reduction_names(const ke_reduction_name **names); /* number of rows */

#endif
