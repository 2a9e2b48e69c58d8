/* C source of a pass's pair kernel: the loops over chunks, row blocks and steps, and the
 * reductions.
 *
 *   ke_kernel_run     chunks of items, row blocks in each
 *     steps           a chunk for R rows: the pair program, step by step, and what it adds to
 * accumulators; at the end these go to the state
 *
 * Accumulators are vectors: their lanes are those of the items. A *narrow* reduction has them in
 * registers, its components written out; a *wide* one has them in scratch (the first cache) and
 * loops over components. A step that is not wholly within [i0, i1) runs the same pair program, but
 * accumulates by a copy of that code which puts the neutral element into the lanes outside. The
 * code within a step is printed by emit.c, in the macros of `macros` below. The source depends on
 * the pass and the tiling alone. */
#include "backend.h"
#include "emit.h"
#include "emit_c.h"
#include "keops_least.h"
#include "op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  SEEN_ITEMS = 128,     /* of a row, looked at together for the k least; */
  SEEN_BYTES = 16 << 10 /* they stay in the first cache */
};

typedef struct {
  ke_emit e;
  const ke_pass *pass;
  ke_tiling t;
  int64_t scratch; /* vectors of it used so far */
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
    "#define TWICE _Pragma(\"GCC unroll 2\")\n"
    "#define EACH(x, n) UNROLL for (int x = 0; x < (n); x++)\n"
    "#define ROWS EACH(r, R)\n"
    "#define VECS EACH(v, JR)\n"
    "#define ONCE(i) k_set(once[i])\n"
    "#define KEPT(i) k_set(kept[(long)(i) * R + r])\n"
    "#define RED(i) (*(const vr *)(red + (long)(i) * T + v * KE_W))\n"
    "#define STEPPING for (long i = 0, s = first % STEPS; i < n; i++, s = s + 1 < STEPS ? s + 1 : "
    "0,"
    " red += s ? S : S + (RW - 1L) * T)\n"
    "#define MASKED K_RARE((first + i) * S < task->i0 || (first + i + 1) * S > task->i1)\n"
    "#define ZERO_UNLESS(mask, x) ((vr)((mask) & (vi)(x)))\n";

/* Merge (value, item) of the lanes into a state: the better value, the lower item where values are
 * equal. The state's items are lower than the lanes'. Signs are turned for the largest. */
static const char extreme_text[] =
    "APART void %s(double *state, const long width, const vr *value, const vi *item,\n"
    "    const long long first)\n"
    "{\n"
    "  int64_t at;\n"
    "  const double x = %ck_least(%c*value, *item, &at);\n"
    "  if (x %c state[0]) {\n"
    "    state[0] = x;\n"
    "    state[width] = (double)(first + at);\n"
    "  }\n"
    "}\n";

/* Sums of exponentials. An infinite largest score stands for the largest finite number, so that a
 * score of -Inf counts nothing, one of Inf counts Inf, and no Inf - Inf is ever formed. */
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

static const char kahan_text[] =
    "K_INLINE void add_kahan(double *state, const long width, const vr *sum, const vr *rest)\n"
    "{\n"
    "  for (int l = 0; l < KE_W; l++) {\n"
    "    ke_sum_add(state, state + width, (double)(*sum)[l]);\n"
    "    state[width] += (double)(*rest)[l];\n"
    "  }\n"
    "}\n";

/* The k least of each row and component: items seen in the last steps are looked at together, where
 * the least of them is less than the k-th so far, and go into lists (keops_least.h), or into pools
 * where k is large. */
static const char seen_text[] =
    "APART void take%d(vr *list, vi *number, double *pool, const vr *seen, const vr *low,\n"
    "    real *worst, const int n, const long long first, const long at)\n"
    "{\n"
    "  for (int r = 0; r < R; r++)\n"
    "    for (long k = 0; k < %d; k++, low++, worst++, seen += %d * JR, list += %d, number += %d, pool += %lld)\n"
    "      if (k_less_bits(*low, k_set(*worst)))\n"
    "        *worst = %s;\n"
    "}\n";

/* ---- reductions ---- */
static bool wide(const kernel *k, int32_t q)
{
  return ke_tiling_wide(&k->t, &k->pass->reduce[q]);
}

static void sink_products(kernel *k)
{
  for (int32_t q = 0; q < k->pass->nreduce; q++) {
    const ke_reduce *r = &k->pass->reduce[q];

    for (int32_t s = 0; r->kind == KE_RED_SUM && s < r->nseg; s++)
      ke_emit_sink(&k->e, &k->pass->pair.seg[r->seg + s].result);
  }
}

static bool is_extreme(const ke_reduce *r)
{
  return r->kind == KE_RED_MIN || r->kind == KE_RED_MAX;
}

/* Accumulators come in pairs: best values and where they were; sums and what rounding took off. */
static const char *second_name(const ke_reduce *r)
{
  return is_extreme(r) ? "where" : r->kind == KE_RED_KAHAN ? "rest" : NULL;
}

static bool is_one(const ke_place *p)
{
  return p->kind == KE_AT_CONST && p->value == 1;
}

/* What never enters a reduction. */
static const char *neutral(const ke_reduce *r)
{
  return r->kind == KE_RED_MAX ? "K(-K_INF)" : r->kind == KE_RED_MIN || r->kind == KE_RED_KMIN ? "K(K_INF)" : "0";
}

/* Names of a reduction's accumulators: values (sums, the best so far, or the least not yet looked at),
 * and where the best were. */
static const char *value_name(const ke_reduce *r)
{
  return is_extreme(r) ? "best" : r->kind == KE_RED_KMIN ? "low" : "sum";
}

static void declare_array(kernel *k, int32_t q, const char *type, const char *name)
{
  ke_emit *e = &k->e;
  int32_t width = k->pass->reduce[q].width;

  if (!wide(k, q)) {
    KE_LINE(e, "%s %s%d[R][%" PRId32 "];", type, name, q, width);
    return;
  }
  KE_LINE(e,
          "%s (*restrict %s%d)[%" PRId32 "] = (%s(*)[%" PRId32 "])((vr *)task->scratch + %" PRId64
          ");",
          type, name, q, width, type, width, k->scratch);
  k->scratch += (int64_t)width * k->t.rows;
}

static bool has_list(const ke_reduce *r)
{
  return r->kind == KE_RED_KMIN && r->k <= KE_LIST_MOST;
}

/* Vectors of a list of the k least */
static int32_t list_vectors(const kernel *k, const ke_reduce *r)
{
  return has_list(r) ? (r->k + k->t.lanes - 1) / k->t.lanes : 0;
}

/* Steps whose items are kept before they are looked at */
static int depth_of(const kernel *k, const ke_reduce *r)
{
  const int64_t step = (int64_t)k->t.rows * k->t.vectors * k->t.vector_bytes * r->width;
  int depth = SEEN_ITEMS / (k->t.vectors * k->t.lanes);

  while (depth > 1 && depth * step > SEEN_BYTES) depth /= 2;
  return depth > 1 ? depth : 1;
}

/* Of a larger k: a pool for each row and component */
static int64_t pool_doubles(const ke_reduce *r)
{
  return has_list(r) ? 0 : KE_POOL_DOUBLES(r->k);
}

static int64_t vectors_of(const kernel *k, int64_t n, size_t size)
{
  return (n * (int64_t)size + k->t.vector_bytes - 1) / k->t.vector_bytes;
}

static void room(kernel *k, const char *type, const char *name, int32_t q, int64_t vectors)
{
  KE_LINE(&k->e, "%s *%s%d = (%s *)((vr *)task->scratch + %" PRId64 ");", type, name, q, type, k->scratch);
  k->scratch += vectors;
}

/* function(heap, indices, k, list, numbers `more`) or (heap, indices, k, pool) in the loop of each_heap() */
static void each_list(kernel *k, int32_t q, const char *function, const char *more)
{
  const ke_reduce *r = &k->pass->reduce[q];

  if (!has_list(r)) {
    KE_LINE(&k->e, "  %s(heap, heap + %" PRId64 ", %" PRId32 ", pool%d + (r * %" PRId32 "L + k) * %" PRId64 ");", function,
            (int64_t)r->k * r->width, r->k, q, r->width, pool_doubles(r));
    return;
  }
  KE_LINE(&k->e, "  %s(heap, heap + %" PRId64 ", %" PRId32 ", list%d + (r * %" PRId32 "L + k) * %" PRId32
          ", number%d + (r * %" PRId32 "L + k) * %" PRId32 "%s);", function, (int64_t)r->k * r->width, r->k, q,
          r->width, list_vectors(k, r), q, r->width, list_vectors(k, r), more);
}

/* Loops over the heaps of rows that are kept; the rest of a block has nothing to gain. */
static void each_heap(kernel *k, int32_t q)
{
  const ke_reduce *r = &k->pass->reduce[q];

  KE_LINE(&k->e, "for (int r = 0; r < live; r++) for (long k = 0; k < %" PRId32 "; k++) {", r->width);
  KE_LINE(&k->e, "  double *heap = state + r * SW + %" PRId32 " + k * %" PRId32 ";", r->state, r->k);
}

static void declare_least(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];
  const int64_t cells = (int64_t)k->t.rows * r->width, list = cells * list_vectors(k, r);

  room(k, "vr", "seen", q, cells * depth_of(k, r) * k->t.vectors);
  room(k, "vr", "list", q, list);
  room(k, "vi", "number", q, list);
  room(k, "double", "pool", q, vectors_of(k, cells * pool_doubles(r), sizeof(double)));
  room(k, "real", "worst", q, vectors_of(k, cells, (size_t)k->t.real_bytes));
  KE_LINE(e, "for (long k = 0; k < %" PRId64 "; k++) worst%d[k] = K(-K_INF);", cells, q);
  each_heap(k, q);
  KE_LINE(e, "  worst%d[r * %" PRId32 "L + k] = (real)heap[0];", q, r->width);
  each_list(k, q, has_list(r) ? "ke_list_start" : "ke_pool_start", "");
  KE_LINE(e, "}");
}

