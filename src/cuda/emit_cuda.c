/* CUDA source of a pass's pair kernel: what a thread adds for a step of items, and to what.
 *
 *   ke_acc        accumulators of R rows        acc_start, acc_settle (after a tile), acc_put (the state)
 *   step<JR>      the pair program for R rows and JR items, and the adding
 *   merge_state   two states of a row made one
 *
 * The loops around them are the same for all passes: keops_cuda_pairs.h. Code within a step is printed by
 * emit.c, where a vector is one number here: "lanes" are threads, "vectors" the items of a step. What each
 * reduction prints stands in one table below. Sums in single precision go to double after each tile. */
#include "emit_cuda.h"

#include "emit.h"
#include "op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  ke_emit e;
  const ke_pass *pass;
  ke_cuda_tiling t;
  bool accurate;
  ke_tensor tensor; /* what tensor cores do, or what is scaled, if anything */
  const ke_dots *dots; /* products made by tensor cores; NULL: none are */
} kernel;

/* What the lines of a reduction need to know while a segment is printed. */
typedef struct {
  kernel *k;
  int32_t q; /* number of the reduction */
  const ke_segment *seg;
} value;

/* How one kind of reduction is printed; r is the row, `q` numbers its accumulators. */
typedef struct {
  const char *merge; /* function of keops_cuda.h */
  void (*declare)(kernel *k, int32_t q);
  void (*start)(kernel *k, int32_t q);                 /* for each r */
  void (*before)(kernel *k, int32_t q);                /* in a step, before its values; or NULL */
  void (*add)(ke_emit *e, const value *x, const char *at); /* vr x, item v of the step */
  void (*after)(kernel *k, const value *x, const char *at); /* when `add` has seen all of the step; or NULL */
  void (*settle)(kernel *k, int32_t q);                /* for each r; or NULL */
  void (*put)(kernel *k, int32_t q);                   /* row r's to[c * ld] */
} reducer_text;

static const reducer_text *text_of(ke_reduce_kind kind);

/* ---- all kinds ---- */
static const ke_reduce *reduce_of(const kernel *k, int32_t q)
{
  return &k->pass->reduce[q];
}

static bool wide(const kernel *k, int32_t q)
{
  return ke_cuda_wide(&k->t, reduce_of(k, q));
}

static bool is_one(const ke_place *p)
{
  return p->kind == KE_AT_CONST && p->value == 1;
}

static bool has_totals(const kernel *k)
{
  return k->t.real_bytes == 4;
}

/* A loop over all components of a reduction: written out where they are registers. */
static void open_components(kernel *k, int32_t q)
{
  int32_t width = reduce_of(k, q)->width;

  if (wide(k, q))
    KE_LINE(&k->e, "ROLLED for (int k = 0; k < %" PRId32 "; k++) {", width);
  else
    KE_LINE(&k->e, "EACH(k, %" PRId32 ") {", width);
  k->e.indent++;
}

static void close_components(kernel *k)
{
  k->e.indent--;
  KE_LINE(&k->e, "}");
}

static void declare_array(kernel *k, int32_t q, const char *type, const char *name)
{
  KE_LINE(&k->e, "%s %s%" PRId32 "[R][%" PRId32 "];", type, name, q, reduce_of(k, q)->width);
}

/* ---- sums: sum of the tile in the pass's precision, total in double ---- */
static void declare_sum(kernel *k, int32_t q)
{
  declare_array(k, q, "real", "sum");
  if (has_totals(k)) declare_array(k, q, "double", "total");
}

static void start_sum(kernel *k, int32_t q)
{
  open_components(k, q);
  KE_LINE(&k->e, "a.sum%d[r][k] = 0;", q);
  if (has_totals(k)) KE_LINE(&k->e, "a.total%d[r][k] = 0;", q);
  close_components(k);
}

static void add_sum(ke_emit *e, const value *x, const char *at)
{
  KE_LINE(e, "a.sum%d%s += x;", x->q, at);
}

