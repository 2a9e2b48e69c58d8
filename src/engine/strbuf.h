/* A growing text. A failed allocation is remembered, so that only the end needs a check. */
#ifndef KE_STRBUF_H
#define KE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char *text; /* zero-terminated once something was added; NULL before */
  size_t len, size;
  bool failed;
} ke_strbuf;

void ke_strbuf_add(ke_strbuf *b, const char *text);
void ke_strbuf_addn(ke_strbuf *b, const char *text, size_t n);
void ke_strbuf_addf(ke_strbuf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ke_strbuf_free(ke_strbuf *b);

#endif