static void declare_accumulators(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];
  const char *loop = wide(k, q) ? "for (long k = 0; k < " : "EACH(k, ";
  const char *loop_end = wide(k, q) ? "; k++)" : ")";

  declare_array(k, q, "vr", value_name(r));
  if (second_name(r)) declare_array(k, q, is_extreme(r) ? "vi" : "vr", second_name(r));
  KE_LINE(e, "ROWS %s%" PRId32 "%s {", loop, r->width, loop_end);
  KE_LINE(e, "  %s%d[r][k] = k_set(%s);", value_name(r), q, neutral(r));
  if (second_name(r)) KE_LINE(e, "  %s%d[r][k] = (%s){0};", second_name(r), q, is_extreme(r) ? "vi" : "vr");
  KE_LINE(e, "}");
  if (r->kind == KE_RED_KMIN) declare_least(k, q);
  if (r->kind != KE_RED_SUMEXP) return;
  KE_LINE(e, "real top%d[R];", q);
  KE_LINE(e, "vr from%d[R];", q);
  KE_LINE(e, "ROWS top%d[r] = r < live ? (real)state[r * SW + %" PRId32 "] : K(-K_INF);", q,
          r->state);
  KE_LINE(e, "ROWS from%d[r] = k_set(finite(top%d[r]));", q, q);
}

