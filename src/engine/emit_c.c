/* C source of a pass's pair kernel: the loops over chunks, row blocks and steps, and the reductions.
 *
 *   ke_kernel_run     chunks of items, row blocks in each
 *     steps           a chunk for R rows: the pair program, step by step; narrow reductions accumulate in
 *                     registers and go to the state at the end; what wide ones need is held in scratch,
 *                     over which a second loop runs for each group of C components
 *
 * Lanes are items. A step that is not wholly within [i0, i1) runs the same pair program, but accumulates by a
 * copy of that code which puts the neutral element into the lanes outside. The code within a step is printed
 * by emit.c, in the macros of `macros` below. The source depends on the pass and the tiling alone. */
#include "backend.h"
#include "emit.h"
#include "emit_c.h"
#include "op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  ke_emit e;
  const ke_pass *pass;
  ke_tiling t;
  int32_t *held;    /* [ntemp] place in scratch of a head temporary, or -1 */
  int32_t *score;   /* [nreduce] place in scratch of a wide SUMEXP's score, or -1 */
  int nheld;
} kernel;

/* What the lines of a reduction need to know while a segment is printed. */
typedef struct {
  kernel *k;
  int32_t q; /* number of the reduction */
  const ke_segment *seg;
  bool masked; /* some lanes are not wanted */
} value;

static const char macros[] =
    "#define APART static __attribute__((noinline))\n"
    "#define UNROLL _Pragma(\"GCC unroll 64\")\n"
    "#define EACH(x, n) UNROLL for (int x = 0; x < (n); x++)\n"
    "#define ROWS EACH(r, R)\n"
    "#define VECS EACH(v, JR)\n"
    "#define COLS EACH(c, C)\n"
    "#define ONCE(i) k_set(once[i])\n"
    "#define KEPT(i) k_set(kept[(long)(i) * R + r])\n"
    "#define RED(i) (*(const vr *)(red + (long)(i) * T + v * KE_W))\n"
    "#define HELD(q) (*(vr *)(scratch + (((q) * (long)CHUNK + i) * R + r) * S + v * KE_W))\n"
    "#define STEPPING for (long i = 0, s = first % STEPS; i < n; i++, s = s + 1 < STEPS ? s + 1 : 0,"
    " red += s ? S : S + (RW - 1L) * T)\n"
    "#define MASKED K_RARE((first + i) * S < task->i0 || (first + i + 1) * S > task->i1)\n"
    "#define IN(v) ((lane >= low - v * KE_W) & (lane < high - v * KE_W))\n";

/* Merge (value, item) of the lanes into a state: the better value, the lower item where values are equal.
 * The state's items are lower than the lanes'. */
static const char extreme_text[] =
    "APART void %s(double *state, const long width, const vr *value, const vi *item,\n"
    "    const long long first)\n"
    "{\n"
    "  if (!k_any(*value %c k_set((real)state[0]))) return;\n"
    "  for (int l = 0; l < KE_W; l++) {\n"
    "    const double x = (*value)[l], at = (double)(first + (*item)[l]);\n"
    "    if (x %c state[0] || (x == state[0] && at < state[width])) {\n"
    "      state[0] = x;\n"
    "      state[width] = at;\n"
    "    }\n"
    "  }\n"
    "}\n";

/* Sums of exponentials. An infinite largest score stands for the largest finite number, so that a score of
 * -Inf counts nothing, one of Inf counts Inf, and no Inf - Inf is ever formed. */
static const char sumexp_text[] =
    "#define BIG K(KE_REAL_BYTES == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023)\n"
    "double exp(double);\n"
    "K_INLINE real finite(real x)\n"
    "{\n"
    "  return x > BIG ? BIG : x < -BIG ? -BIG : x;\n"
    "}\n"
    "/* largest scores rise to those of `high`; sums so far are to be multiplied by `factor` */\n"
    "APART void rise(const vr *high, real *top, real *factor)\n"
    "{\n"
    "  for (int r = 0; r < R; r++) {\n"
    "    const real before = finite(top[r]);\n"
    "    for (int l = 0; l < KE_W; l++)\n"
    "      if (high[r][l] > finite(top[r])) top[r] = high[r][l];\n"
    "    factor[r] = k_exp(k_set(before - finite(top[r])))[0];\n"
    "  }\n"
    "}\n"
    "/* the same for a state of n sums */\n"
    "APART void rise_state(double *state, const long n, const double top)\n"
    "{\n"
    "  if (top > state[0]) {\n"
    "    const double factor = exp((double)finite((real)state[0]) - (double)finite((real)top));\n"
    "    for (long k = 1; k <= n; k++) state[k] *= factor;\n"
    "    state[0] = top;\n"
    "  }\n"
    "}\n"
    "/* a score of -BIG that counted */\n"
    "K_INLINE void settle_state(double *state, const long n)\n"
    "{\n"
    "  for (long k = 1; k <= n; k++)\n"
    "    if (state[0] == -K_INF && (state[k] < 0 || state[k] > 0)) state[0] = -BIG;\n"
    "}\n";

