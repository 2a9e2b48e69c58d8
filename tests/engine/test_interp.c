/* The interpreter and the row machine against a plain evaluation in double with the C library's
 * maths: one pair at a time, no tiles. Each instruction set that this CPU has, both precisions.
 * Buffers are exactly as long as the contract says, so that the address sanitizer sees a read or
 * write beyond them. */
#include "reduction.h"
#include "keops_sum.h"
#include "check.h"

#include "arena.h"
#include "backend.h"
#include "op.h"
#include "plain_maths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers ---- */

static unsigned long long seed = 1;

static unsigned pick(unsigned n)
{
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)((seed >> 33) % n);
}

static double uniform(void)
{
  return (double)pick(1u << 24) / (1 << 24) * 2 - 1;
}

/* ---- building programs ---- */

static ke_place at_temp(int32_t temp)
{
  return (ke_place){.kind = KE_AT_TEMP, .base = temp};
}
static ke_place at_const(double value)
{
  return (ke_place){.kind = KE_AT_CONST, .value = value};
}
static ke_place at_once(int32_t base)
{
  return (ke_place){.kind = KE_AT_ONCE, .base = base};
}
static ke_place at_kept(int32_t base, int32_t s0, int32_t s1)
{
  return (ke_place){.kind = KE_AT_KEPT, .base = base, .step = {s0, s1}};
}
static ke_place at_red(int32_t base, int32_t s0, int32_t s1)
{
  return (ke_place){.kind = KE_AT_RED, .base = base, .step = {s0, s1}};
}
static ke_place at_slot(int32_t slot, int32_t base, int32_t s0)
{
  return (ke_place){.kind = KE_AT_SLOT, .slot = slot, .base = base, .step = {s0}};
}

enum { MAX_CODE = 200, MAX_SEG = 24 };

static ke_instr code[MAX_CODE];
static ke_segment segs[MAX_SEG];
static ke_reduce reds[MAX_SEG];
static ke_pass pass;
static ke_program *prog = &pass.pair;

static void begin(int32_t once_width, int32_t kept_width, int32_t red_width)
{
  memset(&pass, 0, sizeof pass);
  pass.once_width = once_width;
  pass.kept_width = kept_width;
  pass.red_width = red_width;
  prog->code = code;
  prog->seg = segs;
  pass.reduce = reds;
}

/* Appends an instruction that makes a new temp. */
static ke_place put(uint16_t op, ke_place a, ke_place b, ke_place c)
{
  code[prog->ncode++] = (ke_instr){.op = op, .dst = prog->ntemp, .src = {a, b, c}};
  return at_temp(prog->ntemp++);
}
static ke_place put1(uint16_t op, ke_place a)
{
  return put(op, a, at_const(0), at_const(0));
}
static ke_place put2(uint16_t op, ke_place a, ke_place b)
{
  return put(op, a, b, at_const(0));
}
/* Opens a fold; its temp exists from here on. */
static int32_t open_fold(int32_t n, uint8_t depth)
{
  code[prog->ncode] =
      (ke_instr){.op = KE_I_FOLD, .dst = prog->ntemp++, .n = n, .depth = depth};
  return prog->ncode++;
}
static ke_place close_fold(int32_t fold, ke_place result)
{
  code[fold].len = prog->ncode - fold - 1;
  code[fold].src[0] = result;
  return at_temp(code[fold].dst);
}
static void end_head(void)
{
  prog->nhead = prog->ncode;
}
/* A segment whose body is what was put since the last one. */
static void segment(int32_t out, int32_t n, ke_place result)
{
  int32_t first = prog->nseg ? segs[prog->nseg - 1].first + segs[prog->nseg - 1].len : prog->nhead;
  segs[prog->nseg++] = (ke_segment){
      .out = out, .n = n, .first = first, .len = prog->ncode - first, .result = result};
}
/* A reduction of the segments that no other has yet. */
static ke_reduce *reduction(ke_reduce_kind kind, int32_t width)
{
  ke_reduce *r = &reds[pass.nreduce++];
  memset(r, 0, sizeof *r);
  r->kind = kind;
  r->width = width;
  r->seg = pass.nreduce > 1 ? r[-1].seg + r[-1].nseg : 0;
  r->nseg = prog->nseg - r->seg;
  r->state = pass.state_width;
  r->k = 3;
  r->state_width = ke_reducer_of(kind)->states(r);
  pass.block = KE_BLOCK_ITEMS;
  pass.state_width += r->state_width;
  return r;
}

/* ---- the plain evaluation ---- */

static double plain_value(int op, double a, double b, double c)
{
  (void)c;
  switch (op) {
#define SCALAR_OP(name, arity, cost, value, derivatives, domains, about)                                  \
  case KE_OP_##name: return value;
#define FUSED_OP(name, arity, cost, value)                                                         \
  case KE_OP_##name: return value;
#include "op_list.h"
  default: abort();
  }
}

typedef struct {
  const double *once, *kept, *red; /* of this row and item */
  const ke_column *slots;
  int64_t row;
  int64_t k[KE_MAX_LOOPS];
  double temp[MAX_CODE];
} plain;

static int64_t plain_component(const plain *e, const ke_place *p)
{
  int64_t at = p->base;
  for (int d = 0; d < KE_MAX_LOOPS; d++) at += p->step[d] * e->k[d];
  return at;
}

static double plain_read(const plain *e, const ke_place *p)
{
  switch (p->kind) {
  case KE_AT_CONST: return p->value;
  case KE_AT_TEMP: return e->temp[p->base];
  case KE_AT_ONCE: return e->once[plain_component(e, p)];
  case KE_AT_KEPT: return e->kept[plain_component(e, p)];
  case KE_AT_RED: return e->red[plain_component(e, p)];
  default: return e->slots[p->slot].data[plain_component(e, p) * e->slots[p->slot].ld + e->row];
  }
}

