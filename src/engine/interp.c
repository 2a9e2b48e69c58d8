/* Prepares programs for the interpreter: the pair program of a pass becomes a kernel like a
 * compiled one, a row program becomes a ke_rows. Nothing is computed here; interp_body.h runs what
 * this makes.
 *
 * In order: look for what melts together (interp_match.c), rewrite as primitives (interp_lower.c),
 * then here: give the temporaries slots by their life spans, choose the tile, turn views into
 * offsets. */
#include "interp_lower.h"

#include "driver.h"

#include "keops_least.h"
#include "shape.h"

#include <float.h>

enum {
  RED_TILE_BYTES = 32768, /* a tile of reduced data should not be more, */
  TEMP_BYTES = 65536,     /* nor all temporaries: half of a small second-level cache */
  ALIGN_BYTES = 64,
  LONGEST_VECTOR = 64
};

void *ke_interp_take(ki_lowering *w, int64_t count, size_t size)
{
  void *p = w->no_memory ? NULL : ke_arena_alloc(w->arena, ((size_t)count + 1) * size);

  if (!p) w->no_memory = true;
  return p;
}

/* ---- life spans and slots ---- */

typedef struct {
  int32_t start[KE_MAX_LOOPS + 1], end[KE_MAX_LOOPS + 1], depth;
} loop_stack;

static void follow_loops(loop_stack *loops, const ki_instr *code, int32_t i)
{
  while (loops->depth && loops->end[loops->depth - 1] < i) loops->depth--;
  if (code[i].op == KI_LOOP) {
    loops->start[loops->depth] = i;
    loops->end[loops->depth++] = i + code[i].len;
  }
}

/* Temp read (or added to) by instruction i: it lives on to the end of a loop that began after its
 * birth. */
static void note_life(ki_lowering *w, const ki_view *v, const loop_stack *loops, int32_t i)
{
  ki_temp *t;
  int32_t until = 2 * i;

  if (v->base != KI_TEMP) return;
  t = &w->temp[v->offset];
  for (int32_t d = loops->depth; d-- > 0;)
    if (t->born <= loops->start[d]) until = 2 * loops->end[d] + 1;
  if (until > t->release) t->release = until;
}

static void find_lives(ki_lowering *w)
{
  loop_stack loops = {.depth = 0};

  for (int32_t t = 0; t < w->ntemp; t++) w->temp[t].born = w->temp[t].release = -1;
  for (int32_t i = 0; i < w->ncode; i++) {
    const ki_instr *in = &w->code[i];
    follow_loops(&loops, w->code, i);
    if (in->dst.base == KI_TEMP) {
      if (w->temp[in->dst.offset].born < 0) {
        w->temp[in->dst.offset].born = i;
        w->temp[in->dst.offset].release = 2 * i + 1;
      }
      note_life(w, &in->dst, &loops, i);
    }
    note_life(w, &in->a, &loops, i);
    note_life(w, &in->b, &loops, i);
    note_life(w, &in->c, &loops, i);
  }
}

/* Free slots of one kind. */
typedef struct {
  int32_t *free, nfree, *made;
} slot_pool;

static void give_slots_back(ki_lowering *w, slot_pool pool[2], const int32_t *released,
                            int32_t when)
{
  for (int32_t t = released[when]; t >= 0; t = w->temp[t].next) {
    slot_pool *of = &pool[w->temp[t].flat];
    of->free[of->nfree++] = w->temp[t].slot;
  }
}

static void assign_slots(ki_lowering *w)
{
  int32_t *released = ke_interp_take(w, 2 * (int64_t)w->ncode + 2, sizeof *released);
  int32_t *room = ke_interp_take(w, 2 * (int64_t)w->ntemp, sizeof *room);
  slot_pool pool[2];

  if (w->no_memory) return;
  pool[0] = (slot_pool){.free = room, .made = &w->nfull};
  pool[1] = (slot_pool){.free = room + w->ntemp, .made = &w->nflat};
  for (int32_t k = 0; k < 2 * w->ncode + 2; k++) released[k] = -1;
  for (int32_t t = 0; t < w->ntemp; t++) {
    if (w->temp[t].born < 0) continue; /* melted away */
    w->temp[t].next = released[w->temp[t].release];
    released[w->temp[t].release] = t;
  }
  for (int32_t i = 0; i < w->ncode; i++) {
    const ki_view *dst = &w->code[i].dst;
    give_slots_back(w, pool, released, 2 * i);
    if (dst->base == KI_TEMP && w->temp[dst->offset].born == i) {
      slot_pool *of = &pool[w->temp[dst->offset].flat];
      w->temp[dst->offset].slot = of->nfree ? of->free[--of->nfree] : (*of->made)++;
    }
    give_slots_back(w, pool, released, 2 * i + 1);
  }
}