/* ---- what is held for wide reductions ---- */
static bool wide(const kernel *k, int32_t q)
{
  return ke_tiling_wide(&k->t, &k->pass->reduce[q]);
}

static void hold(kernel *k, const ke_place *p)
{
  if (p->kind == KE_AT_TEMP && k->e.temp[p->base].head && k->held[p->base] < 0)
    k->held[p->base] = k->nheld++;
}

static void hold_segment(kernel *k, const ke_segment *seg)
{
  for (int32_t i = seg->first; i < seg->first + seg->len; i++) {
    const ke_instr *ins = &k->pass->pair.code[i];
    int nsrc = ins->op == KE_I_FOLD ? 1 : ke_ops[ins->op].arity;

    for (int s = 0; s < nsrc; s++) hold(k, &ins->src[s]);
  }
  hold(k, &seg->result);
}

/* Products that go into one sum and nowhere else. */
static void sink_products(kernel *k)
{
  const ke_pass *pass = k->pass;

  for (int32_t q = 0; q < pass->nreduce; q++) {
    const ke_reduce *r = &pass->reduce[q];
    bool alone = r->kind == KE_RED_SUM && !wide(k, q);

    for (int32_t p = 0; p < pass->nreduce; p++)
      if (pass->reduce[p].kind == KE_RED_SUMEXP || (p != q && pass->reduce[p].seg == r->seg))
        alone = false;
    for (int32_t s = 0; alone && s < r->nseg; s++) ke_emit_sink(&k->e, &pass->pair.seg[r->seg + s].result);
  }
}

static void find_held(kernel *k)
{
  for (int32_t q = 0; q < k->pass->nreduce; q++) {
    const ke_reduce *r = &k->pass->reduce[q];

    if (!wide(k, q)) continue;
    for (int32_t s = 0; s < r->nseg; s++) hold_segment(k, &k->pass->pair.seg[r->seg + s]);
    if (r->kind == KE_RED_SUMEXP) k->score[q] = k->nheld++;
  }
}

/* ---- reductions in registers ---- */
static bool is_extreme(const ke_reduce *r)
{
  return r->kind == KE_RED_MIN || r->kind == KE_RED_MAX;
}

static bool is_one(const ke_place *p)
{
  return p->kind == KE_AT_CONST && p->value == 1;
}

static const char *worst(const ke_reduce *r)
{
  return r->kind == KE_RED_MIN ? "K(K_INF)" : "K(-K_INF)";
}

/* Accumulators of `count` components, a number or the name of one. */
static void declare_accumulators(kernel *k, int32_t q, const char *count)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];

  if (is_extreme(r)) {
    KE_LINE(e, "vr best%d[R][%s];", q, count);
    KE_LINE(e, "vi where%d[R][%s];", q, count);
    KE_LINE(e, "ROWS EACH(k, %s) best%d[r][k] = k_set(%s), where%d[r][k] = (vi){0};", count, q,
            worst(r), q);
  } else {
    KE_LINE(e, "vr sum%d[R][%s];", q, count);
    KE_LINE(e, "ROWS EACH(k, %s) sum%d[r][k] = k_set(0);", count, q);
  }
}

static void declare_top(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;

  KE_LINE(e, "real top%d[R];", q);
  KE_LINE(e, "for (int r = 0; r < R; r++)");
  KE_LINE(e, "  top%d[r] = r < live ? (real)state[r * SW + %d] : K(-K_INF);", q,
          k->pass->reduce[q].state);
}

