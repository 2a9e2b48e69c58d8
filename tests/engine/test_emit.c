/* The C emitter: kernels from hand-made and random pair programs, compiled by the compilers found
 * here and compared with a slow reading of plan.h, one pair at a time in double. Without a
 * compiler only the text is checked. */
#include "reduction.h"
#include "keops_sum.h"
#include "check.h"
#include "emit_c.h"
#include "op.h"
#include "shape.h"

#include <dlfcn.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KE_REAL_BYTES 8 /* the operations, for the reference; test_math.c holds them to libm */
#define KE_VBYTES 16
#include "keops_kernel.h"

/* ---- pair programs by hand ---- */
enum { MAX_CODE = 1024, MAX_SEG = 128, MAX_REDUCE = 4 };

typedef struct {
  ke_pass pass;
  ke_instr code[MAX_CODE];
  ke_segment seg[MAX_SEG];
  ke_reduce reduce[MAX_REDUCE];
} sheet;

static ke_place number(double x) { return (ke_place){.kind = KE_AT_CONST, .value = x}; }

static ke_place at(int kind, int base, int step0, int step1)
{
  return (ke_place){.kind = (uint8_t)kind, .base = base, .step = {step0, step1}};
}

static ke_place temp(int t) { return at(KE_AT_TEMP, t, 0, 0); }
static ke_place once(int c) { return at(KE_AT_ONCE, c, 0, 0); }
static ke_place kept(int c, int step0) { return at(KE_AT_KEPT, c, step0, 0); }
static ke_place red(int c, int step0) { return at(KE_AT_RED, c, step0, 0); }

static sheet start(int kept_width, int red_width)
{
  sheet s = {.pass = {.kind = KE_PASS_PAIRS, .kept = KE_I, .red = KE_J}};

  s.pass.once_width = 4;
  s.pass.kept_width = kept_width;
  s.pass.red_width = red_width;
  return s;
}

static ke_instr *add(sheet *s, int op)
{
  ke_program *p = &s->pass.pair;
  ke_instr *ins = &s->code[p->ncode++];

  *ins = (ke_instr){.op = (uint16_t)op, .dst = p->ntemp++};
  if (p->nseg == 0) p->nhead = p->ncode;
  return ins;
}

static ke_place op3(sheet *s, int op, ke_place a, ke_place b, ke_place c)
{
  ke_instr *ins = add(s, op);

  ins->src[0] = a;
  ins->src[1] = b;
  ins->src[2] = c;
  return temp(ins->dst);
}

static ke_place op2(sheet *s, int op, ke_place a, ke_place b)
{
  return op3(s, op, a, b, number(0));
}

/* Between the two calls comes the body, whose result is `result`. */
static ke_instr *open_fold(sheet *s, int n, int depth)
{
  ke_instr *fold = add(s, KE_I_FOLD);

  fold->n = n;
  fold->depth = (uint8_t)depth;
  return fold;
}

static ke_place close_fold(sheet *s, ke_instr *fold, ke_place result)
{
  fold->len = (int32_t)(&s->code[s->pass.pair.ncode] - fold - 1);
  fold->src[0] = result;
  return temp(fold->dst);
}

/* Segments of the next reduction; the body of one is what was added since the last of them. */
static void open_segment(sheet *s)
{
  ke_program *p = &s->pass.pair;

  if (p->nseg == 0) p->nhead = p->ncode;
  s->seg[p->nseg] = (ke_segment){.first = p->ncode};
  p->nseg++;
}

static void close_segment(sheet *s, int out, int n, ke_place result)
{
  ke_segment *seg = &s->seg[s->pass.pair.nseg - 1];

  seg->out = out;
  seg->n = n;
  seg->len = s->pass.pair.ncode - seg->first;
  seg->result = result;
}

static void segment(sheet *s, int out, int n, ke_place result)
{
  open_segment(s);
  close_segment(s, out, n, result);
}

/* A reduction of the last `nseg` segments. */
static void reduce(sheet *s, ke_reduce_kind kind, int width, int nseg, ke_place score)
{
  ke_reduce *r = &s->reduce[s->pass.nreduce++];

  s->pass.block = KE_BLOCK_ITEMS;
  *r = (ke_reduce){.kind = kind,
                   .width = width,
                   .k = 3,
                   .seg = s->pass.pair.nseg - nseg,
                   .nseg = nseg,
                   .score = score,
                   .state = s->pass.state_width};
  r->state_width = ke_reducer_of(kind)->states(r);
  s->pass.state_width += r->state_width;
}

static void link_sheet(sheet *s)
{
  s->pass.pair.code = s->code;
  s->pass.pair.seg = s->seg;
  s->pass.reduce = s->reduce;
}

/* ---- reference ---- */
static double operate(int op, double x, double y, double z)
{
  vr a = k_set(x), b = k_set(y), c = k_set(z), value = a;

  switch (op) {
#define SCALAR_OP(name, arity, cost, value_, derivatives, domains, about)                                 \
  case KE_OP_##name:                                                                               \
    value = value_;                                                                                \
    break;
#define FUSED_OP(name, arity, cost, value_)                                                        \
  case KE_OP_##name:                                                                               \
    value = value_;                                                                                \
    break;
#include "op_list.h"
  }
  (void)b;
  (void)c;
  return value[0];
}

typedef struct {
  const double *once, *kept, *red;
  double *temp;
} lane;

static double read_place(const lane *l, const ke_place *p, const int32_t *k)
{
  int64_t c = p->base;

  for (int d = 0; d < KE_MAX_LOOPS; d++) c += (int64_t)p->step[d] * k[d];
  switch (p->kind) {
  case KE_AT_TEMP: return l->temp[p->base];
  case KE_AT_ONCE: return l->once[c];
  case KE_AT_KEPT: return l->kept[c];
  case KE_AT_RED: return l->red[c];
  default: return p->value;
  }
}

