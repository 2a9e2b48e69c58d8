/* One pass on GPUs: upload packed rows and items, launch, download states.
 *
 * Each worker has a *part*: some rows with all items, or, where rows are few, all rows with some items
 * (then the host merges states, in the order of the items). A part goes through
 *
 *   slices of rows that fit the device's memory
 *     slices of items that fit it (their states add up)
 *       launches of at most about 0.1 s: rows, or rows x items
 *
 * (a small part is one launch, with one copy there, and its states are written to the host's memory)
 *
 * all by sizes and estimates, never by a clock, so that the same call gives the same bits. One thread drives
 * all workers: each takes its next step as soon as it has less than two launches in flight; in between the
 * job is asked whether to stop. */
#include "run_cuda.h"

#include "keops_cuda_task.h"
#include "load_cuda.h"
#include "ranges_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  STAGE_BYTES = 4 << 20,
  AT_ONCE_BYTES = 512 << 10, /* of rows and items that travel together */
  LINE_BYTES = 256,
  THIN_ROWS = 4096,    /* a worker, or items are split between workers */
  PART_ITEMS = 4096,   /* items a worker then has at least */
  SPIN_NS = 2000000,   /* waiting without sleeping */
  NAP_NS = 50000,
  LEAST_TERMS = 2
};
#define LAUNCH_MS 60.        /* by an estimate that may be three times too low */
#define SINGLE_SPEED 2000.   /* a pair by the plan's cost over a pair on an H200, roughly */
#define DOUBLE_SPEED 500.    /* the same where double runs at half the speed of single */
#define USUAL_PROCESSORS 132.
#define LEAST_PAIRS 32768.   /* for products on tensor cores */
#define SMALL_BYTES 64e6     /* up to here the device is not asked what is free: that takes as long as the call */

typedef struct {
  ke_cuda_worker *w;
  const ke_cuda_kernel *kernel; /* that launches use */
  ke_cuda_tiling plain;         /* of the pass as it is */
  const ke_cuda_kernel *dots_kernel; /* of products on tensor cores; NULL: the pass has none for them */
  ke_dots dots;
  int64_t unit_rows, unit_items; /* whole row blocks and tiles of either kernel */
  const ke_ranges *ranges;
  int64_t row0, rows;   /* the part */
  int64_t item0, items;
  int64_t slice_rows, slice_items;   /* at most */
  int64_t launch_rows, launch_items; /* at most; whole row blocks and tiles */
  int64_t partial_rows;              /* for which there is room in partial states of blocks */
  bool at_once;                      /* rows and items in one copy, states straight to the host */
  double launch_pairs;               /* roughly, at most */
  double *states;                    /* [state_width][rows], if the host merges; else NULL */

  /* where it is: slices [row, row_end) x [item, item_end) of the part, a launch in it */
  int64_t row, row_end, item, item_end;
  int64_t at_row, at_item;
  int64_t now_rows; /* of the last launch */
  bool kept_up, red_up; /* the slice's data are on the device */
  int kept_terms, red_terms; /* terms that they are split into there; 0: they are not */
  bool done;
  int64_t launches; /* so far */
} part;

typedef struct {
  const ke_pairs_job *job;
  const ke_cuda_session *session;
  const ke_cuda_driver *driver;
  part part[KE_CUDA_DEVICES];
  int nparts;
  bool by_items; /* parts are items, not rows */
} run;

static double last_ms;

double ke_cuda_run_ms(void)
{
  return last_ms;
}

/* ---- numbers ---- */
static int64_t min64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static int64_t parts_of(int64_t n, int64_t unit)
{
  return n / unit + (n % unit != 0);
}

static int64_t round_up(int64_t n, int64_t unit)
{
  return parts_of(n, unit) * unit;
}

static int64_t rows_of_block(const ke_cuda_tiling *t)
{
  return (int64_t)t->across * t->rows;
}

static int64_t block_rows(const part *p)
{
  return rows_of_block(&p->kernel->tiling);
}

/* Rows of a slot: those of a block, for each thread that has them. */
static int64_t rows_of_slot(const ke_cuda_tiling *t)
{
  return rows_of_block(t) * t->slots;
}

static int64_t kept_ld(const part *p)
{
  return round_up(p->slice_rows, p->unit_rows) + (p->ranges ? p->unit_rows : 0); /* blocks begin anywhere */
}

static size_t kept_bytes(const run *r, const part *p)
{
  return (size_t)kept_ld(p) * (size_t)r->job->pass->kept_width * (size_t)r->job->real_bytes;
}

static size_t item_bytes(const run *r, const part *p)
{
  return (size_t)p->plain.item * (size_t)r->job->real_bytes;
}

/* Bytes of a row's or an item's terms, as many as there may be, and what else tensor cores want of it. */
static size_t terms_bytes(const part *p)
{
  enum { MOST_TERMS = 3 };

  return p->dots_kernel ? (size_t)ke_dots_steps(&p->dots) * 16 * 2 * MOST_TERMS : 0;
}