static void settle_sum(kernel *k, int32_t q)
{
  if (!has_totals(k)) return;
  open_components(k, q);
  KE_LINE(&k->e, "a.total%d[r][k] += (double)a.sum%d[r][k];", q, q);
  KE_LINE(&k->e, "a.sum%d[r][k] = 0;", q);
  close_components(k);
}

/* Components to the places from `first` of the state on. */
static void put_sums(kernel *k, int32_t q, int32_t first)
{
  open_components(k, q);
  KE_LINE(&k->e, "to[(%" PRId32 " + k) * ld] = a.%s%d[r][k];", first,
          has_totals(k) ? "total" : "sum", q);
  close_components(k);
}

static void put_sum(kernel *k, int32_t q)
{
  put_sums(k, q, reduce_of(k, q)->state);
}

/* ---- compensated sums: what rounding took off a tile's sum, and off the total in double, beside them ---- */
static void declare_kahan(kernel *k, int32_t q)
{
  declare_array(k, q, "real", "sum");
  declare_array(k, q, "real", "rest");
  if (!has_totals(k)) return;
  declare_array(k, q, "double", "total");
  declare_array(k, q, "double", "lost");
}

static void start_kahan(kernel *k, int32_t q)
{
  open_components(k, q);
  KE_LINE(&k->e, "a.sum%d[r][k] = a.rest%d[r][k] = 0;", q, q);
  if (has_totals(k)) KE_LINE(&k->e, "a.total%d[r][k] = a.lost%d[r][k] = 0;", q, q);
  close_components(k);
}

/* The value is made first: joined to the sum as a fused product it would not be what is subtracted. */
static void add_kahan(ke_emit *e, const value *x, const char *at)
{
  KE_LINE(e, "const real y = k_keep(x), s = a.sum%d%s + y, part = s - a.sum%d%s;", x->q, at, x->q, at);
  KE_LINE(e, "a.rest%d%s += (a.sum%d%s - (s - part)) + (y - part);", x->q, at, x->q, at);
  KE_LINE(e, "a.sum%d%s = s;", x->q, at);
}

static void settle_kahan(kernel *k, int32_t q)
{
  if (!has_totals(k)) return;
  open_components(k, q);
  KE_LINE(&k->e, "ke_sum_add(&a.total%d[r][k], &a.lost%d[r][k], (double)a.sum%d[r][k]);", q, q, q);
  KE_LINE(&k->e, "a.lost%d[r][k] += (double)a.rest%d[r][k];", q, q);
  KE_LINE(&k->e, "a.sum%d[r][k] = a.rest%d[r][k] = 0;", q, q);
  close_components(k);
}

static void put_kahan(kernel *k, int32_t q)
{
  const ke_reduce *r = reduce_of(k, q);

  put_sums(k, q, r->state);
  open_components(k, q);
  KE_LINE(&k->e, "to[(%" PRId32 " + k) * ld] = a.%s%d[r][k];", r->state + r->width, has_totals(k) ? "lost" : "rest", q);
  close_components(k);
}

/* ---- extremes: the best value, and the item it came from ---- */
static bool is_least(const kernel *k, int32_t q)
{
  return reduce_of(k, q)->kind == KE_RED_MIN;
}

static void declare_extreme(kernel *k, int32_t q)
{
  declare_array(k, q, "real", "best");
  declare_array(k, q, "int", "where");
}

static void start_extreme(kernel *k, int32_t q)
{
  open_components(k, q);
  KE_LINE(&k->e, "a.best%d[r][k] = K(%sK_INF);", q, is_least(k, q) ? "" : "-");
  KE_LINE(&k->e, "a.where%d[r][k] = -1;", q);
  close_components(k);
}

static void add_extreme(ke_emit *e, const value *x, const char *at)
{
  KE_LINE(e, "const bool hit = x %c a.best%d%s;", is_least(x->k, x->q) ? '<' : '>', x->q, at);
  KE_LINE(e, "a.best%d%s = hit ? x : a.best%d%s;", x->q, at, x->q, at);
  KE_LINE(e, "a.where%d%s = hit ? item + v : a.where%d%s;", x->q, at, x->q, at);
}

