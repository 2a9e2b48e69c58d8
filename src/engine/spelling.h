/* The name that was probably meant, for messages about unknown ones. */
#ifndef KE_SPELLING_H
#define KE_SPELLING_H

#include <stddef.h>

enum { KE_SPELLING_MAX = 64 }; /* longer names are not looked at */

typedef struct {
  const char *name; /* as it was written, `length` bytes */
  size_t length;
  int cost;                      /* of the best so far */
  char best[KE_SPELLING_MAX];    /* "" where nothing is near */
} ke_spelling;

ke_spelling ke_spelling_of(const char *name, size_t length);
/* Keep `candidate` if it is near the name and nearer than those before. */
void ke_spelling_try(ke_spelling *s, const char *candidate);

#endif