/* Where the accumulators of a segment's component are: [r] of copies that the loop takes, or
 * [r][..]. */
static void accumulator_index(const kernel *k, int32_t q, const ke_segment *seg, char *text,
                              size_t size)
{
  if (wide(k, q))
    snprintf(text, size, "[r]");
  else if (seg->n > 1)
    snprintf(text, size, "%d[r][%" PRId32 " + k0]", (int)q, seg->out);
  else
    snprintf(text, size, "%d[r][%" PRId32 "]", (int)q, seg->out);
}

/* One component of one pair of vectors into its accumulator. */
static void print_accumulate(ke_emit *e, const void *data)
{
  const value *x = data;
  const ke_reduce *r = &x->k->pass->reduce[x->q];
  const bool sumexp = r->kind == KE_RED_SUMEXP;
  char at[48];

  accumulator_index(x->k, x->q, x->seg, at, sizeof at);
  ke_emit_indent(e);
  KE_TEXT(e, "vr x = ");
  if (sumexp) KE_TEXT(e, "exp%d[r][v]", x->q);
  if (sumexp && !is_one(&x->seg->result)) KE_TEXT(e, " * ");
  if (!sumexp || !is_one(&x->seg->result)) ke_emit_place(e, &x->seg->result);
  KE_TEXT(e, ";\n");
  if (x->masked && *neutral(r) != '0') KE_LINE(e, "x = k_select(in[v], x, k_set(%s));", neutral(r));
  if (x->masked && *neutral(r) == '0') KE_LINE(e, "x = ZERO_UNLESS(in[v], x);");
  if (r->kind == KE_RED_KMIN) {
    KE_LINE(e, "seen%d[((r * %" PRId32 "L + %" PRId32 "%s) * %d + i %% %d) * JR + v] = x;", x->q, r->width,
            x->seg->out, x->seg->n > 1 ? " + k0" : "", depth_of(x->k, r), depth_of(x->k, r));
    KE_LINE(e, "low%s = k_min(x, low%s);", at, at);
  } else if (r->kind == KE_RED_KAHAN) {
    KE_LINE(e, "const vr s = sum%s + x, part = s - sum%s;", at, at);
    KE_LINE(e, "rest%s += (sum%s - (s - part)) + (x - part);", at, at);
    KE_LINE(e, "sum%s = s;", at);
  } else if (is_extreme(r)) {
    KE_LINE(e, "const vi hit = x %c best%s;", r->kind == KE_RED_MIN ? '<' : '>', at);
    KE_LINE(e, "best%s = k_select(hit, x, best%s);", at, at);
    KE_LINE(e, "where%s = (vi)k_select(hit, (vr)(item + v * KE_W), (vr)where%s);", at, at);
  } else {
    KE_LINE(e, "sum%s += x;", at);
  }
}