static void put_extreme(kernel *k, int32_t q)
{
  const ke_reduce *r = reduce_of(k, q);

  open_components(k, q);
  KE_LINE(&k->e, "to[(%" PRId32 " + k) * ld] = a.best%d[r][k];", r->state, q);
  KE_LINE(&k->e, "to[(%" PRId32 " + k) * ld] = a.where%d[r][k] < 0 ? -1. : (double)(number + a.where%d[r][k]);",
          r->state + r->width, q, q);
  close_components(k);
}

/* ---- the k least: sorted lists in registers, or heaps in the thread's slot (keops_cuda_least.h) ---- */
static int64_t places(const kernel *k, int32_t q)
{
  return (int64_t)reduce_of(k, q)->k * reduce_of(k, q)->width;
}

static void declare_least(kernel *k, int32_t q)
{
  const ke_reduce *r = reduce_of(k, q);

  if (wide(k, q))
    declare_array(k, q, "real", "worst");
  else
    KE_LINE(&k->e, "real low%d[R][%" PRId32 "][%" PRId32 "]; int where%d[R][%" PRId32 "][%" PRId32 "];", q, r->width,
            r->k, q, r->width, r->k);
}

static void start_least(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = reduce_of(k, q);

  if (!wide(k, q)) {
    open_components(k, q);
    KE_LINE(e, "EACH(m, %" PRId32 ") a.low%d[r][k][m] = K(K_INF), a.where%d[r][k][m] = -1;", r->k, q, q);
    close_components(k);
    return;
  }
  KE_LINE(e, "double *heap = a.mine + r * RT + %" PRId32 " * (llong)ROWS_OF_BLOCK;", r->state);
  KE_LINE(e, "ROLLED for (llong c = 0; c < %" PRId64 "; c++) {", places(k, q));
  KE_LINE(e, "  heap[c * ROWS_OF_BLOCK] = K_INF;");
  KE_LINE(e, "  heap[(%" PRId64 " + c) * ROWS_OF_BLOCK] = -1;", places(k, q));
  KE_LINE(e, "}");
  open_components(k, q);
  KE_LINE(e, "a.worst%d[r][k] = K(K_INF);", q);
  close_components(k);
}

/* Values of a step wait, so that one branch asks for all of them. */
static void add_least(ke_emit *e, const value *x, const char *at)
{
  (void)at;
  KE_LINE(e, "low%d[r][v] = x;", x->q);
}

static void after_least(kernel *k, const value *x, const char *at)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = reduce_of(k, x->q);
  const bool heap = wide(k, x->q);
  char last[80];

  if (heap)
    snprintf(last, sizeof last, "a.worst%d%s", (int)x->q, at);
  else
    snprintf(last, sizeof last, "a.low%d%s[%" PRId32 "]", (int)x->q, at, r->k - 1);
  KE_LINE(e, "ROWS {");
  e->indent++;
  KE_LINE(e, "real least = K(K_INF);");
  KE_LINE(e, "VECS least = low%d[r][v] < least ? low%d[r][v] : least;", x->q, x->q);
  KE_LINE(e, "if (least < %s) VECS {", last);
  e->indent++;
  KE_LINE(e, "if (low%d[r][v] < %s) {", x->q, last);
  e->indent++;
  if (heap) {
    KE_LINE(e, "double *heap = a.mine + r * RT + (%" PRId32 " + (%" PRId32 "%s) * %" PRId32 "LL) * ROWS_OF_BLOCK;",
            r->state, x->seg->out, x->seg->n > 1 ? " + k0" : "", r->k);
    KE_LINE(e, "k_least_replace(heap, heap + %" PRId64 "LL * ROWS_OF_BLOCK, %" PRId32 ", ROWS_OF_BLOCK, (double)low%d[r][v],",
            places(k, x->q), r->k, x->q);
    KE_LINE(e, "    (double)(task.number + item + v));");
    KE_LINE(e, "%s = (real)heap[0];", last);
  } else {
    KE_LINE(e, "k_list_take(a.low%d%s, a.where%d%s, low%d[r][v], item + v);", x->q, at, x->q, at, x->q);
  }
  close_components(k);
  close_components(k);
  close_components(k);
}

