/* Tables of what the rows of a launch on a GPU see, against the pairs one by one: of random clusters, seen
 * through random windows. Tiles hold what is seen and nothing else. */
#include "check.h"
#include "ranges_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 60, MOST_ITEMS = 70, MOST_CLUSTERS = 20, MOST_INTERVALS = 60, CASES = 3000 };

static int draw(int n)
{
  return rand() % n;
}

typedef struct {
  int64_t row[2 * MOST_CLUSTERS], slice[MOST_CLUSTERS], item[2 * MOST_INTERVALS];
  ke_ranges ranges;
  int64_t rows, items;
} ranges;

/* Clusters in order, with gaps; intervals in no order that overlap, touch, or are empty. */
static void draw_ranges(ranges *r)
{
  int64_t n = 0, k = 0, row = 0;

  r->rows = 1 + draw(MOST_ROWS);
  r->items = 1 + draw(MOST_ITEMS);
  while (n < MOST_CLUSTERS && row < r->rows && draw(8)) {
    int64_t begin = row + draw(3) * draw(4), end = begin + draw(14);

    if (end > r->rows) break;
    r->row[2 * n] = begin, r->row[2 * n + 1] = row = end;
    for (int m = draw(5); m > 0 && k < MOST_INTERVALS; m--, k++) {
      r->item[2 * k] = draw((int)r->items + 1);
      r->item[2 * k + 1] = r->item[2 * k] + draw((int)(r->items - r->item[2 * k]) + 1);
    }
    r->slice[n++] = k;
  }
  r->ranges = (ke_ranges){.nclusters = n, .row = r->row, .slice = r->slice, .item = r->item};
}

/* How often each pair of a window is seen; gives the number of pairs. */
static double count_pairs(const ranges *r, const ke_cuda_window *w, int *seen)
{
  double pairs = 0;

  memset(seen, 0, sizeof(int) * MOST_ROWS * MOST_ITEMS);
  for (int64_t c = 0, k = 0; c < r->ranges.nclusters; c++)
    for (; k < r->slice[c]; k++)
      for (int64_t i = r->row[2 * c]; i < r->row[2 * c + 1]; i++)
        for (int64_t j = r->item[2 * k]; j < r->item[2 * k + 1]; j++)
          if (i >= w->row && i < w->row_end && j >= w->item && j < w->item_end) {
            seen[i * MOST_ITEMS + j]++;
            pairs++;
          }
  return pairs;
}

/* Unit after unit, as kernels take them; 0 where the tables do not hold together. */
static int take_units(const ke_cuda_seen *s, const ke_cuda_window *w, int64_t block, int64_t tile, int *seen)
{
  int64_t row = 0, most = 0;

  for (const ke_cuda_rows *b = s->rows; b < s->rows + s->nrows; row += b++->nrows) {
    int64_t tiles = b[1].unit - b->unit, done = 0;

    if (b->row != row || b->nrows < 1 || b->nrows > block || tiles < 1) return 0;
    if (tiles > most) most = tiles;
    for (const ke_cuda_items *v = s->items + b->item; v < s->items + b->item + b->nitems; v++) {
      if (v->tile != done || v->n < 1 || v->first < 0 || v->first + v->n > w->item_end - w->item) return 0;
      done += (v->n + tile - 1) / tile;
      for (int64_t i = b->row; i < b->row + b->nrows; i++)
        for (int64_t j = v->first; j < v->first + v->n; j++) seen[(w->row + i) * MOST_ITEMS + w->item + j]--;
    }
    if (tiles != (done ? done : 1)) return 0;
  }
  return row == w->row_end - w->row && s->rows[0].unit == 0 && s->rows[s->nrows].unit == s->units &&
         s->most_tiles == most;
}

static void check_window(const ranges *r, const ke_cuda_window *w)
{
  int64_t block = 1 + draw(9), tile = 1 + draw(9);
  int seen[MOST_ROWS * MOST_ITEMS], wrong = 0;
  ke_cuda_seen s;

  count_pairs(r, w, seen);
  CHECK(ke_cuda_see(&r->ranges, w, block, tile, &s, NULL) == KE_OK);
  CHECK(take_units(&s, w, block, tile, seen));
  for (int k = 0; k < MOST_ROWS * MOST_ITEMS; k++) wrong += seen[k] != 0;
  CHECK(wrong == 0);
  ke_cuda_seen_free(&s);
}

/* As many rows as the pairs allow, one at least, and no fewer than could be. */
static void check_rows(const ranges *r, const ke_cuda_window *w)
{
  int seen[MOST_ROWS * MOST_ITEMS];
  double most = draw(400);
  int64_t n = ke_cuda_rows_within(&r->ranges, w, most);
  ke_cuda_window some = *w;

  CHECK(n >= 1 && n <= w->row_end - w->row);
  some.row_end = w->row + n;
  CHECK(n == 1 || count_pairs(r, &some, seen) <= most);
  some.row_end++;
  CHECK(some.row_end > w->row_end || count_pairs(r, &some, seen) > most);
}

static void test_windows(void)
{
  ranges r;

  for (int k = 0; k < CASES; k++) {
    ke_cuda_window w;

    draw_ranges(&r);
    CHECK(ke_cuda_check_ranges(&r.ranges, r.rows, r.items, NULL) == KE_OK);
    w.row = draw((int)r.rows);
    w.row_end = w.row + 1 + draw((int)(r.rows - w.row));
    w.item = draw((int)r.items);
    w.item_end = w.item + 1 + draw((int)(r.items - w.item));
    check_window(&r, &w);
    check_rows(&r, &w);
  }
}

static void test_refused(void)
{
  int64_t row[] = {5, 9, 0, 3}, slice[] = {1, 1}, item[] = {2, 8};
  const ke_ranges backwards = {.nclusters = 2, .row = row, .slice = slice, .item = item};
  const ke_ranges one = {.nclusters = 1, .row = row, .slice = slice, .item = item};

  CHECK(ke_cuda_check_ranges(&backwards, 10, 10, NULL) == KE_ERR_INTERNAL);
  CHECK(ke_cuda_check_ranges(&one, 9, 8, NULL) == KE_OK);
  CHECK(ke_cuda_check_ranges(&one, 8, 8, NULL) == KE_ERR_INTERNAL);
  CHECK(ke_cuda_check_ranges(&one, 9, 7, NULL) == KE_ERR_INTERNAL);
}

static void test_usual(void)
{
  int64_t row[] = {0, 4, 4, 10, 10, 12}, slice[] = {1, 1, 2}, item[] = {0, 6, 3, 6};
  const ke_ranges r = {.nclusters = 3, .row = row, .slice = slice, .item = item}, none = {0};
  int64_t rows, items;

  ke_cuda_usual_cluster(&r, &rows, &items); /* clusters of 4 and 2 rows, 30 pairs */
  CHECK(rows == 3 && items == 5);
  ke_cuda_usual_cluster(&none, &rows, &items);
  CHECK(rows == 1 && items == 1);
}

int main(void)
{
  srand(1);
  test_windows();
  test_refused();
  test_usual();
  return check_end();
}