static void plain_code(plain *e, const ke_instr *in, int32_t len)
{
  for (int32_t i = 0; i < len; i++, in++) {
    if (in->op == KE_I_FOLD) {
      double sum = in->keep ? e->temp[in->dst] : 0, value;
      for (int32_t k = 0; k < in->n; k++) {
        e->k[in->depth] = k;
        plain_code(e, in + 1, in->len);
        value = plain_read(e, &in->src[0]);
        if (in->fold == KE_FOLD_SUM) sum += value;
        else if (k == 0 && !in->keep) sum = value;
        else if (in->fold == KE_FOLD_MAX ? value > sum : value < sum) sum = value;
      }
      e->k[in->depth] = 0;
      e->temp[in->dst] = sum;
      i += in->len;
      in += in->len;
    } else if (in->op == KE_I_LOAD) {
      e->temp[in->dst] = plain_read(e, &in->src[0]);
    } else if (in->op == KE_I_GATHER) {
      const double row = plain_read(e, &in->src[1]);
      plain at = *e;
      at.row = row >= 0 ? (int64_t)row : 0;
      e->temp[in->dst] = row >= 0 ? plain_read(&at, &in->src[0]) : 0;
    } else {
      e->temp[in->dst] = plain_value(in->op, plain_read(e, &in->src[0]), plain_read(e, &in->src[1]),
                                     plain_read(e, &in->src[2]));
    }
  }
}

static void plain_segment(plain *e, const ke_program *p, const ke_segment *seg, double *out)
{
  for (int32_t k = 0; k < seg->n; k++) {
    e->k[0] = k;
    plain_code(e, p->code + seg->first, seg->len);
    out[seg->out + k] = plain_read(e, &seg->result);
  }
  e->k[0] = 0;
}

static void plain_add(const ke_reduce *r, const double *g, double score, double item, double *state)
{
  state += r->state;
  for (int32_t k = 0; k < r->width; k++) {
    if (r->kind == KE_RED_SUM || r->kind == KE_RED_KAHAN) {
      state[k] += g[k];
    } else if (r->kind == KE_RED_KMIN) { /* least first, by insertion */
      const int32_t n = r->k * r->width;
      double *v = state + k * r->k;
      for (int32_t q = r->k - 1; q >= 0 && g[k] < v[q]; q--) {
        if (q + 1 < r->k) v[q + 1] = v[q], v[n + q + 1] = v[n + q];
        v[q] = g[k];
        v[n + q] = item;
      }
    } else if (r->kind == KE_RED_SUMEXP) {
      const double m = fmax(state[0], score);
      const double x = score == -HUGE_VAL  ? 0
                       : score == HUGE_VAL ? HUGE_VAL
                                           : exp(score - fmin(m, 1e300));
      const double old = state[0] == m ? 1 : state[0] == -HUGE_VAL ? 0 : exp(state[0] - m);
      if (k == 0)
        for (int32_t q = 0; q < r->width; q++) state[1 + q] *= old;
      state[1 + k] += x * g[k];
      if (k == r->width - 1) state[0] = m;
      else if (m > state[0]) state[0] = m;
    } else if (r->kind == KE_RED_MIN ? g[k] < state[k] : g[k] > state[k]) {
      state[k] = g[k];
      state[r->width + k] = item;
    }
  }
}

/* ---- data of a case ---- */

typedef struct {
  int64_t rows, items;
  double *once, *kept, *red; /* kept[row][component], red[item][component] */
} data;

static double *numbers(int64_t n, int real_bytes, int grid)
{
  double *x = malloc(sizeof *x * (size_t)(n ? n : 1));
  for (int64_t k = 0; k < n; k++) {
    x[k] = grid ? (double)pick((unsigned)grid) : uniform();
    if (real_bytes == 4) x[k] = (double)(float)x[k];
  }
  return x;
}

static data make_data(int64_t rows, int64_t items, int real_bytes, int grid)
{
  data d = {rows, items, numbers(pass.once_width, real_bytes, grid),
            numbers(rows * pass.kept_width, real_bytes, grid),
            numbers(items * pass.red_width, real_bytes, grid)};
  for (int32_t k = 0; k < pass.once_width; k++) d.once[k] = (double)(float)(d.once[k] / 2 - 0.6);
  return d;
}

static void free_data(data *d)
{
  free(d->once);
  free(d->kept);
  free(d->red);
}

static void *filled(size_t bytes)
{
  void *p;
  if (posix_memalign(&p, 64, bytes ? bytes : 1)) abort();
  memset(p, 0xff, bytes); /* NaN */
  return p;
}

static void put_real(void *to, int64_t at, double x, int real_bytes)
{
  if (real_bytes == 4) ((float *)to)[at] = (float)x;
  else ((double *)to)[at] = x;
}

/* Blocks of `lanes`, components between block and lane, the last row repeated. */
static void *packed(const double *x, int64_t rows, int32_t width, int64_t lanes, int real_bytes)
{
  const int64_t blocks = (rows + lanes - 1) / lanes;
  void *to = filled((size_t)(blocks * lanes * width * real_bytes));
  for (int64_t b = 0; b < blocks; b++)
    for (int32_t k = 0; k < width; k++)
      for (int64_t l = 0; l < lanes; l++) {
        const int64_t row = b * lanes + l < rows ? b * lanes + l : rows - 1;
        put_real(to, (b * width + k) * lanes + l, x[row * width + k], real_bytes);
      }
  return to;
}

static double *start_states(int64_t rows)
{
  double *state = malloc(sizeof *state * (size_t)(rows * pass.state_width));
  for (int64_t i = 0; i < rows; i++)
    for (int32_t n = 0; n < pass.nreduce; n++) {
      const ke_reduce *r = &reds[n];
      double *s = state + i * pass.state_width + r->state;
      ke_reducer_of(r->kind)->start(r, s);
    }
  return state;
}

static double *plain_states(const data *d, int64_t i0, int64_t i1)
{
  double *state = start_states(d->rows), *g = malloc(sizeof *g * 2000);
  plain *e = calloc(1, sizeof *e);

  e->once = d->once;
  for (int64_t i = 0; i < d->rows; i++)
    for (int64_t j = i0; j < i1; j++) {
      e->kept = d->kept + i * pass.kept_width;
      e->red = d->red + j * pass.red_width;
      plain_code(e, prog->code, prog->nhead);
      for (int32_t n = 0; n < pass.nreduce; n++) {
        const ke_reduce *r = &reds[n];
        for (int32_t s = r->seg; s < r->seg + r->nseg; s++) plain_segment(e, prog, &segs[s], g);
        plain_add(r, g, r->kind == KE_RED_SUMEXP ? plain_read(e, &r->score) : 0, (double)j,
                  state + i * pass.state_width);
      }
    }
  free(e);
  free(g);
  return state;
}

static ke_isa test_isa;
static int test_bytes;

