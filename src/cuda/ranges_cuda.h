/* What the rows of a launch see, as tables for its kernels (keops_cuda_task.h). */
#ifndef KE_RANGES_CUDA_H
#define KE_RANGES_CUDA_H

#include "backend.h"

#include "keops_cuda_task.h"

/* Rows [row, row_end) and items [item, item_end) of all. */
typedef struct {
  int64_t row, row_end, item, item_end;
} ke_cuda_window;

typedef struct {
  ke_cuda_rows *rows; /* row blocks, and one behind the last that says where units end */
  ke_cuda_items *items;
  int64_t nrows, nitems; /* row blocks; intervals */
  int64_t units;
  int64_t most_tiles;    /* of a row block */
} ke_cuda_seen;

/* KE_ERR_INTERNAL for clusters that are in no order, or reach beyond the data. */
ke_status ke_cuda_check_ranges(const ke_ranges *ranges, int64_t nkept, int64_t nred, ke_error *err) KE_MUST_USE;
/* Rows of a usual cluster, and items that its rows see; both >= 1. */
void ke_cuda_usual_cluster(const ke_ranges *ranges, int64_t *rows, int64_t *items);
/* How many rows from window->row on, at least one, have at most `pairs` pairs. */
int64_t ke_cuda_rows_within(const ke_ranges *ranges, const ke_cuda_window *window, double pairs);
/* Tables of a window, for blocks of `block` rows and tiles of `tile` items. Free them. */
ke_status ke_cuda_see(const ke_ranges *ranges, const ke_cuda_window *window, int64_t block, int64_t tile,
                      ke_cuda_seen *out, ke_error *err) KE_MUST_USE;
void ke_cuda_seen_free(ke_cuda_seen *seen);

#endif
