/* One pass over pairs that a device runs (backend.h, ke_pairs_job): it asks for packed rows and items, and
 * gives states back. Packing and finishing are shared out to threads here; which of them does what changes
 * nothing. */
#include "driver.h"

enum { JOB_ROWS = 2048, LEAST_JOB_ROWS = 16, JOB_VALUES = 1 << 15 };

typedef struct {
  ke_driver *d;
  const ke_pass *pass;
  int real_bytes;
  ke_row_code kept, red;
  int64_t nkept;
  double *kept_shift, *red_shift; /* NULL: none */
  size_t share;                   /* of a thread in the pool: what is held, then scratch, or a state */
} elsewhere;

/* One call of the device, cut into jobs: fewer rows where each has many components. */
typedef struct call {
  const elsewhere *w;
  void (*part)(const struct call *c, int64_t at, int64_t n, char *mine); /* rows [at, at + n) of it */
  int64_t first, n, ld;
  void *to;
  double *state;
  const double *from;
  double ns; /* of a row */
  int64_t job_rows;
} call;

static void call_job(void *data, int64_t number, int thread)
{
  const call *c = data;
  int64_t at = number * c->job_rows, n = ke_min(c->job_rows, c->n - at);

  c->part(c, at, n, c->w->d->pool.at + (size_t)thread * c->w->share);
  ke_team_tick(&c->w->d->team, thread, (double)n * c->ns);
}

static void share_out(call *c, int32_t width)
{
  ke_team *team = &c->w->d->team;
  int64_t jobs;
  double ns = (double)c->n * c->ns;

  c->job_rows = JOB_VALUES / (width + 1);
  c->job_rows = c->job_rows < LEAST_JOB_ROWS ? LEAST_JOB_ROWS : ke_min(c->job_rows, JOB_ROWS);
  jobs = ke_parts(c->n, c->job_rows);

  if (jobs > 0)
    ke_team_run(team, ke_team_size(team, jobs, ns), jobs, ns / (double)jobs, call_job, c);
}

/* ---- packing ---- */
/* Rows [at, at + n) through a row program, a few at a time, each batch handed to `put`. */
static void pack_part(const call *c, const ke_row_code *code, int64_t at, int64_t n, char *mine,
                      void (*put)(const call *c, int64_t at, int n, const double *held))
{
  int m;

  for (int64_t k = 0; k < n; k += m) {
    m = (int)ke_min(code->lanes, n - k);
    ke_row_code_run(c->w->d, code, c->first + at + k, m, (double *)mine, code->lanes,
                    mine + code->held);
    put(c, at + k, m, (double *)mine);
  }
}

static void put_kept(const call *c, int64_t at, int n, const double *held)
{
  const elsewhere *w = c->w;

  for (int32_t k = 0; k < w->kept.width; k++) {
    double shift = w->kept_shift ? w->kept_shift[k] : 0;
    for (int r = 0; r < n; r++)
      ke_put_real(w->real_bytes, c->to, k * c->ld + at + r, held[k * w->kept.lanes + r] - shift);
  }
}

static void put_red(const call *c, int64_t at, int n, const double *held)
{
  const elsewhere *w = c->w;

  for (int64_t k = 0; k < c->ld; k++) {
    bool there = k < w->red.width;
    double shift = there && w->red_shift ? w->red_shift[k] : 0;
    for (int r = 0; r < n; r++)
      ke_put_real(w->real_bytes, c->to, (at + r) * c->ld + k,
                  there ? held[k * w->red.lanes + r] - shift : 0);
  }
}

static void kept_part(const call *c, int64_t at, int64_t n, char *mine)
{
  pack_part(c, &c->w->kept, at, n, mine, put_kept);
}

static void red_part(const call *c, int64_t at, int64_t n, char *mine)
{
  pack_part(c, &c->w->red, at, n, mine, put_red);
}

static void pack_kept(void *data, int64_t first, int64_t n, void *to, int64_t ld)
{
  const elsewhere *w = data;
  call c = {.w = w, .part = kept_part, .first = first, .n = n, .ld = ld, .to = to};

  c.ns = w->kept.ns + 2 * w->kept.width;
  if (w->kept.width > 0) share_out(&c, w->kept.width);
}

static void pack_red(void *data, int64_t first, int64_t n, void *to, int width)
{
  const elsewhere *w = data;
  call c = {.w = w, .part = red_part, .first = first, .n = n, .ld = width, .to = to};

  c.ns = w->red.ns + 2 * w->red.width;
  if (w->red.width > 0) share_out(&c, w->red.width);
}

/* ---- states ---- */
static void take_state(double *to, const double *from, int64_t ld, int32_t n)
{
  for (int32_t k = 0; k < n; k++) to[k] = from[k * ld];
}