/* States after the items [i0, i1), in `calls` calls. */
static double *kernel_states(const data *d, int64_t i0, int64_t i1, int calls)
{
  ke_arena *arena = ke_arena_new();
  ke_error err = {0};
  ke_kernel kernel;
  double *state = start_states(d->rows);
  void *once, *kept, *red, *scratch;

  if (ke_interp_prepare(arena, &pass, test_bytes, test_isa, &kernel, &err) != KE_OK) {
    CHECK_MSG(0, "%s", err.message);
    ke_arena_free(arena);
    return state;
  }
  CHECK(kernel.shape.rows == 8 && kernel.shape.tile >= 32 && kernel.shape.tile % 32 == 0);
  once = packed(d->once, 1, pass.once_width, 1, test_bytes);
  kept = packed(d->kept, d->rows, pass.kept_width, kernel.shape.rows, test_bytes);
  red = packed(d->red, d->items, pass.red_width, kernel.shape.tile, test_bytes);
  scratch = filled(kernel.shape.scratch_bytes);
  for (int c = 0; c < calls; c++) {
    ke_task task = {.nrows = d->rows,
                    .i0 = i0 + (i1 - i0) * c / calls,
                    .i1 = i0 + (i1 - i0) * (c + 1) / calls,
                    .once = once,
                    .kept = kept,
                    .red = red,
                    .state = state,
                    .scratch = scratch};
    if (task.i0 < task.i1) kernel.run(&kernel, &task);
  }
  free(once);
  free(kept);
  free(red);
  free(scratch);
  ke_arena_free(arena);
  return state;
}

static int close_to(double got, double want, double tolerance)
{
  if (isnan(want)) return isnan(got);
  if (isinf(want)) return got == want;
  return fabs(got - want) <= tolerance * (1 + fabs(want));
}

/* Sum of e^m s rather than its parts: m may be any number near the largest score. */
static int same_sumexp(const double *got, const double *want, int32_t width, double tolerance)
{
  if (!close_to(got[0], want[0], tolerance)) return 0;
  for (int32_t k = 1; k <= width; k++)
    if (!close_to(got[k], want[k], tolerance)) return 0;
  return 1;
}

/* A heap against a sorted list: the heap's finished columns go by k first. */
static int same_least(const ke_reduce *r, const double *got, const double *want, double tolerance)
{
  const int32_t n = r->k * r->width;
  double state[128], column[128];

  memcpy(state, got, (size_t)r->state_width * sizeof *state);
  ke_reducer_of(r->kind)->finish(r, state, column, 1);
  for (int32_t c = 0; c < n; c++) {
    const int32_t at = c % r->width * r->k + c / r->width;
    if (!close_to(column[c], want[at], tolerance) || column[n + c] != want[n + at]) return 0;
  }
  return 1;
}

static int same_states(const double *got, const double *want, int64_t rows, double tolerance)
{
  for (int64_t i = 0; i < rows; i++, got += pass.state_width, want += pass.state_width)
    for (int32_t n = 0; n < pass.nreduce; n++) {
      const ke_reduce *r = &reds[n];
      if (r->kind == KE_RED_SUMEXP) {
        if (!same_sumexp(got + r->state, want + r->state, r->width, tolerance)) return 0;
        continue;
      }
      if (r->kind == KE_RED_KAHAN) {
        for (int32_t k = 0; k < r->width; k++)
          if (!close_to(ke_sum_value(got[r->state + k], got[r->state + r->width + k]), want[r->state + k], tolerance))
            return 0;
        continue;
      }
      if (r->kind == KE_RED_KMIN) {
        if (!same_least(r, got + r->state, want + r->state, tolerance)) return 0;
        continue;
      }
      for (int32_t k = 0; k < r->state_width; k++) {
        const int exact = r->kind != KE_RED_SUM && k >= r->width;
        if (!close_to(got[r->state + k], want[r->state + k], exact ? 0 : tolerance)) return 0;
      }
    }
  return 1;
}

static double tolerance(void)
{
  return test_bytes == 4 ? 4e-5 : 1e-11;
}

static void check_range(const char *name, const data *d, int64_t i0, int64_t i1, int calls)
{
  double *got = kernel_states(d, i0, i1, calls), *want = plain_states(d, i0, i1);

  CHECK_MSG(same_states(got, want, d->rows, tolerance()),
            "%s: %s, %d bytes, %d rows, items %d..%d, %d calls; first state %.17g, not %.17g", name,
            ke_isa_name(test_isa), test_bytes, (int)d->rows, (int)i0, (int)i1, calls, got[0],
            want[0]);
  free(got);
  free(want);
}

/* The pass that was built, over rows, items and ranges across the borders of blocks and tiles. */
static void check_pass(const char *name, int grid)
{
  static const int rows[] = {1, 2, 3, 7, 8, 9, 21};
  static const int items[] = {1, 2, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129, 257, 300};

  for (size_t a = 0; a < sizeof items / sizeof *items; a++) {
    const int m = rows[a % (sizeof rows / sizeof *rows)], n = items[a];
    data d = make_data(m, n, test_bytes, grid);
    check_range(name, &d, 0, n, 1);
    check_range(name, &d, n / 3, n - n / 4, 1);
    check_range(name, &d, 0, n, 3);
    free_data(&d);
  }
}

static void for_each_target(void (*test)(void))
{
  for (test_isa = KE_ISA_BASE; test_isa <= ke_cpu_isa(); test_isa++)
    for (test_bytes = 4; test_bytes <= 8; test_bytes += 4) test();
}

/* ---- cases ---- */

static ke_place sqdist(int32_t dim)
{
  const int32_t fold = open_fold(dim, 0);
  const ke_place t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0));
  return close_fold(fold, put1(KE_OP_Square, t));
}

/* sum of exp2(c |x - y|^2) b; `where`: the product is in the head or in the segment */
static void build_gauss(int32_t dim, int in_segment)
{
  ke_place p, q;
  begin(1, dim, dim + 1);
  p = put2(KE_OP_Exp2Mul, at_once(0), sqdist(dim));
  if (in_segment) end_head();
  q = put2(KE_OP_Mult, p, at_red(dim, 0, 0));
  if (!in_segment) end_head();
  segment(0, 1, q);
  reduction(KE_RED_SUM, 1);
}

static void test_gauss(void)
{
  build_gauss(3, 0);
  check_pass("gauss", 0);
  build_gauss(10, 1);
  check_pass("gauss in segment", 0);
  build_gauss(200, 0);
  check_pass("gauss 200", 0);
}