static void run_code(const lane *l, const ke_instr *code, int32_t n, int32_t *k);

static double run_fold(const lane *l, const ke_instr *in, int32_t *k)
{
  double x = in->keep ? l->temp[in->dst] : 0, y;

  for (k[in->depth] = 0; k[in->depth] < in->n; k[in->depth]++) {
    run_code(l, in + 1, in->len, k);
    y = read_place(l, &in->src[0], k);
    if (in->fold == KE_FOLD_SUM)
      x += y;
    else if ((k[in->depth] == 0 && !in->keep) || (in->fold == KE_FOLD_MAX ? y > x : y < x))
      x = y;
  }
  k[in->depth] = 0;
  return x;
}

static void run_code(const lane *l, const ke_instr *code, int32_t n, int32_t *k)
{
  for (int32_t at = 0; at < n; at++) {
    const ke_instr *in = &code[at];

    if (in->op == KE_I_FOLD) {
      l->temp[in->dst] = run_fold(l, in, k);
      at += in->len;
    } else {
      l->temp[in->dst] = operate(in->op, read_place(l, &in->src[0], k),
                                 read_place(l, &in->src[1], k), read_place(l, &in->src[2], k));
    }
  }
}

static void run_segments(const ke_program *p, const lane *l, const ke_reduce *r, double *out)
{
  int32_t k[KE_MAX_LOOPS] = {0};

  for (int32_t s = r->seg; s < r->seg + r->nseg; s++) {
    const ke_segment *seg = &p->seg[s];

    for (k[0] = 0; k[0] < seg->n; k[0]++) {
      run_code(l, p->code + seg->first, seg->len, k);
      out[seg->out + k[0]] = read_place(l, &seg->result, k);
    }
    k[0] = 0;
  }
}

typedef struct {
  int64_t rows, items;
  double *kept, *red, once[4]; /* kept[row][KW], red[item][RW] */
} data;

typedef struct {
  double *state, *size; /* [rows][SW]; sums of absolute values, where sums are */
} outcome;

static void start_state(const ke_pass *pass, int64_t rows, double *state)
{
  for (int64_t i = 0; i < rows; i++) {
    for (int32_t q = 0; q < pass->nreduce; q++) {
      const ke_reduce *r = &pass->reduce[q];
      double *s = state + i * pass->state_width + r->state;

      ke_reducer_of(r->kind)->start(r, s);
    }
  }
}

static void add_pair(const ke_pass *pass, const lane *l, int64_t item, double *state, double *size)
{
  double x[256];
  int32_t k[KE_MAX_LOOPS] = {0};

  run_code(l, pass->pair.code, pass->pair.nhead, k);
  for (int32_t q = 0; q < pass->nreduce; q++) {
    const ke_reduce *r = &pass->reduce[q];
    double *s = state + r->state, *z = size + r->state, t, top;

    run_segments(&pass->pair, l, r, x);
    if (r->kind == KE_RED_SUMEXP) {
      t = read_place(l, &r->score, k);
      if (t == -INFINITY) continue;
      top = t > s[0] ? t : s[0];
      for (int32_t c = 1; c <= r->width; c++) {
        double old = s[0] == -INFINITY ? 0 : s[0] == top ? 1 : exp(s[0] - top);
        double e = t == INFINITY ? INFINITY : exp(t - top);

        s[c] = (isnan(s[c]) ? s[c] : old * s[c]) + e * x[c - 1];
        z[c] = old * z[c] + fabs(e * x[c - 1]);
      }
      s[0] = top;
      continue;
    }
    for (int32_t c = 0; c < r->width; c++) {
      if (r->kind == KE_RED_SUM || r->kind == KE_RED_KAHAN) {
        s[c] += x[c];
        z[c] += fabs(x[c]);
      } else if (r->kind == KE_RED_KMIN) { /* least first, by insertion */
        int32_t n = r->k * r->width;
        double *v = s + c * r->k;

        for (int32_t k = r->k - 1; k >= 0 && x[c] < v[k]; k--) {
          if (k + 1 < r->k) v[k + 1] = v[k], v[n + k + 1] = v[n + k];
          v[k] = x[c];
          v[n + k] = (double)item;
        }
      } else if (r->kind == KE_RED_MIN ? x[c] < s[c] : x[c] > s[c]) {
        s[c] = x[c];
        s[r->width + c] = (double)item;
      }
    }
  }
}

static void reference(const ke_pass *pass, const data *d, int64_t i0, int64_t i1, outcome *o)
{
  double *temps = calloc((size_t)pass->pair.ntemp + 1, sizeof *temps);

  for (int64_t i = 0; i < d->rows; i++)
    for (int64_t j = i0; j < i1; j++) {
      lane l = {.once = d->once,
                .kept = d->kept + i * pass->kept_width,
                .red = d->red + j * pass->red_width,
                .temp = temps};

      add_pair(pass, &l, j, o->state + i * pass->state_width, o->size + i * pass->state_width);
    }
  free(temps);
}

/* ---- compiled kernels ---- */
typedef struct {
  char dir[64];
  const char *compiler; /* "gcc" or "clang" */
  int number;
} workshop;

static bool has_compiler(const char *name)
{
  char line[128];

  snprintf(line, sizeof line, "%s --version >/dev/null 2>&1", name);
  return system(line) == 0;
}