/* After the last of some steps */
static void take_least(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];
  const int depth = depth_of(k, r);

  KE_LINE(e, "if (i %% %d == %d || i + 1 == n) {", depth, depth - 1);
  KE_LINE(e, "  const long start = i - i %% %d;", depth);
  if (wide(k, q))
    KE_LINE(e, "  const vr *x = low%d[0];", q);
  else
    KE_LINE(e, "  vr x[R * %" PRId32 "]; ROWS EACH(k, %" PRId32 ") x[r * %" PRId32 " + k] = low%d[r][k];", r->width,
            r->width, r->width, q);
  KE_LINE(e, "  take%d(list%d, number%d, pool%d, seen%d, x, worst%d, (int)(i + 1 - start) * JR,", q, q, q, q, q, q);
  KE_LINE(e, "      (first + start) * S, start * S);");
  KE_LINE(e, "  ROWS %s%" PRId32 "%s low%d[r][k] = k_set(K(K_INF));", wide(k, q) ? "for (long k = 0; k < " : "EACH(k, ",
          r->width, wide(k, q) ? "; k++)" : ")", q);
  KE_LINE(e, "}");
}

/* Copy accumulators of one component out of scratch, or back. */
static void take(kernel *k, int32_t q, const ke_segment *seg, bool back)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];
  const char *names[] = {value_name(r), second_name(r)};

  for (int c = 0; c < (second_name(r) ? 2 : 1); c++) {
    char at[64];

    snprintf(at, sizeof at, "%s%d[r][%" PRId32 "%s]", names[c], (int)q, seg->out,
             seg->n > 1 ? " + k0" : "");
    if (back)
      KE_LINE(e, "ROWS %s = %s[r];", at, names[c]);
    else
      KE_LINE(e, "%s %s[R]; ROWS %s[r] = %s;", c && is_extreme(r) ? "vi" : "vr", names[c], names[c], at);
  }
}

