/* How a pass over pairs is cut into units of work: from sizes, plan, shape and ranges alone, never from
 * threads or load, so that the bits depend on neither. run_pairs.c runs the units, team.c says who. */
#ifndef KE_CUT_H
#define KE_CUT_H

#include "driver.h"

/* Rows that see the same items, and the cut of them. Items are numbered through the intervals. */
typedef struct {
  int64_t row0, nrows;          /* its rows */
  int64_t interval, nintervals; /* the first of its intervals, and how many */
  int64_t nitems;               /* in all of them */
  int64_t rows, row_units;      /* a unit has so many rows, the last one what is left */
  int64_t items, pieces;        /* and so many items; pieces of one row are merged in their order */
  int64_t segment;              /* items of a kernel call, at most */
  int64_t unit;                 /* number of its first unit: they run over the rows, piece after piece */
  int64_t state;                /* where states of pieces wait: its first among those of all, in rows */
} ke_part;

typedef struct {
  ke_part *part;
  int64_t nparts;
  const int64_t *item; /* borders of the intervals */
  int64_t nunits;
  int64_t nwaiting;   /* rows of states of pieces */
  int64_t most_rows;  /* of a unit */
  bool covers;        /* every row is of some part */
  double pair_ns;     /* time of a pair, roughly */
  double ns, long_ns; /* of all pairs, of those of the longest unit */
} ke_cut;

/* A pass over all pairs is one of one cluster with one interval. Parts are made in `arena`. Ranges that
 * reach beyond the data are KE_ERR_INTERNAL. */
ke_status ke_cut_pass(const ke_pass *pass, const ke_ranges *ranges, const ke_shape *shape, ke_isa isa,
                      int64_t nkept, int64_t nred, ke_arena *arena, ke_cut *out,
                      ke_error *err) KE_MUST_USE;
/* The part that a unit belongs to. */
const ke_part *ke_cut_part(const ke_cut *cut, int64_t unit);

#endif