/* The largest first, as in a heap */
static void put_least(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = reduce_of(k, q);

  if (wide(k, q)) {
    KE_LINE(e, "const double *heap = a.mine + r * RT + %" PRId32 " * (llong)ROWS_OF_BLOCK;", r->state);
    KE_LINE(e, "if (to != a.mine + r * RT)");
    KE_LINE(e, "  ROLLED for (llong c = 0; c < %" PRId64 "; c++)", 2 * places(k, q));
    KE_LINE(e, "    to[(%" PRId32 " + c) * ld] = heap[c * ROWS_OF_BLOCK];", r->state);
    return;
  }
  open_components(k, q);
  KE_LINE(e, "EACH(m, %" PRId32 ") {", r->k);
  KE_LINE(e, "  const int place = %" PRId32 " + k * %" PRId32 " + %" PRId32 " - m, where = a.where%d[r][k][m];", r->state,
          r->k, r->k - 1, q);
  KE_LINE(e, "  to[place * ld] = a.low%d[r][k][m];", q);
  KE_LINE(e, "  to[(place + %" PRId64 ") * ld] = where < 0 ? -1. : (double)(number + where);", places(k, q));
  KE_LINE(e, "}");
  close_components(k);
}

/* ---- sums of exponentials: sums of exp(score - from), `from` the largest score, made finite ---- */
static void declare_sumexp(kernel *k, int32_t q)
{
  KE_LINE(&k->e, "real top%d[R], from%d[R];", q, q);
  declare_sum(k, q);
}

static void start_sumexp(kernel *k, int32_t q)
{
  KE_LINE(&k->e, "a.top%d[r] = K(-K_INF);", q);
  KE_LINE(&k->e, "a.from%d[r] = -K_BIG;", q);
  start_sum(k, q);
}

static void print_score(ke_emit *e, const void *data)
{
  const value *x = data;

  ke_emit_indent(e);
  KE_TEXT(e, "exp%d[r][v] = ", x->q);
  ke_emit_place(e, &reduce_of(x->k, x->q)->score);
  KE_TEXT(e, ";\n");
}

/* Scores of a step, then what they are raised to; the largest rises seldom. */
static void before_sumexp(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const value x = {k, q, NULL};
  const ke_emit_tail tail = {KE_AXIS_BOTH, print_score, &x};

  KE_LINE(e, "real exp%d[R][JR];", q);
  ke_emit_list(e, 0, 0, &tail);
  KE_LINE(e, "ROWS {");
  e->indent++;
  KE_LINE(e, "real high = a.from%d[r];", q);
  KE_LINE(e, "VECS high = exp%d[r][v] > high ? exp%d[r][v] : high;", q, q);
  KE_LINE(e, "if (high > a.from%d[r]) {", q);
  e->indent++;
  KE_LINE(e, "const real factor = k_exp_below(a.from%d[r] - k_finite(high));", q);
  open_components(k, q);
  KE_LINE(e, "a.sum%d[r][k] *= factor;", q);
  if (has_totals(k)) KE_LINE(e, "a.total%d[r][k] *= (double)factor;", q);
  close_components(k);
  KE_LINE(e, "a.top%d[r] = high;", q);
  KE_LINE(e, "a.from%d[r] = k_finite(high);", q);
  close_components(k);
  KE_LINE(e, "VECS exp%d[r][v] = k_exp_below(exp%d[r][v] - a.from%d[r]);", q, q, q);
  close_components(k);
}

/* A score of -K_BIG that counted is the largest one. */
static void put_sumexp(kernel *k, int32_t q)
{
  const ke_reduce *r = reduce_of(k, q);
  const char *sum = has_totals(k) ? "total" : "sum";

  KE_LINE(&k->e, "to[%" PRId32 " * ld] = a.top%d[r];", r->state, q);
  put_sums(k, q, r->state + 1);
  KE_LINE(&k->e, "if (a.top%d[r] == K(-K_INF))", q);
  open_components(k, q);
  KE_LINE(&k->e, "if (a.%s%d[r][k] < 0 || a.%s%d[r][k] > 0) to[%" PRId32 " * ld] = -K_BIG;", sum, q,
          sum, q, r->state);
  close_components(k);
}