/* ---- sizes ---- */

static size_t aligned(size_t bytes)
{
  return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static int choose_tile(int64_t nfull, int64_t red_width, int real_bytes)
{
  int64_t tile = KI_MAX_TILE;

  while (tile > KI_MIN_TILE && (tile * red_width * real_bytes > RED_TILE_BYTES ||
                                tile * nfull * KI_ROWS * real_bytes > TEMP_BYTES))
    tile /= 2;
  return (int)tile;
}

static void place_view(const ki_lowering *w, ki_view *v, int64_t rows, int64_t tile)
{
  int64_t scale = 1;

  if (v->base == KI_TEMP) {
    const ki_temp *t = &w->temp[v->offset];
    v->offset = t->flat ? (w->nfull * rows + t->slot) * tile : t->slot * rows * tile;
    v->row = t->flat ? 0 : tile;
  } else if (v->base == KI_KEPT) {
    scale = KI_ROWS;
  } else if (v->base == KI_RED) {
    scale = tile;
  }
  v->offset *= scale;
  for (int d = 0; d < KE_MAX_LOOPS; d++) v->step[d] *= scale;
}

static void finish_program(ki_lowering *w, ki_program *out, int rows, int tile, int real_bytes,
                           int64_t acc_vectors)
{
  const size_t real = (size_t)real_bytes, lanes = (size_t)tile;

  for (int32_t i = 0; i < w->ncode; i++) {
    ki_instr *in = &w->code[i];
    in->flat = in->dst.base == KI_TEMP && w->temp[in->dst.offset].flat;
    place_view(w, &in->dst, rows, tile);
    place_view(w, &in->a, rows, tile);
    place_view(w, &in->b, rows, tile);
    place_view(w, &in->c, rows, tile);
  }
  out->code = w->code;
  out->ncode = w->ncode;
  out->tile = tile;
  out->constant = w->constant;
  out->nconstant = w->nconstant;
  out->temp_at = 0;
  out->constant_at =
      aligned(((size_t)w->nfull * (size_t)rows + (size_t)w->nflat) * lanes * real);
  out->mask_at = out->constant_at + aligned((size_t)w->nconstant * real);
  out->acc_at = out->mask_at + aligned(lanes * real);
  out->scratch_bytes = out->acc_at + (size_t)acc_vectors * LONGEST_VECTOR;
}

/* ---- both kinds of program ---- */

static ke_status lower(ki_lowering *w, ke_error *err)
{
  const ke_program *p = w->program;
  const int32_t nreduce = w->pass ? w->pass->nreduce : 0;
  int64_t most = p->ntemp + 2 * (int64_t)nreduce; /* weights and splats of scores, then */

  most += 3 * (int64_t)p->ncode + 2 * (int64_t)p->nseg; /* splats of operands */
  if (most > INT32_MAX / 4) return ke_fail(err, KE_ERR_INPUT, -1, "the formula is too large");
  w->max_temp = (int32_t)most;
  w->ntemp = p->ntemp + nreduce;
  w->uses = ke_interp_take(w, p->ntemp, sizeof *w->uses);
  w->maker = ke_interp_take(w, p->ntemp, sizeof *w->maker);
  w->region = ke_interp_take(w, p->ncode, sizeof *w->region);
  w->body = ke_interp_take(w, p->ncode, sizeof *w->body);
  w->melted = ke_interp_take(w, p->ncode, sizeof *w->melted);
  w->form = ke_interp_take(w, p->nseg, sizeof *w->form);
  w->temp = ke_interp_take(w, most, sizeof *w->temp);
  if (w->no_memory) return ke_fail_memory(err);
  ke_interp_look(w);
  if (w->fault)
    return ke_fail(err, KE_ERR_INTERNAL, -1, "the interpreter was given %s", w->fault);
  ke_interp_lower(w);
  if (w->no_memory) return ke_fail_memory(err);
  find_lives(w);
  assign_slots(w);
  return w->no_memory ? ke_fail_memory(err) : KE_OK;
}

static const ki_target *find_target(ke_isa isa, int real_bytes)
{
  const bool single = real_bytes == 4;

#if KI_HAVE_X86
  if (isa == KE_ISA_AVX512) return single ? &ke_interp_avx512_4 : &ke_interp_avx512_8;
  if (isa == KE_ISA_AVX2) return single ? &ke_interp_avx2_4 : &ke_interp_avx2_8;
#else
  (void)isa;
#endif
  return single ? &ke_interp_base_4 : &ke_interp_base_8;
}

static int64_t accumulator_vectors(const ki_reduce *r, int lanes, int real_bytes)
{
  const int64_t values = (int64_t)r->width * KI_ROWS, doubles = lanes * real_bytes / (int)sizeof(double);
  const int64_t list = (r->k + lanes - 1) / lanes;

  switch (r->kind) {
  case KE_RED_SUM: return values;
  case KE_RED_KMIN:
    return values + (r->k <= KE_LIST_MOST ? 2 * values * list : ke_parts(values * KE_POOL_DOUBLES(r->k), doubles));
  case KE_RED_SUMEXP: return values + KI_ROWS;
  default: return 2 * values;
  }
}

ke_status ke_interp_prepare(ke_arena *arena, const ke_pass *pass, int real_bytes, ke_isa isa,
                            ke_kernel *out, ke_error *err)
{
  const ki_target *target = find_target(isa, real_bytes);
  ki_lowering w = {.arena = arena, .program = &pass->pair, .pass = pass};
  ki_program *p = ke_interp_take(&w, 1, sizeof *p);
  ki_reduce *reduce = ke_interp_take(&w, pass->nreduce, sizeof *reduce);
  int64_t acc = 0;
  int tile;

  if (w.no_memory) return ke_fail_memory(err);
  for (int32_t r = 0; r < pass->nreduce; r++) {
    const ke_reduce *from = &pass->reduce[r];
    reduce[r] = (ki_reduce){
        .kind = from->kind, .width = from->width, .k = from->k, .state = from->state, .acc = acc};
    acc += accumulator_vectors(&reduce[r], target->vector_bytes / real_bytes, real_bytes);
  }
  w.reduce = reduce;
  w.lanes = target->vector_bytes / real_bytes;
  KE_TRY(lower(&w, err));
  p->reduce = reduce;
  p->nreduce = pass->nreduce;
  p->state_width = pass->state_width;
  p->kept_width = pass->kept_width;
  p->red_width = pass->red_width;
  tile = choose_tile(w.nfull, pass->red_width, real_bytes);
  finish_program(&w, p, KI_ROWS, tile, real_bytes, acc);
  p->block = (int32_t)ke_chunk_items(pass, real_bytes);
  if (p->block < p->tile) p->block = p->tile;
  *out = (ke_kernel){.shape = {.real_bytes = real_bytes,
                               .rows = KI_ROWS,
                               .tile = p->tile,
                               .scratch_bytes = p->scratch_bytes},
                     .run = target->pair,
                     .impl = p};
  return KE_OK;
}

ke_status ke_rows_prepare(ke_arena *arena, const ke_program *program, ke_isa isa, ke_rows **out,
                          ke_error *err)
{
  ki_lowering w = {.arena = arena, .program = program, .lanes = 1};
  ke_rows *rows = ke_interp_take(&w, 1, sizeof *rows);

  if (!rows) return ke_fail_memory(err);
  KE_TRY(lower(&w, err));
  finish_program(&w, &rows->program, 1, KE_ROWS_LANES, (int)sizeof(double), 0);
  rows->run = find_target(isa, (int)sizeof(double))->rows;
  *out = rows;
  return KE_OK;
}

size_t ke_rows_scratch(const ke_rows *rows)
{
  return rows->program.scratch_bytes;
}

void ke_rows_run(const ke_rows *rows, const ke_column *slots, const double *once, int64_t first,
                 int n, double *out, int64_t out_ld, void *scratch)
{
  if (n > 0) rows->run(rows, slots, once, first, n, out, out_ld, scratch);
}

static double clamp_finite(double m)
{
  return m > DBL_MAX ? DBL_MAX : m < -DBL_MAX ? -DBL_MAX : m;
}

double ke_interp_merge_sumexp(double m1, double m2, double *factor1, double *factor2)
{
  const double m = m1 > m2 ? m1 : m2;

  *factor1 = exp(clamp_finite(m1) - clamp_finite(m));
  *factor2 = exp(clamp_finite(m2) - clamp_finite(m));
  return m;
}