/* The same by a formula written down here: the plain evaluation is itself under test. */
static void test_gauss_formula(void)
{
  const int m = 9, n = 2500;
  double *state;
  data d;

  build_gauss(3, 0);
  d = make_data(m, n, test_bytes, 0);
  state = kernel_states(&d, 0, n, 1);
  for (int i = 0; i < m; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) {
      const double *x = d.kept + 3 * i, *y = d.red + 4 * j;
      const double s = (x[0] - y[0]) * (x[0] - y[0]) + (x[1] - y[1]) * (x[1] - y[1]) +
                       (x[2] - y[2]) * (x[2] - y[2]);
      sum += exp2(d.once[0] * s) * y[3];
    }
    CHECK_MSG(fabs(state[i] - sum) < (test_bytes == 4 ? 1e-4 : 1e-10), "%.17g, not %.17g", state[i],
              sum);
  }
  free(state);
  free_data(&d);
}

static void build_extremes(void)
{
  ke_place s;
  begin(0, 2, 2);
  s = sqdist(2);
  end_head();
  segment(0, 1, s);
  reduction(KE_RED_MIN, 1);
  segment(0, 1, s);
  reduction(KE_RED_MAX, 1);
  segment(0, 2, put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0)));
  segment(2, 2, at_red(0, 1, 0));
  reduction(KE_RED_MIN, 4);
  segment(0, 1, s);
  reduction(KE_RED_KMIN, 1);
  segment(0, 2, put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0)));
  segment(2, 2, at_red(0, 1, 0));
  reduction(KE_RED_KMIN, 4);
  segment(0, 2, put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0)));
  segment(2, 1, s);
  reduction(KE_RED_KAHAN, 3);
}

/* Whole numbers below 4: most distances are tied, and the lowest index must win. */
static void test_extremes(void)
{
  build_extremes();
  check_pass("extremes on a grid", 4);
  check_pass("extremes", 0);
}

static void test_extremes_of_nothing(void)
{
  const double bad[] = {(double)NAN, HUGE_VAL};
  for (int b = 0; b < 2; b++) {
    data d;
    double *state;
    build_extremes();
    d = make_data(3, 70, test_bytes, 4);
    for (int j = 0; j < 70; j++)
      if (j != 37 || b) d.red[2 * j] = bad[b]; /* all items but one, or all */
    check_range("extremes of NaN and Inf", &d, 0, 70, 2);
    state = kernel_states(&d, 0, 70, 1);
    CHECK(state[1] == (b ? -1 : 37) && (b ? state[0] == HUGE_VAL : state[0] < 100));
    CHECK(state[3] == (b ? 0 : 37));
    free(state);
    free_data(&d);
  }
}

static void test_sumexp(void)
{
  ke_place s, u;

  begin(1, 3, 6);
  s = put2(KE_OP_Mult, sqdist(3), at_once(0));
  end_head();
  segment(0, 1, at_const(1)); /* plain LogSumExp */
  reduction(KE_RED_SUMEXP, 1)->score = s;
  segment(0, 3, at_red(3, 1, 0)); /* weights of the items */
  segment(3, 1, at_kept(0, 0, 0));
  reduction(KE_RED_SUMEXP, 4)->score = s;
  segment(0, 3, put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0))); /* gradients */
  segment(3, 3, put2(KE_OP_Subtract, at_red(3, 1, 0), at_kept(0, 1, 0)));
  reduction(KE_RED_SUMEXP, 6)->score = s;
  u = put1(KE_OP_Sin, at_red(1, 0, 0));
  segment(0, 2, put2(KE_OP_Mult, u, at_kept(0, 1, 0)));
  reduction(KE_RED_SUMEXP, 2)->score = at_red(0, 0, 0);
  check_pass("LogSumExp", 0);
}

/* Scores of -Inf, Inf and NaN, and scores far beyond the range of exp. */
static void test_sumexp_edges(void)
{
  const double inf = HUGE_VAL;
  data d;
  double *state;

  begin(0, 1, 2);
  end_head();
  segment(0, 1, at_red(1, 0, 0));
  reduction(KE_RED_SUMEXP, 1)->score = put2(KE_OP_Add, at_kept(0, 0, 0), at_red(0, 0, 0));
  prog->nhead = prog->ncode; /* the score belongs to the head */
  segs[0].first = prog->nhead;
  segs[0].len = 0;
  d = make_data(3, 300, test_bytes, 0);
  for (int j = 0; j < 300; j++) {
    d.red[2 * j] = j % 3 ? -inf : 1000 * sin(j); /* a third are finite, all over the place */
    d.red[2 * j + 1] = 1 + j % 5;
  }
  check_range("scores with -Inf", &d, 0, 300, 1);
  check_range("scores with -Inf", &d, 0, 300, 7);
  for (int j = 0; j < 300; j++) d.red[2 * j] = -inf;
  state = kernel_states(&d, 5, 300, 2);
  CHECK(state[0] == -inf && state[1] == 0 && state[2] == -inf && state[3] == 0);
  free(state);
  d.red[2 * 150] = inf;
  d.red[2 * 151] = 3;
  for (int calls = 1; calls <= 3; calls++) {
    state = kernel_states(&d, 0, 300, calls);
    CHECK(state[0] == inf && state[1] == inf && state[4] == inf && state[5] == inf);
    free(state);
  }
  d.red[2 * 150] = (double)NAN;
  state = kernel_states(&d, 0, 300, 3);
  CHECK(state[0] < 10 && isnan(state[1])); /* the one finite score of item 151 */
  free(state);
  state = kernel_states(&d, 151, 300, 1); /* without it: lanes outside must not leak in */
  CHECK(!isnan(state[1]) && state[1] > 0);
  free(state);
  d.red[2 * 150] = 0;
  d.red[2 * 150 + 1] = (double)NAN;
  state = kernel_states(&d, 0, 300, 1);
  CHECK(isnan(state[1]));
  free(state);
  d.red[2 * 150 + 1] = inf;
  state = kernel_states(&d, 0, 150, 1); /* an infinite weight outside of the range */
  CHECK(state[0] == -inf && state[1] == 0);
  free(state);
  free_data(&d);
}

/* Items outside of the range may hold anything. */
static void test_outside_is_left_out(void)
{
  double *state;
  data d;

  build_gauss(3, 1);
  d = make_data(9, 200, test_bytes, 0);
  for (int j = 0; j < 200; j++)
    if (j < 45 || j >= 111)
      for (int k = 0; k < 4; k++) d.red[4 * j + k] = k == 3 ? HUGE_VAL : (double)NAN;
  check_range("NaN and Inf outside", &d, 45, 111, 1);
  state = kernel_states(&d, 45, 112, 1);
  CHECK(isnan(state[0]) && isnan(state[8]));
  free(state);
  free_data(&d);
}

