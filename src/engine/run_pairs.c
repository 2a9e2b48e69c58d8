/* One pass over pairs:
 *
 *   items into tiles  ->  units of (rows, items): kept values, kernel, states  ->  merge, finish
 *
 * How a pass is cut into units follows from sizes, plan and shape alone, so that the bits depend on
 * neither threads nor load; team.c says who computes which unit. Memory: the packed items, scratch
 * of each thread, and where items are split about MANY_UNITS times the states of a unit. */
#include "driver.h"
#include "reduction.h"

#include <math.h>

enum {
  UNIT_ROWS = 64,             /* rows of a unit, if nothing speaks against it */
  MANY_UNITS = 64,            /* items are split to have so many */
  UNIT_BYTES = 192 * 1024,    /* kept values and states of a unit */
  SEGMENT_BYTES = 128 * 1024, /* items of one kernel call: they stay in cache for all rows */
  SEGMENT_NS = 2000000,       /* and its time, by an estimate that may be five times too low */
  PIECE_ITEMS = 8192,         /* items are not split into less than this, unless it takes ... */
  PIECE_NS = 100000,          /* ... so long */
  PACK_ITEMS = 2048,          /* items a packing job, roughly */
  SAMPLE = 64,                /* items from start, middle and end that settle the centre, ... */
  SAMPLE_VALUES = 100000      /* but not many more numbers than this */
};

