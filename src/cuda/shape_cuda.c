/* Sizes for the GPU (shape_cuda.h). Measured on an H200 with hand-written kernels of this form (times
 * differ by 5 % between neighbours): 4 rows a thread while they fit 64 registers, 2 to about 50
 * components, 8 items a step where values of several items must be held (largest scores, wide results,
 * the k least, components that are read again and again). */
#include "shape_cuda.h"

#include "op.h"
#include "shape.h"

#include <string.h>

enum {
  FEW_ROWS = 2048,           /* up to here threads share rows, */
  MEDIUM_PAIRS = 200000000,  /* up to here rows of a block are few */
  LARGE_PAIRS = 2000000000,  /* from here on loops are written out further */
  KEPT_REGISTERS = 48,       /* for components of a row */
  ROW_REGISTERS = 72,        /* for all of a thread's rows */
  LIST_REGISTERS = 60,       /* for the lists of the k least of one row */
  TILE_BYTES = 16 << 10,
  STEP_BYTES = 40 << 10,     /* of a step of items that still goes through shared memory */
  MOST_STATEMENTS = 1400,    /* written out in the inner loop, or NVRTC takes long */
  LARGE_STATEMENTS = 1700
};

static int smaller(int a, int b)
{
  return a < b ? a : b;
}

static int32_t longest_fold(const ke_program *program)
{
  int32_t n = 0;

  for (int32_t i = 0; i < program->ncode; i++)
    if (program->code[i].op == KE_I_FOLD && program->code[i].n > n) n = program->code[i].n;
  return n;
}

/* Statements of code[first, first + len) where folds of at most `unroll` trips are written out; calls of the
 * library count by their cost. */
static int64_t code_weight(const ke_program *program, int32_t first, int32_t len, int unroll)
{
  int64_t size = 0, body;

  for (int32_t i = first; i < first + len; i++) {
    const ke_instr *ins = &program->code[i];

    if (ins->op == KE_I_FOLD) {
      body = code_weight(program, i + 1, ins->len, unroll) + 1;
      size += ins->n <= unroll ? body * ins->n : body;
      i += ins->len;
    } else {
      size += ke_ops[ins->op].cost > 6 ? 4 * (int64_t)ke_ops[ins->op].cost : 1;
    }
    if (size > INT32_MAX) return INT32_MAX; /* nested folds multiply */
  }
  return size;
}

static double dearest(const ke_program *program)
{
  double cost = 0;

  for (int32_t i = 0; i < program->ncode; i++)
    if (program->code[i].op < KE_OP_COUNT && ke_ops[program->code[i].op].cost > cost)
      cost = ke_ops[program->code[i].op].cost;
  return cost;
}

bool ke_cuda_wide(const ke_cuda_tiling *t, const ke_reduce *r)
{
  if (r->kind != KE_RED_KMIN) return r->width > t->narrow;
  return (int64_t)r->k * r->width * (t->real_bytes / 4 + 1) > LIST_REGISTERS;
}

/* Statements that put an item into lists in registers, or call what puts it into a heap. */
static int64_t least_weight(const ke_reduce *r, const ke_cuda_tiling *t)
{
  if (r->kind != KE_RED_KMIN) return 0;
  return ke_cuda_wide(t, r) ? 12 : 4 * (int64_t)r->k * r->width;
}

/* The same of a step of one item and row, with what is added for each component. */
static int64_t pass_weight(const ke_pass *pass, const ke_cuda_tiling *t)
{
  const ke_program *p = &pass->pair;
  int64_t size = code_weight(p, 0, p->nhead, t->unroll);

  for (int32_t s = 0; s < p->nseg; s++) {
    int64_t body = code_weight(p, p->seg[s].first, p->seg[s].len, t->unroll) + 1;
    size += p->seg[s].n <= t->narrow ? body * p->seg[s].n : body;
  }
  for (int32_t q = 0; q < pass->nreduce; q++) size += least_weight(&pass->reduce[q], t);
  return size;
}

/* Is a place of this kind reached through a loop counter? */
static bool is_stepped(const ke_pass *pass, int kind)
{
  static const int32_t none[KE_MAX_LOOPS];
  const ke_program *p = &pass->pair;

  for (int32_t i = 0; i < p->ncode; i++)
    for (int k = 0; k < 3; k++)
      if (p->code[i].src[k].kind == kind && memcmp(p->code[i].src[k].step, none, sizeof none))
        return true;
  for (int32_t s = 0; s < p->nseg; s++)
    if (p->seg[s].result.kind == kind && memcmp(p->seg[s].result.step, none, sizeof none))
      return true;
  return false;
}

/* 32-bit registers that a row's accumulators need */
static int64_t accumulator_registers(const ke_reduce *r, const ke_cuda_tiling *t)
{
  const int words = t->real_bytes / 4;

  if (ke_cuda_wide(t, r)) return 0;
  switch (r->kind) {
  case KE_RED_KAHAN: return (int64_t)r->width * (words == 1 ? 6 : 4);
  case KE_RED_KMIN: return (int64_t)r->k * r->width * (words + 1);
  case KE_RED_SUM: return (int64_t)r->width * (words == 1 ? 3 : 2);
  case KE_RED_SUMEXP: return (int64_t)r->width * (words == 1 ? 3 : 2) + 2 * words;
  default: return (int64_t)r->width * (words + 1);
  }
}