/* ---- the table: one row a kind ---- */
static const reducer_text *text_of(ke_reduce_kind kind)
{
  static const reducer_text sum = {"k_merge_sum", declare_sum, start_sum, NULL, add_sum, NULL, settle_sum, put_sum};
  static const reducer_text kahan = {"k_merge_kahan", declare_kahan, start_kahan, NULL, add_kahan, NULL, settle_kahan,
                                     put_kahan};
  static const reducer_text least = {"k_merge_extreme<false>", declare_extreme, start_extreme, NULL, add_extreme, NULL,
                                     NULL, put_extreme};
  static const reducer_text largest = {"k_merge_extreme<true>", declare_extreme, start_extreme, NULL, add_extreme,
                                       NULL, NULL, put_extreme};
  static const reducer_text sumexp = {"k_merge_sumexp", declare_sumexp, start_sumexp, before_sumexp, add_sum, NULL,
                                      settle_sum, put_sumexp};
  static const reducer_text kmin = {"k_merge_least", declare_least, start_least, NULL, add_least, after_least, NULL,
                                    put_least};

  switch (kind) {
  case KE_RED_SUM: return &sum;
  case KE_RED_KAHAN: return &kahan;
  case KE_RED_MIN: return &least;
  case KE_RED_MAX: return &largest;
  case KE_RED_SUMEXP: return &sumexp;
  case KE_RED_KMIN: return &kmin;
  default: return NULL;
  }
}

static const reducer_text *text(const kernel *k, int32_t q)
{
  return text_of(reduce_of(k, q)->kind);
}

/* ---- adding a step ---- */
static void component_of(const value *x, char *at, size_t size)
{
  snprintf(at, size, "[r][%" PRId32 "%s]", x->seg->out, x->seg->n > 1 ? " + k0" : "");
}

/* One component of one pair into its accumulator; wide ones lie in local memory, of which a component is
 * taken for all items of the step. */
static void print_add(ke_emit *e, const void *data)
{
  const value *x = data;
  const bool sumexp = reduce_of(x->k, x->q)->kind == KE_RED_SUMEXP;
  const bool one = is_one(&x->seg->result);
  char at[32];

  component_of(x, at, sizeof at);
  ke_emit_indent(e);
  KE_TEXT(e, "const vr x = ");
  if (sumexp) KE_TEXT(e, "exp%d[r][v]%s", x->q, one ? "" : " * ");
  if (!sumexp || !one) ke_emit_place(e, &x->seg->result);
  KE_TEXT(e, ";\n");
  text(x->k, x->q)->add(e, x, at);
}

static void add_segment(kernel *k, int32_t q, const ke_segment *seg)
{
  ke_emit *e = &k->e;
  const value x = {k, q, seg};
  const ke_emit_tail tail = {KE_AXIS_BOTH, print_add, &x};
  char at[32];

  if (seg->n == 1)
    KE_LINE(e, "{");
  else if (wide(k, q))
    KE_LINE(e, "ROLLED for (int k0 = 0; k0 < %" PRId32 "; k0++) {", seg->n);
  else
    KE_LINE(e, "EACH(k0, %" PRId32 ") {", seg->n);
  e->loops = seg->n > 1;
  e->indent++;
  if (text(k, q)->after) KE_LINE(e, "real low%d[R][JR];", q);
  ke_emit_list(e, seg->first, seg->len, &tail);
  component_of(&x, at, sizeof at);
  if (text(k, q)->after) text(k, q)->after(k, &x, at);
  e->indent--;
  KE_LINE(e, "}");
  e->loops = 0;
}

static void emit_step(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_pass *pass = k->pass;

  KE_LINE(e, "/* items item .. item + JR - 1, the first of which lies at `tile` */");
  KE_LINE(e, "template <int JR> K_INLINE void step(ke_acc &a, const ke_kept &kept, const real *tile,");
  KE_LINE(e, "    const ke_once &once, const ke_cuda_task &task, const int item%s)",
          k->dots ? ", const real (&pair)[R][JR]" : "");
  KE_LINE(e, "{");
  e->indent = 1;
  if (k->t.item_here) KE_LINE(e, "real y[JR][RWP]; VECS k_take(y[v], tile + v * RWP);");
  ke_emit_list(e, 0, pass->pair.nhead, NULL);
  for (int32_t q = 0; q < pass->nreduce; q++) {
    const ke_reduce *r = reduce_of(k, q);

    if (text(k, q)->before) text(k, q)->before(k, q);
    for (int32_t s = 0; s < r->nseg; s++) add_segment(k, q, &pass->pair.seg[r->seg + s]);
  }
  e->indent = 0;
  KE_LINE(e, "}");
}