static void accumulate_segment(kernel *k, int32_t q, const ke_segment *seg, bool masked)
{
  ke_emit *e = &k->e;
  const value x = {k, q, seg, masked};
  const ke_emit_tail tail = {KE_AXIS_BOTH, print_accumulate, &x};

  if (seg->n == 1)
    KE_LINE(e, "{");
  else if (wide(k, q))
    KE_LINE(e, "TWICE for (long k0 = 0; k0 < %" PRId32 "; k0++) {", seg->n);
  else
    KE_LINE(e, "EACH(k0, %" PRId32 ") {", seg->n);
  e->loops = seg->n > 1;
  e->indent++;
  if (wide(k, q)) take(k, q, seg, false);
  ke_emit_list(e, seg->first, seg->len, &tail);
  if (wide(k, q)) take(k, q, seg, true);
  e->indent--;
  KE_LINE(e, "}");
  e->loops = 0;
}

static void accumulate_segments(kernel *k, int32_t q, bool masked)
{
  const ke_reduce *r = &k->pass->reduce[q];

  for (int32_t s = 0; s < r->nseg; s++)
    accumulate_segment(k, q, &k->pass->pair.seg[r->seg + s], masked);
}

/* A step not wanted whole: items low <= lane + v * KE_W < high of it are. */
static void if_masked(ke_emit *e)
{
  KE_LINE(e, "if (MASKED) {");
  e->indent++;
  KE_LINE(e, "const long long at = (first + i) * S;");
  KE_LINE(e, "const int low = at < task->i0 ? (int)(task->i0 - at) : 0;");
  KE_LINE(e, "const int high = at + S > task->i1 ? (int)(task->i1 - at) : S;");
  KE_LINE(e, "vi in[JR]; VECS in[v] = (lane >= low - v * KE_W) & (lane < high - v * KE_W);");
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

static void accumulate(kernel *k, int32_t q)
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

/* Scores of a block, then what they are raised to; the largest rises seldom. */
static void exponentials(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const value x = {k, q, NULL, false};
  const ke_emit_tail tail = {KE_AXIS_BOTH, print_score, &x};

  KE_LINE(e, "vr exp%d[R][JR];", q);
  ke_emit_list(e, 0, 0, &tail);
  if_masked(e);
  KE_LINE(e, "ROWS VECS exp%d[r][v] = k_select(in[v], exp%d[r][v], k_set(K(-K_INF)));", q, q);
  end_masked(e);
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
  if (wide(k, q))
    KE_LINE(e, "    ROWS for (long k = 0; k < %" PRId32 "; k++) sum%d[r][k] *= factor[r];",
            k->pass->reduce[q].width, q);
  else
    KE_LINE(e, "    ROWS EACH(k, %" PRId32 ") sum%d[r][k] *= factor[r];", k->pass->reduce[q].width,
            q);
  KE_LINE(e, "  }");
  KE_LINE(e, "  ROWS VECS exp%d[r][v] = k_exp(exp%d[r][v] - from%d[r]);", q, q, q);
  KE_LINE(e, "}");
}

/* ---- accumulators to the state ---- */
/* Registers cannot be looped over, so that their values are copied first. */
static void copy_accumulators(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];

  KE_LINE(e, "vr x[R][%" PRId32 "]; ROWS EACH(k, %" PRId32 ") x[r][k] = %s%d[r][k];", r->width,
          r->width, value_name(r), q);
  if (second_name(r))
    KE_LINE(e, "%s w[R][%" PRId32 "]; ROWS EACH(k, %" PRId32 ") w[r][k] = %s%d[r][k];",
            is_extreme(r) ? "vi" : "vr", r->width, r->width, second_name(r), q);
}

