/* Graph -> formula text. */
#ifndef KE_PRINT_H
#define KE_PRINT_H

#include "parse.h"
#include "strbuf.h"

enum { KE_PRINT_LIMIT = 200000 }; /* characters; what is longer is cut */

void ke_print_node(ke_strbuf *b, const ke_node *n, const ke_parsed *f);

#endif