static void test_gradients(void)
{
  ke_place p, t;

  begin(1, 3, 5);
  p = put2(KE_OP_Exp2Mul, sqdist(3), at_once(0));
  end_head();
  t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0));
  segment(0, 3, put2(KE_OP_Mult, p, t));
  t = put2(KE_OP_Subtract, at_red(0, 1, 0), at_kept(0, 1, 0));
  segment(3, 3, put2(KE_OP_Mult, t, p));
  segment(6, 2, put2(KE_OP_Mult, p, at_kept(1, 1, 0)));
  segment(8, 1, put1(KE_OP_Square, p));
  reduction(KE_RED_SUM, 9);
  segment(0, 1, p);
  reduction(KE_RED_SUM, 1);
  check_pass("gradients", 0);
}

/* What a sum could take into itself, but another place reads too. */
static void test_shared_operands(void)
{
  ke_place p, q, t;

  begin(1, 3, 8);
  p = put2(KE_OP_Exp2Mul, sqdist(3), at_once(0));
  q = put2(KE_OP_Mult, p, at_red(3, 0, 0));
  end_head();
  segment(0, 1, q);
  segment(1, 1, q);
  t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0));
  segment(2, 3, put2(KE_OP_Mult, put2(KE_OP_Mult, p, t), t));
  t = put2(KE_OP_Mult, at_kept(0, 1, 0), at_red(0, 1, 0));
  segment(5, 3, put2(KE_OP_Mult, t, t));
  segment(8, 4, put2(KE_OP_Mult, at_red(0, 1, 0), at_red(4, 1, 0)));
  reduction(KE_RED_SUM, 12);
  t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0));
  segment(0, 3, t);
  segs[prog->nseg - 1].result = put2(KE_OP_Add, put1(KE_OP_Square, t), t);
  segs[prog->nseg - 1].len += 2;
  reduction(KE_RED_SUMEXP, 3)->score = p;
  check_pass("shared operands", 0);
}

static void test_wide_outputs(void)
{
  static const int widths[] = {2, 3, 7, 100};

  for (int w = 0; w < 4; w++) {
    ke_place p;
    begin(1, 2, 2 + 2 * widths[w]);
    p = put2(KE_OP_Exp2Mul, at_once(0), sqdist(2));
    end_head();
    segment(0, widths[w], put2(KE_OP_Mult, p, at_red(2, 2, 0)));
    segment(widths[w], widths[w], put2(KE_OP_Mult, at_red(3, 2, 0), p));
    reduction(KE_RED_SUM, 2 * widths[w]);
    check_pass("wide output", 0);
  }
}

static void test_known_folds(void)
{
  int32_t f;
  ke_place t, u, v[8];
  int n = 0;

  begin(6, 12, 12);
  f = open_fold(5, 0);
  v[n++] = close_fold(f, put2(KE_OP_Mult, at_red(0, 2, 0), at_kept(0, 1, 0))); /* dot */
  f = open_fold(5, 0);
  t = put2(KE_OP_Subtract, at_red(1, 2, 0), at_kept(0, 1, 0));
  v[n++] = close_fold(f, put1(KE_OP_Abs, t)); /* L1 */
  f = open_fold(5, 0);
  t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(1, 1, 0));
  v[n++] = close_fold(f, put2(KE_OP_Mult, t, t));
  f = open_fold(5, 0); /* weights before and between */
  t = put2(KE_OP_Subtract, at_kept(0, 2, 0), at_red(1, 1, 0));
  u = put2(KE_OP_Mult, at_kept(1, 1, 0), t);
  v[n++] = close_fold(f, put2(KE_OP_Mult, t, u));
  f = open_fold(5, 0);
  t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(1, 1, 0));
  u = put1(KE_OP_Square, t);
  v[n++] = close_fold(f, put2(KE_OP_Mult, u, (ke_place){.kind = KE_AT_ONCE, .step = {1}}));
  f = open_fold(3, 0); /* squares of two pieces added up: Concat */
  t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0));
  u = close_fold(f, put1(KE_OP_Square, t));
  v[n++] = put2(KE_OP_Mult, u, at_red(0, 0, 0)); /* of the first piece alone */
  f = open_fold(2, 0);
  prog->ntemp--;
  code[f].dst = u.base;
  code[f].keep = true;
  t = put2(KE_OP_Subtract, at_kept(3, 1, 0), at_red(9, 1, 0));
  v[n++] = close_fold(f, put1(KE_OP_Square, t));
  f = open_fold(4, 0); /* no kept value: the same for all rows */
  t = put2(KE_OP_Subtract, at_once(1), at_red(1, 1, 0));
  v[n++] = close_fold(f, put1(KE_OP_Square, t));
  end_head();
  for (int k = 0; k < n; k++) segment(k, 1, v[k]);
  reduction(KE_RED_SUM, n);
  check_pass("known folds", 0);
}

static void test_other_folds(void)
{
  int32_t f, g;
  ke_place t, u, v[8];
  int n = 0;

  begin(2, 8, 8);
  f = open_fold(4, 0);
  t = put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 2, 0));
  v[n++] = close_fold(f, put2(KE_OP_Add, put1(KE_OP_Sin, t), t));
  f = open_fold(4, 0); /* ends in a product */
  t = put1(KE_OP_Cos, at_red(0, 1, 0));
  v[n++] = close_fold(f, put2(KE_OP_Mult, at_kept(2, 1, 0), t));
  f = open_fold(3, 0);
  t = put2(KE_OP_Add, at_kept(0, 1, 0), at_red(0, 2, 0));
  v[n++] = close_fold(f, put2(KE_OP_Mult, put1(KE_OP_Cos, t), t));
  f = open_fold(3, 0); /* no body */
  v[n++] = close_fold(f, at_red(1, 2, 0));
  f = open_fold(3, 0);
  v[n++] = close_fold(f, at_kept(1, 2, 0));
  f = open_fold(3, 0); /* a product of what all rows share */
  v[n++] = close_fold(f, put2(KE_OP_Mult, at_kept(1, 1, 0), at_once(1)));
  f = open_fold(3, 0); /* nested */
  g = open_fold(2, 1);
  u = close_fold(g, put2(KE_OP_Mult, at_kept(0, 2, 1), at_red(0, 0, 1)));
  v[n++] = close_fold(f, put2(KE_OP_Mult, u, at_red(2, 1, 0)));
  end_head();
  for (int k = 0; k < n; k++) segment(k, 1, v[k]);
  f = open_fold(4, 1); /* in a segment, under its counter */
  t = close_fold(f, put2(KE_OP_Mult, at_kept(0, 0, 2), at_red(1, 1, 1)));
  segment(n, 3, put2(KE_OP_Add, t, v[0]));
  f = open_fold(2, 1);
  g = open_fold(2, 2);
  u = (ke_place){.kind = KE_AT_RED, .step = {1, 2, 1}};
  t = close_fold(g, put2(KE_OP_Subtract, (ke_place){.kind = KE_AT_KEPT, .step = {2, 1, 1}}, u));
  segment(n + 3, 3, close_fold(f, put1(KE_OP_Abs, t)));
  reduction(KE_RED_SUM, n + 6);
  check_pass("other folds", 0);
}

