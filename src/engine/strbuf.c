/* A growing text: doubling buffer, failure remembered. */
#include "strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(ke_strbuf *b, size_t more)
{
  size_t size = b->size ? b->size : 256;
  char *text;

  if (b->failed) return false;
  while (size < b->len + more + 1) size *= 2;
  if (size != b->size) {
    text = realloc(b->text, size);
    if (!text) {
      b->failed = true;
      return false;
    }
    b->text = text;
    b->size = size;
  }
  return true;
}

void ke_strbuf_addn(ke_strbuf *b, const char *text, size_t n)
{
  if (!reserve(b, n)) return;
  memcpy(b->text + b->len, text, n);
  b->len += n;
  b->text[b->len] = '\0';
}

void ke_strbuf_add(ke_strbuf *b, const char *text)
{
  ke_strbuf_addn(b, text, strlen(text));
}

void ke_strbuf_addf(ke_strbuf *b, const char *format, ...)
{
  va_list ap;
  int n;

  va_start(ap, format);
  n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  if (n < 0 || !reserve(b, (size_t)n)) {
    b->failed = true;
    return;
  }
  va_start(ap, format);
  vsnprintf(b->text + b->len, (size_t)n + 1, format, ap);
  va_end(ap);
  b->len += (size_t)n;
}

void ke_strbuf_free(ke_strbuf *b)
{
  free(b->text);
  *b = (ke_strbuf){0};
}