/* A kernel for this CPU, loaded; for a larger one it is only compiled, and NULL. */
static ke_kernel_fn load(workshop *w, const char *source, bool beyond, bool *compiled)
{
  const char *target = beyond ? "-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma" : "";
  char c[96], so[96], line[512];
  void *library;
  FILE *f;

  *compiled = false;

  snprintf(c, sizeof c, "%s/k%d.c", w->dir, w->number);
  snprintf(so, sizeof so, "%s/k%d.so", w->dir, w->number++);
  f = fopen(c, "w");
  if (!f) return NULL;
  fputs(source, f);
  fclose(f);
  snprintf(line, sizeof line,
           "%s -shared -fPIC -O2 -std=gnu11 -march=native %s -fno-math-errno -fno-trapping-math "
           "-ffp-contract=fast -w -I inst/include -o %s %s -lm",
           w->compiler, target, so, c);
  *compiled = system(line) == 0;
  if (!*compiled || beyond) return NULL;
  library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
  if (!library) return NULL;
  return (ke_kernel_fn)(uintptr_t)dlsym(library, "ke_kernel_run");
}

static void put(int real_bytes, void *to, int64_t k, double x)
{
  if (real_bytes == 4)
    ((float *)to)[k] = (float)x;
  else
    ((double *)to)[k] = x;
}

static void *block(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

/* keops_task.h's layout, word for word */
static void *pack_kept(const ke_pass *p, const ke_shape *s, const data *d)
{
  int64_t R = s->rows, blocks = (d->rows + R - 1) / R;
  void *to = block((size_t)(blocks * R * p->kept_width * s->real_bytes));

  for (int64_t i = 0; i < blocks * R; i++)
    for (int64_t c = 0; c < p->kept_width; c++)
      put(s->real_bytes, to, (i / R * p->kept_width + c) * R + i % R,
          d->kept[(i < d->rows ? i : d->rows - 1) * p->kept_width + c]);
  return to;
}

static void *pack_red(const ke_pass *p, const ke_shape *s, const data *d)
{
  int64_t T = s->tile, tiles = (d->items + T - 1) / T;
  void *to = block((size_t)(tiles * T * p->red_width * s->real_bytes));

  for (int64_t j = 0; j < tiles * T; j++)
    for (int64_t c = 0; c < p->red_width; c++)
      put(s->real_bytes, to, (j / T * p->red_width + c) * T + j % T,
          d->red[(j < d->items ? j : d->items - 1) * p->red_width + c]);
  return to;
}

enum { GUARD = 64 };

/* Run over the pieces [cut[k], cut[k + 1]); false where something beyond state or scratch was
 * written. */
static bool run(ke_kernel_fn fn, const ke_pass *p, const ke_shape *s, const data *d,
                const int64_t *cut, int ncut, double *state)
{
  size_t states = (size_t)(d->rows * p->state_width);
  unsigned char *scratch = block(s->scratch_bytes + GUARD);
  double *guarded = malloc((states + GUARD) * sizeof *guarded);
  void *k = pack_kept(p, s, d), *r = pack_red(p, s, d), *o = block(64);
  bool clean = true;

  for (int c = 0; c < 4; c++) put(s->real_bytes, o, c, d->once[c]);
  memset(scratch, 0xa5, s->scratch_bytes + GUARD);
  for (size_t c = 0; c < states + GUARD; c++) guarded[c] = 12345;
  start_state(p, d->rows, guarded);
  for (int c = 0; c + 1 < ncut; c++) {
    ke_task task = {d->rows, cut[c], cut[c + 1], o, k, r, guarded, scratch};

    fn(&task);
  }
  for (size_t c = 0; c < GUARD; c++)
    if (guarded[states + c] != 12345 || scratch[s->scratch_bytes + c] != 0xa5) clean = false;
  memcpy(state, guarded, states * sizeof *state);
  free(k);
  free(r);
  free(o);
  free(guarded);
  free(scratch);
  return clean;
}

/* ---- data ---- */
static uint64_t seed = 1;

static double uniform(void) /* in (-1, 1), a float */
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)((float)((double)(seed >> 40) / (1 << 23) - 1));
}

static data make_data(const ke_pass *p, int64_t rows, int64_t items)
{
  data d = {.rows = rows, .items = items, .once = {-0.75, 1.5, 0.25, 2}};

  d.kept = malloc(((size_t)(rows * p->kept_width) + 1) * sizeof(double));
  d.red = malloc(((size_t)(items * p->red_width) + 1) * sizeof(double));
  for (int64_t k = 0; k < rows * p->kept_width; k++) d.kept[k] = uniform();
  for (int64_t k = 0; k < items * p->red_width; k++) d.red[k] = uniform();
  return d;
}

static void free_data(data *d)
{
  free(d->kept);
  free(d->red);
}

/* ---- comparison ---- */
static bool close_to(double got, double want, double size, double eps)
{
  if (isnan(want)) return isnan(got);
  if (isinf(want)) return got == want;
  return fabs(got - want) <= eps * (size + 0.1); /* terms are sums of values near 1 */
}

