/* The tile interpreter's loop: instructions of a program, tiles of a chunk, rows of a block.
 * Compiled once for each instruction set and precision by the small interp_<isa>_<precision>.c,
 * which say KI_ISA, KE_REAL_BYTES and what the vectors are. */
#include "interp_primitives.h"

#include "keops_least.h"
#include "keops_sum.h"

_Static_assert((int)KI_MAX_TILE <= (int)KE_POOL_STEP, "a tile of items goes into a pool at once");

#define KI_PASTE_(a, b, c) a##_##b##_##c
#define KI_PASTE(a, b, c) KI_PASTE_(a, b, c)

/* ---- the loop over instructions ---- */

typedef struct {
  const ki_program *program;
  real *base[KI_NBASE];
  int64_t counter[KE_MAX_LOOPS];
  int64_t l0, l1, full0, full1, start;
  int rows;
  const vi *mask;
  int64_t first; /* item, or row of a row program, that is lane 0 */
  double *state; /* of the first row */
  /* row programs */
  const ke_column *slots;
  double *out;
  int64_t out_ld;
  int lanes;
} ki_env;

KI_INLINE int64_t place(const ki_env *e, const ki_view *v)
{
  int64_t at = v->offset;

  if (v->moves)
    for (int d = 0; d < KE_MAX_LOOPS; d++) at += v->step[d] * e->counter[d];
  return at;
}

KI_INLINE real *address(const ki_env *e, const ki_view *v)
{
  return v->base < KI_NBASE ? e->base[v->base] + place(e, v) : NULL;
}

#if KE_REAL_BYTES == 8
/* The column's lanes, the last one repeated up to the end of the vectors: nothing is read behind
 * it. */
static void load_slot(const ki_env *e, const ki_instr *in, real *dst)
{
  const ke_column *column = &e->slots[in->a.slot];
  const double *from = column->data + place(e, &in->a) * column->ld + e->first;

  memcpy(dst, from, (size_t)e->lanes * sizeof *dst);
  for (int64_t l = e->lanes; l < e->l1; l++) dst[l] = from[e->lanes - 1];
}

static void gather_slot(const ki_env *e, const ki_instr *in, const ki_args *g)
{
  const ke_column *column = &e->slots[in->b.slot];
  const double *from = column->data + place(e, &in->b) * column->ld;

  for (int64_t l = 0; l < e->l1; l++) {
    const double row = g->a[l];
    g->dst[l] = row >= 0 && row < (double)column->ld ? from[(int64_t)row] : 0;
  }
}

static void store_out(const ki_env *e, const ki_instr *in, const real *a)
{
  double *out = e->out + place(e, &in->dst) * e->out_ld;

  if (in->a.vector) {
    memcpy(out, a, (size_t)e->lanes * sizeof *out);
  } else {
    for (int l = 0; l < e->lanes; l++) out[l] = *a;
  }
}

static void copy_slot(const ki_env *e, const ki_instr *in)
{
  const ke_column *column = &e->slots[in->a.slot];

  memcpy(e->out + place(e, &in->dst) * e->out_ld,
         column->data + place(e, &in->a) * column->ld + e->first,
         (size_t)e->lanes * sizeof *e->out);
}
#endif

static void run_exp_shift(const ki_env *e, const ki_instr *in, ki_args *g)
{
  const ki_reduce *reduce = &e->program->reduce[in->reduce];
  real *sums = e->base[KI_ACC] + reduce->acc * KE_W;

  g->n = reduce->width;
  exp_shift(g, sums + (int64_t)reduce->width * KI_ROWS * KE_W, sums);
}

/* The state's heap of a component's least values, for row r of the block. */
KI_INLINE double *heap_of(const ki_env *e, const ki_reduce *reduce, int r, int64_t component)
{
  return e->state + (int64_t)r * e->program->state_width + reduce->state + component * reduce->k;
}

