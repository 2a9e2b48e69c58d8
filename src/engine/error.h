/* Status codes and the one error record that every fallible engine function fills.
 *
 * A function that can fail returns ke_status and takes `ke_error *err` last. The place that knows
 * most fills the record once, by ke_fail(); everybody above passes the status on. */
#ifndef KE_ERROR_H
#define KE_ERROR_H

#include <stddef.h>

typedef enum {
  KE_OK = 0,
  KE_ERR_INPUT,     /* an argument of the caller: number, size, kind */
  KE_ERR_PARSE,     /* formula text; `pos` is the byte of the fault */
  KE_ERR_DIMENSION, /* operands that do not fit; `pos` as above */
  KE_ERR_COMPILE,   /* no compiler, or it failed; `log` holds command, output and source */
  KE_ERR_DEVICE,
  KE_ERR_MEMORY,
  KE_ERR_IO,
  KE_ERR_INTERRUPT,
  KE_ERR_INTERNAL
} ke_status;

typedef struct {
  ke_status status;
  int pos;            /* byte offset in the formula text, -1 where there is none */
  char message[1024]; /* what was wrong, with its values, then what is allowed */
  char *log;          /* malloc'd and long (a compiler's output), or NULL; ke_error_clear() frees */
} ke_error;

#define KE_MUST_USE __attribute__((warn_unused_result))

/* Fill `err` and return `status`. */
ke_status ke_fail(ke_error *err, ke_status status, int pos, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
ke_status ke_fail_memory(ke_error *err);
void ke_error_clear(ke_error *err);

/* Pass a failure on; only while nothing is owned. */
#define KE_TRY(call)                                                                               \
  do {                                                                                             \
    ke_status ke_try_status = (call);                                                              \
    if (ke_try_status != KE_OK) return ke_try_status;                                              \
  } while (0)

#endif