static int bad_values(const ke_reduce *r, const double *got, const double *want, const double *size,
                      double eps)
{
  int bad = 0;

  if (r->kind == KE_RED_SUMEXP) { /* m may differ by rounding, so compare s exp(m) */
    double shift = isinf(want[0]) || isinf(got[0]) ? 1 : exp(got[0] - want[0]);

    bad += !close_to(got[0], want[0], fabs(want[0]) + 1, eps);
    for (int32_t c = 1; c <= r->width; c++) bad += !close_to(got[c] * shift, want[c], size[c], eps);
    return bad;
  }
  if (r->kind == KE_RED_KAHAN) {
    for (int32_t c = 0; c < r->width; c++)
      bad += !close_to(ke_sum_value(got[c], got[r->width + c]), want[c], size[c], eps);
    return bad;
  }
  if (r->kind == KE_RED_KMIN) {
    double state[64], column[64];
    int32_t n = r->k * r->width;

    memcpy(state, got, (size_t)r->state_width * sizeof *state);
    ke_reducer_of(r->kind)->finish(r, state, column, 1);
    for (int32_t c = 0; c < n; c++) { /* columns go by k first */
      double v = want[c % r->width * r->k + c / r->width], at = want[n + c % r->width * r->k + c / r->width];
      bad += !close_to(column[c], v, fabs(v), eps) || column[n + c] != at;
    }
    return bad;
  }
  for (int32_t c = 0; c < r->width; c++) {
    bad += !close_to(got[c], want[c], r->kind == KE_RED_SUM ? size[c] : fabs(want[c]), eps);
    if (r->kind != KE_RED_SUM) bad += got[r->width + c] != want[r->width + c];
  }
  return bad;
}

static int bad_states(const ke_pass *p, int64_t rows, const double *got, const outcome *o,
                      double eps)
{
  int bad = 0;

  for (int64_t i = 0; i < rows; i++)
    for (int32_t q = 0; q < p->nreduce; q++) {
      int64_t at = i * p->state_width + p->reduce[q].state;

      bad += bad_values(&p->reduce[q], got + at, o->state + at, o->size + at, eps);
    }
  return bad;
}

static void compare(const char *what, ke_kernel_fn fn, const ke_pass *p, const ke_shape *s,
                    const data *d, const int64_t *cut, int ncut)
{
  size_t states = (size_t)(d->rows * p->state_width);
  outcome o = {calloc(states + 1, sizeof(double)), calloc(states + 1, sizeof(double))};
  double *got = calloc(states + 1, sizeof *got), eps = s->real_bytes == 4 ? 4e-6 : 1e-12;
  bool clean;
  int bad;

  start_state(p, d->rows, o.state);
  for (int c = 0; c + 1 < ncut; c++) reference(p, d, cut[c], cut[c + 1], &o);
  clean = run(fn, p, s, d, cut, ncut, got);
  bad = bad_states(p, d->rows, got, &o, eps);
  CHECK_MSG(clean, "%s wrote beyond its state or scratch", what);
  CHECK_MSG(bad == 0, "%s, %d bytes, R %d, T %d, %d rows, %d items: %d values differ", what,
            s->real_bytes, s->rows, s->tile, (int)d->rows, (int)d->items, bad);
  free(o.state);
  free(o.size);
  free(got);
}

typedef struct {
  const char *name;
  void (*spoil)(const ke_pass *, data *); /* what is done to the data, or NULL */
  int64_t most;                           /* items, if not 0 */
} subject;

/* Rows and items that cross the borders of blocks, tiles and chunks; pieces that start and end
 * anywhere. */
static void compare_sizes(const subject *what, ke_kernel_fn fn, const ke_pass *p, const ke_shape *s)
{
  static const int64_t rows[] = {1, 2, 7, 9}, items[] = {1, 1100, 150, 33};

  for (int k = 0; k < 4; k++) {
    int64_t n = what->most && items[k] > what->most ? what->most : items[k];
    const int64_t all[] = {0, n}, some[] = {0, 1, 1 + n / 9, 2 + n / 9, n / 2 + 1, n};
    data d = make_data(p, p->kept == KE_NONE ? 1 : rows[k], n);

    if (what->spoil) what->spoil(p, &d);
    compare(what->name, fn, p, s, &d, all, 2);
    if (n > 30) compare(what->name, fn, p, s, &d, some, 6);
    if (n > 30) compare(what->name, fn, p, s, &d, some + 2, 3);
    free_data(&d);
  }
}

static void compare_tiled(workshop *w, const subject *what, const ke_pass *pass,
                          const ke_tiling *tiling)
{
  ke_error err = {0};
  ke_shape shape;
  char *source = NULL;
  ke_kernel_fn fn;
  bool compiled, beyond = tiling->vector_bytes == 64 && ke_cpu_isa() != KE_ISA_AVX512;
  ke_status status = ke_emit_c_tiled(pass, tiling, &shape, &source, &err);

  CHECK_MSG(status == KE_OK, "%s: %s", what->name, err.message);
  if (status != KE_OK) return;
  fn = load(w, source, beyond, &compiled);
  CHECK_MSG(compiled && (fn || beyond), "%s does not compile:\n%s", what->name, source);
  if (fn) compare_sizes(what, fn, pass, &shape);
  free(source);
}

static void compare_isa(workshop *w, const subject *what, sheet *s, int real_bytes, ke_isa isa)
{
  ke_tiling tiling;

  link_sheet(s);
  ke_tiling_choose(&s->pass, real_bytes, isa, &tiling);
  compare_tiled(w, what, &s->pass, &tiling);
}

static void compare_both(workshop *w, const subject *what, sheet *s)
{
  compare_isa(w, what, s, 4, ke_cpu_isa());
  compare_isa(w, what, s, 8, ke_cpu_isa());
}

/* ---- programs ---- */
static ke_place sqdist(sheet *s, int n)
{
  ke_instr *fold = open_fold(s, n, 0);
  ke_place t = op2(s, KE_OP_Subtract, kept(0, 1), red(0, 1));

  return close_fold(s, fold, op2(s, KE_OP_Square, t, number(0)));
}