/* ---- for tensor cores ---- */
static void print_factor(ke_emit *e, const void *data)
{
  const kernel *k = data;

  ke_emit_indent(e);
  KE_TEXT(e, "factor[r][v] = ");
  ke_emit_place(e, &k->tensor.factor);
  KE_TEXT(e, ";\n");
}

/* The factor of a wide sum, of a step of items */
static void emit_factor(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_emit_tail tail = {KE_AXIS_BOTH, print_factor, k};

  KE_LINE(e, "template <int JR> K_INLINE void step_factor(real (&factor)[R][JR], const ke_kept &kept,");
  KE_LINE(e, "    const real *tile, const ke_once &once, const ke_cuda_task &task)");
  KE_LINE(e, "{");
  e->indent = 1;
  ke_emit_list(e, 0, k->pass->pair.nhead, &tail);
  e->indent = 0;
  KE_LINE(e, "}");
}

static void emit_steps(kernel *k)
{
  if (k->t.tensor == KE_TENSOR_WIDE)
    emit_factor(k);
  else
    emit_step(k);
}

static void emit_tensor_sizes(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_tensor *t = &k->tensor;

  KE_LINE(e, "enum { TENSOR_N = %" PRId32 ", TENSOR_KEPT = %" PRId32 ", TENSOR_RED = %" PRId32
             ", TENSOR_SCALE = %" PRId32 " };",
          t->n, t->kept, t->red, t->scale);
}

/* ---- around it ---- */
static void each_reduction(kernel *k, const char *head, void (*const *print)(kernel *, int32_t),
                           const char *loop)
{
  ke_emit *e = &k->e;

  KE_LINE(e, "%s", head);
  KE_LINE(e, "{");
  e->indent++;
  for (int32_t q = 0; q < k->pass->nreduce; q++) {
    if (!print[q]) continue;
    KE_LINE(e, "%s{", loop);
    e->indent++;
    print[q](k, q);
    close_components(k);
  }
  e->indent--;
  KE_LINE(e, "}");
}

/* Does part of the state lie in the thread's slot? */
static bool in_slot(const kernel *k)
{
  for (int32_t q = 0; q < k->pass->nreduce; q++)
    if (reduce_of(k, q)->kind == KE_RED_KMIN && wide(k, q)) return true;
  return false;
}

static bool any_kind(const kernel *k, ke_reduce_kind kind)
{
  for (int32_t q = 0; q < k->pass->nreduce; q++)
    if (reduce_of(k, q)->kind == kind) return true;
  return false;
}

static void emit_merge(kernel *k)
{
  ke_emit *e = &k->e;

  KE_LINE(e, "K_INLINE void merge_state(double *into, llong step, const double *from, llong from_step)");
  KE_LINE(e, "{");
  for (int32_t q = 0; q < k->pass->nreduce; q++) {
    const ke_reduce *r = reduce_of(k, q);

    KE_TEXT(e, "  %s", text(k, q)->merge);
    if (r->kind == KE_RED_KMIN) KE_TEXT(e, "<%" PRId32 ">", r->k);
    KE_TEXT(e, "(%" PRId32 ", into + %" PRId32 " * step, step, from + %" PRId32 " * from_step, from_step);\n", r->width,
            r->state, r->state);
  }
  KE_LINE(e, "}");
}