static void declare_narrow(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  char count[16];

  snprintf(count, sizeof count, "%" PRId32, k->pass->reduce[q].width);
  declare_accumulators(k, q, count);
  if (k->pass->reduce[q].kind != KE_RED_SUMEXP) return;
  declare_top(k, q);
  KE_LINE(e, "vr from%d[R];", q);
  KE_LINE(e, "ROWS from%d[r] = k_set(finite(top%d[r]));", q, q);
}

/* One component of one pair of vectors into its accumulator, `[r][%s]` of it. */
static void print_accumulate(ke_emit *e, const void *data)
{
  const value *x = data;
  const ke_reduce *r = &x->k->pass->reduce[x->q];
  const bool sumexp = r->kind == KE_RED_SUMEXP;
  char at[32];

  if (e->columns)
    snprintf(at, sizeof at, "c");
  else if (x->seg->n > 1)
    snprintf(at, sizeof at, "%" PRId32 " + k0", x->seg->out);
  else
    snprintf(at, sizeof at, "%" PRId32, x->seg->out);
  ke_emit_indent(e);
  KE_TEXT(e, "vr x = ");
  if (sumexp) KE_TEXT(e, "exp%d[r]%s", x->q, e->columns ? "" : "[v]");
  if (sumexp && !is_one(&x->seg->result)) KE_TEXT(e, " * ");
  if (!sumexp || !is_one(&x->seg->result)) ke_emit_place(e, &x->seg->result);
  KE_TEXT(e, ";\n");
  if (x->masked)
    KE_LINE(e, "x = k_select(IN(v), x, k_set(%s));", is_extreme(r) ? worst(r) : "0");
  if (is_extreme(r)) {
    KE_LINE(e, "const vi hit = x %c best%d[r][%s];", r->kind == KE_RED_MIN ? '<' : '>', x->q, at);
    KE_LINE(e, "best%d[r][%s] = k_select(hit, x, best%d[r][%s]);", x->q, at, x->q, at);
    KE_LINE(e,
            "where%d[r][%s] = (vi)k_select(hit, (vr)(item + v * KE_W), (vr)where%d[r][%s]);",
            x->q, at, x->q, at);
  } else {
    KE_LINE(e, "sum%d[r][%s] += x;", x->q, at);
  }
}

static void accumulate_segments(kernel *k, int32_t q, bool masked)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];

  for (int32_t s = 0; s < r->nseg; s++) {
    const ke_segment *seg = &k->pass->pair.seg[r->seg + s];
    const value x = {k, q, seg, masked};
    const ke_emit_tail tail = {KE_AXIS_BOTH, print_accumulate, &x};

    if (seg->n > 1) {
      KE_LINE(e, "EACH(k0, %" PRId32 ") {", seg->n);
      e->loops = 1;
    } else {
      KE_LINE(e, "{");
    }
    e->indent++;
    ke_emit_list(e, seg->first, seg->len, &tail);
    e->indent--;
    KE_LINE(e, "}");
    e->loops = 0;
  }
}

/* A step not wanted whole: the lanes wanted are low <= lane + v * KE_W < high. */
static void if_masked(ke_emit *e)
{
  KE_LINE(e, "if (MASKED) {");
  e->indent++;
  KE_LINE(e, "const long long at = (first + i) * S;");
  KE_LINE(e, "const int low = at < task->i0 ? (int)(task->i0 - at) : 0;");
  KE_LINE(e, "const int high = at + S > task->i1 ? (int)(task->i1 - at) : S;");
}

static void if_not_masked(ke_emit *e)
{
  e->indent--;
  KE_LINE(e, "} else {");
  e->indent++;
}

static void end_masked(ke_emit *e)
{
  e->indent--;
  KE_LINE(e, "}");
}

/* Unwanted lanes have exponential 0 already; only weights could spoil that. */
static bool needs_mask(const kernel *k, int32_t q)
{
  const ke_reduce *r = &k->pass->reduce[q];

  return r->kind != KE_RED_SUMEXP || r->nseg != 1 || !is_one(&k->pass->pair.seg[r->seg].result);
}

static void accumulate_narrow(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;

  if (!needs_mask(k, q)) {
    accumulate_segments(k, q, false);
    return;
  }
  if_masked(e);
  accumulate_segments(k, q, true);
  if_not_masked(e);
  accumulate_segments(k, q, false);
  end_masked(e);
}

