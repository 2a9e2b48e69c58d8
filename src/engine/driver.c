/* Memory and row programs of the CPU driver (driver.h). */
#include "driver.h"

#include <stdlib.h>

enum { HELD_BYTES = 64 * 1024 }; /* output of a row program that is held, roughly */

/* ---- memory ---- */
size_t ke_bytes(int64_t a, int64_t b, size_t size)
{
  size_t n;

  if (a < 0 || b < 0) return SIZE_MAX;
  if (__builtin_mul_overflow((size_t)a, (size_t)b, &n)) return SIZE_MAX;
  if (__builtin_mul_overflow(n, size, &n) || n > PTRDIFF_MAX / 2) return SIZE_MAX;
  return n;
}

size_t ke_line_up(size_t bytes)
{
  return (bytes + KE_LINE - 1) / KE_LINE * KE_LINE;
}

ke_status ke_reserve(ke_buffer *b, size_t bytes, ke_error *err)
{
  if (bytes == 0) bytes = KE_LINE;
  if (bytes <= b->size) return KE_OK;
  free(b->at);
  *b = (ke_buffer){0};
  if (bytes > PTRDIFF_MAX / 2) return ke_fail_memory(err);
  bytes = ke_line_up(bytes);
  b->at = aligned_alloc(KE_LINE, bytes);
  if (!b->at) return ke_fail_memory(err);
  b->size = bytes;
  return KE_OK;
}

/* ---- the run ---- */
int64_t ke_side_rows(const ke_driver *d, int side)
{
  return side == KE_I ? d->run->size_i : side == KE_J ? d->run->size_j : 1;
}

ke_status ke_check_stop(ke_driver *d, ke_error *err)
{
  if (!ke_team_stopped(&d->team)) return KE_OK;
  return ke_fail(err, KE_ERR_INTERRUPT, -1, "interrupted");
}

/* ---- row programs ---- */

/* Nanoseconds a lane, roughly: one an instruction. */
static double code_ns(const ke_instr *code, int32_t n)
{
  double ns = 0;

  for (int32_t k = 0; k < n; k++) {
    if (code[k].op == KE_I_FOLD) {
      ns += code[k].n * (1 + code_ns(code + k + 1, code[k].len));
      k += code[k].len;
    } else {
      ns += 1;
    }
  }
  return ns;
}

static double program_ns(const ke_program *p)
{
  double ns = code_ns(p->code, p->nhead);

  for (int32_t s = 0; s < p->nseg; s++)
    ns += p->seg[s].n * (1 + code_ns(p->code + p->seg[s].first, p->seg[s].len));
  return ns;
}

ke_status ke_row_code_prepare(ke_driver *d, const ke_program *p, int32_t width, const double *once,
                              ke_row_code *code, ke_error *err)
{
  *code = (ke_row_code){.width = width, .once = once, .lanes = KE_ROWS_LANES};
  if (p->width != width)
    return ke_fail(err, KE_ERR_INTERNAL, -1, "a row program writes %d components, not %d", p->width,
                   width);
  if (width == 0) return KE_OK;
  KE_TRY(ke_rows_prepare(d->arena, p, d->run->isa, &code->rows, err));
  code->ns = program_ns(p);
  code->scratch = ke_line_up(ke_rows_scratch(code->rows));
  while (code->lanes > 16 && (int64_t)code->lanes * width > HELD_BYTES / (int)sizeof(double))
    code->lanes /= 2;
  code->held = ke_line_up(ke_bytes(code->lanes, width, sizeof(double)));
  return KE_OK;
}

void ke_row_code_run(const ke_driver *d, const ke_row_code *code, int64_t first, int n, double *out,
                     int64_t ld, void *scratch)
{
  if (code->rows) ke_rows_run(code->rows, d->columns, code->once, first, n, out, ld, scratch);
}

ke_status ke_run_once(ke_driver *d, const ke_program *p, int32_t width, double **once,
                      ke_error *err)
{
  ke_row_code code;

  *once = ke_arena_alloc(d->arena, ke_bytes((int64_t)width + 1, 1, sizeof(double)));
  if (!*once) return ke_fail_memory(err);
  KE_TRY(ke_row_code_prepare(d, p, width, NULL, &code, err));
  KE_TRY(ke_reserve(&d->pool, code.scratch, err));
  ke_row_code_run(d, &code, 0, 1, *once, 1, d->pool.at);
  return KE_OK;
}

ke_status ke_round_once(ke_driver *d, const double *once, int32_t width, int real_bytes, void **out,
                        ke_error *err)
{
  *out = ke_arena_alloc(d->arena, ke_bytes((int64_t)width + 1, 1, sizeof(double)));
  if (!*out) return ke_fail_memory(err);
  for (int32_t c = 0; c < width; c++) ke_put_real(real_bytes, *out, c, once[c]);
  return KE_OK;
}