/* A small k: the component's list of row r, and its numbers */
KI_INLINE vr *list_of(const ki_env *e, const ki_reduce *reduce, int r, int64_t component, vi **number)
{
  const int64_t n = KE_LIST_VECTORS(reduce->k), values = (int64_t)reduce->width * KI_ROWS;
  vr *list = (vr *)e->base[KI_ACC] + reduce->acc + values + (component * KI_ROWS + r) * n;

  *number = (vi *)(list + values * n);
  return list;
}

/* A larger k: the component's pool of row r */
KI_INLINE double *pool_of(const ki_env *e, const ki_reduce *reduce, int r, int64_t component)
{
  double *pools = (double *)((vr *)e->base[KI_ACC] + reduce->acc + (int64_t)reduce->width * KI_ROWS);

  return pools + (component * KI_ROWS + r) * KE_POOL_DOUBLES(reduce->k);
}

static void start_least(const ki_env *e, const ki_reduce *reduce)
{
  const int64_t n = (int64_t)reduce->k * reduce->width;

  for (int64_t c = 0; c < reduce->width; c++)
    for (int r = 0; r < e->rows; r++) {
      const double *heap = heap_of(e, reduce, r, c);
      vi *number;
      vr *list;

      store(e->base[KI_ACC] + (reduce->acc + c * KI_ROWS + r) * KE_W, k_set((real)heap[0]));
      if (reduce->k > KE_LIST_MOST) {
        ke_pool_start(heap, heap + n, reduce->k, pool_of(e, reduce, r, c));
      } else {
        list = list_of(e, reduce, r, c, &number);
        ke_list_start(heap, heap + n, reduce->k, list, number);
      }
    }
}

static void merge_least(const ki_env *e, const ki_reduce *reduce, int r, int64_t first)
{
  const int64_t n = (int64_t)reduce->k * reduce->width;

  for (int64_t c = 0; c < reduce->width; c++) {
    double *heap = heap_of(e, reduce, r, c);
    vi *number;
    vr *list;

    if (reduce->k > KE_LIST_MOST) {
      ke_pool_finish(heap, heap + n, reduce->k, pool_of(e, reduce, r, c));
    } else {
      list = list_of(e, reduce, r, c, &number);
      ke_list_finish(heap, heap + n, reduce->k, list, number, first);
    }
  }
}

/* Lists of few vectors stay in registers. */
KI_PRIMITIVE real take_list(vr *value, vi *number, int k, const vr *x, int n, int first)
{
  enum { MOST = KE_LIST_VECTORS(KE_LIST_MOST) }; /* no constant beyond it, or compilers warn */
  const int vectors = KE_LIST_VECTORS(k), last = (k - 1) % KE_W;

  switch (vectors) {
  case 1: return ke_list_take(value, number, 1, last, x, n, first);
  case 2: return ke_list_take(value, number, MOST < 2 ? MOST : 2, last, x, n, first);
  case 3: return ke_list_take(value, number, MOST < 3 ? MOST : 3, last, x, n, first);
  default: return ke_list_take(value, number, vectors, last, x, n, first);
  }
}

/* Lanes [l0, l1) of a, n vectors, for row r: their least tells whether any is to be looked at. */
KI_INLINE real take_least(const ki_env *e, const ki_reduce *reduce, int r, int64_t component, const vr *x, int n,
                          real worst)
{
  vr least = k_set(K(K_INF)), other = least;
  vi *number;
  vr *list;

  for (int v = 0; v < n; v += 2) {
    least = k_min(x[v], least);
    other = k_min(x[v + 1], other);
  }
  if (!K_RARE(k_less_bits(k_min(least, other), k_set(worst)))) return worst;
  if (reduce->k > KE_LIST_MOST)
    return ke_pool_take(reduce->k, pool_of(e, reduce, r, component), x, n, e->first + e->l0);
  list = list_of(e, reduce, r, component, &number);
  return take_list(list, number, reduce->k, x, n, (int)(e->start + e->l0));
}