static size_t rest_bytes(const part *p)
{
  return p->dots_kernel ? (size_t)p->dots_kernel->tiling.item * sizeof(float) : 0;
}

static size_t state_bytes(const run *r, const part *p)
{
  return (size_t)p->slice_rows * (size_t)r->job->pass->state_width * sizeof(double);
}

static size_t line_up(size_t bytes)
{
  return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* Where the items lie: behind the rows, if both came at once */
static cu_address red_address(const run *r, const part *p)
{
  return p->at_once ? p->w->kept.at + line_up(kept_bytes(r, p)) : p->w->red.at;
}

static ke_status fail_interrupt(ke_error *err)
{
  return ke_fail(err, KE_ERR_INTERRUPT, -1, "interrupted");
}

static int64_t clock_ns(void)
{
  struct timespec t;

  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait for an event, asking whether to stop. */
static ke_status wait_event(const run *r, cu_event event, ke_error *err)
{
  const struct timespec nap = {.tv_nsec = NAP_NS};
  int64_t begin = clock_ns();
  cu_result is;

  while ((is = r->driver->event_query(event)) == CU_NOT_READY) {
    if (clock_ns() - begin < SPIN_NS) continue;
    if (r->job->stop(r->job->data)) return fail_interrupt(err);
    nanosleep(&nap, NULL);
  }
  return ke_cuda_check(is, "a kernel on the GPU", err);
}

/* ---- how much at a time ---- */

/* Slices of the part that fit in `memory` bytes, a quarter of which is left to partial states. */
static void choose_slices(const run *r, part *p, double memory)
{
  const ke_pass *pass = r->job->pass;
  const double row = (double)pass->kept_width * r->job->real_bytes + 16. * pass->state_width +
                     (double)terms_bytes(p) + sizeof(float);
  const double item = (double)(item_bytes(r, p) + terms_bytes(p) + rest_bytes(p)), room = memory * 0.75;
  int64_t unit = p->unit_items;

  p->slice_rows = p->rows;
  p->slice_items = p->items;
  if (row * (double)p->rows + item * (double)p->items <= room) return;
  if (item * (double)p->items > room / 2)
    p->slice_items = min64(p->items, max64(1, (int64_t)(room / 2 / item) / unit) * unit);
  if (row * (double)p->rows > room / 2)
    p->slice_rows =
        min64(p->rows, max64(1, (int64_t)(room / 2 / row) / p->unit_rows) * p->unit_rows);
}

static void choose_launches(const run *r, part *p)
{
  const ke_cuda_device *device = p->w->device;
  const double speed = (r->job->real_bytes == 4 ? SINGLE_SPEED : DOUBLE_SPEED * 2 / device->double_ratio) *
                       device->processors / USUAL_PROCESSORS;
  const double cost = r->job->pass->cost > 1 ? r->job->pass->cost : 1;
  const double ms = r->session->settings.launch_ms > 0 ? r->session->settings.launch_ms : LAUNCH_MS;
  const double pairs = 1e6 * ms / (cost / 16 / speed);
  const int64_t unit = p->unit_items, block = p->unit_rows;

  p->launch_pairs = pairs;
  p->launch_rows = p->slice_rows;
  p->launch_items = p->slice_items;
  if ((double)p->slice_rows * (double)p->slice_items <= pairs) return;
  p->launch_rows = (int64_t)(pairs / (double)p->slice_items) / block * block;
  if (p->launch_rows >= block * p->kernel->blocks / 8) return; /* enough to fill the device */
  /* else rows that fill it, and fewer items: item slices share a row block's work out as well */
  p->launch_rows = min64(p->slice_rows, max64(block, block * (p->kernel->blocks / 8)));
  p->launch_items = max64(1, (int64_t)(pairs / (double)p->launch_rows) / unit) * unit;
}

static bool fits_at_once(const run *r, const part *p)
{
  const size_t in = line_up(kept_bytes(r, p)) + item_bytes(r, p) * (size_t)p->items;

  return !p->dots_kernel && !p->ranges && p->launch_rows >= p->rows && p->launch_items >= p->items && in <= AT_ONCE_BYTES &&
         state_bytes(r, p) <= AT_ONCE_BYTES;
}

/* Rows of two slots for each of so many blocks, but no more blocks than units of work. (Of ranges there may be
 * more units, of less work.) */
static int64_t partial_rows(const part *p, const ke_cuda_tiling *t, int64_t blocks)
{
  const double units = (double)parts_of(p->slice_rows, rows_of_block(t)) * (double)parts_of(p->slice_items, t->tile);

  return 2 * rows_of_slot(t) * max64(1, !p->ranges && units < (double)blocks ? (int64_t)units : blocks);
}

/* Room for the states of all blocks at a time, if a quarter of the memory allows it. */
static void choose_partial(const run *r, part *p, double memory)
{
  enum { BLOCKS_OF_PROCESSOR = 16 }; /* of a kernel that is not known yet */
  const double most = memory / 4 / (8. * r->job->pass->state_width);
  int64_t want = partial_rows(p, &p->kernel->tiling, p->kernel->blocks), least = 2 * rows_of_slot(&p->kernel->tiling);

  if (p->dots_kernel) {
    want = max64(want, partial_rows(p, &p->plain, BLOCKS_OF_PROCESSOR * p->w->device->processors));
    least = max64(least, 2 * rows_of_slot(&p->plain));
  }
  p->partial_rows = max64(least, (double)want < most ? want : (int64_t)most);
}

/* In both kernels? */
static bool once_is_argument(const part *p)
{
  return p->plain.once_here && (!p->dots_kernel || p->dots_kernel->tiling.once_here);
}

static ke_status reserve(const run *r, part *p, ke_error *err)
{
  ke_cuda_worker *w = p->w;
  const ke_pass *pass = r->job->pass;
  size_t row = (size_t)pass->kept_width * (size_t)r->job->real_bytes, stage = STAGE_BYTES;

  if (row > stage) stage = row;
  if (item_bytes(r, p) > stage) stage = item_bytes(r, p);
  if (sizeof(double) * (size_t)pass->state_width > stage)
    stage = sizeof(double) * (size_t)pass->state_width;
  KE_TRY(ke_cuda_reserve_stages(w, stage, err));
  if (p->at_once) {
    KE_TRY(ke_cuda_reserve(w, &w->kept, AT_ONCE_BYTES, err));
  } else {
    KE_TRY(ke_cuda_reserve(w, &w->kept, kept_bytes(r, p), err));
    KE_TRY(ke_cuda_reserve(w, &w->red, item_bytes(r, p) * (size_t)p->slice_items, err));
    KE_TRY(ke_cuda_reserve(w, &w->state, state_bytes(r, p), err));
  }
  if (p->launch_items < p->items) KE_TRY(ke_cuda_reserve(w, &w->fresh, state_bytes(r, p), err));
  KE_TRY(ke_cuda_reserve(w, &w->partial, sizeof(double) * (size_t)pass->state_width * (size_t)p->partial_rows, err));
  if (!once_is_argument(p))
    KE_TRY(ke_cuda_reserve(w, &w->once, (size_t)pass->once_width * (size_t)r->job->real_bytes, err));
  if (p->dots_kernel) {
    const size_t rows = (size_t)kept_ld(p), items = (size_t)round_up(p->slice_items, KE_DOTS_TILE);
    KE_TRY(ke_cuda_reserve(w, &w->kept_terms, rows * terms_bytes(p), err));
    KE_TRY(ke_cuda_reserve(w, &w->red_terms, items * terms_bytes(p), err));
    KE_TRY(ke_cuda_reserve(w, &w->norms, rows * sizeof(float), err));
    KE_TRY(ke_cuda_reserve(w, &w->rest, items * rest_bytes(p), err));
    KE_TRY(ke_cuda_reserve(w, &w->largest, 2 * sizeof(unsigned), err));
  }
  return KE_OK;
}

static ke_status memory_limit(const run *r, ke_cuda_worker *w, double *limit, ke_error *err)
{
  const ke_pairs_job *job = r->job;
  const double needed = (double)job->nkept * (8. * job->pass->kept_width + 16. * job->pass->state_width) +
                        (double)job->nred * 8. * (job->pass->red_width + 4.);
  size_t free_bytes, held;
  int same = 0;

  if (needed < SMALL_BYTES && r->session->settings.memory <= 0) {
    *limit = 16 * SMALL_BYTES;
    return KE_OK;
  }
  KE_TRY(ke_cuda_memory(w, &free_bytes, &held, err));

  for (int k = 0; k < r->nparts; k++) same += r->part[k].w->device == w->device;
  *limit = 0.85 * (double)(free_bytes + held) / same;
  if (r->session->settings.memory > 0 && r->session->settings.memory / same < *limit)
    *limit = r->session->settings.memory / same;
  return KE_OK;
}

/* Are there products for tensor cores, and enough pairs for what splitting costs? */
static bool wants_dots(const run *r, part *p)
{
  const ke_cuda_device *device = p->w->device;

  return r->job->real_bytes == 4 && p->plain.tensor == KE_TENSOR_NONE && !r->session->settings.accurate && device->arch >= 80 &&
         device->most_shared >= KE_CUDA_MOST_SHARED && p->rows >= KE_DOTS_ROWS && p->items >= KE_DOTS_TILE &&
         (double)p->rows * (double)p->items >= LEAST_PAIRS && ke_dots_find(r->job->pass, &p->dots);
}

static int64_t multiple_of_both(int64_t a, int64_t b)
{
  int64_t n = a;

  while (n % b) n += a;
  return n;
}

static ke_status take_kernel(const run *r, part *p, int terms, ke_error *err)
{
  ke_cuda_tiling t = p->plain;

  if (terms) ke_cuda_tiling_dots(r->job->pass, &p->dots, terms, &t);
  return ke_cuda_kernel_of(r->job, p->w, &t, &r->session->settings, &p->kernel, err);
}

static ke_status prepare(const run *r, part *p, ke_error *err)
{
  int64_t rows = p->rows, items = p->items;
  double limit;

  if (p->ranges) ke_cuda_usual_cluster(p->ranges, &rows, &items);
  ke_cuda_tiling_choose(r->job->pass, r->job->real_bytes, p->w->device->arch, r->session->settings.accurate,
                        r->job->once, rows, items, &p->plain);
  p->unit_rows = rows_of_block(&p->plain);
  p->unit_items = p->plain.tile;
  if (wants_dots(r, p)) {
    KE_TRY(take_kernel(r, p, LEAST_TERMS, err));
    p->dots_kernel = p->kernel;
    p->unit_rows = multiple_of_both(p->unit_rows, KE_DOTS_ROWS);
    p->unit_items = multiple_of_both(p->unit_items, KE_DOTS_TILE);
  } else {
    KE_TRY(take_kernel(r, p, 0, err));
  }
  KE_TRY(memory_limit(r, p->w, &limit, err));
  choose_slices(r, p, limit);
  choose_partial(r, p, limit);
  choose_launches(r, p);
  p->at_once = fits_at_once(r, p);
  KE_TRY(reserve(r, p, err));
  if (!once_is_argument(p)) {
    size_t bytes = (size_t)r->job->pass->once_width * (size_t)r->job->real_bytes;
    CU_TRY(r->driver->upload(p->w->once.at, r->job->once, bytes, p->w->stream), "copying to the GPU");
  }
  p->row_end = min64(p->rows, p->slice_rows);
  p->item_end = min64(p->items, p->slice_items);
  return KE_OK;
}

/* ---- copies ---- */

/* The stage that was used longest ago, free again. */
static ke_status take_stage(const run *r, part *p, int64_t number, int *stage, ke_error *err)
{
  *stage = (int)(number % KE_CUDA_STAGES);
  return wait_event(r, p->w->staged[*stage], err);
}

/* n columns' pieces of `bytes` bytes, between a packed stage and the device's matrix. */
static ke_status copy_columns(const run *r, part *p, int stage, cu_address device, size_t pitch,
                              size_t bytes, size_t n, bool up, ke_error *err)
{
  cu_copy c = {.width = bytes, .height = n};

  if (up) {
    c.src_type = CU_MEMORY_HOST, c.src_host = p->w->stage[stage], c.src_pitch = bytes;
    c.dst_type = CU_MEMORY_DEVICE, c.dst_device = device, c.dst_pitch = pitch;
  } else {
    c.src_type = CU_MEMORY_DEVICE, c.src_device = device, c.src_pitch = pitch;
    c.dst_type = CU_MEMORY_HOST, c.dst_host = p->w->stage[stage], c.dst_pitch = bytes;
  }
  CU_TRY(r->driver->copy_2d(&c, p->w->stream), "copying between host and GPU");
  return ke_cuda_check(r->driver->event_record(p->w->staged[stage], p->w->stream), "recording an event",
                       err);
}

static ke_status upload_kept(const run *r, part *p, ke_error *err)
{
  const ke_pairs_job *job = r->job;
  const size_t real = (size_t)job->real_bytes, width = (size_t)job->pass->kept_width;
  int64_t piece, n;
  int stage;

  if (width == 0) return KE_OK;
  piece = max64(1, (int64_t)(p->w->stage_bytes / (width * real)));
  for (int64_t at = p->row, k = 0; at < p->row_end; at += n, k++) {
    n = min64(piece, p->row_end - at);
    KE_TRY(take_stage(r, p, k, &stage, err));
    job->pack_kept(job->data, p->row0 + at, n, p->w->stage[stage], n);
    KE_TRY(copy_columns(r, p, stage, p->w->kept.at + (cu_address)(at - p->row) * real,
                        (size_t)kept_ld(p) * real, (size_t)n * real, width, true, err));
    if (job->stop(job->data)) return fail_interrupt(err);
  }
  return KE_OK;
}

static ke_status upload_red(const run *r, part *p, ke_error *err)
{
  const ke_pairs_job *job = r->job;
  const size_t item = item_bytes(r, p);
  int64_t piece, n;
  int stage;

  if (item == 0) return KE_OK;
  piece = max64(1, (int64_t)(p->w->stage_bytes / item));
  for (int64_t at = p->item, k = 0; at < p->item_end; at += n, k++) {
    n = min64(piece, p->item_end - at);
    KE_TRY(take_stage(r, p, k, &stage, err));
    job->pack_red(job->data, p->item0 + at, n, p->w->stage[stage], p->plain.item);
    CU_TRY(r->driver->upload(p->w->red.at + (cu_address)(at - p->item) * item, p->w->stage[stage],
                             (size_t)n * item, p->w->stream),
           "copying to the GPU");
    CU_TRY(r->driver->event_record(p->w->staged[stage], p->w->stream), "recording an event");
    if (job->stop(job->data)) return fail_interrupt(err);
  }
  return KE_OK;
}

/* All rows and items of a small part. What the stages were used for before is done: each run waits for its end. */
static ke_status upload_at_once(const run *r, part *p, ke_error *err)
{
  const ke_pairs_job *job = r->job;
  char *to = p->w->stage[0];
  const size_t kept = line_up(kept_bytes(r, p)), red = item_bytes(r, p) * (size_t)p->items;

  job->pack_kept(job->data, p->row0, p->rows, to, kept_ld(p));
  job->pack_red(job->data, p->item0, p->items, to + kept, p->plain.item);
  return ke_cuda_check(r->driver->upload(p->w->kept.at, to, kept + red, p->w->stream), "copying to the GPU", err);
}

/* Rows [at, at + n) of the part are what they should be. */
static void hand_over(const run *r, part *p, int64_t at, int64_t n, const double *state)
{
  const ke_pairs_job *job = r->job;

  if (!p->states)
    job->finish(job->data, p->row0 + at, n, state, n);
  else
    for (int32_t c = 0; c < job->pass->state_width; c++)
      memcpy(p->states + c * p->rows + at, state + c * n, (size_t)n * sizeof *state);
}

/* States of a slice of rows: to the job, or to the part's own for a merge. */
static ke_status download(const run *r, part *p, ke_error *err)
{
  const size_t width = (size_t)r->job->pass->state_width, real = sizeof(double);
  int64_t piece = max64(1, (int64_t)(p->w->stage_bytes / (width * real))), n;
  int stage;

  if (p->at_once) {
    KE_TRY(wait_event(r, p->w->end, err));
    hand_over(r, p, 0, p->rows, (const double *)p->w->stage[1]);
    return KE_OK;
  }
  for (int64_t at = p->row, k = 0; at < p->row_end; at += n, k++) {
    n = min64(piece, p->row_end - at);
    KE_TRY(take_stage(r, p, k, &stage, err));
    KE_TRY(copy_columns(r, p, stage, p->w->state.at + (cu_address)(at - p->row) * real,
                        (size_t)p->slice_rows * real, (size_t)n * real, width, false, err));
    KE_TRY(wait_event(r, p->w->staged[stage], err));
    hand_over(r, p, at, n, (const double *)p->w->stage[stage]);
  }
  return KE_OK;
}

/* ---- launches ---- */
static void *pointer(cu_address at)
{
  return (void *)(uintptr_t)at;
}

static int blocks_of(const part *p, int64_t units)
{
  return (int)min64(units, min64(p->partial_rows / (2 * rows_of_slot(&p->kernel->tiling)), p->kernel->blocks));
}

static ke_cuda_task make_task(const run *r, const part *p, int64_t nrows, int64_t nitems)
{
  const ke_cuda_tiling *t = &p->kernel->tiling;
  const bool add = p->item + p->at_item > 0;
  ke_cuda_task task = {.kept = pointer(p->w->kept.at),
                       .red = pointer(red_address(r, p)),
                       .once = pointer(p->w->once.at),
                       .state = p->at_once ? (double *)(void *)p->w->stage[1] : pointer(p->w->state.at),
                       .partial = pointer(p->w->partial.at),
                       .kept_ld = kept_ld(p),
                       .state_ld = p->slice_rows,
                       .row0 = p->at_row,
                       .nrows = nrows,
                       .i0 = p->at_item,
                       .nitems = nitems,
                       .number = p->item0 + p->item,
                       .tiles = parts_of(nitems, t->tile),
                       .add = add};

  task.fresh = add ? pointer(p->w->fresh.at) : task.state;
  task.units = parts_of(nrows, block_rows(p)) * task.tiles;
  task.blocks = blocks_of(p, task.units);
  if (t->terms) {
    task.kept_terms = pointer(p->w->kept_terms.at);
    task.red_terms = pointer(p->w->red_terms.at);
    task.norms = pointer(p->w->norms.at);
    task.rest = pointer(p->w->rest.at);
  }
  return task;
}

/* Tables of what the launch's rows see, to the device. */
static ke_status take_ranges(const run *r, const part *p, ke_cuda_task *task, ke_error *err)
{
  const int64_t row = p->row0 + p->row + p->at_row, item = p->item0 + p->item + p->at_item;
  const ke_cuda_window window = {row, row + task->nrows, item, item + task->nitems};
  ke_cuda_worker *w = p->w;
  ke_cuda_seen seen;
  size_t rows, items;
  ke_status st = KE_OK;

  KE_TRY(ke_cuda_see(p->ranges, &window, block_rows(p), p->kernel->tiling.tile, &seen, err));
  rows = sizeof *seen.rows * (size_t)(seen.nrows + 1);
  items = sizeof *seen.items * (size_t)seen.nitems;
  if (rows + items > w->ranges.size) /* the last launch may read it still */
    st = ke_cuda_check(r->driver->stream_wait(w->stream), "waiting for a GPU", err);
  if (st == KE_OK) st = ke_cuda_reserve(w, &w->ranges, rows + items, err);
  if (st == KE_OK)
    st = ke_cuda_check(r->driver->upload(w->ranges.at, seen.rows, rows, w->stream), "copying to the GPU", err);
  if (st == KE_OK && items > 0)
    st = ke_cuda_check(r->driver->upload(w->ranges.at + rows, seen.items, items, w->stream), "copying to the GPU",
                       err);
  task->rows = pointer(w->ranges.at);
  task->items = pointer(w->ranges.at + rows);
  task->row_blocks = seen.nrows;
  task->tiles = seen.most_tiles;
  task->units = seen.units;
  task->blocks = blocks_of(p, task->units);
  ke_cuda_seen_free(&seen); /* the copy has been taken: it is no pinned memory */
  return st;
}

/* Does each block have whole row blocks to itself? */
static bool all_whole(const ke_cuda_task *task)
{
  return !task->rows && task->units % task->blocks == 0 && task->units / task->blocks % task->tiles == 0;
}

static ke_status launch_merge(const run *r, const part *p, ke_cuda_task *task, ke_error *err)
{
  int64_t sharers = parts_of(task->blocks, max64(1, task->units / task->tiles)) + 1;
  unsigned y = 1, x;
  void *arguments[] = {task};

  while (y < 32 && (int64_t)y * 4 < sharers) y *= 2;
  x = y == 1 ? 256 : 32;
  return ke_cuda_check(r->driver->launch(p->kernel->merge, (unsigned)parts_of(task->nrows, x), 1, 1, x,
                                         y, 1, 0, p->w->stream, arguments, NULL),
                       "starting a kernel", err);
}

/* Rows of the next launch: with ranges, as many as have work for one. */
static int64_t rows_of_launch(const part *p)
{
  const ke_cuda_window rest = {p->row0 + p->row + p->at_row, p->row0 + p->row_end, p->item0 + p->item,
                               p->item0 + p->item_end};

  if (p->ranges && p->launch_items == p->slice_items) return ke_cuda_rows_within(p->ranges, &rest, p->launch_pairs);
  return min64(p->launch_rows, p->row_end - p->row - p->at_row);
}

static ke_status launch(const run *r, part *p, ke_error *err)
{
  const ke_cuda_tiling *t = &p->kernel->tiling;
  int64_t nrows = rows_of_launch(p);
  int64_t nitems = min64(p->launch_items, p->item_end - p->item - p->at_item);
  ke_cuda_task task = make_task(r, p, nrows, nitems);
  double none = 0;
  void *arguments[] = {&task, &none};

  p->now_rows = nrows;
  if (p->ranges) KE_TRY(take_ranges(r, p, &task, err));
  if (t->once_here && r->job->pass->once_width > 0) arguments[1] = (void *)(uintptr_t)r->job->once;
  CU_TRY(r->driver->launch(p->kernel->pairs, (unsigned)task.blocks, 1, 1,
                           (unsigned)(t->across * t->lanes), 1, 1, (unsigned)t->dynamic, p->w->stream,
                           arguments, NULL),
         "starting a kernel");
  if (task.add || !all_whole(&task)) KE_TRY(launch_merge(r, p, &task, err));
  CU_TRY(r->driver->event_record(p->w->launched[p->launches++ % KE_CUDA_IN_FLIGHT], p->w->stream),
         "recording an event");
  return KE_OK;
}

/* ---- tensor cores ---- */
static ke_cuda_split make_split(const part *p, bool items)
{
  ke_cuda_split s = {.first = p->dots.kept,
                     .from = pointer(p->w->kept.at),
                     .row_step = 1,
                     .column_step = kept_ld(p),
                     .n = p->row_end - p->row,
                     .padded = round_up(p->row_end - p->row, KE_DOTS_ROWS),
                     .terms = pointer(p->w->kept_terms.at),
                     .norms = pointer(p->w->norms.at),
                     .largest = pointer(p->w->largest.at)};

  if (!items) return s;
  s.first = p->dots.red;
  s.from = pointer(p->w->red.at);
  s.row_step = p->plain.item;
  s.column_step = 1;
  s.n = p->item_end - p->item;
  s.padded = round_up(s.n, KE_DOTS_TILE);
  s.terms = pointer(p->w->red_terms.at);
  s.norms = NULL;
  s.rest = pointer(p->w->rest.at);
  s.largest++;
  return s;
}

static ke_status launch_split(const run *r, const part *p, cu_function kernel, bool items, int64_t each,
                              ke_error *err)
{
  enum { THREADS = 256 };
  ke_cuda_split task = make_split(p, items);
  void *arguments[] = {&task};

  return ke_cuda_check(r->driver->launch(kernel, (unsigned)parts_of(task.padded * each, THREADS), 1, 1, THREADS, 1,
                                         1, 0, p->w->stream, arguments, NULL),
                       "starting a kernel", err);
}

/* The lengths of rows and items, and with them the kernel that is exact enough. */
static ke_status choose_kernel(const run *r, part *p, ke_error *err)
{
  const ke_cuda_worker *w = p->w;
  unsigned bits[2];
  float largest[2];
  int stage;

  CU_TRY(r->driver->fill(w->largest.at, 0, sizeof bits, w->stream), "clearing memory of the GPU");
  KE_TRY(launch_split(r, p, p->dots_kernel->norms, false, 1, err));
  KE_TRY(launch_split(r, p, p->dots_kernel->norms, true, 1, err));
  KE_TRY(take_stage(r, p, 0, &stage, err));
  CU_TRY(r->driver->download(w->stage[stage], w->largest.at, sizeof bits, w->stream), "copying from the GPU");
  CU_TRY(r->driver->event_record(w->staged[stage], w->stream), "recording an event");
  KE_TRY(wait_event(r, w->staged[stage], err));
  memcpy(largest, w->stage[stage], sizeof largest);
  return take_kernel(r, p, ke_dots_terms(&p->dots, (double)largest[0], (double)largest[1], r->job->once, r->session->settings.accuracy), err);
}

/* Rows and items of the slices, split for the kernel. */
static ke_status split_slices(const run *r, part *p, ke_error *err)
{
  const int terms = p->kernel->tiling.terms;
  const int64_t units = 2 * ke_dots_steps(&p->dots); /* threads a row: 256 for 128 rows and 16 components */

  if (!terms) return KE_OK;
  if (p->kept_terms != terms) KE_TRY(launch_split(r, p, p->kernel->split, false, units, err));
  if (p->red_terms != terms) KE_TRY(launch_split(r, p, p->kernel->split, true, units, err));
  p->kept_terms = p->red_terms = terms;
  return KE_OK;
}

/* ---- a worker's steps ---- */

/* From one launch to the next: items within rows, so that a row's states add up in order. */
static void next_launch(part *p)
{
  p->at_item += p->launch_items;
  if (p->item + p->at_item < p->item_end) return;
  p->at_item = 0;
  p->at_row += p->now_rows;
  if (p->row + p->at_row < p->row_end) return;
  p->at_row = 0;
  p->item = p->item_end;
  p->item_end = min64(p->items, p->item + p->slice_items);
  p->red_up = false;
}

static void next_rows(part *p)
{
  p->row = p->row_end;
  p->row_end = min64(p->rows, p->row + p->slice_rows);
  p->item = 0;
  p->item_end = min64(p->items, p->slice_items);
  p->kept_up = false;
  p->red_up = p->slice_items == p->items; /* they are all there still */
  p->done = p->row == p->rows;
}

static ke_status step_within(const run *r, part *p, ke_error *err)
{
  if (p->item == p->items) {
    CU_TRY(r->driver->event_record(p->w->end, p->w->stream), "recording an event");
    KE_TRY(download(r, p, err));
    next_rows(p);
    return KE_OK;
  }
  if (p->at_once && !p->kept_up) KE_TRY(upload_at_once(r, p, err));
  if (!p->kept_up && !p->at_once) KE_TRY(upload_kept(r, p, err));
  if (!p->red_up && !p->at_once) KE_TRY(upload_red(r, p, err));
  if (!p->kept_up) p->kept_terms = 0;
  if (!p->red_up) p->red_terms = 0;
  if (p->dots_kernel && (!p->kept_up || !p->red_up)) {
    KE_TRY(choose_kernel(r, p, err));
    KE_TRY(split_slices(r, p, err));
  }
  p->kept_up = p->red_up = true;
  if (p->launches == 0) CU_TRY(r->driver->event_record(p->w->begin, p->w->stream), "recording an event");
  KE_TRY(launch(r, p, err));
  next_launch(p);
  return KE_OK;
}

static ke_status step(const run *r, part *p, ke_error *err)
{
  ke_status st;

  KE_TRY(ke_cuda_enter(p->w, err));
  st = step_within(r, p, err);
  ke_cuda_leave();
  return st;
}

/* Would the next step have to wait? */
static bool is_busy(const run *r, const part *p)
{
  int64_t oldest = p->launches - KE_CUDA_IN_FLIGHT;
  cu_result is;

  if (p->item == p->items && r->nparts > 1) oldest = p->launches - 1; /* all must be done */
  if (oldest < 0) return false;
  if (ke_cuda_enter(p->w, NULL) != KE_OK) return false; /* the step will say so */
  is = r->driver->event_query(p->w->launched[oldest % KE_CUDA_IN_FLIGHT]);
  ke_cuda_leave();
  return is == CU_NOT_READY;
}

static ke_status run_parts(const run *rr, part *parts, ke_error *err)
{
  const struct timespec nap = {.tv_nsec = NAP_NS};
  int64_t idle_since = clock_ns();
  bool all_done = false, moved;

  while (!all_done) {
    all_done = true;
    moved = false;
    for (int k = 0; k < rr->nparts; k++) {
      part *p = &parts[k];

      if (p->done) continue;
      all_done = false;
      if (is_busy(rr, p)) continue;
      KE_TRY(step(rr, p, err));
      moved = true;
    }
    if (rr->job->stop(rr->job->data)) return fail_interrupt(err);
    if (moved)
      idle_since = clock_ns();
    else if (!all_done && clock_ns() - idle_since > SPIN_NS)
      nanosleep(&nap, NULL);
  }
  return KE_OK;
}

/* ---- parts ---- */
static void cut(run *r)
{
  const ke_pairs_job *job = r->job;
  int n = r->session->nworker;
  int64_t whole, begin, end;

  r->by_items = n > 1 && job->nkept < (int64_t)n * THIN_ROWS && job->nred >= (int64_t)n * PART_ITEMS;
  whole = r->by_items ? job->nred : job->nkept;
  if (whole < n) n = 1;
  r->nparts = n;
  for (int k = 0; k < n; k++) {
    part *p = &r->part[k];

    begin = whole / n * k + min64(whole % n, k);
    end = whole / n * (k + 1) + min64(whole % n, k + 1);
    *p = (part){.w = r->session->worker[k], .ranges = job->ranges, .rows = job->nkept, .items = job->nred};
    if (r->by_items)
      p->item0 = begin, p->items = end - begin;
    else
      p->row0 = begin, p->rows = end - begin;
  }
}

static ke_status prepare_parts(run *r, ke_error *err)
{
  size_t states = sizeof(double) * (size_t)r->job->pass->state_width * (size_t)r->job->nkept;
  ke_status st;

  for (int k = 0; k < r->nparts; k++) {
    part *p = &r->part[k];

    if (r->by_items) {
      p->states = malloc(states);
      if (!p->states) return ke_fail_memory(err);
    }
    KE_TRY(ke_cuda_enter(p->w, err));
    st = prepare(r, p, err);
    ke_cuda_leave();
    if (st != KE_OK) return st;
  }
  return KE_OK;
}

/* Parts in the order of their items. */
static void merge_parts(const run *r)
{
  const ke_pairs_job *job = r->job;
  double *state = r->part[0].states;

  for (int k = 1; k < r->nparts; k++) job->merge(job->data, job->nkept, state, r->part[k].states, job->nkept);
  job->finish(job->data, 0, job->nkept, state, job->nkept);
}

static void add_times(const run *r)
{
  float ms;

  last_ms = 0;
  for (int k = 0; k < r->nparts; k++) {
    if (ke_cuda_enter(r->part[k].w, NULL) != KE_OK) continue;
    if (r->driver->event_ms(&ms, r->part[k].w->begin, r->part[k].w->end) == CU_SUCCESS && (double)ms > last_ms)
      last_ms = (double)ms;
    ke_cuda_leave();
  }
}

/* After a failure something may still run, on buffers that the next call wants. */
static void wait_all(const run *r)
{
  for (int k = 0; k < r->nparts; k++)
    if (ke_cuda_enter(r->part[k].w, NULL) == KE_OK) {
      r->driver->stream_wait(r->part[k].w->stream);
      ke_cuda_leave();
    }
}

ke_status ke_cuda_run(void *session, const ke_pairs_job *job, ke_error *err)
{
  run *r = calloc(1, sizeof *r);
  int count;
  ke_status st;

  if (!r) return ke_fail_memory(err);
  r->job = job;
  r->session = session;
  st = ke_cuda_start(&r->driver, &count, err);
  if (st == KE_OK && job->ranges) st = ke_cuda_check_ranges(job->ranges, job->nkept, job->nred, err);
  if (st == KE_OK) {
    cut(r);
    st = prepare_parts(r, err);
    if (st == KE_OK) st = run_parts(r, r->part, err);
    if (st != KE_OK) wait_all(r);
    if (st == KE_OK && r->by_items) merge_parts(r);
    if (st == KE_OK) add_times(r);
  }
  for (int k = 0; k < r->nparts; k++) free(r->part[k].states);
  free(r);
  return st;
}