static void print_score(ke_emit *e, const void *data)
{
  const value *x = data;

  ke_emit_indent(e);
  KE_TEXT(e, "exp%d[r][v] = ", x->q);
  ke_emit_place(e, &x->k->pass->reduce[x->q].score);
  KE_TEXT(e, ";\n");
}

static void scores(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const value x = {k, q, NULL, false};
  const ke_emit_tail tail = {KE_AXIS_BOTH, print_score, &x};

  KE_LINE(e, "vr exp%d[R][JR];", q);
  ke_emit_list(e, 0, 0, &tail);
  if_masked(e);
  KE_LINE(e, "ROWS VECS exp%d[r][v] = k_select(IN(v), exp%d[r][v], k_set(K(-K_INF)));", q, q);
  end_masked(e);
}

/* Scores of a block, then what they are raised to; the largest rises seldom. */
static void exponentials_narrow(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;

  scores(k, q);
  KE_LINE(e, "{");
  KE_LINE(e, "  vr high[R];");
  KE_LINE(e, "  vi rises = {0};");
  KE_LINE(e, "  ROWS {");
  KE_LINE(e, "    vr h = from%d[r];", q);
  KE_LINE(e, "    VECS h = k_max(exp%d[r][v], h);", q);
  KE_LINE(e, "    rises |= h > from%d[r];", q);
  KE_LINE(e, "    high[r] = h;");
  KE_LINE(e, "  }");
  KE_LINE(e, "  if (K_RARE(k_any(rises))) {");
  KE_LINE(e, "    real factor[R];");
  KE_LINE(e, "    rise(high, top%d, factor);", q);
  KE_LINE(e, "    ROWS from%d[r] = k_set(finite(top%d[r]));", q, q);
  KE_LINE(e, "    ROWS EACH(k, %" PRId32 ") sum%d[r][k] *= factor[r];", k->pass->reduce[q].width, q);
  KE_LINE(e, "  }");
  KE_LINE(e, "  ROWS VECS exp%d[r][v] = k_exp(exp%d[r][v] - from%d[r]);", q, q, q);
  KE_LINE(e, "}");
}

/* Add accumulators [r][k], k < count, to state[r * SW + base + k]; `wanted` is "" or a condition on k. */
static void add_to_state(kernel *k, int32_t q, const char *count, const char *base, const char *wanted)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];

  KE_LINE(e, "{");
  e->indent++;
  if (is_extreme(r)) {
    KE_LINE(e, "vr b[R][%s];", count);
    KE_LINE(e, "vi w[R][%s];", count);
    KE_LINE(e, "ROWS EACH(k, %s) b[r][k] = best%d[r][k], w[r][k] = where%d[r][k];", count, q, q);
  } else {
    KE_LINE(e, "vr b[R][%s];", count);
    KE_LINE(e, "ROWS EACH(k, %s) b[r][k] = sum%d[r][k];", count, q);
  }
  KE_LINE(e, "for (int r = 0; r < live; r++)");
  KE_LINE(e, "  for (int k = 0; k < %s; k++)", count);
  if (*wanted) KE_LINE(e, "    %s", wanted);
  if (is_extreme(r))
    KE_LINE(e, "      %s(state + r * SW + %s + k, %" PRId32 ", &b[r][k], &w[r][k], first * S);",
            r->kind == KE_RED_MIN ? "least" : "largest", base, r->width);
  else
    KE_LINE(e, "      state[r * SW + %s + k] += k_hsum(b[r][k]);", base);
  e->indent--;
  KE_LINE(e, "}");
}

static void settle(kernel *k, const ke_reduce *r)
{
  KE_LINE(&k->e, "for (int r = 0; r < live; r++)");
  KE_LINE(&k->e, "  settle_state(state + r * SW + %" PRId32 ", %" PRId32 ");", r->state, r->width);
}

static void flush_narrow(kernel *k, int32_t q)
{
  const ke_reduce *r = &k->pass->reduce[q];
  const bool sumexp = r->kind == KE_RED_SUMEXP;
  char count[16], base[16];

  snprintf(count, sizeof count, "%" PRId32, r->width);
  snprintf(base, sizeof base, "%" PRId32, r->state + (sumexp ? 1 : 0));
  if (sumexp)
    KE_LINE(&k->e, "for (int r = 0; r < live; r++)"
                   " rise_state(state + r * SW + %" PRId32 ", %" PRId32 ", top%d[r]);",
            r->state, r->width, q);
  add_to_state(k, q, count, base, "");
  if (sumexp)
    settle(k, r);
}