static void finish_part(const call *c, int64_t at, int64_t n, char *mine)
{
  const elsewhere *w = c->w;
  double *state = (double *)mine;

  for (int64_t r = at; r < at + n; r++) {
    take_state(state, c->from + r, c->ld, w->pass->state_width);
    ke_finish_state(w->d, w->pass, state, c->first + r);
  }
}

static void merge_part(const call *c, int64_t at, int64_t n, char *mine)
{
  const ke_pass *pass = c->w->pass;
  double *into = (double *)mine, *from = into + pass->state_width;

  for (int64_t r = at; r < at + n; r++) {
    take_state(into, c->state + r, c->ld, pass->state_width);
    take_state(from, c->from + r, c->ld, pass->state_width);
    ke_merge_state(pass, into, from);
    for (int32_t k = 0; k < pass->state_width; k++) c->state[k * c->ld + r] = into[k];
  }
}

static void finish(void *data, int64_t first, int64_t n, const double *state, int64_t ld)
{
  const elsewhere *w = data;
  call c = {.w = w, .part = finish_part, .first = first, .n = n, .ld = ld, .from = state};

  c.ns = 5 + 2 * w->pass->state_width;
  share_out(&c, w->pass->state_width);
}

static void merge(void *data, int64_t n, double *into, const double *from, int64_t ld)
{
  const elsewhere *w = data;
  call c = {.w = w, .part = merge_part, .n = n, .ld = ld, .state = into, .from = from};

  c.ns = 5 + 6 * w->pass->state_width;
  share_out(&c, w->pass->state_width);
}

static bool stop(void *data)
{
  const elsewhere *w = data;

  return ke_team_tick(&w->d->team, 0, 1e6);
}

/* ---- the pass ---- */
/* No items: states as they start. */
static ke_status finish_empty(const elsewhere *w, ke_error *err)
{
  const ke_pass *pass = w->pass;
  double *state = ke_arena_alloc(w->d->arena, ke_bytes((int64_t)pass->state_width + 1, 1, sizeof *state));

  if (!state) return ke_fail_memory(err);
  for (int64_t row = 0; row < w->nkept; row++) {
    ke_start_state(pass, state);
    ke_finish_state(w->d, pass, state, row);
  }
  return KE_OK;
}

/* Scratch for each thread, before any call: they cannot fail. */
static ke_status reserve_shares(elsewhere *w, ke_error *err)
{
  size_t kept = w->kept.held + w->kept.scratch, red = w->red.held + w->red.scratch;
  size_t states = ke_bytes(w->pass->state_width, 2, sizeof(double));

  w->share = kept > red ? kept : red;
  if (states > w->share) w->share = states;
  w->share = ke_line_up(w->share) + KE_LINE;
  return ke_reserve(&w->d->pool, ke_bytes(w->d->team.threads, 1, w->share), err);
}

ke_status ke_run_elsewhere(ke_driver *d, const ke_pass *pass, int32_t number, ke_error *err)
{
  const ke_run *run = d->run;
  elsewhere w = {.d = d, .pass = pass, .real_bytes = run->real_bytes};
  ke_pairs_job job = {.pass = pass,
                      .real_bytes = run->real_bytes,
                      .nkept = ke_side_rows(d, pass->kept),
                      .nred = ke_side_rows(d, pass->red),
                      .ranges = pass->ranged ? ke_ranges_of(run->ranges, pass->kept) : NULL,
                      .memo = &run->memo[number],
                      .arena = run->memo_arena,
                      .data = &w,
                      .pack_kept = pack_kept,
                      .pack_red = pack_red,
                      .finish = finish,
                      .merge = merge,
                      .stop = stop};
  void *rounded;
  double *once;

  if (pass->ranged && !job.ranges) return ke_fail(err, KE_ERR_INTERNAL, -1, "a pass over ranges was given none");
  w.nkept = job.nkept;
  if (job.nkept == 0) return KE_OK; /* no states to fill */
  if (job.nred == 0) return finish_empty(&w, err);
  KE_TRY(ke_run_once(d, &pass->once, pass->once_width, &once, err));
  KE_TRY(ke_round_once(d, once, pass->once_width, job.real_bytes, &rounded, err));
  job.once = rounded;
  KE_TRY(ke_row_code_prepare(d, &pass->keptp, pass->kept_width, once, &w.kept, err));
  KE_TRY(ke_row_code_prepare(d, &pass->redp, pass->red_width, once, &w.red, err));
  if (job.real_bytes == 4)
    KE_TRY(ke_find_centre(d, pass, &w.red, job.nred, &w.kept_shift, &w.red_shift, err));
  KE_TRY(reserve_shares(&w, err));
  KE_TRY(run->runner->run(run->runner->device, &job, err));
  return ke_check_stop(d, err);
}