static int64_t max64(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static int64_t round_up(int64_t a, int64_t unit)
{
  return ke_parts(a, unit) * unit;
}

/* A whole number from an estimate, at least `low` and at most `high`. */
static int64_t between(double x, int64_t low, int64_t high)
{
  if (!(x > (double)low)) return low;
  return x < (double)high ? (int64_t)x : high;
}

typedef struct {
  ke_driver *d;
  const ke_pass *pass;
  const ke_kernel *kernel;
  ke_shape shape;
  ke_row_code kept, red;
  int64_t nkept, nred;
  void *once;                     /* in the kernel's precision */
  double *kept_shift, *red_shift; /* subtracted from each component before it is rounded to float */

  /* the cut: unit u is rows [(u % row_units) * rows, ...) and items [(u / row_units) * items, ...)
   */
  int64_t rows, row_units;
  int64_t items, pieces;
  int64_t segment; /* items a kernel call */
  double pair_ns;

  /* a thread's share of the pool, in bytes */
  size_t at_state, at_held, at_scratch, share;
} pairs;

static void put_real(int real_bytes, void *at, int64_t k, double value)
{
  if (real_bytes == 4)
    ((float *)at)[k] = (float)value;
  else
    ((double *)at)[k] = value;
}

static ke_status round_once(pairs *w, const double *once, ke_error *err)
{
  w->once =
      ke_arena_alloc(w->d->arena, ke_bytes((int64_t)w->pass->once_width + 1, 1, sizeof(double)));
  if (!w->once) return ke_fail_memory(err);
  for (int32_t c = 0; c < w->pass->once_width; c++)
    put_real(w->shape.real_bytes, w->once, c, once[c]);
  return KE_OK;
}

/* ---- centre ---- */

/* The lower median of x[n], n >= 1, by quickselect: x is put in another order. A median and not a
 * mean, for one value far out would draw the mean away from all others and cost them their digits.
 */
static double median(double *x, int n)
{
  int want = (n - 1) / 2, low = 0, high = n - 1;

  while (low < high) {
    double pivot = x[(low + high) / 2];
    int i = low, j = high;

    while (i <= j) {
      while (x[i] < pivot) i++;
      while (x[j] > pivot) j--;
      if (i <= j) {
        double t = x[i];
        x[i++] = x[j];
        x[j--] = t;
      }
    }
    if (want <= j)
      high = j;
    else if (want >= i)
      low = i;
    else
      break;
  }
  return x[want];
}

/* Median of the finite ones among x[n]; 0 if there is none. x is overwritten. */
static double finite_median(double *x, int n)
{
  int m = 0;

  for (int k = 0; k < n; k++)
    if (isfinite(x[k])) x[m++] = x[k];
  return m ? median(x, m) : 0;
}

/* Items of the sample from each of start, middle and end: fewer where they are wide. */
static int sample_third(const pairs *w)
{
  int64_t n = SAMPLE_VALUES / (3 * ((int64_t)w->red.width + 1));

  n = n < 5 ? 5 : n > SAMPLE ? SAMPLE : n;
  return (int)ke_min(n, ke_parts(w->nred, 3));
}

/* Evaluate the red program there: sample[width][3 * third]. */
static void take_sample(const pairs *w, int third, double *sample, void *scratch)
{
  const int64_t starts[3] = {0, (w->nred - third) / 2, w->nred - third};

  for (int k = 0; k < 3; k++)
    ke_row_code_run(w->d, &w->red, starts[k], third, sample + (int64_t)k * third, 3 * third,
                    scratch);
}

/* Components that matter through differences only lose a common centre before they become float. */
static ke_status find_centre(pairs *w, ke_error *err)
{
  const ke_pass *pass = w->pass;
  size_t nshift = ke_bytes((int64_t)pass->kept_width + pass->red_width, 1, sizeof(double));
  int third = sample_third(w);
  double *sample;

  if (w->shape.real_bytes != 4) return KE_OK;
  w->kept_shift = ke_arena_alloc(w->d->arena, nshift + 1);
  if (!w->kept_shift) return ke_fail_memory(err);
  w->red_shift = w->kept_shift + pass->kept_width;
  if (pass->ncenter == 0) return KE_OK;

  KE_TRY(ke_reserve(&w->d->pool,
                    w->red.scratch + ke_bytes(pass->red_width, 3 * third, sizeof(double)), err));
  sample = (double *)(w->d->pool.at + w->red.scratch);
  take_sample(w, third, sample, w->d->pool.at);
  for (int32_t e = 0; e < pass->ncenter; e++) {
    const ke_center *center = &pass->center[e];

    for (int32_t k = 0; k < center->width; k++) {
      double c = finite_median(sample + (int64_t)(center->red + k) * 3 * third, 3 * third);
      w->kept_shift[center->kept + k] = c;
      w->red_shift[center->red + k] = c;
    }
  }
  ke_team_tick(&w->d->team, 0, 3 * third * (w->red.ns + 4 * pass->red_width));
  return ke_check_stop(w->d, err);
}

/* ---- packing of the items ---- */
static void pad_tile(int real_bytes, char *tile, int64_t width, int T, int n)
{
  for (int64_t c = 0; c < width; c++) {
    if (real_bytes == 4) {
      float *x = (float *)tile + c * T;
      for (int l = n; l < T; l++) x[l] = x[n - 1];
    } else {
      double *x = (double *)tile + c * T;
      for (int l = n; l < T; l++) x[l] = x[n - 1];
    }
  }
}

/* Lanes [at, at + n) of a tile in single precision, from held[width][lanes]. */
static void round_lanes(const pairs *w, const double *held, float *tile, int at, int n)
{
  int T = w->shape.tile;

  for (int32_t c = 0; c < w->red.width; c++) {
    const double *from = held + (int64_t)c * w->red.lanes;
    float *to = tile + (int64_t)c * T + at;
    double shift = w->red_shift[c];

    for (int l = 0; l < n; l++) to[l] = (float)(from[l] - shift);
  }
}

static void pack_tile(const pairs *w, int64_t number, char *mine)
{
  int T = w->shape.tile, n, len;
  int64_t first = number * T;
  char *tile = w->d->tiles.at + number * w->red.width * T * w->shape.real_bytes;
  double *held = (double *)(mine + w->at_held);
  void *scratch = mine + w->at_scratch;

  n = (int)ke_min(T, w->nred - first);
  for (int at = 0; at < n; at += len) {
    if (w->shape.real_bytes == 4) {
      len = n - at < w->red.lanes ? n - at : w->red.lanes;
      ke_row_code_run(w->d, &w->red, first + at, len, held, w->red.lanes, scratch);
      round_lanes(w, held, (float *)tile, at, len);
    } else {
      len = n - at < KE_ROWS_LANES ? n - at : KE_ROWS_LANES;
      ke_row_code_run(w->d, &w->red, first + at, len, (double *)tile + at, T, scratch);
    }
  }
  pad_tile(w->shape.real_bytes, tile, w->red.width, T, n);
}

static int64_t tiles_a_job(const pairs *w)
{
  return max64(1, PACK_ITEMS / w->shape.tile);
}

static void pack_job(void *data, int64_t number, int thread)
{
  pairs *w = data;
  int64_t n = tiles_a_job(w), tiles = ke_parts(w->nred, w->shape.tile);
  char *mine = w->d->pool.at + (size_t)thread * w->share;

  for (int64_t t = number * n; t < ke_min(tiles, (number + 1) * n); t++) {
    pack_tile(w, t, mine);
    if (ke_team_tick(&w->d->team, thread, w->shape.tile * w->red.ns)) return;
  }
}

static ke_status pack_items(pairs *w, ke_error *err)
{
  ke_driver *d = w->d;
  int64_t T = w->shape.tile, tiles = ke_parts(w->nred, T), jobs = ke_parts(tiles, tiles_a_job(w));
  double ns = (double)tiles * (double)T * w->red.ns;
  int threads = ke_team_size(&d->team, jobs, ns);

  if (w->red.width == 0) return ke_reserve(&d->tiles, KE_LINE, err);
  w->at_held = 0;
  w->at_scratch = w->shape.real_bytes == 4 ? w->red.held : 0;
  w->share = ke_line_up(w->at_scratch + w->red.scratch + KE_LINE);
  KE_TRY(ke_reserve(&d->pool, ke_bytes(threads, 1, w->share), err));
  KE_TRY(
      ke_reserve(&d->tiles, ke_bytes(tiles, w->red.width * T, (size_t)w->shape.real_bytes), err));
  ke_team_run(&d->team, threads, jobs, ns / (double)jobs, pack_job, w);
  return ke_check_stop(d, err);
}

/* ---- the cut ---- */
static int64_t most_rows(const pairs *w)
{
  const ke_shape *s = &w->shape;
  double row_bytes =
      (double)w->kept.width * s->real_bytes + (double)w->pass->state_width * (double)sizeof(double);
  double row_ns = (double)w->nred * w->pair_ns;
  /* where rows are cheap, more of them, for a unit has its own costs too */
  int64_t rows = row_ns * UNIT_ROWS < 2e4 ? KE_ROWS_LANES : UNIT_ROWS;

  return max64(s->rows, between(UNIT_BYTES / (row_bytes + 1), 1, rows) / s->rows * s->rows);
}

static void cut_rows(pairs *w, int64_t rows)
{
  int64_t R = w->shape.rows;

  w->row_units = ke_parts(w->nkept, rows);
  w->rows = round_up(ke_parts(w->nkept, w->row_units), R); /* of about equal size */
  w->row_units = ke_parts(w->nkept, w->rows);
}

/* Few row blocks: split the items too. */
static void cut_items(pairs *w)
{
  int64_t T = w->shape.tile, piece, most;

  w->items = w->nred;
  w->pieces = 1;
  if (w->row_units >= MANY_UNITS || w->nred <= T) return;
  piece = between(PIECE_NS / ((double)w->rows * w->pair_ns), T, PIECE_ITEMS);
  most = max64(1, w->nred / piece);
  w->items = round_up(ke_parts(w->nred, ke_min(most, ke_parts(MANY_UNITS, w->row_units))), T);
  w->pieces = ke_parts(w->nred, w->items);
}

/* Costs are those of floats in the longest vectors. */
static double slowness(const pairs *w)
{
  int wide = w->shape.real_bytes == 8 ? 2 : 1;

  switch (w->d->run->isa) {
  case KE_ISA_AVX512: return wide;
  case KE_ISA_AVX2: return 2 * wide;
  default: return 6 * wide;
  }
}

static void cut_pass(pairs *w)
{
  int64_t R = w->shape.rows, T = w->shape.tile, segment;
  double item_bytes, units, unit_ns, shrink;

  w->pair_ns = fmax(w->pass->cost, 1) / 16 * slowness(w);
  cut_rows(w, most_rows(w));
  cut_items(w);

  /* Still few, and long: units of fewer rows. */
  units = (double)(w->row_units * w->pieces);
  unit_ns = (double)w->rows * (double)w->items * w->pair_ns;
  shrink = fmin(MANY_UNITS / units, unit_ns / PIECE_NS);
  if (shrink > 1) cut_rows(w, max64(R, round_up(between((double)w->rows / shrink, 1, w->rows), R)));

  item_bytes = (double)w->red.width * w->shape.real_bytes;
  segment = between(SEGMENT_BYTES / (item_bytes + 1), T, INT32_MAX);
  segment = between(SEGMENT_NS / ((double)w->rows * w->pair_ns), 16, segment);
  w->segment = segment >= T ? segment / T * T : segment / 16 * 16;
}

/* ---- units ---- */
static void start_states(const ke_pass *pass, double *state, int64_t rows)
{
  for (int64_t r = 0; r < rows; r++, state += pass->state_width)
    for (int32_t k = 0; k < pass->nreduce; k++)
      ke_reducer_of(pass->reduce[k].kind)
          ->start(&pass->reduce[k], state + pass->reduce[k].state);
}

static void finish_states(const pairs *w, double *state, int64_t row0, int64_t rows)
{
  const ke_pass *pass = w->pass;

  for (int32_t k = 0; k < pass->nreduce; k++) {
    const ke_reduce *reduce = &pass->reduce[k];
    const ke_reducer *how = ke_reducer_of(reduce->kind);
    double *column = w->d->results[reduce->slot] + row0;

    for (int64_t r = 0; r < rows; r++)
      how->finish(reduce, state + r * pass->state_width + reduce->state, column + r,
                  w->nkept);
  }
}

/* kept[block][component][R] of the rows from row0 on; the last row fills the last block. */
static void pack_kept(const pairs *w, int64_t row0, int64_t rows, char *mine)
{
  const ke_row_code *code = &w->kept;
  int64_t R = w->shape.rows, filled = round_up(rows, R);
  double *held = (double *)(mine + w->at_held);
  int n;

  for (int64_t first = 0; first < rows; first += n) {
    n = (int)ke_min(code->lanes, rows - first);
    ke_row_code_run(w->d, code, row0 + first, n, held, code->lanes, mine + w->at_scratch);
    for (int32_t c = 0; c < code->width; c++) {
      const double *from = held + (int64_t)c * code->lanes;
      double shift = w->kept_shift ? w->kept_shift[c] : 0;
      int64_t end = first + n == rows ? filled : first + n;

      for (int64_t r = first; r < end; r++) {
        double value = from[r - first < n ? r - first : n - 1] - shift;
        put_real(w->shape.real_bytes, mine, ((r / R) * code->width + c) * R + r % R, value);
      }
    }
  }
}

static void unit_job(void *data, int64_t number, int thread)
{
  pairs *w = data;
  ke_driver *d = w->d;
  int64_t piece = number / w->row_units, row0 = number % w->row_units * w->rows;
  int64_t rows = ke_min(w->rows, w->nkept - row0);
  int64_t end = ke_min(w->nred, (piece + 1) * w->items);
  char *mine = d->pool.at + (size_t)thread * w->share;
  double *state = (double *)(mine + w->at_state);
  ke_task task;

  if (w->pieces > 1)
    state = (double *)d->partial.at + (piece * w->nkept + row0) * w->pass->state_width;
  start_states(w->pass, state, rows);
  pack_kept(w, row0, rows, mine);
  task = (ke_task){.nrows = rows,
                   .once = w->once,
                   .kept = mine,
                   .red = d->tiles.at,
                   .state = state,
                   .scratch = mine + w->at_scratch};
  for (int64_t i = piece * w->items; i < end; i += w->segment) {
    task.i0 = i;
    task.i1 = ke_min(end, i + w->segment);
    w->kernel->run(w->kernel, &task);
    if (ke_team_tick(&d->team, thread, (double)rows * (double)w->segment * w->pair_ns)) return;
  }
  if (w->pieces == 1) finish_states(w, state, row0, rows);
  ke_team_tick(&d->team, thread, (double)rows * (w->kept.ns + w->pass->state_width));
}

/* States of split items, in the order of the items. */
static void merge_pieces(pairs *w)
{
  const ke_pass *pass = w->pass;
  int64_t step = w->nkept * pass->state_width;
  double *state = (double *)w->d->partial.at;

  for (int64_t row = 0; row < w->nkept; row++, state += pass->state_width) {
    for (int64_t p = 1; p < w->pieces; p++)
      for (int32_t k = 0; k < pass->nreduce; k++) {
        const ke_reduce *reduce = &pass->reduce[k];

        ke_reducer_of(reduce->kind)
            ->merge(reduce, state + reduce->state, state + p * step + reduce->state);
      }
    finish_states(w, state, row, 1);
  }
}

static ke_status run_units(pairs *w, ke_error *err)
{
  ke_driver *d = w->d;
  int64_t units = w->row_units * w->pieces;
  double row_ns = (double)w->items * w->pair_ns + w->kept.ns;
  double unit_ns = (double)w->rows * row_ns;
  int threads = ke_team_size(&d->team, units, unit_ns * (double)units);
  size_t state_bytes = ke_bytes(w->rows, w->pass->state_width, sizeof(double));
  size_t scratch = w->shape.scratch_bytes;

  if (scratch < w->kept.scratch) scratch = w->kept.scratch;
  w->at_state = ke_line_up(ke_bytes(w->rows, w->kept.width, (size_t)w->shape.real_bytes));
  w->at_held = w->at_state + (w->pieces > 1 ? 0 : ke_line_up(state_bytes));
  w->at_scratch = w->at_held + w->kept.held;
  w->share = ke_line_up(w->at_scratch + scratch) + KE_LINE; /* threads never share a line */
  KE_TRY(ke_reserve(&d->pool, ke_bytes(threads, 1, w->share), err));
  if (w->pieces > 1)
    KE_TRY(ke_reserve(&d->partial,
                      ke_bytes(w->pieces, w->nkept, (size_t)w->pass->state_width * sizeof(double)),
                      err));
  ke_team_run(&d->team, threads, units, unit_ns, unit_job, w);
  KE_TRY(ke_check_stop(d, err));
  if (w->pieces > 1) merge_pieces(w);
  return KE_OK;
}

ke_status ke_run_pairs(ke_driver *d, const ke_pass *pass, const ke_kernel *kernel, ke_error *err)
{
  pairs w = {.d = d, .pass = pass, .kernel = kernel, .shape = kernel->shape};
  double *once;

  w.nkept = ke_side_rows(d, pass->kept);
  w.nred = ke_side_rows(d, pass->red);
  if (w.nkept == 0) return KE_OK; /* no states to fill */
  KE_TRY(ke_run_once(d, &pass->once, pass->once_width, &once, err));
  KE_TRY(round_once(&w, once, err));
  KE_TRY(ke_row_code_prepare(d, &pass->keptp, pass->kept_width, once, &w.kept, err));
  KE_TRY(ke_row_code_prepare(d, &pass->redp, pass->red_width, once, &w.red, err));
  if (w.nred > 0) {
    KE_TRY(find_centre(&w, err));
    KE_TRY(pack_items(&w, err));
  }
  cut_pass(&w);
  return run_units(&w, err);
}