/* ---- wide reductions ---- */
static void print_hold(ke_emit *e, const void *data)
{
  const kernel *k = data;

  for (int32_t t = 0; t < k->pass->pair.ntemp; t++) {
    const ke_place temp = {.kind = KE_AT_TEMP, .base = t};

    if (k->held[t] < 0) continue;
    ke_emit_indent(e);
    KE_TEXT(e, "HELD(%" PRId32 ") = ", k->held[t]);
    ke_emit_place(e, &temp);
    KE_TEXT(e, ";\n");
  }
}

static void hold_scores(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;

  KE_LINE(e, "{");
  e->indent++;
  scores(k, q);
  KE_LINE(e, "ROWS VECS HELD(%" PRId32 ") = exp%d[r][v];", k->score[q], q);
  KE_LINE(e, "ROWS VECS high%d[r] = k_max(exp%d[r][v], high%d[r]);", q, q, q);
  e->indent--;
  KE_LINE(e, "}");
}

/* Scores held become exponentials, states rise to the largest score of the chunk. */
static void exponentials_wide(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];

  KE_LINE(e, "{");
  KE_LINE(e, "  vr high[R];");
  KE_LINE(e, "  real factor[R];");
  KE_LINE(e, "  ROWS high[r] = high%d[r];", q);
  KE_LINE(e, "  rise(high, top%d, factor);", q);
  KE_LINE(e, "  for (int r = 0; r < live; r++)");
  KE_LINE(e, "    rise_state(state + r * SW + %" PRId32 ", %" PRId32 ", top%d[r]);", r->state,
          r->width, q);
  KE_LINE(e, "  for (long i = 0; i < n; i++)");
  KE_LINE(e, "    for (int r = 0; r < R; r++)");
  KE_LINE(e, "      VECS HELD(%" PRId32 ") = k_exp(HELD(%" PRId32 ") - k_set(finite(top%d[r])));",
          k->score[q], k->score[q], q);
  KE_LINE(e, "}");
}

/* What is held, one vector of items; the compiler drops what the segment does not use. */
static void take_held(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  for (int32_t t = 0; t < k->pass->pair.ntemp; t++) {
    if (k->held[t] < 0) continue;
    KE_LINE(e, "vr t%" PRId32 "[R];", t);
    KE_LINE(e, "ROWS t%" PRId32 "[r] = HELD(%" PRId32 ");", t, k->held[t]);
  }
  if (k->score[q] >= 0) {
    KE_LINE(e, "vr exp%d[R];", q);
    KE_LINE(e, "ROWS exp%d[r] = HELD(%" PRId32 ");", q, k->score[q]);
  }
}

static void accumulate_group(kernel *k, int32_t q, const ke_segment *seg, bool masked)
{
  ke_emit *e = &k->e;
  const value x = {k, q, seg, masked};
  const ke_emit_tail tail = {KE_AXIS_BOTH, print_accumulate, &x};

  KE_LINE(e, "%s {", masked ? "for (int v = 0; v < JR; v++)" : "VECS");
  e->indent++;
  take_held(k, q);
  e->columns = true;
  e->loops = 1;
  ke_emit_list(e, seg->first, seg->len, &tail);
  e->loops = 0;
  e->columns = false;
  e->indent--;
  KE_LINE(e, "}");
}

/* A segment's components by groups of C; the last group may overlap the one before, whose components it
 * does not add again. */
static void product(kernel *k, int32_t q, const ke_segment *seg)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];
  const int columns = seg->n < k->t.columns ? seg->n : k->t.columns;
  char base[48];

  KE_LINE(e, "for (long g = 0; g < %" PRId32 "; g += %d) {", seg->n, columns);
  e->indent++;
  KE_LINE(e, "enum { C = %d };", columns);
  KE_LINE(e, "const long g0 = g + C <= %" PRId32 " ? g : %" PRId32 " - C;", seg->n, seg->n);
  declare_accumulators(k, q, "C");
  KE_LINE(e, "red = items;");
  if (is_extreme(r)) KE_LINE(e, "item = lane;");
  KE_LINE(e, "STEPPING {");
  e->indent++;
  if_masked(e);
  accumulate_group(k, q, seg, true);
  if_not_masked(e);
  accumulate_group(k, q, seg, false);
  end_masked(e);
  if (is_extreme(r)) KE_LINE(e, "item += S;");
  e->indent--;
  KE_LINE(e, "}");
  snprintf(base, sizeof base, "%" PRId32 " + g0", r->state + seg->out + (r->kind == KE_RED_SUMEXP));
  add_to_state(k, q, "C", base, "if (g0 + k >= g)");
  e->indent--;
  KE_LINE(e, "}");
}