/* sum of exp2(c |x - y|^2) b */
static sheet gauss(int n)
{
  sheet s = start(n, n + 1);
  ke_place c = n > 3 ? number(-2.0 / n) : once(0);
  ke_place p = op2(&s, KE_OP_Exp2Mul, c, sqdist(&s, n));

  segment(&s, 0, 1, op2(&s, KE_OP_Mult, p, red(n, 0)));
  reduce(&s, KE_RED_SUM, 1, 1, number(0));
  return s;
}

/* sum of exp2(c |x - y|^2) b (x - y): a body with instructions of its own */
static sheet gradient(int n)
{
  sheet s = start(n, n + 1);
  ke_place p = op2(&s, KE_OP_Exp2Mul, once(0), sqdist(&s, n));
  ke_place q = op2(&s, KE_OP_Mult, p, red(n, 0)), t;

  open_segment(&s);
  t = op2(&s, KE_OP_Subtract, kept(0, 1), red(0, 1));
  close_segment(&s, 0, n, op2(&s, KE_OP_Mult, q, t));
  reduce(&s, KE_RED_SUM, n, 1, number(0));
  return s;
}

/* sum of exp2(c |x - y|^2) b[k], k < width */
static sheet signal_columns(int width)
{
  sheet s = start(3, 3 + width);
  ke_place p = op2(&s, KE_OP_Exp2Mul, once(0), sqdist(&s, 3));

  open_segment(&s);
  close_segment(&s, 0, width, op2(&s, KE_OP_Mult, p, red(3, 1)));
  reduce(&s, KE_RED_SUM, width, 1, number(0));
  return s;
}

/* value and index of (x[k] - y[k])^2 + c, where values are few, so that ties are many */
static sheet extreme(ke_reduce_kind kind, int width)
{
  sheet s = start(width, width);
  ke_place t;

  open_segment(&s);
  t = op2(&s, KE_OP_Subtract, kept(0, 1), red(0, 1));
  t = op2(&s, KE_OP_Square, t, number(0));
  close_segment(&s, 0, width, op2(&s, KE_OP_Add, t, once(1)));
  reduce(&s, kind, width, 1, number(0));
  return s;
}

static void few_values(const ke_pass *p, data *d)
{
  for (int64_t k = 0; k < d->rows * p->kept_width; k++) d->kept[k] = rint(2 * d->kept[k]);
  for (int64_t k = 0; k < d->items * p->red_width; k++) d->red[k] = rint(3 * d->red[k]);
  for (int64_t k = 0; k < d->items * p->red_width; k += 5) d->red[k] = NAN;
  for (int64_t k = 2; k < d->items * p->red_width; k += 7) d->red[k] = k % 2 ? INFINITY : -INFINITY;
  if (d->rows > 1) d->kept[0] = NAN; /* a row without a value */
}

/* sum of exp(t) g[k], t = 3 x y; with width 0 a plain LogSumExp */
static sheet logsumexp(int width)
{
  sheet s = start(1, 1 + width);
  ke_place t = op2(&s, KE_OP_Mult, op2(&s, KE_OP_Mult, kept(0, 0), red(0, 0)), number(3));

  segment(&s, 0, width ? width : 1, width ? red(1, 1) : number(1));
  reduce(&s, KE_RED_SUMEXP, width ? width : 1, 1, t);
  return s;
}

/* Scores that are all -Inf or the lowest finite number. */
static sheet lowest(double least)
{
  sheet s = start(0, 1);
  ke_place t = op3(&s, KE_OP_IfElse, red(0, 0), number(-INFINITY), number(least));

  segment(&s, 0, 1, number(1));
  reduce(&s, KE_RED_SUMEXP, 1, 1, t);
  return s;
}

/* Scores that grow along the items, up to 3e3. */
static void rising(const ke_pass *p, data *d)
{
  for (int64_t j = 0; j < d->items; j++) d->red[j * p->red_width] = (double)(float)j;
  for (int64_t i = 0; i < d->rows; i++) d->kept[i] = 1 - 0.5 * (double)(i % 4);
}

/* Rows, by i % 4: scores of -Inf and Inf by the sign of the item; -Inf alone; NaN; as they come.
 * Item 0 is positive and nothing is 0, so that Inf meets only -Inf beside it. */
static void infinite(const ke_pass *p, data *d)
{
  static const double x[] = {INFINITY, -INFINITY, NAN, 1};

  for (int64_t i = 0; i < d->rows; i++) d->kept[i * p->kept_width] = x[i % 4];
  for (int64_t j = 0; j < d->items; j++) {
    double *y = &d->red[j * p->red_width];

    y[0] = fabs(y[0]) + 0.125;
    for (int32_t c = 1; c < p->red_width; c++) y[c] = fabs(y[c]) + 0.125;
  }
}

/* L1 distance, with a weight; a body without instructions; one trip; a fold kept on another; a
 * component that moves backwards */
static sheet odd_folds(void)
{
  sheet s = start(6, 8);
  ke_instr *fold = open_fold(&s, 5, 0);
  ke_place a, b, c, t;

  t = op2(&s, KE_OP_Abs, op2(&s, KE_OP_Subtract, kept(0, 1), red(5, -1)), number(0));
  a = close_fold(&s, fold, op2(&s, KE_OP_Mult, t, once(1)));
  fold = open_fold(&s, 8, 0);
  b = close_fold(&s, fold, red(0, 1));
  fold = open_fold(&s, 1, 0);
  c = close_fold(&s, fold, op2(&s, KE_OP_Mult, kept(5, 3), red(7, 9)));
  fold = open_fold(&s, 3, 0); /* of one more axis than what it adds to */
  fold->keep = true;
  fold->dst = b.base;
  t = op2(&s, KE_OP_Mult, kept(1, 2), red(1, 0));
  close_fold(&s, fold, op2(&s, KE_OP_Add, t, c));
  segment(&s, 0, 1, op3(&s, KE_OP_IfElse, b, a, c));
  reduce(&s, KE_RED_SUM, 1, 1, number(0));
  return s;
}

