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
  return reduce_of(k, q)->width > k->t.narrow;
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
  static const reducer_text sum = {"k_merge_sum", declare_sum, start_sum, NULL,
                                   add_sum,       settle_sum,  put_sum};
  static const reducer_text least = {"k_merge_extreme<false>", declare_extreme, start_extreme, NULL,
                                     add_extreme,              NULL,            put_extreme};
  static const reducer_text largest = {"k_merge_extreme<true>", declare_extreme, start_extreme,
                                       NULL, add_extreme, NULL, put_extreme};
  static const reducer_text sumexp = {"k_merge_sumexp", declare_sumexp, start_sumexp, before_sumexp,
                                      add_sum,          settle_sum,     put_sumexp};

  switch (kind) {
  case KE_RED_SUM: return &sum;
  case KE_RED_MIN: return &least;
  case KE_RED_MAX: return &largest;
  case KE_RED_SUMEXP: return &sumexp;
  default: return NULL;
  }
}

static const reducer_text *text(const kernel *k, int32_t q)
{
  return text_of(reduce_of(k, q)->kind);
}

/* ---- adding a step ---- */
/* One component of one pair into its accumulator; wide ones lie in local memory, of which a component is
 * taken for all items of the step. */
static void print_add(ke_emit *e, const void *data)
{
  const value *x = data;
  const bool sumexp = reduce_of(x->k, x->q)->kind == KE_RED_SUMEXP;
  const bool one = is_one(&x->seg->result);
  char at[32];

  snprintf(at, sizeof at, "[r][%" PRId32 "%s]", x->seg->out, x->seg->n > 1 ? " + k0" : "");
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

  if (seg->n == 1)
    KE_LINE(e, "{");
  else if (wide(k, q))
    KE_LINE(e, "ROLLED for (int k0 = 0; k0 < %" PRId32 "; k0++) {", seg->n);
  else
    KE_LINE(e, "EACH(k0, %" PRId32 ") {", seg->n);
  e->loops = seg->n > 1;
  e->indent++;
  ke_emit_list(e, seg->first, seg->len, &tail);
  e->indent--;
  KE_LINE(e, "}");
  e->loops = 0;
}

static void emit_step(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_pass *pass = k->pass;

  KE_LINE(e, "/* items item .. item + JR - 1, the first of which lies at `tile` */");
  KE_LINE(e, "template <int JR> K_INLINE void %s(ke_acc &a, const ke_kept &kept, const real *tile,",
          e->given ? "step_given" : "step");
  KE_LINE(e, "    const ke_once &once, const ke_cuda_task &task, const int item%s)",
          e->given ? ", const real (&given)[R][JR]" : "");
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
  if (k->t.tensor == KE_TENSOR_WIDE) {
    emit_factor(k);
    return;
  }
  emit_step(k);
  if (k->t.tensor != KE_TENSOR_PRODUCTS) return;
  k->e.given = &k->pass->pair.code[k->tensor.fold];
  emit_step(k);
  k->e.given = NULL;
}