static bool any_kind(const ke_pass *pass, ke_reduce_kind kind)
{
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].kind == kind) return true;
  return false;
}

static int64_t power_of_two(int64_t n, int64_t most)
{
  int64_t p = 1;

  while (p < n && p < most) p *= 2;
  return p;
}

/* Threads of a block: across rows, and across items where rows are few. */
static void choose_threads(const ke_pass *pass, int64_t nkept, ke_cuda_tiling *t)
{
  if (pass->kept == KE_NONE) nkept = 1;
  if (nkept > FEW_ROWS) {
    t->across = 128;
    t->lanes = 1;
    return;
  }
  t->across = (int)power_of_two(nkept, 32);
  t->lanes = 256 / t->across;
}

static void choose_rows(const ke_pass *pass, int64_t nkept, int64_t nred, ke_cuda_tiling *t)
{
  const int words = t->real_bytes / 4;
  int64_t need = t->kept_here ? (int64_t)pass->kept_width * words : 0, all = 0;
  int most = t->lanes > 1 ? 1 : (double)nkept * (double)nred <= MEDIUM_PAIRS ? 2 : 4;

  for (int32_t q = 0; q < pass->nreduce; q++) need += accumulator_registers(&pass->reduce[q], t);
  need += (int64_t)(t->step > 1 ? t->step : 0) * words; /* a scalar of each pair of a step */
  t->rows = most;
  while (t->rows > 1 && need * t->rows > ROW_REGISTERS) t->rows /= 2;
  all = need * t->rows + 30 * words;
  t->min_blocks = all <= 62 ? 6 : all <= 100 ? (words == 1 ? 5 : 4) : all <= 124 ? 4 : all <= 165 ? 3 : 1;
  if (t->rows < 4 && all <= 62) t->min_blocks = 8;
  if (dearest(&pass->pair) > 6) t->min_blocks = smaller(t->min_blocks, words == 1 ? 5 : 3);
  if (t->across * t->lanes > 128) t->min_blocks = (t->min_blocks + 1) / 2;
}

static void choose_tile(int64_t nkept, int64_t nred, ke_cuda_tiling *t)
{
  const int64_t bytes = (int64_t)t->item * t->real_bytes;
  int64_t most = t->lanes > 1 ? 1024 : (double)nkept * (double)nred <= MEDIUM_PAIRS ? 128 : 512;
  int64_t tile = bytes ? TILE_BYTES / bytes : most;

  t->shared = bytes > 0 && bytes * t->step <= STEP_BYTES;
  if (!t->shared) tile = 128;
  if (tile > most) tile = most;
  if (tile < t->step) tile = t->step;
  t->tile = (int)(tile / t->step * t->step);
  if (t->tile >= 64) t->tile = t->tile / 32 * 32;
  while (t->lanes > 1 && t->lanes * t->step > t->tile) t->lanes /= 2;
}

/* ---- tensor cores ---- */

/* 4 warps of 16 rows each; a step is 8 items for a warp, 2 for a thread. */
static void shape_wide(const ke_pass *pass, ke_cuda_tiling *t)
{
  const int words = 2 * pass->kept_width;

  t->across = 32;
  t->lanes = 4;
  t->slots = 1;
  t->rows = 2;
  t->step = 2;
  t->steps = 1;
  t->tile = 32;
  t->min_blocks = pass->state_width <= 40 ? 4 : pass->state_width <= 104 ? 3 : 2;
  t->unroll = 16;
  t->kept_here = t->kept_here && words <= KEPT_REGISTERS;
  t->item_here = false;
  t->shared = true;
  /* threads of a warp read items 2 q of column g: other banks for each */
  t->stride = t->item + (20 - t->item % 16) % 16;
}

/* Does it pay, and does it fit? */
static bool take_tensor_cores(const ke_pass *pass, const ke_tensor *tensor, int64_t nkept, int64_t nred,
                              ke_cuda_tiling *t)
{
  enum { LEAST_PAIRS = 1 << 20, LEAST_ROWS = 128, MOST_WIDE = 128 };

  if ((double)nkept * (double)nred < LEAST_PAIRS || nkept < LEAST_ROWS) return false;
  if (tensor->kind != KE_TENSOR_WIDE || tensor->n > MOST_WIDE || t->item > 176) return false;
  shape_wide(pass, t);
  return true;
}

/* In single precision components are rounded already, and once more costs little; in double their differences
 * may be exact. A scale that is not known is taken to be below 0, as it is for a Gaussian. */
static bool can_scale(const ke_pass *pass, const ke_cuda_tiling *t, const void *once)
{
  const ke_tensor match = ke_scale_match(pass);
  float scale;

  if (t->real_bytes != 4 || match.kind == KE_TENSOR_NONE || !t->kept_here || !t->shared || !t->once_here) return false;
  if (!once) return true;
  scale = ((const float *)once)[match.scale];
  return scale < 0 && scale > -1e30f;
}