/* Largest and smallest components, written out and in loops, of one trip, and kept on another. */
static sheet extreme_folds(int n)
{
  sheet s = start(n, n);
  ke_instr *fold = open_fold(&s, n, 0);
  ke_place a, b;

  fold->fold = KE_FOLD_MAX;
  a = close_fold(&s, fold, op2(&s, KE_OP_Mult, kept(0, 1), red(0, 1)));
  fold = open_fold(&s, 1, 0);
  fold->fold = KE_FOLD_MIN;
  b = close_fold(&s, fold, red(0, 1));
  fold = open_fold(&s, n, 0);
  fold->fold = KE_FOLD_MIN;
  fold->keep = true;
  fold->dst = b.base;
  close_fold(&s, fold, op2(&s, KE_OP_Subtract, kept(0, 1), red(0, 0)));
  segment(&s, 0, 1, a);
  segment(&s, 1, 1, b);
  reduce(&s, KE_RED_SUM, 2, 2, number(0));
  return s;
}

/* sum over k, l of x[k] sin(y[l] + sum over m of x[m] y[2 k + m]), by loops or written out; and
 * segments that fold over their own components */
static sheet nested(int n, int m, int width)
{
  sheet s = start(n + width + m, 2 * n + m + width);
  ke_instr *outer = open_fold(&s, n, 0), *middle = open_fold(&s, m, 1),
           *inner = open_fold(&s, 2, 2);
  ke_place t, total;

  t = op2(&s, KE_OP_Mult, (ke_place){.kind = KE_AT_KEPT, .step = {0, 0, 1}},
          (ke_place){.kind = KE_AT_RED, .step = {2, 0, 1}});
  t = close_fold(&s, inner, t);
  t = op2(&s, KE_OP_Sin, op2(&s, KE_OP_Add, t, at(KE_AT_RED, 0, 0, 1)), number(0));
  t = close_fold(&s, middle, op2(&s, KE_OP_Mult, t, at(KE_AT_KEPT, 0, 1, 0)));
  total = close_fold(&s, outer, op2(&s, KE_OP_Subtract, t, number(0.125)));
  open_segment(&s);
  inner = open_fold(&s, m, 1);
  t = op2(&s, KE_OP_Mult, at(KE_AT_KEPT, 0, 1, 1), at(KE_AT_RED, 1, 1, 1));
  t = close_fold(&s, inner, op2(&s, KE_OP_Add, t, total));
  close_segment(&s, 1, width, op2(&s, KE_OP_Mult, t, red(0, 1)));
  segment(&s, 0, 1, total);
  reduce(&s, KE_RED_SUM, width + 1, 2, number(0));
  return s;
}

/* Every reduction in one pass, narrow and wide ones, all from the same values. */
static sheet mixed(int width)
{
  sheet s = start(2 + width, 2 + width);
  ke_place t = op2(&s, KE_OP_Mult, sqdist(&s, 2), number(-2)), only_red, only_kept, none;

  only_red = op2(&s, KE_OP_Square, red(1, 0), number(0));
  only_kept = op2(&s, KE_OP_Cos, kept(0, 0), number(0));
  none = op2(&s, KE_OP_Add, once(3), number(-0x1.999999999999ap-4));
  segment(&s, 0, 1, op3(&s, KE_OP_IfElse, only_red, only_kept, t));
  reduce(&s, KE_RED_SUM, 1, 1, number(0));
  segment(&s, 0, 1, t);
  reduce(&s, KE_RED_MAX, 1, 1, number(0));
  open_segment(&s);
  close_segment(&s, 0, width, op2(&s, KE_OP_Mult, op2(&s, KE_OP_Add, only_red, none), red(2, 1)));
  reduce(&s, KE_RED_SUMEXP, width, 1, t);
  open_segment(&s);
  t = op2(&s, KE_OP_Add, op2(&s, KE_OP_Mult, kept(2, 1), only_kept), t);
  close_segment(&s, 0, width, op2(&s, KE_OP_Add, t, none));
  reduce(&s, KE_RED_SUM, width, 1, number(0));
  return s;
}

/* The number of items, and a sum of a constant of the row. */
static sheet count(void)
{
  sheet s = start(1, 0);

  segment(&s, 0, 1, number(1));
  segment(&s, 1, 1, kept(0, 0));
  reduce(&s, KE_RED_SUM, 2, 2, number(0));
  return s;
}

/* Each scalar and fused operation, of arguments in its domain. */
static sheet every_op(void)
{
  sheet s = start(3, 3);
  int n = 0;

  for (int op = 0; op < KE_OP_COUNT; op++) {
    ke_place x[3], t;

    if (ke_ops[op].kind != KE_SCALAR && ke_ops[op].kind != KE_FUSED) continue;
    open_segment(&s);
    for (int k = 0; k < ke_ops[op].arity; k++) {
      double low = ke_ops[op].domain[k][0], high = ke_ops[op].domain[k][1];

      t = op2(&s, KE_OP_Add, kept(k, 0), red(2 - k, 0)); /* in (-2, 2) */
      if (low < high) t = op2(&s, KE_OP_Mult, t, number((high - low) / 4));
      x[k] = low < high ? op2(&s, KE_OP_Add, t, number((high + low) / 2)) : t;
    }
    for (int k = ke_ops[op].arity; k < 3; k++) x[k] = number(0);
    close_segment(&s, n++, 1, op3(&s, op, x[0], x[1], x[2]));
  }
  reduce(&s, KE_RED_SUM, n, n, number(0));
  return s;
}