static void flush(kernel *k, int32_t q)
{
  ke_emit *e = &k->e;
  const ke_reduce *r = &k->pass->reduce[q];
  const bool sumexp = r->kind == KE_RED_SUMEXP;

  if (r->kind == KE_RED_KMIN) {
    each_heap(k, q);
    each_list(k, q, has_list(r) ? "ke_list_finish" : "ke_pool_finish", ", first * S");
    KE_LINE(e, "}");
    return;
  }
  KE_LINE(e, "{");
  e->indent++;
  if (wide(k, q)) KE_LINE(e, "vr (*x)[%" PRId32 "] = %s%d;", r->width, value_name(r), q);
  if (wide(k, q) && second_name(r))
    KE_LINE(e, "%s (*w)[%" PRId32 "] = %s%d;", is_extreme(r) ? "vi" : "vr", r->width, second_name(r), q);
  if (!wide(k, q)) copy_accumulators(k, q);
  KE_LINE(e, "for (int r = 0; r < live; r++) {");
  KE_LINE(e, "  double *to = state + r * SW + %" PRId32 ";", r->state);
  if (sumexp) KE_LINE(e, "  rise_state(to, %" PRId32 ", top%d[r]);", r->width, q);
  KE_LINE(e, "  for (long k = 0; k < %" PRId32 "; k++)", r->width);
  if (is_extreme(r))
    KE_LINE(e, "    %s(to + k, %" PRId32 ", &x[r][k], &w[r][k], first * S);",
            r->kind == KE_RED_MIN ? "least" : "largest", r->width);
  else if (r->kind == KE_RED_KAHAN)
    KE_LINE(e, "    add_kahan(to + k, %" PRId32 ", &x[r][k], &w[r][k]);", r->width);
  else
    KE_LINE(e, "    to[%sk] += k_hsum(x[r][k]);", sumexp ? "1 + " : "");
  if (sumexp) KE_LINE(e, "  settle_state(to, %" PRId32 ");", r->width);
  KE_LINE(e, "}");
  e->indent--;
  KE_LINE(e, "}");
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
  ke_emit_indent(e);
  KE_TEXT(e, "const vi lane = {0");
  for (int l = 1; l < k->t.lanes; l++) KE_TEXT(e, ", %d", l);
  KE_TEXT(e, "};\n");
}

static void emit_steps(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_pass *pass = k->pass;

  k->scratch = 0;
  begin_steps(k);
  if (any_extreme(k)) KE_LINE(e, "vi item = lane;");
  for (int32_t q = 0; q < pass->nreduce; q++) declare_accumulators(k, q);
  KE_LINE(e, "STEPPING {");
  e->indent++;
  ke_emit_list(e, 0, pass->pair.nhead, NULL);
  for (int32_t q = 0; q < pass->nreduce; q++) {
    if (pass->reduce[q].kind == KE_RED_SUMEXP) exponentials(k, q);
    accumulate(k, q);
    if (pass->reduce[q].kind == KE_RED_KMIN) take_least(k, q);
  }
  if (any_extreme(k)) KE_LINE(e, "item += S;");
  e->indent--;
  KE_LINE(e, "}");
  for (int32_t q = 0; q < pass->nreduce; q++) flush(k, q);
  e->indent = 0;
  KE_LINE(e, "}");
}

static void define_take(kernel *k, int32_t q)
{
  const ke_reduce *r = &k->pass->reduce[q];
  char call[80];

  if (has_list(r))
    snprintf(call, sizeof call, "ke_list_take(list, number, %d, %d, seen, n, (int)at)", (int)list_vectors(k, r),
             (int)((r->k - 1) % k->t.lanes));
  else
    snprintf(call, sizeof call, "ke_pool_take(%d, pool, seen, n, first)", (int)r->k);
  KE_LINE(&k->e, seen_text, (int)q, (int)r->width, depth_of(k, r), (int)list_vectors(k, r), (int)list_vectors(k, r),
          (long long)pool_doubles(r), call);
}

