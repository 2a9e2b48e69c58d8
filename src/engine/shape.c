/* Sizes that fit a pair program to a machine (see shape.h).
 *
 * Lanes run over the items; a block is R rows times JR vectors of items, whose values sit in
 * registers between the three stages (folds over components, elementwise code, reduction). More
 * rows share each load of an item's component, more vectors each broadcast of a row's; R * JR
 * accumulators of a fold, JR items and a difference must fit the registers. */
#include "shape.h"

#include <stdint.h>

enum {
  CHUNK_BYTES = 384 << 10, /* of packed items that stay in the second cache while all rows pass */
  TILE_BYTES = 8 << 10,
  TILE_ITEMS = 128, /* packing costs a call a tile, so short tiles only where components are many */
  MOST_STATEMENTS = 6000 /* of a block, or compiling takes long */
};

int64_t ke_code_size(const ke_program *program, int32_t first, int32_t len, int unroll)
{
  int64_t size = 0, body;

  for (int32_t i = first; i < first + len; i++) {
    const ke_instr *ins = &program->code[i];

    size++;
    if (ins->op != KE_I_FOLD) continue;
    body = ke_code_size(program, i + 1, ins->len, unroll) + 1;
    size += ins->n <= unroll ? body * ins->n : body;
    i += ins->len;
    if (size > INT32_MAX) return INT32_MAX; /* nested folds multiply */
  }
  return size;
}

static int32_t longest_fold(const ke_program *program)
{
  int32_t n = 0;

  for (int32_t i = 0; i < program->nhead; i++)
    if (program->code[i].op == KE_I_FOLD && program->code[i].n > n) n = program->code[i].n;
  return n;
}

int64_t ke_accumulators(const ke_reduce *r)
{
  switch (r->kind) {
  case KE_RED_KAHAN:
  case KE_RED_MIN:
  case KE_RED_MAX: return 2 * (int64_t)r->width;
  case KE_RED_SUMEXP: return (int64_t)r->width + 1;
  default: return r->width;
  }
}

bool ke_tiling_wide(const ke_tiling *t, const ke_reduce *r)
{
  return ke_accumulators(r) > t->narrow;
}

static bool any_wide(const ke_pass *pass, const ke_tiling *t)
{
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (ke_tiling_wide(t, &pass->reduce[q])) return true;
  return false;
}

static bool any_kind(const ke_pass *pass, ke_reduce_kind kind)
{
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind == kind) return true;
  return false;
}

/* Measured on Zen 4 (as AVX2) and Sapphire Rapids (AVX-512), for sums, gradients, LogSumExp and
 * minima in 2 to 100 dimensions. */
static void choose_block(const ke_pass *pass, ke_isa isa, ke_tiling *t)
{
  const bool exps = any_kind(pass, KE_RED_SUMEXP);
  const bool extremes = any_kind(pass, KE_RED_MIN) || any_kind(pass, KE_RED_MAX);
  bool wide, simple;

  t->narrow = pass->kept == KE_NONE ? 8 : isa == KE_ISA_AVX512 ? 4 : 2;
  wide = any_wide(pass, t);
  simple = !wide && !exps && (isa == KE_ISA_AVX512 || !extremes);
  if (pass->kept == KE_NONE)
    t->rows = 1;
  else if (longest_fold(&pass->pair) > t->unroll && !wide)
    t->rows = isa == KE_ISA_AVX512 ? 8 : 6;
  else
    t->rows = simple ? 4 : 2;
  t->vectors = t->rows < 4 ? 4 : 2;
}

/* Smaller where the code would grow long. */
static void fit_block(const ke_pass *pass, ke_tiling *t)
{
  int64_t size = ke_code_size(&pass->pair, 0, pass->pair.ncode, t->unroll);

  while (t->rows * t->vectors > 2 && size * t->rows * t->vectors > MOST_STATEMENTS) {
    if (t->rows >= t->vectors)
      t->rows = (t->rows + 1) / 2;
    else
      t->vectors /= 2;
  }
}

int64_t ke_chunk_items(const ke_pass *pass, int real_bytes)
{
  const int64_t item = (int64_t)pass->red_width * real_bytes;

  return item && pass->block > CHUNK_BYTES / item ? CHUNK_BYTES / item : pass->block;
}

static void fit_tile(const ke_pass *pass, ke_tiling *t)
{
  int64_t step = t->vectors * t->lanes, item = (int64_t)pass->red_width * t->real_bytes;
  int64_t items = ke_chunk_items(pass, t->real_bytes);

  t->steps = 1;
  while (step * t->steps * t->real_bytes < 64) t->steps *= 2;
  while (2 * step * t->steps <= TILE_ITEMS && 2 * step * t->steps * item <= TILE_BYTES)
    t->steps *= 2;
  t->chunk = items > step ? (int)(items / step) : 1;
}

void ke_tiling_choose(const ke_pass *pass, int real_bytes, ke_isa isa, ke_tiling *out)
{
  ke_tiling t = {.real_bytes = real_bytes, .unroll = 16};

  t.vector_bytes = isa == KE_ISA_AVX512 ? 64 : isa == KE_ISA_AVX2 ? 32 : 16;
  t.lanes = t.vector_bytes / real_bytes;
  choose_block(pass, isa, &t);
  fit_block(pass, &t);
  fit_tile(pass, &t);
  *out = t;
}