static void reduce_wide(kernel *k, int32_t q)
{
  const ke_reduce *r = &k->pass->reduce[q];

  if (r->kind == KE_RED_SUMEXP) exponentials_wide(k, q);
  for (int32_t s = 0; s < r->nseg; s++) product(k, q, &k->pass->pair.seg[r->seg + s]);
  if (r->kind == KE_RED_SUMEXP)
    settle(k, r);
}

/* ---- the whole ---- */
static bool any_extreme(const kernel *k)
{
  for (int32_t q = 0; q < k->pass->nreduce; q++)
    if (is_extreme(&k->pass->reduce[q])) return true;
  return false;
}

static void begin_steps(kernel *k)
{
  ke_emit *e = &k->e;

  KE_LINE(e, "/* steps [first, first + n), of rows of which `live` are to be kept */");
  KE_LINE(e, "APART void steps(const ke_task *task, const real *restrict kept, const int live,");
  KE_LINE(e, "    double *restrict state, const long long first, const long n)");
  KE_LINE(e, "{");
  e->indent = 1;
  KE_LINE(e, "const real *restrict once = task->once;");
  KE_LINE(e, "const real *items = (const real *)task->red + first / STEPS * (RW * (long long)T)");
  KE_LINE(e, "    + first %% STEPS * S;");
  KE_LINE(e, "const real *restrict red = items;");
  if (k->nheld) KE_LINE(e, "real *restrict scratch = task->scratch;");
  ke_emit_indent(e);
  KE_TEXT(e, "const vi lane = {0");
  for (int l = 1; l < k->t.lanes; l++) KE_TEXT(e, ", %d", l);
  KE_TEXT(e, "};\n");
}

static void emit_steps(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_pass *pass = k->pass;
  const ke_emit_tail hold = {KE_AXIS_BOTH, print_hold, k};

  begin_steps(k);
  if (any_extreme(k)) KE_LINE(e, "vi item = lane;");
  for (int32_t q = 0; q < pass->nreduce; q++) {
    if (!wide(k, q)) {
      declare_narrow(k, q);
    } else if (pass->reduce[q].kind == KE_RED_SUMEXP) {
      declare_top(k, q);
      KE_LINE(e, "vr high%d[R];", q);
      KE_LINE(e, "ROWS high%d[r] = k_set(K(-K_INF));", q);
    }
  }
  KE_LINE(e, "STEPPING {");
  e->indent++;
  ke_emit_list(e, 0, pass->pair.nhead, NULL);
  for (int32_t q = 0; q < pass->nreduce; q++) {
    if (wide(k, q)) {
      if (k->score[q] >= 0) hold_scores(k, q);
      continue;
    }
    if (pass->reduce[q].kind == KE_RED_SUMEXP) exponentials_narrow(k, q);
    accumulate_narrow(k, q);
  }
  if (k->nheld) ke_emit_list(e, 0, 0, &hold);
  if (any_extreme(k)) KE_LINE(e, "item += S;");
  e->indent--;
  KE_LINE(e, "}");
  for (int32_t q = 0; q < pass->nreduce; q++) {
    if (wide(k, q))
      reduce_wide(k, q);
    else
      flush_narrow(k, q);
  }
  e->indent = 0;
  KE_LINE(e, "}");
}