static void emit_tensor_sizes(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_tensor *t = &k->tensor;

  KE_LINE(e, "enum { TENSOR_N = %" PRId32 ", TENSOR_KEPT = %" PRId32 ", TENSOR_RED = %" PRId32
             ", TENSOR_SCALE = %" PRId32 " };",
          t->n, t->kept, t->red, t->scale);
  if (k->t.tensor == KE_TENSOR_PRODUCTS) KE_LINE(e, "#define KE_TENSOR_SQUARE %d", t->square);
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

static void emit_accumulators(kernel *k, void (**print)(kernel *, int32_t))
{
  ke_emit *e = &k->e;
  int32_t n = k->pass->nreduce;

  KE_LINE(e, "struct ke_acc {");
  e->indent++;
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
  KE_LINE(e, "K_INLINE void merge_state(double *into, llong step, const double *from, llong from_step)");
  KE_LINE(e, "{");
  for (int32_t q = 0; q < n; q++) {
    const ke_reduce *r = reduce_of(k, q);
    KE_LINE(e, "  %s(%" PRId32 ", into + %" PRId32 " * step, step, from + %" PRId32 " * from_step, from_step);",
            text(k, q)->merge, r->width, r->state, r->state);
  }
  KE_LINE(e, "}");
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
    KE_LINE(e, "#define KEPT(i) __ldg(kept.at + (i) * kept.ld + r * RT)");
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
  bool sumexp = false;

  for (int32_t q = 0; q < k->pass->nreduce; q++)
    sumexp |= reduce_of(k, q)->kind == KE_RED_SUMEXP;
  return k->t.real_bytes == 8 && (sumexp || k->e.used[KE_OP_Exp2] || k->e.used[KE_OP_Exp2Mul]);
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
  KE_LINE(e, "enum { RT = %d, S = %d, BLOCK = RT * S, R = %d, ROWS_OF_BLOCK = RT * R, JR_OF_STEP = %d,",
          t->across, t->lanes, t->rows, t->step);
  KE_LINE(e, "  UN = %d, T = %d, MIN_BLOCKS = %d,", t->steps, t->tile, t->min_blocks);
  KE_LINE(e, "  KW = %" PRId32 ", RW = %" PRId32 ", RWP = %d, STRIDE = %d, SW = %" PRId32 ", SLOTS = %d };",
          pass->kept_width, pass->red_width, t->item, t->stride, pass->state_width, t->slots);
  KE_LINE(e, "#define KE_PRODUCTS %d", t->tensor == KE_TENSOR_PRODUCTS);
  KE_LINE(e, "#define KE_SCALED %d", t->scaled);
  KE_LINE(e, "#include \"keops_cuda.h\"");
}

static ke_status check_kinds(const ke_pass *pass, ke_error *err)
{
  if (pass->kind != KE_PASS_PAIRS)
    return ke_fail(err, KE_ERR_INTERNAL, -1, "a pass that scatters has no kernel");
  if (pass->ranged) return ke_fail(err, KE_ERR_DEVICE, -1, "ranges are not available on GPUs");
  for (int32_t q = 0; q < pass->nreduce; q++)
    if (!text_of(pass->reduce[q].kind))
      return ke_fail(err, KE_ERR_DEVICE, -1, "this reduction (kind %d) is not available on GPUs",
                     (int)pass->reduce[q].kind);
  for (int32_t k = 0; k < pass->pair.ncode; k++)
    switch (pass->pair.code[k].op) {
    case KE_OP_Polygamma:
    case KE_OP_BesselK:
    case KE_OP_Matern:
      return ke_fail(err, KE_ERR_DEVICE, -1, "%s is not available on GPUs", ke_ops[pass->pair.code[k].op].name);
    default: break;
    }
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

ke_status ke_emit_cuda(const ke_pass *pass, const ke_cuda_tiling *tiling, bool accurate, char **source,
                       ke_error *err)
{
  kernel k = {.pass = pass, .t = *tiling, .accurate = accurate};
  ke_strbuf out = {0};
  void (**print)(kernel *, int32_t);
  ke_status status;

  *source = NULL;
  KE_TRY(check_kinds(pass, err));
  if (tiling->tensor != KE_TENSOR_NONE) k.tensor = ke_tensor_match(pass);
  if (tiling->scaled) k.tensor = ke_scale_match(pass);
  print = calloc((size_t)pass->nreduce + 1, sizeof *print);
  if (!print) return ke_fail_memory(err);
  status = ke_emit_open(&k.e, &pass->pair, &out, err);
  if (status == KE_OK) {
    k.e.unroll = tiling->unroll;
    k.e.cells = tiling->rows * tiling->step;
    status = emit_all(&k, print, err);
  }
  if (status == KE_OK)
    *source = out.text;
  else
    ke_strbuf_free(&out);
  ke_emit_close(&k.e);
  free(print);
  return status;
}
