/* Sizes that fit a pair program to a machine: rows and vectors of a block, items of a tile and a
 * chunk.
 *
 * The plan holds none of them. The C emitter asks here, once a pass; nothing else decides sizes,
 * so this is the only place to tune. What a size is good for is said in shape.c, with what was
 * measured. */
#ifndef KE_SHAPE_H
#define KE_SHAPE_H

#include "backend.h"

#include <stdbool.h>

typedef struct {
  int real_bytes, vector_bytes;
  int lanes;   /* W: items of a vector */
  int rows;    /* R: kept rows of a block */
  int vectors; /* JR: vectors of items of a block; a step is JR * W items */
  int steps;   /* of a tile, which is JR * W * steps items */
  int chunk;   /* steps summed before they go to the state */
  int narrow;  /* most accumulators of a reduction and row that stay in registers; more lie in
                  scratch */
  int unroll;  /* most trips of a fold that is written out */
} ke_tiling;

/* Choose for a pass of kind PAIRS. */
void ke_tiling_choose(const ke_pass *pass, int real_bytes, ke_isa isa, ke_tiling *out);

/* Items of a chunk, which all rows of a task pass before the next: not more than may be summed in a row,
 * nor than stay in the second cache. At least 0. */
int64_t ke_chunk_items(const ke_pass *pass, int real_bytes);

/* Vectors that one row of a reduction accumulates, and whether they lie in scratch. */
int64_t ke_accumulators(const ke_reduce *reduce);
bool ke_tiling_wide(const ke_tiling *tiling, const ke_reduce *reduce);

/* Statements of code[first, first + len), folds of at most `unroll` trips written out. */
int64_t ke_code_size(const ke_program *program, int32_t first, int32_t len, int unroll);

#endif