static void emit_prelude(kernel *k)
{
  ke_emit *e = &k->e;
  const ke_pass *pass = k->pass;
  bool seen[8] = {false};

  for (int32_t q = 0; q < pass->nreduce; q++) seen[pass->reduce[q].kind] = true;
  KE_LINE(e, "#define KE_REAL_BYTES %d", k->t.real_bytes);
  KE_LINE(e, "#define KE_VBYTES %d", k->t.vector_bytes);
  KE_LINE(e, "#include \"keops_kernel.h\"");
  if (seen[KE_RED_KMIN]) KE_LINE(e, "#include \"keops_least.h\"");
  if (seen[KE_RED_KAHAN]) KE_LINE(e, "#include \"keops_sum.h\"");
  ke_emit_ops(e);
  KE_LINE(
      e, "/* rows and vectors of a block, items of a step, of a tile; steps of a chunk; widths */");
  KE_LINE(e, "enum { R = %d, JR = %d, S = JR * KE_W, STEPS = %d, T = S * STEPS, CHUNK = %d,",
          k->t.rows, k->t.vectors, k->t.steps, k->t.chunk);
  KE_LINE(e, "  KW = %" PRId32 ", RW = %" PRId32 ", SW = %" PRId32 " };", pass->kept_width,
          pass->red_width, pass->state_width);
  KE_LINE(e, "%s", macros);
  if (seen[KE_RED_MIN]) KE_LINE(e, extreme_text, "least", '+', '+', '<');
  if (seen[KE_RED_MAX]) KE_LINE(e, extreme_text, "largest", '-', '-', '>');
  if (seen[KE_RED_SUMEXP]) KE_LINE(e, "%s", sumexp_text);
  if (seen[KE_RED_KAHAN]) KE_LINE(e, "%s", kahan_text);
  for (int32_t q = 0; q < pass->nreduce; q++) {
    const ke_reduce *r = &pass->reduce[q];

    if (r->kind == KE_RED_KMIN) define_take(k, q);
  }
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

static ke_shape shape_of(const kernel *k)
{
  const ke_tiling *t = &k->t;
  ke_shape shape = {.real_bytes = t->real_bytes, .rows = t->rows};

  shape.tile = t->vectors * t->lanes * t->steps;
  shape.scratch_bytes = (size_t)k->scratch * (size_t)t->vector_bytes;
  return shape;
}

ke_status ke_emit_c_tiled(const ke_pass *pass, const ke_tiling *tiling, ke_shape *shape,
                          char **source, ke_error *err)
{
  kernel k = {.pass = pass, .t = *tiling};
  ke_strbuf out = {0};
  ke_status status;

  *source = NULL;
  if (pass->kind != KE_PASS_PAIRS)
    return ke_fail(err, KE_ERR_INTERNAL, -1, "a pass that scatters has no kernel");
  status = ke_emit_open(&k.e, &pass->pair, &out, err);
  if (status == KE_OK) {
    k.e.unroll = tiling->unroll;
    k.e.cells = tiling->rows * tiling->vectors;
    sink_products(&k);
    status = emit_all(&k, err);
  }
  if (status == KE_OK) {
    *shape = shape_of(&k);
    *source = out.text;
  } else {
    ke_strbuf_free(&out);
  }
  ke_emit_close(&k.e);
  return status;
}

ke_status ke_emit_c(const ke_pass *pass, int real_bytes, ke_isa isa, ke_shape *shape, char **source,
                    ke_error *err)
{
  ke_tiling tiling;

  ke_tiling_choose(pass, real_bytes, isa, &tiling);
  return ke_emit_c_tiled(pass, &tiling, shape, source, err);
}
