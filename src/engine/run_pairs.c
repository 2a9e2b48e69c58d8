/* One pass over pairs:
 *
 *   items into tiles (by the units, if none is wanted twice)  ->  units of (rows, items): kept values, kernel, states  ->  merge, finish
 *
 * cut.c says what the units are, team.c who computes which. Rows see the items of their ranges; a pass
 * without ranges is one cluster of rows that sees all items. Memory: the packed items, scratch of each
 * thread, what is said of each cluster, and the states of the few rows whose items are split. */
#include "cut.h"

#include <math.h>
#include <string.h>

enum {
  PACK_ITEMS = 2048 /* items a packing job, roughly */
};

typedef struct {
  ke_driver *d;
  const ke_pass *pass;
  const ke_kernel *kernel;
  ke_shape shape;
  ke_row_code kept, red;
  int64_t nkept, nred;
  void *once;                     /* in the kernel's precision */
  double *kept_shift, *red_shift; /* subtracted from each component before it is rounded to float */

  ke_cut cut;
  bool streams; /* each item is wanted once: it is packed where it is used, all of them never lie in memory */

  /* a thread's share of the pool, in bytes */
  size_t at_state, at_held, at_scratch, at_tiles, share;
} pairs;

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

static int64_t tile_bytes(const pairs *w)
{
  return (int64_t)w->red.width * w->shape.tile * w->shape.real_bytes;
}

static void pack_tile(const pairs *w, int64_t number, char *tile, char *mine)
{
  int T = w->shape.tile, n, len;
  int64_t first = number * T;
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
  return ke_max(1, PACK_ITEMS / w->shape.tile);
}

