/* Parts, one a cluster of rows; each is cut by its share of the work.
 *
 * Rows are cut into blocks whose kept values and states stay in cache. Where that gives fewer units than
 * threads could use, the items are split as well; the states of the pieces are merged by the driver. */
#include "cut.h"

#include <math.h>

enum {
  UNIT_ROWS = 64,             /* rows of a unit, if nothing speaks against it */
  MANY_UNITS = 64,            /* units that a pass should have: items are split for that */
  UNIT_BYTES = 192 * 1024,    /* kept values and states of a unit */
  SEGMENT_BYTES = 384 * 1024, /* items of one kernel call: they stay in cache for all rows */
  SEGMENT_NS = 2000000,       /* and its time, by an estimate that may be five times too low */
  PIECE_ITEMS = 8192,         /* items are not split into less than this, unless it takes ... */
  PIECE_NS = 100000           /* ... so long */
};

/* What the cut of all parts follows from. */
typedef struct {
  const ke_pass *pass;
  int64_t R, T; /* of the shape */
  int real_bytes;
  double pair_ns, pairs; /* time of one, number of all */
} measure;

/* A whole number from an estimate, at least `low` and at most `high`. */
static int64_t between(double x, int64_t low, int64_t high)
{
  if (!(x > (double)low)) return low;
  return x < (double)high ? (int64_t)x : high;
}

/* Costs are those of floats in the longest vectors. */
static double slowness(ke_isa isa, int real_bytes)
{
  int wide = real_bytes == 8 ? 2 : 1;

  switch (isa) {
  case KE_ISA_AVX512: return wide;
  case KE_ISA_AVX2: return 2 * wide;
  default: return 6 * wide;
  }
}

/* ---- what there is to cut ---- */
static ke_status beyond(ke_error *err)
{
  return ke_fail(err, KE_ERR_INTERNAL, -1, "ranges reach beyond the data");
}

/* Cluster c: its rows, its intervals and their items. */
static ke_status take_cluster(const ke_ranges *ranges, int64_t c, int64_t nkept, int64_t nred,
                              ke_part *part, ke_error *err)
{
  int64_t first = c ? ranges->slice[c - 1] : 0, last = ranges->slice[c];
  const int64_t *row = ranges->row + 2 * c;

  if (row[0] < 0 || row[1] < row[0] || row[1] > nkept || first > last) return beyond(err);
  *part = (ke_part){
      .row0 = row[0], .nrows = row[1] - row[0], .interval = first, .nintervals = last - first};
  for (const int64_t *item = ranges->item + 2 * first; item < ranges->item + 2 * last; item += 2) {
    if (item[0] < 0 || item[1] < item[0] || item[1] > nred) return beyond(err);
    part->nitems += item[1] - item[0];
  }
  return KE_OK;
}

double ke_ranges_pairs(const ke_ranges *ranges)
{
  double pairs = 0, items;

  for (int64_t c = 0, k = 0; c < ranges->nclusters; c++) {
    for (items = 0; k < ranges->slice[c]; k++)
      items += (double)(ranges->item[2 * k + 1] - ranges->item[2 * k]);
    pairs += items * (double)(ranges->row[2 * c + 1] - ranges->row[2 * c]);
  }
  return pairs;
}

/* Clusters that have rows. */
static ke_status take_parts(const ke_ranges *ranges, int64_t nkept, int64_t nred, ke_arena *arena,
                            ke_cut *cut, ke_error *err)
{
  int64_t rows = 0;

  cut->item = ranges->item;
  cut->part = ke_arena_alloc(arena, ke_bytes(ranges->nclusters + 1, 1, sizeof *cut->part));
  if (!cut->part) return ke_fail_memory(err);
  for (int64_t c = 0; c < ranges->nclusters; c++) {
    KE_TRY(take_cluster(ranges, c, nkept, nred, &cut->part[cut->nparts], err));
    rows += cut->part[cut->nparts].nrows;
    if (cut->part[cut->nparts].nrows > 0) cut->nparts++;
  }
  cut->covers = rows == nkept;
  return KE_OK;
}

/* ---- the cut of one part ---- */
/* The largest k of the k least, or 0. Those of more items cost little more than those of few, and pieces
 * of few items would each keep k of them: items are split last, and seldom. */
static int32_t largest_k(const ke_pass *pass)
{
  int32_t k = 0;

  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind == KE_RED_KMIN && pass->reduce[q].k > k) k = pass->reduce[q].k;
  return k;
}

