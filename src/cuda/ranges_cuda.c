/* Clusters of rows, cut to a window and into row blocks (ranges_cuda.h). Rows of no cluster, and of one that
 * sees nothing there, are blocks too: their states start, and stay so. */
#include "ranges_cuda.h"

#include <stdlib.h>

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

/* ---- clusters ---- */
static int64_t first_interval(const ke_ranges *ranges, int64_t c)
{
  return c ? ranges->slice[c - 1] : 0;
}

ke_status ke_cuda_check_ranges(const ke_ranges *ranges, int64_t nkept, int64_t nred, ke_error *err)
{
  int64_t row = 0, k = 0;

  for (int64_t c = 0; c < ranges->nclusters; c++) {
    const int64_t *rows = ranges->row + 2 * c;

    if (rows[0] < row || rows[1] < rows[0] || ranges->slice[c] < k)
      return ke_fail(err, KE_ERR_INTERNAL, -1, "clusters of ranges are in no order");
    row = rows[1];
    for (; k < ranges->slice[c]; k++)
      if (ranges->item[2 * k] < 0 || ranges->item[2 * k + 1] < ranges->item[2 * k] || ranges->item[2 * k + 1] > nred)
        return ke_fail(err, KE_ERR_INTERNAL, -1, "ranges reach beyond the data");
  }
  if (row > nkept) return ke_fail(err, KE_ERR_INTERNAL, -1, "ranges reach beyond the data");
  return KE_OK;
}

/* The first cluster that ends behind `row`. */
static int64_t cluster_behind(const ke_ranges *ranges, int64_t row)
{
  int64_t low = 0, high = ranges->nclusters, middle;

  while (low < high) {
    middle = low + (high - low) / 2;
    if (ranges->row[2 * middle + 1] <= row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Interval k within the window: its first item and their number, which may be none. */
static int64_t clip(const ke_ranges *ranges, int64_t k, const ke_cuda_window *w, int64_t *first)
{
  *first = max64(ranges->item[2 * k], w->item);
  return max64(0, min64(ranges->item[2 * k + 1], w->item_end) - *first);
}

static double items_of(const ke_ranges *ranges, int64_t c, const ke_cuda_window *w)
{
  double items = 0;
  int64_t first;

  for (int64_t k = first_interval(ranges, c); k < ranges->slice[c]; k++) items += (double)clip(ranges, k, w, &first);
  return items;
}

void ke_cuda_usual_cluster(const ke_ranges *ranges, int64_t *rows, int64_t *items)
{
  const ke_cuda_window all = {.item_end = INT64_MAX};
  double pairs = 0, seeing = 0, clusters = 0, n;

  for (int64_t c = 0; c < ranges->nclusters; c++) {
    n = (double)(ranges->row[2 * c + 1] - ranges->row[2 * c]) * items_of(ranges, c, &all);
    if (n <= 0) continue;
    pairs += n;
    seeing += (double)(ranges->row[2 * c + 1] - ranges->row[2 * c]);
    clusters += 1;
  }
  *rows = clusters > 0 ? max64(1, (int64_t)(seeing / clusters)) : 1;
  *items = seeing > 0 ? max64(1, (int64_t)(pairs / seeing)) : 1;
}

int64_t ke_cuda_rows_within(const ke_ranges *ranges, const ke_cuda_window *w, double pairs)
{
  for (int64_t c = cluster_behind(ranges, w->row); c < ranges->nclusters; c++) {
    int64_t first = max64(w->row, ranges->row[2 * c]), end = min64(w->row_end, ranges->row[2 * c + 1]);
    double items = items_of(ranges, c, w);

    if (first >= w->row_end) break;
    if (items * (double)(end - first) > pairs) return max64(1, first + (int64_t)(pairs / items) - w->row);
    pairs -= items * (double)(end - first);
  }
  return w->row_end - w->row;
}

/* ---- tables ---- */

/* Rows [row, end) see the intervals from `item` on. */
static void put_rows(ke_cuda_seen *s, const ke_cuda_window *w, int64_t row, int64_t end, int64_t item, int64_t tiles,
                     int64_t block)
{
  if (tiles == 0) tiles = 1; /* without items */
  for (; row < end; row += block) {
    s->rows[s->nrows++] = (ke_cuda_rows){.row = row - w->row,
                                         .nrows = min64(block, end - row),
                                         .unit = s->units,
                                         .item = item,
                                         .nitems = s->nitems - item};
    s->units += tiles;
  }
  s->most_tiles = max64(s->most_tiles, tiles);
}

/* Intervals of a cluster, those that touch as one; gives the number of their tiles. */
static int64_t put_items(const ke_ranges *ranges, int64_t c, const ke_cuda_window *w, int64_t tile, ke_cuda_seen *s)
{
  const int64_t begin = s->nitems;
  int64_t first, n, tiles = 0;

  for (int64_t k = first_interval(ranges, c); k < ranges->slice[c]; k++) {
    ke_cuda_items *last = s->nitems > begin ? &s->items[s->nitems - 1] : NULL;

    n = clip(ranges, k, w, &first);
    if (n == 0) continue;
    if (last && last->first + last->n == first - w->item)
      last->n += n;
    else
      s->items[s->nitems++] = (ke_cuda_items){.first = first - w->item, .n = n};
  }
  for (int64_t k = begin; k < s->nitems; k++) {
    s->items[k].tile = tiles;
    tiles += parts_of(s->items[k].n, tile);
  }
  return tiles;
}

void ke_cuda_seen_free(ke_cuda_seen *s)
{
  free(s->rows);
  free(s->items);
  *s = (ke_cuda_seen){0};
}

ke_status ke_cuda_see(const ke_ranges *ranges, const ke_cuda_window *w, int64_t block, int64_t tile,
                      ke_cuda_seen *out, ke_error *err)
{
  const int64_t begin = cluster_behind(ranges, w->row), end = cluster_behind(ranges, w->row_end - 1);
  const int64_t last = min64(end + 1, ranges->nclusters);
  const int64_t intervals = last > begin ? ranges->slice[last - 1] - first_interval(ranges, begin) : 0;
  const int64_t blocks = (w->row_end - w->row) / block + 2 * (last - begin) + 2;
  int64_t row = w->row;

  *out = (ke_cuda_seen){.rows = malloc((size_t)(blocks + 1) * sizeof *out->rows),
                        .items = malloc((size_t)(intervals + 1) * sizeof *out->items)};
  if (!out->rows || !out->items) {
    ke_cuda_seen_free(out);
    return ke_fail_memory(err);
  }
  for (int64_t c = begin; c < last; c++) {
    int64_t first = max64(w->row, ranges->row[2 * c]), behind = min64(w->row_end, ranges->row[2 * c + 1]);
    int64_t item = out->nitems, tiles;

    if (first >= behind) continue;
    put_rows(out, w, row, first, item, 0, block);
    tiles = put_items(ranges, c, w, tile, out);
    put_rows(out, w, first, behind, item, tiles, block);
    row = behind;
  }
  put_rows(out, w, row, w->row_end, out->nitems, 0, block);
  out->rows[out->nrows] = (ke_cuda_rows){.unit = out->units};
  return KE_OK;
}