static void run_least(const ki_env *e, const ki_instr *in, const ki_args *g)
{
  const ki_reduce *reduce = &e->program->reduce[in->reduce];
  const int64_t component = (g->dst - e->base[KI_ACC] - reduce->acc * KE_W) / (KI_ROWS * KE_W);
  const int n = (int)((g->l1 - g->l0) / KE_W);
  vr masked[KI_MAX_TILE / KE_W];

  for (int64_t k = 0; k < g->n; k++)
    for (int r = 0; r < g->rows; r++) {
      const vr *x = (const vr *)(g->a + k * g->a_k + r * g->a_row + g->l0);
      real *acc = g->dst + k * g->dst_k + r * g->dst_row;

      for (int v = 0; g->mask && v < n; v++)
        masked[v] = k_select(g->mask[g->l0 / KE_W + v], x[v], k_set(K(K_INF)));
      store(acc, k_set(take_least(e, reduce, r, component + k, g->mask ? masked : x, n, *acc)));
    }
}

static void run_instr(const ki_env *e, const ki_instr *in)
{
  ki_args g;

  g.dst = address(e, &in->dst);
  g.a = address(e, &in->a);
  g.b = address(e, &in->b);
  g.c = address(e, &in->c);
  g.dst_row = in->dst.row;
  g.a_row = in->a.row;
  g.b_row = in->b.row;
  g.c_row = in->c.row;
  g.l0 = e->l0;
  g.l1 = e->l1;
  g.rows = in->flat ? 1 : e->rows;
  if (in->op < KE_OP_COUNT) {
    elementwise[in->op][in->mode](&g);
    return;
  }
  g.dst_k = in->dst.step[in->depth];
  g.a_k = in->a.step[in->depth];
  g.b_k = in->b.step[in->depth];
  g.c_k = in->c.step[in->depth];
  g.start = e->start;
  g.n = in->n;
  g.keep = in->keep;
  g.mask = e->mask;
  g.full0 = e->full0;
  g.full1 = e->full1;
  switch (in->op) {
  case KI_SPLAT: splat(&g); break;
  case KI_MULADD: in->mode == KI_VV ? muladd_vv(&g) : muladd_vs(&g); break;
  case KI_SQDIST: fold_sqdist(&g); break;
  case KI_WSQDIST: fold_wsqdist(&g); break;
  case KI_DOT: fold_dot(&g); break;
  case KI_L1: fold_l1(&g); break;
  case KI_FOLD_MAX: fold_max(!in->keep && e->counter[in->depth] == 0, &g); break;
  case KI_FOLD_MIN: fold_min(!in->keep && e->counter[in->depth] == 0, &g); break;
  case KI_SUM: sum_plain(&g); break;
  case KI_SUM_MUL: in->mode == KI_VV ? sum_mul_vv(&g) : sum_mul_vs(&g); break;
  case KI_SUM_DIFF: sum_diff(&g); break;
  case KI_SUM_DIFF_NEG: sum_diff_neg(&g); break;
  case KI_MIN: extreme_min(&g); break;
  case KI_MAX: extreme_max(&g); break;
  case KI_KAHAN: sum_kahan(&g); break;
  case KI_LEAST: run_least(e, in, &g); break;
  case KI_EXP_SHIFT: run_exp_shift(e, in, &g); break;
#if KE_REAL_BYTES == 8
  case KI_LOAD: load_slot(e, in, g.dst); break;
  case KI_GATHER: gather_slot(e, in, &g); break;
  case KI_STORE: store_out(e, in, g.a); break;
  case KI_COPY: copy_slot(e, in); break;
#endif
  default: break;
  }
}

static void run_code(ki_env *e, const ki_instr *code, int32_t len)
{
  for (int32_t i = 0; i < len; i++) {
    const ki_instr *in = &code[i];

    if (in->op != KI_LOOP) {
      run_instr(e, in);
      continue;
    }
    for (int32_t k = 0; k < in->n; k++) {
      e->counter[in->depth] = k;
      run_code(e, in + 1, in->len);
    }
    e->counter[in->depth] = 0;
    i += in->len;
  }
}

/* ---- pair programs: accumulators of a block of rows over a chunk of items ---- */

