/* A plan as text: for golden tests and for reading what the engine will do. */
#ifndef KE_DUMP_H
#define KE_DUMP_H

#include "plan.h"
#include "strbuf.h"

void ke_dump_plan(ke_strbuf *b, const ke_plan *plan);

#endif
