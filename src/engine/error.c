/* The error record: filled once, where the fault is known. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

ke_status ke_fail(ke_error *err, ke_status status, int pos, const char *format, ...)
{
  va_list ap;

  if (err) {
    err->status = status;
    err->pos = pos;
    va_start(ap, format);
    vsnprintf(err->message, sizeof err->message, format, ap);
    va_end(ap);
  }
  return status;
}

ke_status ke_fail_memory(ke_error *err)
{
  return ke_fail(err, KE_ERR_MEMORY, -1, "not enough memory");
}

void ke_error_clear(ke_error *err)
{
  free(err->log);
  *err = (ke_error){.pos = -1};
}