/* The largest and smallest component, of two pieces too; NaN stays where it comes first. */
static void test_extreme_folds(void)
{
  ke_place v[4];
  int32_t f;
  data d;

  begin(0, 4, 4);
  for (int k = 0; k < 4; k++) {
    const ke_fold_kind kind = k % 2 ? KE_FOLD_MIN : KE_FOLD_MAX;
    f = open_fold(k < 2 ? 4 : 2, 0);
    code[f].fold = (uint8_t)kind;
    v[k] = close_fold(f, k < 2 ? put2(KE_OP_Subtract, at_kept(0, 1, 0), at_red(0, 1, 0))
                               : at_red(0, 1, 0));
    if (k < 2) continue;
    f = open_fold(2, 0);
    prog->ntemp--;
    code[f].dst = v[k].base;
    code[f].keep = true;
    code[f].fold = (uint8_t)kind;
    close_fold(f, at_kept(2, 1, 0));
  }
  end_head();
  for (int k = 0; k < 4; k++) segment(k, 1, v[k]);
  reduction(KE_RED_SUM, 4);
  check_pass("extreme folds", 0);
  d = make_data(9, 40, test_bytes, 0);
  for (int j = 0; j < 40; j++) d.red[4 * j + j % 4] = (double)NAN;
  for (int j = 0; j < 8; j++) check_range("extreme folds with NaN", &d, j, j + 1, 1);
  free_data(&d);
}

/* Operands of every kind in every position. */
static int put_mixtures(ke_place v[])
{
  const ke_place x = at_kept(0, 0, 0), y = at_red(0, 0, 0), o = at_once(0), c = at_const(0.75);
  const ke_place s = sqdist(2);
  int n = 0;

  v[n++] = put2(KE_OP_Subtract, x, s);
  v[n++] = put2(KE_OP_Subtract, s, x);
  v[n++] = put2(KE_OP_Subtract, x, o);
  v[n++] = put2(KE_OP_Subtract, c, x);
  v[n++] = put2(KE_OP_Subtract, y, o);
  v[n++] = put2(KE_OP_Subtract, o, c);
  v[n++] = put2(KE_OP_Divide, y, put2(KE_OP_Add, s, c));
  v[n++] = put1(KE_OP_Sin, y);
  v[n++] = put1(KE_OP_Cos, x);
  v[n++] = put1(KE_OP_Square, c);
  v[n++] = put2(KE_OP_Mult, x, o);
  v[n++] = put(KE_OP_IfElse, x, y, c);
  v[n++] = put(KE_OP_IfElse, y, o, c);
  v[n++] = put(KE_OP_IfElse, s, x, at_const(0));
  v[n] = put2(KE_OP_Mult, v[7], v[12]);
  return n + 1;
}

static void test_operands(void)
{
  static const ke_reduce_kind kinds[] = {KE_RED_SUM, KE_RED_MAX};

  for (int q = 0; q < 2; q++) {
    ke_place v[20];
    int n;
    begin(1, 2, 2);
    n = put_mixtures(v);
    end_head();
    for (int k = 0; k < n; k++) segment(k, 1, v[k]);
    /* the largest of all equal values is the first: rounding must not decide, so only exact ones */
    if (q) {
      prog->nseg = 0;
      segment(0, 1, v[4]);
      segment(1, 1, v[3]);
      segment(2, 1, v[12]);
      n = 3;
    }
    reduction(kinds[q], n);
    check_pass("operands", 0);
  }
  begin(0, 2, 2);
  end_head();
  segment(0, 2, at_kept(0, 1, 0));
  segment(2, 1, at_const(1));
  segment(3, 2, at_red(0, 1, 0));
  reduction(KE_RED_SUM, 5);
  segment(0, 2, at_kept(0, 1, 0));
  reduction(KE_RED_MAX, 2);
  check_pass("results that are no temps", 0);
}

/* Operand k of an operation, within its domain: a vector chosen between two of the item by the
 * row. */
static ke_place vector_operand(int k)
{
  return put(KE_OP_IfElse, at_kept(0, 0, 0), at_red(k, 0, 0), at_red(3 + k, 0, 0));
}
static ke_place scalar_operand(int k)
{
  return at_kept(1 + k, 0, 0);
}

static void fill_domains(const ke_op *op, data *d)
{
  for (int k = 0; k < 3; k++) {
    const double low = op->kind == KE_FUSED ? -2 : op->domain[k][0];
    const double high = op->kind == KE_FUSED ? 2 : op->domain[k][1];
    const double mid = (low + high) / 2, half = (high - low) / 2;
    for (int64_t i = 0; i < d->rows; i++)
      d->kept[4 * i + 1 + k] = (double)(float)(mid + half * uniform());
    for (int64_t j = 0; j < 2 * d->items; j++)
      d->red[3 * j + k] = (double)(float)(mid + half * uniform());
  }
}