void ke_cuda_tiling_choose(const ke_pass *pass, int real_bytes, int arch, bool accurate, const void *once,
                           int64_t nkept, int64_t nred, ke_cuda_tiling *out)
{
  const bool cores = real_bytes == 4 && arch >= 80 && !accurate;
  const ke_tensor tensor = cores ? ke_tensor_match(pass) : (ke_tensor){.kind = KE_TENSOR_NONE};
  ke_cuda_tiling t = {.real_bytes = real_bytes, .unroll = 48, .narrow = 20, .step = 1};
  const int words = real_bytes / 4, unit = 16 / real_bytes;
  const bool many = ke_code_size(&pass->pair, 0, pass->pair.ncode, t.unroll) > MOST_STATEMENTS;
  bool wide = false, rolled, large;
  int64_t size;

  for (int32_t q = 0; q < pass->nreduce; q++)
    wide |= pass->reduce[q].width > 1 && ke_cuda_wide(&t, &pass->reduce[q]);
  rolled = wide || many || longest_fold(&pass->pair) > t.unroll;
  t.item = (pass->red_width + unit - 1) / unit * unit;
  t.once_here = pass->once_width <= KE_CUDA_MOST_ONCE && !(rolled && is_stepped(pass, KE_AT_ONCE));
  t.kept_here = (int64_t)pass->kept_width * words <= KEPT_REGISTERS &&
                !(rolled && is_stepped(pass, KE_AT_KEPT));
  t.stride = t.item;
  if (take_tensor_cores(pass, &tensor, nkept, nred, &t)) {
    t.tensor = tensor.kind;
    *out = t;
    return;
  }
  if (wide || !t.kept_here || any_kind(pass, KE_RED_SUMEXP) || any_kind(pass, KE_RED_KMIN)) t.step = 8 / words;
  t.item_here = t.item > 0 && !rolled && t.item * words <= KEPT_REGISTERS && t.item * t.step <= 64;
  choose_threads(pass, nkept, &t);
  choose_rows(pass, nkept, nred, &t);
  choose_tile(nkept, nred, &t);
  t.slots = t.lanes;
  t.scaled = can_scale(pass, &t, once);
  size = pass_weight(pass, &t) + 1;
  large = t.step == 1 && (double)nkept * (double)nred > LARGE_PAIRS;
  t.steps = words == 2 || t.lanes > 1 ? 8 : large ? 32 : 16;
  while (t.steps > 1 && size * t.rows * t.step * t.steps > (large ? LARGE_STATEMENTS : MOST_STATEMENTS))
    t.steps /= 2;
  *out = t;
}

/* 128 rows and items a tile, 8 warps; the sizes of keops_cuda_dots.h follow from `terms`. */
void ke_cuda_tiling_dots(const ke_pass *pass, const ke_dots *dots, int terms, ke_cuda_tiling *out)
{
  enum { UNIT_BYTES = 4096, CHUNK = 2, RESIDENT_BYTES = 64 << 10, REST_BYTES = 8 << 10 };
  const int steps = ke_dots_steps(dots);
  ke_cuda_tiling t = {.real_bytes = 4, .unroll = 48, .narrow = 20, .across = 32, .lanes = 8, .rows = 4, .step = 2,
                      .steps = 1, .tile = KE_DOTS_TILE, .min_blocks = 2, .terms = terms};
  int rest;

  t.item = t.stride = (ke_dots_rest(pass, dots) + 3) / 4 * 4;
  t.slots = t.lanes;
  rest = t.item * KE_DOTS_TILE * 4;
  t.once_here = pass->once_width <= KE_CUDA_MOST_ONCE;
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (pass->reduce[q].width > t.narrow && is_stepped(pass, KE_AT_ONCE)) t.once_here = false;
  t.shared = rest > 0 && rest <= REST_BYTES;
  t.resident = steps * terms * UNIT_BYTES <= RESIDENT_BYTES;
  t.dynamic = (t.resident ? steps * terms : 2 * CHUNK * terms) * UNIT_BYTES + 2 * CHUNK * terms * UNIT_BYTES +
              (t.shared ? 2 * rest : 0);
  if (t.dynamic > KE_CUDA_MOST_SHARED && t.shared) {
    t.dynamic -= 2 * rest;
    t.shared = false;
  }
  *out = t;
}

bool ke_cuda_tiling_same(const ke_cuda_tiling *a, const ke_cuda_tiling *b)
{
  return a->real_bytes == b->real_bytes && a->across == b->across && a->lanes == b->lanes &&
         a->rows == b->rows && a->step == b->step && a->steps == b->steps && a->tile == b->tile &&
         a->item == b->item && a->min_blocks == b->min_blocks && a->unroll == b->unroll &&
         a->narrow == b->narrow && a->kept_here == b->kept_here && a->item_here == b->item_here &&
         a->once_here == b->once_here && a->shared == b->shared && a->stride == b->stride &&
         a->slots == b->slots && a->tensor == b->tensor && a->scaled == b->scaled && a->terms == b->terms &&
         a->resident == b->resident && a->dynamic == b->dynamic;
}