static int64_t most_rows(const measure *m, const ke_part *part, int64_t wanted)
{
  double row_bytes = (double)m->pass->kept_width * m->real_bytes +
                     (double)m->pass->state_width * (double)sizeof(double);
  double row_ns = (double)part->nitems * m->pair_ns;
  /* where rows are cheap, more of them, for a unit has its own costs too */
  int64_t rows = row_ns * UNIT_ROWS < 2e4 ? KE_ROWS_LANES : UNIT_ROWS;

  if (largest_k(m->pass)) rows = ke_max(1, ke_min(rows, part->nrows / wanted));
  return ke_max(m->R, between(UNIT_BYTES / (row_bytes + 1), 1, rows) / m->R * m->R);
}

static void cut_rows(const measure *m, ke_part *part, int64_t rows)
{
  part->row_units = ke_parts(part->nrows, rows);
  part->rows = ke_round_up(ke_parts(part->nrows, part->row_units), m->R); /* of about equal size */
  part->row_units = ke_parts(part->nrows, part->rows);
}

/* Fewer row blocks than the units that are wanted: split the items too. */
static void cut_items(const measure *m, ke_part *part, int64_t wanted)
{
  int64_t piece, most;

  part->items = part->nitems;
  part->pieces = 1;
  if (part->row_units >= wanted || part->nitems <= m->T) return;
  piece = between(PIECE_NS / ((double)part->rows * m->pair_ns), m->T, PIECE_ITEMS);
  piece = ke_max(piece, 8 * (int64_t)largest_k(m->pass));
  most = ke_max(1, part->nitems / piece);
  part->items = ke_round_up(
      ke_parts(part->nitems, ke_min(most, ke_parts(wanted, part->row_units))), m->T);
  part->pieces = ke_parts(part->nitems, part->items);
}

static int64_t segment_of(const measure *m, const ke_part *part)
{
  double item_bytes = (double)m->pass->red_width * m->real_bytes;
  int64_t n = between(SEGMENT_BYTES / (item_bytes + 1), m->T, INT32_MAX);

  n = between(SEGMENT_NS / ((double)part->rows * m->pair_ns), 16, n);
  return n >= m->T ? n / m->T * m->T : n / 16 * 16;
}

static double unit_ns(const measure *m, const ke_part *part)
{
  return (double)ke_min(part->rows, part->nrows) * (double)part->items * m->pair_ns;
}

/* A part gets its share of the units that a pass should have. */
static void cut_part(const measure *m, ke_part *part)
{
  double share = (double)part->nrows * (double)part->nitems / fmax(m->pairs, 1);
  int64_t wanted = between(ceil(MANY_UNITS * share), 1, MANY_UNITS);
  double shrink, units;

  cut_rows(m, part, most_rows(m, part, wanted));
  cut_items(m, part, wanted);

  /* Still few, and long: units of fewer rows. */
  units = (double)(part->row_units * part->pieces);
  shrink = fmin((double)wanted / units,
                (double)part->rows * (double)part->items * m->pair_ns / PIECE_NS);
  if (shrink > 1)
    cut_rows(m, part,
             ke_max(m->R, ke_round_up(between((double)part->rows / shrink, 1, part->rows), m->R)));
  part->segment = segment_of(m, part);
}

/* ---- all of them ---- */
ke_status ke_cut_pass(const ke_pass *pass, const ke_ranges *ranges, const ke_shape *shape, ke_isa isa,
                      int64_t nkept, int64_t nred, ke_arena *arena, ke_cut *out, ke_error *err)
{
  measure m = {.pass = pass, .R = shape->rows, .T = shape->tile, .real_bytes = shape->real_bytes};

  *out = (ke_cut){.pair_ns = fmax(pass->cost, 1) / 16 * slowness(isa, shape->real_bytes)};
  KE_TRY(take_parts(ranges, nkept, nred, arena, out, err));
  m.pair_ns = out->pair_ns;
  m.pairs = ke_ranges_pairs(ranges);
  for (int64_t k = 0; k < out->nparts; k++) {
    ke_part *part = &out->part[k];

    cut_part(&m, part);
    part->unit = out->nunits;
    part->state = out->nwaiting;
    out->nunits += part->row_units * part->pieces;
    if (part->pieces > 1) out->nwaiting += part->nrows * part->pieces;
    out->most_rows = ke_max(out->most_rows, part->rows);
    out->long_ns = fmax(out->long_ns, unit_ns(&m, part));
  }
  out->ns = m.pairs * m.pair_ns;
  return KE_OK;
}

const ke_part *ke_cut_part(const ke_cut *cut, int64_t unit)
{
  int64_t low = 0, high = cut->nparts - 1, middle;

  while (low < high) {
    middle = low + (high - low + 1) / 2;
    if (cut->part[middle].unit <= unit)
      low = middle;
    else
      high = middle - 1;
  }
  return &cut->part[low];
}