static void emit_accumulators(kernel *k, void (**print)(kernel *, int32_t))
{
  ke_emit *e = &k->e;
  int32_t n = k->pass->nreduce;

  KE_LINE(e, "struct ke_acc {");
  e->indent++;
  if (in_slot(k)) KE_LINE(e, "double *mine;");
  for (int32_t q = 0; q < n; q++) text(k, q)->declare(k, q);
  e->indent--;
  KE_LINE(e, "};");
  for (int32_t q = 0; q < n; q++) print[q] = text(k, q)->start;
  each_reduction(k, "K_INLINE void acc_start(ke_acc &a)", print, "ROWS ");
  for (int32_t q = 0; q < n; q++) print[q] = text(k, q)->settle;
  each_reduction(k, "K_INLINE void acc_settle(ke_acc &a)", print, "ROWS ");
  for (int32_t q = 0; q < n; q++) print[q] = text(k, q)->put;
  each_reduction(k,
                 "K_INLINE void acc_put(const ke_acc &a, const int r, double *to, const llong ld,\n"
                 "    const llong number)",
                 print, "");
  emit_merge(k);
}

/* What rows and once[] are read from. */
static void emit_operands(kernel *k)
{
  ke_emit *e = &k->e;

  if (k->t.kept_here) {
    KE_LINE(e, "struct ke_kept { real v[R][KW > 0 ? KW : 1]; };");
    KE_LINE(e, "K_INLINE void kept_take(ke_kept &kept, const real *at, llong ld, const real scale)");
    KE_LINE(e, "{");
    KE_LINE(e, "  EACH(r, R) EACH(c, KW) kept.v[r][c] = k_keep(at[c * ld + r * RT] * scale_of(scale, c, TENSOR_KEPT));");
    KE_LINE(e, "}");
    KE_LINE(e, "#define KEPT(i) kept.v[r][i]");
  } else {
    KE_LINE(e, "struct ke_kept { const real *at; llong ld; };");
    KE_LINE(e, "K_INLINE void kept_take(ke_kept &kept, const real *at, llong ld, real)");
    KE_LINE(e, "{");
    KE_LINE(e, "  kept.at = at, kept.ld = ld;");
    KE_LINE(e, "}");
    KE_LINE(e, "#define KEPT(i) __ldg(kept.at + (i) * kept.ld + r * %d)", k->dots ? 8 : k->t.across);
  }
  KE_LINE(e, "#define RED(i) %s", k->t.item_here ? "y[v][i]" : "tile[v * STRIDE + (i)]");
  if (k->t.once_here) {
    KE_LINE(e, "struct ke_once { real v[%" PRId32 "]; };", k->pass->once_width + (k->pass->once_width == 0));
    if (k->t.scaled)
      KE_LINE(e, "#define ONCE(i) ((i) == TENSOR_SCALE ? K(-1) : once.v[i])");
    else
      KE_LINE(e, "#define ONCE(i) once.v[i]");
  } else {
    KE_LINE(e, "struct ke_once { real v[1]; };");
    KE_LINE(e, "#define ONCE(i) __ldg((const real *)task.once + (i))");
  }
}

/* Does the program raise 2 to something in double? Then a table pays. */
static bool wants_table(const kernel *k)
{
  return k->t.real_bytes == 8 &&
         (any_kind(k, KE_RED_SUMEXP) || k->e.used[KE_OP_Exp2] || k->e.used[KE_OP_Exp2Mul]);
}

