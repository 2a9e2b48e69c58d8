/* Runs a plan: pass after pass, then the final program. Memory grows with M + N only: a column a
 * component for results of passes, and what run_pairs.c holds. */
#include "driver.h"
#include "reduction.h"

#include <stdlib.h>

/* ---- scatter passes ---- */

/* Add components 0..width-1 of n lanes to the rows that component `width` names. */
static ke_status scatter_lanes(double *column, int64_t rows, int32_t width, const double *lanes,
                               int64_t ld, int n, ke_error *err)
{
  for (int l = 0; l < n; l++) {
    double row = lanes[width * ld + l];

    if (!(row >= 0)) continue;
    if (row >= (double)rows)
      return ke_fail(err, KE_ERR_INTERNAL, -1, "scatter to row %.0f of %lld", row, (long long)rows);
    for (int32_t c = 0; c < width; c++) column[c * rows + (int64_t)row] += lanes[c * ld + l];
  }
  return KE_OK;
}

/* In the order of the items, so on one thread. */
static ke_status run_scatter(ke_driver *d, const ke_pass *pass, ke_error *err)
{
  int64_t nred = ke_side_rows(d, pass->red), rows = ke_side_rows(d, pass->kept);
  ke_row_code red;
  double *once;
  char *held;
  int n;

  KE_TRY(ke_run_once(d, &pass->once, pass->once_width, &once, err));
  KE_TRY(ke_row_code_prepare(d, &pass->redp, pass->scatter_width + 1, once, &red, err));
  KE_TRY(ke_reserve(&d->pool, red.scratch + red.held, err));
  held = d->pool.at + red.scratch;
  for (int64_t first = 0; first < nred; first += n) {
    n = (int)ke_min(red.lanes, nred - first);
    ke_row_code_run(d, &red, first, n, (double *)held, red.lanes, d->pool.at);
    KE_TRY(scatter_lanes(d->results[pass->scatter_slot], rows, pass->scatter_width, (double *)held,
                         red.lanes, n, err));
    ke_team_tick(&d->team, 0, n * (red.ns + pass->scatter_width));
    KE_TRY(ke_check_stop(d, err));
  }
  return KE_OK;
}

/* ---- the final program ---- */
typedef struct {
  ke_driver *d;
  ke_row_code code;
  int64_t rows;
  double *out;
} finale;

static void final_job(void *data, int64_t number, int thread)
{
  finale *f = data;
  int64_t first = number * KE_ROWS_LANES;
  int n = (int)ke_min(KE_ROWS_LANES, f->rows - first);

  ke_row_code_run(f->d, &f->code, first, n, f->out + first, f->rows,
                  f->d->pool.at + (size_t)thread * f->code.scratch);
  ke_team_tick(&f->d->team, thread, n * f->code.ns);
}

static ke_status run_final(ke_driver *d, const ke_final *final, double *out, ke_error *err)
{
  finale f = {.d = d, .rows = ke_side_rows(d, final->side), .out = out};
  int64_t jobs = ke_parts(f.rows, KE_ROWS_LANES);
  double *once, ns;
  int threads;

  if (f.rows == 0) return KE_OK;
  KE_TRY(ke_run_once(d, &final->once, final->once_width, &once, err));
  KE_TRY(ke_row_code_prepare(d, &final->rows, final->width, once, &f.code, err));
  ns = (double)f.rows * f.code.ns;
  threads = ke_team_size(&d->team, jobs, ns);
  KE_TRY(ke_reserve(&d->pool, ke_bytes(threads, 1, f.code.scratch), err));
  ke_team_run(&d->team, threads, jobs, ns / (double)jobs, final_job, &f);
  return ke_check_stop(d, err);
}

/* ---- all of it ---- */
static ke_status make_columns(ke_driver *d, ke_error *err)
{
  const ke_plan *plan = d->plan;

  d->columns = ke_arena_alloc(d->arena, ke_bytes(plan->nslot + 1, 1, sizeof(ke_column)));
  d->results = ke_arena_alloc(d->arena, ke_bytes(plan->nslot + 1, 1, sizeof(double *)));
  if (!d->columns || !d->results) return ke_fail_memory(err);
  for (int32_t s = 0; s < plan->nslot; s++) {
    const ke_slot *slot = &plan->slot[s];
    int64_t rows = ke_side_rows(d, slot->side);
    size_t bytes;

    if (slot->arg >= 0) {
      d->columns[s] = (ke_column){d->run->data[slot->arg], rows};
      continue;
    }
    bytes = ke_bytes(rows, slot->width, sizeof(double));
    if (bytes == SIZE_MAX) return ke_fail_memory(err);
    d->results[s] = calloc(bytes + 1, 1); /* zeroed: scatter passes add */
    if (!d->results[s]) return ke_fail_memory(err);
    d->columns[s] = (ke_column){d->results[s], rows};
    if (slot->arg == KE_SLOT_SIZE_I) d->results[s][0] = (double)d->run->size_i;
    if (slot->arg == KE_SLOT_SIZE_J) d->results[s][0] = (double)d->run->size_j;
  }
  return KE_OK;
}

static ke_status check_pass(const ke_driver *d, const ke_pass *pass, ke_error *err)
{
  const ke_slot *slot = d->plan->slot;
  int32_t n = pass->kind == KE_PASS_SCATTER ? 1 : pass->nreduce;

  for (int32_t k = 0; k < n; k++) {
    int32_t s = pass->kind == KE_PASS_SCATTER ? pass->scatter_slot : pass->reduce[k].slot;
    int32_t width =
        pass->kind == KE_PASS_SCATTER ? pass->scatter_width
                                      : ke_reducer_of(pass->reduce[k].kind)->results(&pass->reduce[k]);

    if (s < 0 || s >= d->plan->nslot || !d->results[s] || slot[s].side != pass->kept ||
        slot[s].width != width)
      return ke_fail(err, KE_ERR_INTERNAL, -1, "slot %d does not fit what a pass writes", s);
  }
  return KE_OK;
}

static ke_status run_all(ke_driver *d, double *const *out, ke_error *err)
{
  KE_TRY(make_columns(d, err));
  for (int32_t p = 0; p < d->plan->npass; p++) {
    const ke_pass *pass = &d->plan->pass[p];

    KE_TRY(check_pass(d, pass, err));
    if (pass->kind == KE_PASS_SCATTER)
      KE_TRY(run_scatter(d, pass, err));
    else if (d->run->runner)
      KE_TRY(ke_run_elsewhere(d, pass, p, err));
    else
      KE_TRY(ke_run_pairs(d, pass, &d->run->kernels[p], err));
  }
  for (int32_t k = 0; k < d->plan->nfinal; k++)
    KE_TRY(run_final(d, &d->plan->final[k], out[k], err));
  return KE_OK;
}

ke_status ke_run_plan(const ke_plan *plan, const ke_run *run, double *const *out, ke_error *err)
{
  ke_driver d = {.plan = plan, .run = run, .arena = ke_arena_new()};
  ke_status status;

  if (!d.arena) return ke_fail_memory(err);
  ke_team_init(&d.team, run->threads, run->poll, run->poll_data);
  status = run_all(&d, out, err);

  for (int32_t s = 0; d.results && s < plan->nslot; s++) free(d.results[s]);
  free(d.pool.at);
  free(d.tiles.at);
  free(d.partial.at);
  ke_arena_free(d.arena);
  return status;
}