/* Each elementwise operation, on vectors and scalars. */
static void test_operations(void)
{
  for (int op = 0; op < KE_OP_COUNT; op++) {
    const ke_op *o = &ke_ops[op];
    const uint16_t number = (uint16_t)op;
    ke_place v[3], t[5];
    data d;
    int n = 0;
    if (o->kind != KE_SCALAR && o->kind != KE_FUSED) continue;
    begin(0, 4, 6);
    for (int k = 0; k < o->arity; k++) v[k] = vector_operand(k);
    if (o->arity == 1) t[n++] = put1(number, v[0]);
    if (o->arity == 1) t[n++] = put1(number, scalar_operand(0));
    if (o->arity == 2) t[n++] = put2(number, v[0], v[1]);
    if (o->arity == 2) t[n++] = put2(number, v[0], scalar_operand(1));
    if (o->arity == 2) t[n++] = put2(number, scalar_operand(0), v[1]);
    if (o->arity == 2) t[n++] = put2(number, scalar_operand(0), scalar_operand(1));
    if (o->arity == 3) t[n++] = put(number, v[0], v[1], v[2]);
    if (o->arity == 3) t[n++] = put(number, v[0], scalar_operand(1), scalar_operand(2));
    end_head();
    for (int k = 0; k < n; k++) segment(k, 1, t[k]);
    reduction(KE_RED_SUM, n);
    d = make_data(9, 70, test_bytes, 0);
    fill_domains(o, &d);
    check_range(o->name, &d, 0, 70, 1);
    check_range(o->name, &d, 13, 14, 1);
    free_data(&d);
  }
}

/* Sums of many items go to double in time: 0.1f added a million times in float would be off by 1
 * %. */
static void test_long_sums(void)
{
  const int64_t n = 200000;
  double *state;
  data d;

  begin(0, 1, 1);
  end_head();
  segment(0, 1, at_red(0, 0, 0));
  reduction(KE_RED_SUM, 1);
  segment(0, 1, at_red(0, 0, 0));
  reduction(KE_RED_MAX, 1);
  d = make_data(1, n, test_bytes, 0);
  for (int64_t j = 0; j < n; j++) d.red[j] = (double)0.1f;
  d.red[177777] = 1;
  state = kernel_states(&d, 0, n, 1);
  CHECK_MSG(fabs(state[0] / ((double)0.1f * (double)(n - 1) + 1) - 1) < 5e-6, "%.17g", state[0]);
  CHECK(state[1] == 1 && state[2] == 177777);
  free(state);
  free_data(&d);
}

/* ---- random programs: life spans, loops, all mixes of operands ---- */

static ke_place random_place(int32_t first_temp, int32_t last_temp, int depth)
{
  ke_place p = {0};
  if (last_temp > first_temp && pick(3))
    return at_temp(first_temp + (int32_t)pick((unsigned)(last_temp - first_temp)));
  switch (pick(4)) {
  case 0: return at_const(uniform());
  case 1: p.kind = KE_AT_ONCE; break;
  case 2: p.kind = KE_AT_KEPT; break;
  default: p.kind = KE_AT_RED; break;
  }
  p.base = (int32_t)pick(3);
  for (int d = 0; d < depth; d++) p.step[d] = (int32_t)pick(3);
  return p;
}

static ke_place random_operation(int depth)
{
  static const uint16_t ops[] = {KE_OP_Add,  KE_OP_Subtract, KE_OP_Mult, KE_OP_Sin, KE_OP_Cos,
                                 KE_OP_Abs,  KE_OP_ReLU,     KE_OP_Mult, KE_OP_Subtract};
  const uint16_t op = ops[pick(sizeof ops / sizeof *ops)];
  const int32_t n = prog->ntemp;
  const ke_place a = random_place(n > 4 ? n - 4 : 0, n, depth), b = random_place(0, n, depth);
  ke_place t = put(op, a, b, at_const(0));
  return op == KE_OP_Mult || op == KE_OP_Add ? put1(KE_OP_Sin, t) : t; /* stays small */
}

static void random_code(int count, int depth)
{
  for (int k = 0; k < count; k++) {
    if (depth < KE_MAX_LOOPS && pick(5) == 0) {
      const int32_t f = open_fold(1 + (int32_t)pick(3), (uint8_t)depth);
      code[f].fold = (uint8_t)(pick(3) ? KE_FOLD_SUM : pick(2) ? KE_FOLD_MAX : KE_FOLD_MIN);
      random_code(1 + (int)pick(2), depth + 1);
      close_fold(f, pick(4) ? random_operation(depth + 1) : random_place(0, 0, depth + 1));
    } else {
      random_operation(depth);
    }
  }
}

/* Temps inside of a fold or segment are seen in there only, the fold's own once it is done: a
 * reader that may not see what it reads gets a constant. */
static void hide_inner_temps(void)
{
  int32_t fold_of[MAX_CODE], seg_of[MAX_CODE], stack[8], end[8], top = 0;

  for (int32_t t = 0; t < prog->ntemp; t++) fold_of[t] = -2; /* not made yet */
  for (int32_t i = 0; i < prog->ncode; i++) {
    int32_t seg = -1;
    for (; top && end[top - 1] <= i; top--) {
      const ke_instr *f = &code[stack[top - 1]];
      fold_of[f->dst] = top > 1 ? stack[top - 2] : -1;
      if (f->src[0].kind == KE_AT_TEMP && f->src[0].base == f->dst) abort();
    }
    for (int32_t s = 0; s < prog->nseg; s++)
      if (i >= segs[s].first && i < segs[s].first + segs[s].len) seg = s;
    for (int s = 0; s < 3 && code[i].op != KE_I_FOLD; s++) {
      ke_place *p = &code[i].src[s];
      int seen = 0;
      if (p->kind != KE_AT_TEMP) continue;
      if (fold_of[p->base] == -1) seen = seg_of[p->base] == -1 || seg_of[p->base] == seg;
      for (int32_t k = 0; k < top; k++) seen |= fold_of[p->base] == stack[k];
      if (!seen) *p = at_const(0.25);
    }
    seg_of[code[i].dst] = seg;
    if (code[i].op == KE_I_FOLD) {
      stack[top] = i;
      end[top++] = i + 1 + code[i].len;
    } else {
      fold_of[code[i].dst] = top ? stack[top - 1] : -1;
    }
  }
}

static void build_random(void)
{
  begin(16, 16, 16);
  random_code(3 + (int)pick(8), 0);
  end_head();
  for (int s = 0; s < 4; s++) {
    random_code((int)pick(3), 1);
    segment(3 * s, 3, pick(5) ? random_operation(1) : random_place(0, 0, 1));
  }
  hide_inner_temps();
  reduction(KE_RED_SUM, 12);
}

static void test_random(void)
{
  for (int k = 0; k < 150; k++) {
    data d;
    seed = (unsigned long long)k * 7919 + 5;
    build_random();
    d = make_data(1 + pick(12), 1 + pick(200), test_bytes, 0);
    check_range("random program", &d, 0, d.items, 1);
    check_range("random program", &d, d.items / 3, d.items, 1);
    free_data(&d);
  }
}

