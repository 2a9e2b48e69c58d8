/* What formulas call the reductions, as <name>_Reduction(...). */
#ifndef KE_REDUCTION_NAME_H
#define KE_REDUCTION_NAME_H

#include "plan.h"

#include <stdbool.h>

typedef struct {
  const char *name;
  ke_reduce_kind kind;
  bool values, indices; /* which of the two the result shows; indices come after the values */
} ke_reduction_name;

int ke_reduction_names(const ke_reduction_name **names); /* number of rows */

#endif