static void clear_accumulators(const ki_env *e)
{
  for (int32_t n = 0; n < e->program->nreduce; n++) {
    const ki_reduce *reduce = &e->program->reduce[n];
    const int64_t vectors = (int64_t)reduce->width * KI_ROWS;
    real *acc = e->base[KI_ACC] + reduce->acc * KE_W;
    const ke_reduce_kind kind = reduce->kind;
    const vr start = k_set(kind == KE_RED_MIN ? K(K_INF) : kind == KE_RED_MAX ? K(-K_INF) : K(0));

    for (int64_t v = 0; v < vectors; v++) store(acc + v * KE_W, start);
    if (kind == KE_RED_KMIN) start_least(e, reduce);
    acc += vectors * KE_W;
    if (kind == KE_RED_SUMEXP)
      for (int r = 0; r < KI_ROWS; r++) acc[r] = K(-K_INF);
    if (kind == KE_RED_KAHAN)
      for (int64_t v = 0; v < vectors; v++) store(acc + v * KE_W, k_set(K(0)));
    if (kind == KE_RED_MIN || kind == KE_RED_MAX)
      for (int64_t v = 0; v < vectors; v++) store(acc + v * KE_W, (vr)((vi){0} - 1));
  }
}

/* The best of a row's lanes, of equal ones the lowest number, then against the state, whose items
 * come before these. `first`: the item of number 0. Lanes that found nothing hold the start value,
 * which beats no state. */
static void merge_extreme(const real *acc, const real *acc_index, bool is_max, int64_t first,
                          double *value, double *index)
{
  int64_t at;
  const double x = is_max ? -k_least(-load(acc), (vi)load(acc_index), &at) : k_least(load(acc), (vi)load(acc_index), &at);

  if (is_max ? x > *value : x < *value) {
    *value = x;
    *index = (double)(first + at);
  }
}

static void merge_sumexp(const real *acc, int32_t width, int r, double *state)
{
  const real *m = acc + (int64_t)width * KI_ROWS * KE_W;
  double old_factor, new_factor;

  state[0] = ke_interp_merge_sumexp(state[0], (double)m[r], &old_factor, &new_factor);
  for (int32_t k = 0; k < width; k++)
    state[1 + k] = state[1 + k] * old_factor +
                   k_hsum(load(acc + ((int64_t)k * KI_ROWS + r) * KE_W)) * new_factor;
}

static void merge_kahan(const real *acc, int64_t width, int r, double *state)
{
  for (int64_t k = 0; k < width; k++) {
    const real *sum = acc + (k * KI_ROWS + r) * KE_W, *rest = sum + width * KI_ROWS * KE_W;

    for (int l = 0; l < KE_W; l++) {
      ke_sum_add(&state[k], &state[width + k], (double)sum[l]);
      state[width + k] += (double)rest[l];
    }
  }
}

static void merge_row(const ki_env *e, const ki_reduce *reduce, int r, int64_t first, double *state)
{
  const real *acc = e->base[KI_ACC] + reduce->acc * KE_W;
  const int64_t width = reduce->width;

  switch (reduce->kind) {
  case KE_RED_SUM:
    for (int64_t k = 0; k < width; k++) state[k] += k_hsum(load(acc + (k * KI_ROWS + r) * KE_W));
    break;
  case KE_RED_MIN:
  case KE_RED_MAX:
    for (int64_t k = 0; k < width; k++) {
      const real *value = acc + (k * KI_ROWS + r) * KE_W;
      merge_extreme(value, value + width * KI_ROWS * KE_W, reduce->kind == KE_RED_MAX, first,
                    &state[k], &state[width + k]);
    }
    break;
  case KE_RED_SUMEXP: merge_sumexp(acc, reduce->width, r, state); break;
  case KE_RED_KAHAN: merge_kahan(acc, width, r, state); break;
  case KE_RED_KMIN: merge_least(e, reduce, r, first); break;
  }
}

/* To whole pairs of vectors. */
KI_INLINE int64_t round_down(int64_t lane)
{
  return lane / (2 * KE_W) * (2 * KE_W);
}
KI_INLINE int64_t round_up(int64_t lane)
{
  return round_down(lane + 2 * KE_W - 1);
}