/* ---- the row machine ---- */

static double *column_data(int64_t ld, int32_t width, int64_t rows)
{
  double *x = malloc(sizeof *x * (size_t)(ld * (width - 1) + rows)); /* not one number more */
  for (int64_t k = 0; k < ld * (width - 1) + rows; k++) x[k] = uniform();
  return x;
}

static void check_rows(const char *name, const ke_column *slots, const double *once, int64_t first,
                       int n)
{
  ke_arena *arena = ke_arena_new();
  ke_error err = {0};
  ke_rows *rows = NULL;
  double *out = malloc(sizeof *out * (size_t)(prog->width * (n + 3))), want[64];
  plain *e = calloc(1, sizeof *e);
  void *scratch = NULL;
  int same = 1;

  CHECK(ke_rows_prepare(arena, prog, test_isa, &rows, &err) == KE_OK);
  if (!rows) goto done;
  for (int k = 0; k < prog->width * (n + 3); k++) out[k] = 77;
  scratch = filled(ke_rows_scratch(rows));
  ke_rows_run(rows, slots, once, first, n, out, n + 3, scratch);
  e->once = once;
  e->slots = slots;
  for (int l = 0; l < n; l++) {
    e->row = first + l;
    plain_code(e, prog->code, prog->nhead);
    for (int32_t s = 0; s < prog->nseg; s++) plain_segment(e, prog, &segs[s], want);
    for (int32_t k = 0; k < prog->width; k++)
      same &= close_to(out[k * (n + 3) + l], want[k], 1e-12);
  }
  for (int32_t k = 0; k < prog->width; k++)
    for (int l = n; l < n + 3; l++) same &= out[k * (n + 3) + l] == 77;
  CHECK_MSG(same, "%s: %s, %d lanes from %d", name, ke_isa_name(test_isa), n, (int)first);
done:
  free(scratch);
  free(out);
  free(e);
  ke_arena_free(arena);
}

static void build_rows(void)
{
  ke_place a, b, s, t;
  int32_t f;

  begin(0, 0, 0);
  a = put1(KE_I_LOAD, at_slot(0, 1, 0));
  f = open_fold(3, 0);
  t = put1(KE_I_LOAD, at_slot(0, 0, 1));
  s = close_fold(f, put1(KE_OP_Square, t));
  b = put2(KE_I_GATHER, at_slot(2, 1, 0), put1(KE_I_LOAD, at_slot(1, 0, 0)));
  end_head();
  segment(0, 3, put1(KE_I_LOAD, at_slot(0, 0, 1))); /* a plain copy */
  segment(3, 1, a);
  segment(4, 1, put2(KE_OP_Mult, b, s));
  segment(5, 1, at_once(0));
  segment(6, 2, (ke_place){.kind = KE_AT_ONCE, .base = 1, .step = {1}});
  t = put1(KE_I_LOAD, at_slot(0, 0, 1));
  segment(8, 3, put2(KE_OP_Mult, t, at_once(1)));
  segment(11, 1, put2(KE_OP_Mult, at_once(0), at_once(1)));
  t = put1(KE_I_LOAD, at_slot(1, 0, 0));
  segment(12, 2, put2(KE_I_GATHER, at_slot(2, 0, 1), t));
  segment(14, 1, b);
  segment(15, 1, at_const(-3));
  prog->width = 16;
}

static void test_rows(void)
{
  static const int lanes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 255, 256};
  const double once[] = {1.5, -2.25, 3};

  if (test_bytes == 4) return;
  for (size_t k = 0; k < sizeof lanes / sizeof *lanes; k++)
    for (int first = 0; first < 12; first += 11) {
      const int n = lanes[k];
      ke_column slots[3] = {
          {column_data(first + n + 2, 3, first + n), first + n + 2}, {NULL, first + n}, {NULL, 40}};
      double *index = column_data(first + n, 1, first + n);
      for (int l = 0; l < first + n; l++)
        index[l] = l % 5 == 1 ? -1 : l % 5 == 3 ? (double)NAN : (double)pick(40);
      slots[1].data = index;
      slots[2].data = column_data(40, 2, 40);
      build_rows();
      check_rows("rows", slots, once, first, n);
      for (int s = 0; s < 3; s++) free((double *)slots[s].data);
    }
}

static void test_refusals(void)
{
  ke_arena *arena = ke_arena_new();
  ke_error err = {0};
  ke_kernel kernel;

  begin(0, 1, 1);
  put1(KE_OP_Sum, at_kept(0, 0, 0));
  end_head();
  segment(0, 1, at_temp(0));
  reduction(KE_RED_SUM, 1);
  CHECK(ke_interp_prepare(arena, &pass, 8, KE_ISA_BASE, &kernel, &err) == KE_ERR_INTERNAL);
  ke_arena_free(arena);
}

static void test_cpu(void)
{
  const ke_isa best = ke_cpu_isa();

  CHECK(!strcmp(ke_isa_name(KE_ISA_BASE), "base") && !strcmp(ke_isa_name(KE_ISA_AVX512), "avx512"));
  setenv("KEOPS_ISA", "base", 1);
  CHECK(ke_cpu_isa() == KE_ISA_BASE);
  setenv("KEOPS_ISA", "avx512", 1); /* never higher than what is there */
  CHECK(ke_cpu_isa() == best);
  setenv("KEOPS_ISA", "nonsense", 1);
  CHECK(ke_cpu_isa() == best);
  unsetenv("KEOPS_ISA");
}

int main(void)
{
  printf("best instruction set here: %s\n", ke_isa_name(ke_cpu_isa()));
  test_cpu();
  test_refusals();
  for_each_target(test_gauss);
  for_each_target(test_gauss_formula);
  for_each_target(test_extremes);
  for_each_target(test_extremes_of_nothing);
  for_each_target(test_sumexp);
  for_each_target(test_sumexp_edges);
  for_each_target(test_outside_is_left_out);
  for_each_target(test_gradients);
  for_each_target(test_shared_operands);
  for_each_target(test_wide_outputs);
  for_each_target(test_known_folds);
  for_each_target(test_other_folds);
  for_each_target(test_extreme_folds);
  for_each_target(test_operands);
  for_each_target(test_operations);
  for_each_target(test_long_sums);
  for_each_target(test_random);
  for_each_target(test_rows);
  return check_end();
}