/* ---- random programs ---- */
static int pick(int n) { return (int)((uniform() + 1) / 2 * n) % n; }

static ke_place random_place(sheet *s, int loops, const int *temps, int ntemps)
{
  ke_place p;

  if (ntemps && pick(2)) return temp(temps[pick(ntemps)]);
  switch (pick(5)) {
  case 0: return number(uniform());
  case 1: return once(pick(4));
  case 2: p = kept(pick(3), 0); break;
  default: p = red(pick(4), 0); break;
  }
  for (int d = 0; d < KE_MAX_LOOPS; d++)
    if (loops & (1 << d) && pick(2)) p.step[d] = pick(3);
  (void)s;
  return p;
}

/* A few instructions and folds into `temps`; returns a result. */
static ke_place random_code(sheet *s, int loops, int depth, int *temps, int ntemps, int budget)
{
  static const int ops[] = {KE_OP_Add, KE_OP_Mult,  KE_OP_Subtract, KE_OP_Square,
                            KE_OP_Abs, KE_OP_Minus, KE_OP_IfElse,   KE_OP_Sin};
  static const int trips[] = {1, 2, 3, 17}; /* 17 is too many to write out */
  ke_place result = random_place(s, loops, temps, ntemps);

  for (int k = 0; k < budget && s->pass.pair.ncode < MAX_CODE - 24; k++) {
    ke_place a = random_place(s, loops, temps, ntemps), b = random_place(s, loops, temps, ntemps);

    if (depth < KE_MAX_LOOPS && pick(4) == 0) {
      int inside[MAX_CODE];
      ke_instr *fold = open_fold(s, trips[pick(depth ? 3 : 4)], depth);

      memcpy(inside, temps, (size_t)ntemps * sizeof *inside);
      result = close_fold(
          s, fold, random_code(s, loops | (fold->n > 1) << depth, depth + 1, inside, ntemps, 2));
      /* keep values near 1, or nothing can be compared */
      result = op2(s, KE_OP_Mult, result, number(1.0 / fold->n));
    } else {
      result = op3(s, ops[pick(8)], a, b, random_place(s, loops, temps, ntemps));
      result = op2(s, KE_OP_Sin, result, number(0));
    }
    temps[ntemps++] = result.base;
  }
  return result;
}

/* Components that loops may reach: 3 + 2 * (16 + 16 + 16) + ... */
static sheet random_program(void)
{
  static const int widths[] = {1, 2, 5, 17};
  sheet s = start(128, 128);
  int temps[MAX_CODE], ntemps = 0, nreduce = 1 + pick(3);
  ke_place score;

  for (int k = 0; k < 3; k++) temps[ntemps++] = random_code(&s, 0, 0, temps, k, 3).base;
  for (int k = 0; k < 3; k++) /* a result may be no temporary */
    if (temps[k] >= s.pass.pair.ntemp) temps[k] = 0;
  score = op2(&s, KE_OP_Mult, temp(temps[0]), number(2));
  for (int q = 0; q < nreduce; q++) {
    int inside[MAX_CODE], width = widths[pick(4)];

    memcpy(inside, temps, sizeof temps);
    open_segment(&s);
    close_segment(&s, 0, width, random_code(&s, width > 1, 1, inside, 3, 2));
    reduce(&s, pick(2) ? KE_RED_SUM : KE_RED_SUMEXP, width, 1, score);
  }
  return s;
}

/* ---- tests ---- */
static void test_programs(workshop *w)
{
  sheet s = gauss(3);
  subject what = {"gauss", NULL, 0};

  compare_both(w, &what, &s);
  s = gauss(20);
  compare_isa(w, &what, &s, 8, ke_cpu_isa());
  s = gauss(40); /* a block of its own */
  compare_both(w, &what, &s);
  s = gauss(3);
  s.pass.kept = KE_NONE;
  compare_isa(w, &what, &s, 4, ke_cpu_isa());
  what.name = "gradient";
  s = gradient(3);
  compare_both(w, &what, &s);
  s = gradient(10);
  compare_isa(w, &what, &s, 4, ke_cpu_isa());
  what.name = "columns";
  for (int k = 0; k < 4; k++) {
    static const int widths[] = {1, 3, 17, 100};

    s = signal_columns(widths[k]);
    compare_isa(w, &what, &s, k % 2 ? 4 : 8, ke_cpu_isa());
  }
  what.name = "odd folds";
  s = odd_folds();
  compare_isa(w, &what, &s, 4, ke_cpu_isa());
  what.name = "extreme folds";
  s = extreme_folds(5);
  compare_isa(w, &what, &s, 4, ke_cpu_isa());
  s = extreme_folds(19);
  compare_isa(w, &what, &s, 8, ke_cpu_isa());
  what.name = "nested folds";
  what.most = 50;
  s = nested(3, 2, 2);
  compare_isa(w, &what, &s, 8, ke_cpu_isa());
  s = nested(18, 17, 19);
  compare_isa(w, &what, &s, 4, ke_cpu_isa());
  what.name = "mixed, narrow";
  what.most = 0;
  s = mixed(2);
  compare_isa(w, &what, &s, 4, ke_cpu_isa());
  what.name = "mixed, wide";
  s = mixed(19);
  compare_both(w, &what, &s);
  what.name = "count";
  s = count();
  compare_isa(w, &what, &s, 8, ke_cpu_isa());
}