/* Lanes [l0, l1) of the tile are items. */
static void set_lanes(ki_env *e, int64_t l0, int64_t l1, vi *mask)
{
  const lane_int low = (lane_int)l0, high = (lane_int)l1;

  e->l0 = round_down(l0);
  e->l1 = round_up(l1);
  e->full0 = round_up(l0);
  e->full1 = round_down(l1);
  if (e->full1 < e->full0) e->full1 = e->full0;
  e->mask = NULL;
  if (e->full0 == l0 && e->full1 == l1) return;
  for (int64_t l = e->l0; l < e->l1; l += KE_W) {
    const vi number = lane_numbers(l);
    mask[l / KE_W] = (number >= low) & (number < high);
  }
  e->mask = mask;
}

/* Rows of one block against the tiles [t0, t1) of one chunk, items [i0, i1) only. */
static void run_block(ki_env *e, const ke_task *task, int64_t t0, int64_t t1, vi *mask)
{
  const ki_program *p = e->program;
  const int64_t tile = p->tile;

  clear_accumulators(e);
  for (int64_t t = t0; t < t1; t++) {
    const int64_t low = task->i0 - t * tile, high = task->i1 - t * tile;

    set_lanes(e, low > 0 ? low : 0, high < tile ? high : tile, mask);
    e->start = (t - t0) * tile;
    e->first = t * tile;
    e->base[KI_RED] = (real *)task->red + t * tile * p->red_width;
    run_code(e, p->code, p->ncode);
  }
}

static void run_pair(const ke_kernel *kernel, const ke_task *task)
{
  const ki_program *p = kernel->impl;
  const int64_t tile = p->tile, step = p->block / tile;
  const int64_t first = task->i0 / tile, end = (task->i1 - 1) / tile + 1;
  char *scratch = task->scratch;
  ki_env e = {.program = p};

  e.base[KI_TEMP] = (real *)(scratch + p->temp_at);
  e.base[KI_CONST] = (real *)(scratch + p->constant_at);
  e.base[KI_ONCE] = (real *)task->once;
  e.base[KI_ACC] = (real *)(scratch + p->acc_at);
  for (int32_t k = 0; k < p->nconstant; k++) e.base[KI_CONST][k] = (real)p->constant[k];
  for (int64_t t = first; t < end; t += step) {
    const int64_t t1 = t + step < end ? t + step : end;

    for (int64_t row = 0; row < task->nrows; row += KI_ROWS) {
      e.rows = task->nrows - row < KI_ROWS ? (int)(task->nrows - row) : KI_ROWS;
      e.base[KI_KEPT] = (real *)task->kept + row * p->kept_width;
      e.state = task->state + row * p->state_width;
      run_block(&e, task, t, t1, (vi *)(scratch + p->mask_at));
      for (int32_t n = 0; n < p->nreduce; n++)
        for (int r = 0; r < e.rows; r++)
          merge_row(&e, &p->reduce[n], r, t * tile,
                    e.state + r * p->state_width + p->reduce[n].state);
    }
  }
}

#if KE_REAL_BYTES == 8
static void run_rows(const ke_rows *rows, const ke_column *slots, const double *once, int64_t first,
                     int n, double *out, int64_t out_ld, void *scratch)
{
  const ki_program *p = &rows->program;
  ki_env e = {.program = p,
              .slots = slots,
              .out = out,
              .out_ld = out_ld,
              .first = first,
              .lanes = n,
              .rows = 1,
              .l1 = round_up(n)};

  e.base[KI_TEMP] = (real *)((char *)scratch + p->temp_at);
  e.base[KI_CONST] = p->constant;
  e.base[KI_ONCE] = (real *)once;
  run_code(&e, p->code, p->ncode);
}
#endif

const ki_target KI_PASTE(ke_interp, KI_ISA, KE_REAL_BYTES) = {
    .vector_bytes = KE_VBYTES,
    .pair = run_pair,
#if KE_REAL_BYTES == 8
    .rows = run_rows,
#endif
};