static void emit_sizes(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_pass *pass = k->pass;
  const ke_cuda_tiling *t = &k->t;

  KE_LINE(e, "#define KE_REAL_BYTES %d", t->real_bytes);
  KE_LINE(e, "#define KE_ACCURATE %d", k->accurate);
  KE_LINE(e, "#define KE_SHARED %d", t->shared);
  if (wants_table(k)) KE_LINE(e, "#define KE_EXP2_TABLE 1");
  if (in_slot(k)) KE_LINE(e, "#define KE_IN_SLOT 1");
  if (pass->ranged) KE_LINE(e, "#define KE_RANGED 1");
  KE_LINE(e, "enum { RT = %d, S = %d, BLOCK = RT * S, R = %d, ROWS_OF_BLOCK = RT * R, JR_OF_STEP = %d,",
          t->across, t->lanes, t->rows, t->step);
  KE_LINE(e, "  UN = %d, T = %d, MIN_BLOCKS = %d,", t->steps, t->tile, t->min_blocks);
  KE_LINE(e, "  KW = %" PRId32 ", RW = %" PRId32 ", RWP = %d, STRIDE = %d, SW = %" PRId32 ", SLOTS = %d };",
          pass->kept_width, pass->red_width, t->item, t->stride, pass->state_width, t->slots);
  KE_LINE(e, "#define KE_DOTS %d", t->terms);
  if (k->dots)
    KE_LINE(e, "enum { DOTS = %" PRId32 ", KSTEPS = %d, KE_DISTANCE = %d, KE_RESIDENT = %d };", k->dots->n,
            ke_dots_steps(k->dots), k->dots->distance, t->resident);
  KE_LINE(e, "#define KE_SCALED %d", t->scaled);
  KE_LINE(e, "#include \"keops_cuda.h\"");
  if (any_kind(k, KE_RED_KMIN)) KE_LINE(e, "#include \"keops_cuda_least.h\"");
  if (e->used[KE_OP_Polygamma] || e->used[KE_OP_BesselK] || e->used[KE_OP_Matern])
    KE_LINE(e, "#include \"keops_cuda_special.h\"");
}

static ke_status check_kinds(const ke_pass *pass, ke_error *err)
{
  if (pass->kind != KE_PASS_PAIRS)
    return ke_fail(err, KE_ERR_INTERNAL, -1, "a pass that scatters has no kernel");
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (!text_of(pass->reduce[q].kind))
      return ke_fail(err, KE_ERR_INTERNAL, -1, "a reduction (kind %d) that has no kernel", (int)pass->reduce[q].kind);
  return KE_OK;
}

static ke_status emit_all(kernel *k, void (**print)(kernel *, int32_t), ke_error *err)
{
  ke_strbuf *out = k->e.out;

  ke_emit_restart(&k->e, true);
  emit_steps(k);
  ke_emit_restart(&k->e, false);
  emit_sizes(k);
  emit_tensor_sizes(k);
  ke_emit_ops(&k->e);
  emit_operands(k);
  emit_accumulators(k, print);
  emit_steps(k);
  ke_strbuf_add(out, k->t.tensor == KE_TENSOR_WIDE ? "#include \"keops_cuda_wide.h\"\n"
                                                      : "#include \"keops_cuda_pairs.h\"\n");
  return out->failed ? ke_fail_memory(err) : KE_OK;
}

static ke_status emit_pass(kernel *k, char **source, ke_error *err)
{
  ke_strbuf out = {0};
  void (**print)(kernel *, int32_t);
  ke_status status;

  KE_TRY(check_kinds(k->pass, err));
  if (k->t.tensor != KE_TENSOR_NONE) k->tensor = ke_tensor_match(k->pass);
  if (k->t.scaled) k->tensor = ke_scale_match(k->pass);
  print = calloc((size_t)k->pass->nreduce + 1, sizeof *print);
  if (!print) return ke_fail_memory(err);
  status = ke_emit_open(&k->e, &k->pass->pair, &out, err);
  if (status == KE_OK) {
    k->e.unroll = k->t.unroll;
    k->e.cells = k->t.rows * k->t.step;
    status = emit_all(k, print, err);
  }
  if (status == KE_OK)
    *source = out.text;
  else
    ke_strbuf_free(&out);
  ke_emit_close(&k->e);
  free(print);
  return status;
}

ke_status ke_emit_cuda(const ke_pass *pass, const ke_cuda_tiling *tiling, bool accurate, char **source,
                       ke_error *err)
{
  kernel k = {.pass = pass, .t = *tiling, .accurate = accurate};
  ke_pass rest;
  ke_dots dots;
  ke_status status;

  *source = NULL;
  if (!tiling->terms) return emit_pass(&k, source, err);
  if (!ke_dots_find(pass, &dots))
    return ke_fail(err, KE_ERR_INTERNAL, -1, "a pass without products for tensor cores");
  KE_TRY(ke_dots_pass(pass, &dots, &rest, err));
  k.pass = &rest;
  k.dots = &dots;
  status = emit_pass(&k, source, err);
  ke_dots_pass_free(&rest);
  return status;
}