static void test_operations(workshop *w)
{
  subject what = {"every operation", NULL, 0};
  sheet s = every_op();
  ke_tiling t;

  link_sheet(&s);
  for (int real_bytes = 4; real_bytes <= 8; real_bytes += 4) {
    ke_tiling_choose(&s.pass, real_bytes, ke_cpu_isa(), &t);
    t.rows = t.vectors = 1;
    t.narrow = MAX_SEG; /* once each is enough */
    compare_tiled(w, &what, &s.pass, &t);
  }
}

static void test_extremes(workshop *w)
{
  static const ke_reduce_kind kinds[] = {KE_RED_MIN, KE_RED_MAX, KE_RED_KMIN};
  subject what = {"value and index", few_values, 0};

  for (int k = 0; k < 3; k++) {
    sheet s = extreme(kinds[k], 1);

    compare_both(w, &what, &s);
    s = extreme(kinds[k], 7);
    compare_isa(w, &what, &s, k ? 4 : 8, ke_cpu_isa());
  }
}

static void test_kahan(workshop *w)
{
  subject what = {"compensated sum", NULL, 0};

  for (int width = 1; width <= 7; width += 6) {
    sheet s = extreme(KE_RED_KAHAN, width);
    compare_both(w, &what, &s);
  }
}

static void test_sumexp(workshop *w)
{
  static void (*const spoils[])(const ke_pass *, data *) = {NULL, rising, infinite};
  static const int widths[] = {0, 3, 20};

  for (int k = 0; k < 9; k++) {
    subject what = {"sum of exponentials", spoils[k % 3], 0};
    sheet s = logsumexp(widths[k / 3]);

    compare_isa(w, &what, &s, k % 2 ? 4 : 8, ke_cpu_isa());
  }
}

static void test_lowest(workshop *w)
{
  subject what = {"lowest scores", NULL, 0};
  sheet s = lowest(-FLT_MAX);

  compare_isa(w, &what, &s, 4, ke_cpu_isa());
  s = lowest(-DBL_MAX);
  compare_isa(w, &what, &s, 8, ke_cpu_isa());
}

static void test_random(workshop *w, int n)
{
  subject what = {"random program", NULL, 50};

  for (int k = 0; k < n; k++) {
    sheet s;

    seed = 1000 + (uint64_t)k;
    s = random_program();
    compare_isa(w, &what, &s, k % 2 ? 4 : 8, ke_cpu_isa());
  }
}

/* Shapes that the choice takes on other machines, and odd ones. */
static void test_shapes(workshop *w)
{
  subject what = {"mixed, other shape", NULL, 0};
  sheet s = mixed(5);
  ke_tiling t;

  link_sheet(&s);
  for (int isa = KE_ISA_BASE; isa <= KE_ISA_AVX512; isa++)
    for (int real_bytes = 4; real_bytes <= 8; real_bytes += 4) {
      ke_tiling_choose(&s.pass, real_bytes, (ke_isa)isa, &t);
      compare_tiled(w, &what, &s.pass, &t);
    }
  ke_tiling_choose(&s.pass, 4, KE_ISA_AVX2, &t);
  t.rows = 3;
  t.vectors = 1;
  t.steps = 2;
  t.chunk = 5;
  t.narrow = 3;
  compare_tiled(w, &what, &s.pass, &t);
}

/* No compiler needed: the text is a function of the pass, locale and all, and bad programs are
 * refused. */
static void test_text(void)
{
  sheet s = mixed(5), same = mixed(5);
  char *a = NULL, *b = NULL;
  ke_error err = {0};
  ke_shape shape;

  link_sheet(&s);
  link_sheet(&same);
  CHECK(ke_emit_c(&s.pass, 4, KE_ISA_AVX512, &shape, &a, &err) == KE_OK);
  CHECK(shape.real_bytes == 4 && shape.rows > 0 && shape.tile % 16 == 0);
  CHECK(ke_emit_c(&same.pass, 4, KE_ISA_AVX512, &shape, &b, &err) == KE_OK);
  CHECK(a && b && strcmp(a, b) == 0);
  CHECK(a &&
        strncmp(a, "#define KE_REAL_BYTES 4\n#define KE_VBYTES 64\n#include \"keops_kernel.h\"\n",
                65) == 0);
  CHECK(a && strstr(a, "-0xccccccccccccdp-55"));
  free(a);
  free(b);
  s.code[2].op = KE_I_LOAD;
  CHECK(ke_emit_c(&s.pass, 8, KE_ISA_BASE, &shape, &a, &err) == KE_ERR_INTERNAL && !a);
  s = mixed(5);
  link_sheet(&s);
  s.code[1].src[1].kind = KE_AT_SLOT;
  CHECK(ke_emit_c(&s.pass, 8, KE_ISA_BASE, &shape, &a, &err) == KE_ERR_INTERNAL && !a);
}

int main(int argc, char **argv)
{
  workshop w = {.dir = "/tmp/keops-emit-XXXXXX", .compiler = "gcc"};
  char line[96];

  test_text();
  if (!has_compiler("gcc")) w.compiler = "clang";
  if (!has_compiler(w.compiler) || !mkdtemp(w.dir)) {
    printf("skipped: no gcc or clang to compile kernels with\n");
    return check_end();
  }
  test_programs(&w);
  test_operations(&w);
  test_extremes(&w);
  test_kahan(&w);
  test_kahan(&w);
  test_sumexp(&w);
  test_lowest(&w);
  test_random(&w, argc > 1 ? atoi(argv[1]) : 6);
  test_shapes(&w);
  if (strcmp(w.compiler, "clang") && has_compiler("clang")) {
    w.compiler = "clang";
    test_shapes(&w);
    test_extremes(&w);
  }
  snprintf(line, sizeof line, "rm -r %s", w.dir);
  if (system(line)) printf("%s is left\n", w.dir);
  return check_end();
}