static void pack_job(void *data, int64_t number, int thread)
{
  pairs *w = data;
  int64_t n = tiles_a_job(w), tiles = ke_parts(w->nred, w->shape.tile);
  char *mine = w->d->pool.at + (size_t)thread * w->share;

  for (int64_t t = number * n; t < ke_min(tiles, (number + 1) * n); t++) {
    pack_tile(w, t, w->d->tiles.at + t * tile_bytes(w), mine);
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

/* ---- units ---- */
/* kept[block][component][R] of the rows from row0 on; the last row fills the last block. */
static void pack_kept(const pairs *w, int64_t row0, int64_t rows, char *mine)
{
  const ke_row_code *code = &w->kept;
  int64_t R = w->shape.rows, filled = ke_round_up(rows, R);
  double *held = (double *)(mine + w->at_held);
  int n;

  for (int64_t first = 0; first < rows; first += n) {
    n = (int)ke_min(code->lanes, rows - first);
    ke_row_code_run(w->d, code, row0 + first, n, held, code->lanes, mine + w->at_scratch);
    for (int32_t c = 0; c < code->width; c++) {
      const double *from = held + (int64_t)c * code->lanes;
      double shift = w->kept_shift ? w->kept_shift[c] : 0;
      int64_t end = first + n == rows ? filled : first + n, lane = first % R;
      int64_t at = (first / R * code->width + c) * R;

      for (int64_t r = first; r < end; r++) {
        ke_put_real(w->shape.real_bytes, mine, at + lane, from[r - first < n ? r - first : n - 1] - shift);
        if (++lane < R) continue;
        lane = 0;
        at += code->width * R;
      }
    }
  }
}

/* The task's items into the thread's own tiles. Kernels count tiles from that of item 0. */
static void pack_segment(const pairs *w, ke_task *task, char *mine)
{
  int64_t T = w->shape.tile, first = task->i0 / T;

  task->red = (const void *)((uintptr_t)(mine + w->at_tiles) - (uintptr_t)(first * tile_bytes(w)));
  for (int64_t t = first; w->red.width > 0 && t * T < task->i1; t++)
    pack_tile(w, t, mine + w->at_tiles + (t - first) * tile_bytes(w), mine);
}

/* Add items [from, to) of those that the part's rows see, a segment at a time; true: stop. */
static bool add_items(const pairs *w, const ke_part *part, int64_t from, int64_t to, ke_task *task, char *mine,
                      int thread)
{
  double item_ns = (double)task->nrows * w->cut.pair_ns + (w->streams ? w->red.ns : 0);
  const int64_t *item = w->cut.item + 2 * part->interval, *last = item + 2 * part->nintervals;
  int64_t n, end;

  for (; item < last && from < to; item += 2, to -= n) {
    n = item[1] - item[0];
    if (from >= n) {
      from -= n;
      continue;
    }
    end = item[0] + ke_min(n, to);
    for (task->i0 = item[0] + from; task->i0 < end; task->i0 = task->i1) {
      task->i1 = ke_min(end, task->i0 + part->segment);
      if (w->streams) pack_segment(w, task, mine);
      w->kernel->run(w->kernel, task);
      if (ke_team_tick(&w->d->team, thread, (double)(task->i1 - task->i0) * item_ns)) return true;
    }
    from = 0;
  }
  return false;
}

static void unit_job(void *data, int64_t number, int thread)
{
  pairs *w = data;
  ke_driver *d = w->d;
  const ke_part *part = ke_cut_part(&w->cut, number);
  int64_t piece = (number - part->unit) / part->row_units;
  int64_t first = (number - part->unit) % part->row_units * part->rows;
  int64_t rows = ke_min(part->rows, part->nrows - first), row0 = part->row0 + first;
  int64_t from = piece * part->items, to = ke_min(part->nitems, from + part->items);
  char *mine = d->pool.at + (size_t)thread * w->share;
  double *state = (double *)(mine + w->at_state);
  ke_task task;

  if (part->pieces > 1)
    state = (double *)d->partial.at +
            (part->state + piece * part->nrows + first) * w->pass->state_width;
  ke_start_state(w->pass, state);
  for (int64_t r = 1; r < rows; r++) /* all begin alike */
    memcpy(state + r * w->pass->state_width, state, (size_t)w->pass->state_width * sizeof *state);
  pack_kept(w, row0, rows, mine);
  task = (ke_task){.nrows = rows,
                   .once = w->once,
                   .kept = mine,
                   .red = d->tiles.at,
                   .state = state,
                   .scratch = mine + w->at_scratch};
  if (add_items(w, part, from, to, &task, mine, thread)) return;
  for (int64_t r = 0; part->pieces == 1 && r < rows; r++)
    ke_finish_state(d, w->pass, state + r * w->pass->state_width, row0 + r);
  ke_team_tick(&d->team, thread, (double)rows * (w->kept.ns + w->pass->state_width));
}

/* States of split items, in the order of the items. */
static void merge_pieces(const pairs *w, const ke_part *part)
{
  const ke_pass *pass = w->pass;
  int64_t step = part->nrows * pass->state_width;
  double *state = (double *)w->d->partial.at + part->state * pass->state_width;

  for (int64_t row = 0; row < part->nrows; row++, state += pass->state_width) {
    for (int64_t p = 1; p < part->pieces; p++) ke_merge_state(pass, state, state + p * step);
    ke_finish_state(w->d, pass, state, part->row0 + row);
  }
}

/* What rows hold that see no item: those of no part keep it. */
static ke_status finish_unseen(const pairs *w, ke_error *err)
{
  ke_driver *d = w->d;
  double *state;

  KE_TRY(ke_reserve(&d->pool, ke_bytes(w->pass->state_width, 1, sizeof(double)), err));
  state = (double *)d->pool.at;
  for (int64_t row = 0; row < w->nkept; row++) {
    ke_start_state(w->pass, state);
    ke_finish_state(d, w->pass, state, row);
    if (ke_team_tick(&d->team, 0, w->pass->state_width)) break;
  }
  return ke_check_stop(d, err);
}

/* Does no more than one block of rows see any item? */
static bool any_streams(const pairs *w)
{
  int64_t seen = 0;

  for (int64_t k = 0; k < w->cut.nparts; k++) {
    const ke_part *part = &w->cut.part[k];

    if (part->nitems == 0) continue;
    if (part->segment < w->shape.tile || part->row_units > (w->nred - seen) / part->nitems) return false;
    seen += part->row_units * part->nitems;
  }
  return true;
}

/* Tiles that a segment may touch. */
static int64_t most_tiles(const pairs *w)
{
  int64_t most = 0;

  for (int64_t k = 0; k < w->cut.nparts; k++)
    most = ke_max(most, ke_min(w->cut.part[k].segment, w->nred) / w->shape.tile + 2);
  return most;
}

static ke_status run_units(pairs *w, ke_error *err)
{
  ke_driver *d = w->d;
  const ke_cut *cut = &w->cut;
  double pack_ns = w->streams ? (double)w->nred * w->red.ns : 0;
  double unit_ns = cut->long_ns + (double)cut->most_rows * w->kept.ns + pack_ns / (double)cut->nunits;
  int threads =
      ke_team_size(&d->team, cut->nunits, cut->ns + (double)cut->nunits * (unit_ns - cut->long_ns));
  size_t state_bytes = ke_bytes(cut->most_rows, w->pass->state_width, sizeof(double));
  size_t scratch = w->shape.scratch_bytes, held = w->kept.held, tiles = 0;

  if (scratch < w->kept.scratch) scratch = w->kept.scratch;
  if (w->streams) {
    if (scratch < w->red.scratch) scratch = w->red.scratch;
    if (held < w->red.held) held = w->red.held;
    tiles = ke_bytes(most_tiles(w), tile_bytes(w), 1);
  }
  w->at_state = ke_line_up(ke_bytes(cut->most_rows, w->kept.width, (size_t)w->shape.real_bytes));
  w->at_held = w->at_state + ke_line_up(state_bytes);
  w->at_scratch = w->at_held + ke_line_up(held);
  w->at_tiles = w->at_scratch + ke_line_up(scratch);
  w->share = w->at_tiles + ke_line_up(tiles) + KE_LINE; /* threads never share a line */
  KE_TRY(ke_reserve(&d->pool, ke_bytes(threads, 1, w->share), err));
  KE_TRY(ke_reserve(&d->partial,
                    ke_bytes(cut->nwaiting, w->pass->state_width, sizeof(double)), err));
  ke_team_run(&d->team, threads, cut->nunits, unit_ns, unit_job, w);
  KE_TRY(ke_check_stop(d, err));
  for (int64_t k = 0; k < cut->nparts; k++)
    if (cut->part[k].pieces > 1) merge_pieces(w, &cut->part[k]);
  return KE_OK;
}

ke_status ke_run_pairs(ke_driver *d, const ke_pass *pass, const ke_kernel *kernel, ke_error *err)
{
  pairs w = {.d = d, .pass = pass, .kernel = kernel, .shape = kernel->shape};
  const int64_t rows[] = {0, ke_side_rows(d, pass->kept)}, items[] = {0, ke_side_rows(d, pass->red)};
  const int64_t slice[] = {1};
  const ke_ranges all = {.nclusters = 1, .row = rows, .slice = slice, .item = items};
  const ke_ranges *ranges = pass->ranged ? ke_ranges_of(d->run->ranges, pass->kept) : &all;
  double *once;

  if (!ranges) return ke_fail(err, KE_ERR_INTERNAL, -1, "a pass over ranges was given none");
  w.nkept = rows[1];
  w.nred = items[1];
  if (w.nkept == 0) return KE_OK; /* no states to fill */
  KE_TRY(ke_run_once(d, &pass->once, pass->once_width, &once, err));
  KE_TRY(ke_round_once(d, once, pass->once_width, w.shape.real_bytes, &w.once, err));
  KE_TRY(ke_row_code_prepare(d, &pass->keptp, pass->kept_width, once, &w.kept, err));
  KE_TRY(ke_row_code_prepare(d, &pass->redp, pass->red_width, once, &w.red, err));
  KE_TRY(ke_cut_pass(pass, ranges, &w.shape, d->run->isa, w.nkept, w.nred, d->arena, &w.cut, err));
  w.streams = any_streams(&w);
  if (w.nred > 0 && w.shape.real_bytes == 4)
    KE_TRY(ke_find_centre(d, pass, &w.red, w.nred, &w.kept_shift, &w.red_shift, err));
  if (w.nred > 0 && !w.streams) KE_TRY(pack_items(&w, err));
  if (!w.cut.covers) KE_TRY(finish_unseen(&w, err));
  return run_units(&w, err);
}