static void emit_prelude(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_pass *pass = k->pass;
  bool min = false, max = false, sumexp = false;

  KE_LINE(e, "#define KE_REAL_BYTES %d", k->t.real_bytes);
  KE_LINE(e, "#define KE_VBYTES %d", k->t.vector_bytes);
  KE_LINE(e, "#include \"keops_kernel.h\"");
  ke_emit_ops(e);
  KE_LINE(e, "/* rows and vectors of a block, items of a step, of a tile; steps of a chunk; widths */");
  KE_LINE(e, "enum { R = %d, JR = %d, S = JR * KE_W, STEPS = %d, T = S * STEPS, CHUNK = %d,",
          k->t.rows, k->t.vectors, k->t.steps, k->t.chunk);
  KE_LINE(e, "  KW = %" PRId32 ", RW = %" PRId32 ", SW = %" PRId32 " };", pass->kept_width,
          pass->red_width, pass->state_width);
  KE_LINE(e, "%s", macros);
  for (int32_t q = 0; q < pass->nreduce; q++) {
    min |= pass->reduce[q].kind == KE_RED_MIN;
    max |= pass->reduce[q].kind == KE_RED_MAX;
    sumexp |= pass->reduce[q].kind == KE_RED_SUMEXP;
  }
  if (min) KE_LINE(e, extreme_text, "least", '<', '<');
  if (max) KE_LINE(e, extreme_text, "largest", '>', '>');
  if (sumexp) KE_LINE(e, "%s", sumexp_text);
}

static const char entry_text[] =
    "__attribute__((visibility(\"default\"))) void ke_kernel_run(const ke_task *task)\n"
    "{\n"
    "  const long long end = (task->i1 - 1) / S + 1;\n"
    "  for (long long a = task->i0 / S; a < end; a += CHUNK)\n"
    "    for (long long k = 0; k < task->nrows; k += R)\n"
    "      steps(task, (const real *)task->kept + k * KW,\n"
    "          task->nrows - k < R ? (int)(task->nrows - k) : R, task->state + k * SW, a,\n"
    "          end - a < CHUNK ? (long)(end - a) : CHUNK);\n"
    "}\n";

static ke_status emit_all(kernel *k, ke_error *err)
{
  ke_strbuf *out = k->e.out;

  ke_emit_restart(&k->e, true);
  emit_steps(k);
  ke_emit_restart(&k->e, false);
  emit_prelude(k);
  emit_steps(k);
  ke_strbuf_add(out, entry_text);
  return out->failed ? ke_fail_memory(err) : KE_OK;
}

static ke_status open_kernel(kernel *k, ke_strbuf *out, ke_error *err)
{
  const ke_program *pair = &k->pass->pair;

  KE_TRY(ke_emit_open(&k->e, pair, out, err));
  k->e.unroll = k->t.unroll;
  k->e.cells = k->t.rows * k->t.vectors;
  k->held = malloc(((size_t)pair->ntemp + 1) * sizeof *k->held);
  k->score = malloc(((size_t)k->pass->nreduce + 1) * sizeof *k->score);
  if (!k->held || !k->score) return ke_fail_memory(err);
  for (int32_t t = 0; t < pair->ntemp; t++) k->held[t] = -1;
  for (int32_t q = 0; q < k->pass->nreduce; q++) k->score[q] = -1;
  sink_products(k);
  find_held(k);
  if (k->nheld) k->t.chunk = ke_tiling_chunk(&k->t, k->pass, k->nheld);
  return KE_OK;
}

static ke_shape shape_of(const kernel *k)
{
  const ke_tiling *t = &k->t;
  ke_shape shape = {.real_bytes = t->real_bytes, .rows = t->rows};

  shape.tile = t->vectors * t->lanes * t->steps;
  shape.scratch_bytes = (size_t)k->nheld * (size_t)t->chunk * (size_t)t->rows *
                        (size_t)(t->vectors * t->vector_bytes);
  return shape;
}

ke_status ke_emit_c_tiled(const ke_pass *pass, const ke_tiling *tiling, ke_shape *shape, char **source,
                          ke_error *err)
{
  kernel k = {.pass = pass, .t = *tiling};
  ke_strbuf out = {0};
  ke_status status;

  *source = NULL;
  status = open_kernel(&k, &out, err);
  if (status == KE_OK) status = emit_all(&k, err);
  if (status == KE_OK) {
    *shape = shape_of(&k);
    *source = out.text;
  } else {
    ke_strbuf_free(&out);
  }
  ke_emit_close(&k.e);
  free(k.held);
  free(k.score);
  return status;
}

ke_status ke_emit_c(const ke_pass *pass, int real_bytes, ke_isa isa, ke_shape *shape, char **source,
                    ke_error *err)
{
  ke_tiling tiling;

  ke_tiling_choose(pass, real_bytes, isa, &tiling);
  return ke_emit_c_tiled(pass, &tiling, shape, source, err);
}
