/* The driver (run_cpu.c, team.c, reduction.c) on plans made by hand, with two kernels: a slow one
 * that reads the packed layout word for word as keops_task.h gives it, and the interpreter. */
#include "check.h"
#include "eval.h"
#include "reduction.h"
#include "run_cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* ---- plans by hand ---- */
typedef struct {
  ke_instr code[32];
  ke_segment seg[8];
  int32_t n, nhead, ntemp, nseg;
} prog;

enum { MAX_PASS = 3, MAX_SLOT = 12, WIDE = 300, MAX_WIDTH = 2 * WIDE };

typedef struct {
  ke_plan plan;
  ke_slot slot[MAX_SLOT];
  ke_pass pass[MAX_PASS];
  ke_reduce reduce[MAX_PASS][4];
  ke_center center[MAX_PASS];
  prog once[MAX_PASS], kept[MAX_PASS], red[MAX_PASS], pair[MAX_PASS], final_once, final;
  ke_final result;
} sheet;

static ke_place at(int kind, int32_t base, int32_t step, int depth)
{
  ke_place p = {.kind = (uint8_t)kind, .base = base};

  p.step[depth] = step;
  return p;
}

static ke_place temp(int32_t t)
{
  return at(KE_AT_TEMP, t, 0, 0);
}
static ke_place once(int32_t c)
{
  return at(KE_AT_ONCE, c, 0, 0);
}
static ke_place kept(int32_t c, int32_t step)
{
  return at(KE_AT_KEPT, c, step, 0);
}
static ke_place red(int32_t c, int32_t step)
{
  return at(KE_AT_RED, c, step, 0);
}
static ke_place number(double x)
{
  return (ke_place){.kind = KE_AT_CONST, .value = x};
}

static ke_place slot(int32_t s, int32_t c, int32_t step)
{
  ke_place p = at(KE_AT_SLOT, c, step, 0);

  p.slot = s;
  return p;
}

/* One instruction; the place of its result. */
static ke_place emit(prog *p, int op, ke_place a, ke_place b)
{
  p->code[p->n++] = (ke_instr){.op = (uint16_t)op, .dst = p->ntemp, .src = {a, b}};
  if (p->nseg == 0) p->nhead = p->n;
  return temp(p->ntemp++);
}

static ke_place load(prog *p, ke_place from)
{
  return emit(p, KE_I_LOAD, from, number(0));
}

/* A loop over n output components; its body is what is emitted until close_segment. */
static void open_segment(prog *p, int32_t out, int32_t n)
{
  p->seg[p->nseg++] = (ke_segment){.out = out, .n = n, .first = p->n};
}

static void close_segment(prog *p, ke_place result)
{
  ke_segment *s = &p->seg[p->nseg - 1];

  s->len = p->n - s->first;
  s->result = result;
}

static void put(prog *p, int32_t out, ke_place result)
{
  open_segment(p, out, 1);
  close_segment(p, result);
}

static void copy_slot(prog *p, int32_t out, int32_t s, int32_t c, int32_t n)
{
  open_segment(p, out, n);
  close_segment(p, load(p, slot(s, c, 1)));
}

/* fold over n components of (kept[k] - red[k])^2; in the head */
static ke_place sq_dist(prog *p, int32_t n)
{
  int32_t fold = p->n++;
  ke_place d = emit(p, KE_OP_Subtract, kept(0, 1), red(0, 1));
  ke_place s = emit(p, KE_OP_Square, d, number(0));

  p->code[fold] =
      (ke_instr){.op = KE_I_FOLD, .dst = p->ntemp, .n = n, .len = p->n - fold - 1, .src = {s}};
  return temp(p->ntemp++);
}

static ke_program program(prog *p, int32_t width)
{
  return (ke_program){.code = p->code,
                      .nhead = p->nhead,
                      .ncode = p->n,
                      .ntemp = p->ntemp,
                      .seg = p->seg,
                      .nseg = p->nseg,
                      .width = width};
}

static int32_t add_slot(sheet *s, int side, int32_t width, bool argument)
{
  int32_t k = s->plan.nslot++;

  s->slot[k] = (ke_slot){.side = side, .width = width, .arg = argument ? s->plan.nargs++ : -1};
  return k;
}

/* State of `kind` in pass p, from nseg segments; the slot it ends in. */
static int32_t add_reduce(sheet *s, int p, ke_reduce_kind kind, int32_t width, int32_t seg,
                          int32_t nseg, ke_place score)
{
  ke_pass *pass = &s->pass[p];
  ke_reduce *r = &s->reduce[p][pass->nreduce++];

  *r = (ke_reduce){.kind = kind,
                   .width = width,
                   .k = 1,
                   .seg = seg,
                   .nseg = nseg,
                   .score = score,
                   .state = pass->state_width};
  r->state_width = ke_reducer_of(kind)->states(r);
  r->slot = add_slot(s, pass->kept, ke_reducer_of(kind)->results(r), false);
  pass->state_width += r->state_width;
  return r->slot;
}

static int add_pass(sheet *s, int kept_side, int red_side, int32_t nonce, int32_t nkept,
                    int32_t nred)
{
  int p = s->plan.npass++;

  s->pass[p] = (ke_pass){.kept = kept_side,
                         .red = red_side,
                         .once_width = nonce,
                         .kept_width = nkept,
                         .red_width = nred,
                         .block = KE_BLOCK_ITEMS,
                         .cost = 20};
  return p;
}

/* Pointers are set last: the sheet must not move afterwards. */
static const ke_plan *seal(sheet *s, int out_side, int32_t out_width)
{
  s->plan.slot = s->slot;
  s->plan.pass = s->pass;
  s->plan.final = &s->result;
  s->plan.nfinal = 1;
  s->result = (ke_final){.side = out_side,
                         .width = out_width,
                         .once = program(&s->final_once, 0),
                         .rows = program(&s->final, out_width)};
  for (int p = 0; p < s->plan.npass; p++) {
    ke_pass *pass = &s->pass[p];

    pass->once = program(&s->once[p], pass->once_width);
    pass->keptp = program(&s->kept[p], pass->kept_width);
    pass->redp = program(&s->red[p],
                         pass->kind == KE_PASS_SCATTER ? pass->scatter_width + 1 : pass->red_width);
    pass->pair = program(&s->pair[p], 0);
    pass->reduce = s->reduce[p];
    pass->center = &s->center[p];
  }
  return &s->plan;
}

/* ---- the slow kernel ---- */
typedef struct {
  const ke_pass *pass;
  int64_t items; /* of the pass */
  int nap_us, others_nap_us; /* sleep so long in each call: work that takes time, not CPU */
  atomic_int calls;
  atomic_int threads; /* bit of each thread seen */
  atomic_int misfits; /* faults of the packed layout */
} slow_kernel;

static bool same(const double *a, const double *b, int n)
{
  for (int k = 0; k < n; k++)
    if (!(a[k] == b[k] || (isnan(a[k]) && isnan(b[k])))) return false;
  return true;
}

static double real_at(int real_bytes, const void *p, int64_t k)
{
  return real_bytes == 4 ? ((const float *)p)[k] : ((const double *)p)[k];
}

static int thread_number(void)
{
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

static void nap(int us)
{
  struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};

  if (us) nanosleep(&t, NULL);
}

static void slow_extreme(const ke_reduce *reduce, const double *v, int64_t item, double *state)
{
  for (int c = 0; c < reduce->width; c++)
    if (reduce->kind == KE_RED_MIN ? v[c] < state[c] : v[c] > state[c]) {
      state[c] = v[c];
      state[reduce->width + c] = (double)item;
    }
}

static void slow_sumexp(const ke_reduce *reduce, double t, const double *g, double *state)
{
  double m = state[0];

  if (t == -INFINITY) return;
  if (t > m) {
    for (int c = 0; c < reduce->width; c++) state[1 + c] *= exp(m - t);
    state[0] = m = t;
  }
  for (int c = 0; c < reduce->width; c++) state[1 + c] += exp(t - m) * g[c];
}

static void slow_add(const ke_pass *pass, const eval_lane *lane, int64_t item, double *state)
{
  double v[MAX_WIDTH];
  int32_t k[KE_MAX_LOOPS] = {0};

  eval_head(&pass->pair, lane);
  for (int r = 0; r < pass->nreduce; r++) {
    const ke_reduce *reduce = &pass->reduce[r];
    double *mine = state + reduce->state;

    eval_segments(&pass->pair, lane, reduce->seg, reduce->nseg, v);
    if (reduce->kind == KE_RED_SUM)
      for (int c = 0; c < reduce->width; c++) mine[c] += v[c];
    else if (reduce->kind == KE_RED_SUMEXP)
      slow_sumexp(reduce, eval_place(lane, &reduce->score, k), v, mine);
    else
      slow_extreme(reduce, v, item, mine);
  }
}

/* Component c of row or item k among groups of `size`. */
static double packed(int real_bytes, const void *p, int64_t k, int width, int c, int size)
{
  return real_at(real_bytes, p, (k / size * width + c) * size + k % size);
}

/* Aligned, and filled up with the last row and, where this call ends, with the last item. */
static bool layout_fits(const ke_kernel *kernel, const ke_task *task)
{
  const slow_kernel *slow = kernel->impl;
  int rb = kernel->shape.real_bytes, R = kernel->shape.rows, T = kernel->shape.tile;
  int nkept = slow->pass->kept_width, nred = slow->pass->red_width;

  for (int64_t r = task->nrows; r % R != 0; r++)
    for (int c = 0; c < nkept; c++)
      if (packed(rb, task->kept, r, nkept, c, R) != packed(rb, task->kept, r - 1, nkept, c, R))
        return false;
  if (task->i1 == slow->items)
    for (int64_t i = task->i1; i % T != 0; i++)
      for (int c = 0; c < nred; c++)
        if (!same(&(double){packed(rb, task->red, i, nred, c, T)},
                  &(double){packed(rb, task->red, i - 1, nred, c, T)}, 1))
          return false;
  return task->nrows >= 1 && task->i0 < task->i1 && task->i1 <= slow->items &&
         (uintptr_t)task->kept % 64 == 0 && (uintptr_t)task->red % 64 == 0 &&
         (uintptr_t)task->scratch % 64 == 0;
}

static void slow_run(const ke_kernel *kernel, const ke_task *task)
{
  slow_kernel *slow = kernel->impl;
  const ke_pass *pass = slow->pass;
  int rb = kernel->shape.real_bytes, R = kernel->shape.rows, T = kernel->shape.tile;
  double once_v[MAX_WIDTH], kept_v[MAX_WIDTH], red_v[MAX_WIDTH], temps[64];
  eval_lane lane = {.once = once_v, .kept = kept_v, .red = red_v, .temp = temps};

  atomic_fetch_add(&slow->calls, 1);
  atomic_fetch_or(&slow->threads, 1 << thread_number());
  memset(task->scratch, 0xff, kernel->shape.scratch_bytes);
  if (!layout_fits(kernel, task)) atomic_fetch_add(&slow->misfits, 1);
  nap(thread_number() == 0 ? slow->nap_us : slow->others_nap_us);
  for (int c = 0; c < pass->once_width; c++) once_v[c] = real_at(rb, task->once, c);
  for (int64_t r = 0; r < task->nrows; r++) {
    for (int c = 0; c < pass->kept_width; c++)
      kept_v[c] = packed(rb, task->kept, r, pass->kept_width, c, R);
    for (int64_t i = task->i0; i < task->i1; i++) {
      for (int c = 0; c < pass->red_width; c++)
        red_v[c] = packed(rb, task->red, i, pass->red_width, c, T);
      slow_add(pass, &lane, i, task->state + r * pass->state_width);
    }
  }
}

/* ---- running ---- */
enum { SLOW_SMALL, SLOW_WIDE, INTERP, NKERNELS };

typedef struct {
  ke_arena *arena;
  ke_kernel kernels[MAX_PASS];
  slow_kernel slow[MAX_PASS];
  int nap_us, others_nap_us; /* of the calling thread, of the others; 0: as the first */
} bench;

/* Kernels for all passes of `plan`; false if there is none of the kind. */
static bool make_kernels(bench *b, const ke_plan *plan, int kind, int real_bytes)
{
  ke_error err = {0};

  b->arena = ke_arena_new();
  for (int p = 0; p < plan->npass; p++) {
    if (plan->pass[p].kind == KE_PASS_SCATTER) continue;
    if (kind == INTERP) {
      if (ke_interp_prepare(b->arena, &plan->pass[p], real_bytes, ke_cpu_isa(), &b->kernels[p],
                            &err) != KE_OK) {
        CHECK_MSG(false, "%s", err.message);
        return false;
      }
      continue;
    }
    b->slow[p].pass = &plan->pass[p];
    b->slow[p].nap_us = b->nap_us;
    b->slow[p].others_nap_us = b->others_nap_us ? b->others_nap_us : b->nap_us;
    atomic_init(&b->slow[p].calls, 0);
    atomic_init(&b->slow[p].threads, 0);
    atomic_init(&b->slow[p].misfits, 0);
    b->kernels[p] = (ke_kernel){.shape = {.real_bytes = real_bytes,
                                          .rows = kind == SLOW_SMALL ? 3 : 8,
                                          .tile = kind == SLOW_SMALL ? 16 : 256,
                                          .scratch_bytes = 100},
                                .run = slow_run,
                                .impl = &b->slow[p]};
  }
  return true;
}

static ke_run make_run(bench *b, const double *const *data, int64_t M, int64_t N, int threads)
{
  for (int p = 0; p < MAX_PASS; p++)
    if (b->slow[p].pass) b->slow[p].items = b->slow[p].pass->red == KE_I ? M : N;
  return (ke_run){.data = data,
                  .size_i = M,
                  .size_j = N,
                  .kernels = b->kernels,
                  .isa = ke_cpu_isa(),
                  .threads = threads};
}

static ke_status run_plan(const ke_plan *plan, int kind, int real_bytes, const double *const *data,
                          int64_t M, int64_t N, int threads, double *out)
{
  bench b = {0};
  ke_error err = {0};
  ke_status status = KE_ERR_INTERNAL;

  if (make_kernels(&b, plan, kind, real_bytes)) {
    ke_run run = make_run(&b, data, M, N, threads);
    status = ke_run_plan(plan, &run, (double *const[]){out}, &err);
    CHECK_MSG(status == KE_OK, "%s", err.message);
    for (int p = 0; p < plan->npass; p++) CHECK(atomic_load(&b.slow[p].misfits) == 0);
  }
  ke_arena_free(b.arena);
  return status;
}

/* ---- data ---- */
static uint64_t seed = 1;

static double uniform(void)
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 11) / 9007199254740992.0;
}

/* A column-major matrix of exactly this size, so that sanitizers see a read past its end. */
static double *matrix(int64_t rows, int64_t cols, double low, double high)
{
  double *x = malloc((size_t)(rows * cols) * sizeof(double));

  for (int64_t k = 0; k < rows * cols; k++) x[k] = low + (high - low) * uniform();
  return x;
}

static double *blank(int64_t rows, int64_t cols)
{
  double *x = matrix(rows, cols, 0, 1);

  for (int64_t k = 0; k < rows * cols; k++) x[k] = -12345;
  return x;
}

/* Largest |a - b| relative to the largest |b| (or 1); Inf where NaN or infinities disagree. */
static double apart(const double *a, const double *b, int64_t n)
{
  double worst = 0, scale = 1;

  for (int64_t k = 0; k < n; k++)
    if (isfinite(b[k])) scale = fmax(scale, fabs(b[k]));
  for (int64_t k = 0; k < n; k++) {
    if (isfinite(a[k]) && isfinite(b[k]))
      worst = fmax(worst, fabs(a[k] - b[k]) / scale);
    else if (!(a[k] == b[k] || (isnan(a[k]) && isnan(b[k]))))
      return INFINITY;
  }
  return worst;
}

static double dist2(const double *x, int64_t i, int64_t M, const double *y, int64_t j, int64_t N,
                    int D)
{
  double s = 0;

  for (int k = 0; k < D; k++) s += (x[k * M + i] - y[k * N + j]) * (x[k * M + i] - y[k * N + j]);
  return s;
}

static double tolerance(int real_bytes)
{
  return real_bytes == 4 ? 2e-6 : 1e-13;
}

static const int64_t borders[] = {0, 1, 2, 15, 16, 17, 255, 257, 1000};
enum { NBORDERS = sizeof borders / sizeof *borders };

/* ---- the plans ---- */
enum { D = 3 };

/* sum_j exp(-g |x_i - y_j|^2) b_j, b of two components; arguments x y b g */
static const ke_plan *gauss_plan(sheet *s)
{
  int32_t x, y, b, g, a;
  int p;
  ke_place e;

  *s = (sheet){0};
  x = add_slot(s, KE_I, D, true);
  y = add_slot(s, KE_J, D, true);
  b = add_slot(s, KE_J, 2, true);
  g = add_slot(s, KE_NONE, 1, true);
  p = add_pass(s, KE_I, KE_J, 1, D, D + 2);
  e = emit(&s->once[p], KE_OP_Mult, load(&s->once[p], slot(g, 0, 0)), number(-1.4426950408889634));
  put(&s->once[p], 0, e);
  copy_slot(&s->kept[p], 0, x, 0, D);
  copy_slot(&s->red[p], 0, y, 0, D);
  copy_slot(&s->red[p], D, b, 0, 2);
  e = emit(&s->pair[p], KE_OP_Exp2Mul, once(0), sq_dist(&s->pair[p], D));
  open_segment(&s->pair[p], 0, 2);
  close_segment(&s->pair[p], emit(&s->pair[p], KE_OP_Mult, e, red(D, 1)));
  a = add_reduce(s, p, KE_RED_SUM, 2, 0, 1, number(0));
  s->pass[p].ncenter = 1;
  s->center[p] = (ke_center){0, 0, D};
  copy_slot(&s->final, 0, a, 0, 2);
  return seal(s, KE_I, 2);
}

static void gauss_dense(const double *const *data, int64_t M, int64_t N, double *out)
{
  for (int64_t i = 0; i < M; i++)
    for (int c = 0; c < 2; c++) {
      double sum = 0;
      for (int64_t j = 0; j < N; j++)
        sum += exp(-data[3][0] * dist2(data[0], i, M, data[1], j, N, D)) * data[2][c * N + j];
      out[c * M + i] = sum;
    }
}

/* Least and largest u_i * v_j over j, with indices: min, max, argmin, argmax; arguments u v */
static const ke_plan *extreme_plan(sheet *s)
{
  int32_t u, v, low, high;
  int p;
  ke_place t;

  *s = (sheet){0};
  u = add_slot(s, KE_I, 1, true);
  v = add_slot(s, KE_J, 1, true);
  p = add_pass(s, KE_I, KE_J, 0, 1, 1);
  copy_slot(&s->kept[p], 0, u, 0, 1);
  copy_slot(&s->red[p], 0, v, 0, 1);
  t = emit(&s->pair[p], KE_OP_Mult, kept(0, 0), red(0, 0));
  put(&s->pair[p], 0, t);
  put(&s->pair[p], 0, t);
  low = add_reduce(s, p, KE_RED_MIN, 1, 0, 1, number(0));
  high = add_reduce(s, p, KE_RED_MAX, 1, 1, 1, number(0));
  copy_slot(&s->final, 0, low, 0, 1);
  copy_slot(&s->final, 1, high, 0, 1);
  copy_slot(&s->final, 2, low, 1, 1);
  copy_slot(&s->final, 3, high, 1, 1);
  return seal(s, KE_I, 4);
}

static void extreme_dense(const double *const *data, int64_t M, int64_t N, double *out)
{
  for (int64_t i = 0; i < M; i++) {
    double low = INFINITY, high = -INFINITY, ilow = -1, ihigh = -1;

    for (int64_t j = 0; j < N; j++) {
      double t = data[0][i] * data[1][j];
      if (t < low) low = t, ilow = (double)j;
      if (t > high) high = t, ihigh = (double)j;
    }
    out[i] = low;
    out[M + i] = high;
    out[2 * M + i] = ilow;
    out[3 * M + i] = ihigh;
  }
}

/* Pass 1 of the next: (m, s) of -|x_i - y_j|^2 */
static int32_t add_logsumexp(sheet *s, int32_t x, int32_t y)
{
  int p = add_pass(s, KE_I, KE_J, 0, D, D);
  ke_place t;

  copy_slot(&s->kept[p], 0, x, 0, D);
  copy_slot(&s->red[p], 0, y, 0, D);
  t = emit(&s->pair[p], KE_OP_Minus, sq_dist(&s->pair[p], D), number(0));
  put(&s->pair[p], 0, number(1));
  s->pass[p].ncenter = 1;
  s->center[p] = (ke_center){0, 0, D};
  return add_reduce(s, p, KE_RED_SUMEXP, 1, 0, 1, t);
}

static ke_place log_sum(prog *p, int32_t ms)
{
  ke_place m = load(p, slot(ms, 0, 0)), s = load(p, slot(ms, 1, 0));

  return emit(p, KE_OP_Add, m, emit(p, KE_OP_Log, s, number(0)));
}

/* L_i = log sum_j exp(-|x_i - y_j|^2); arguments x y */
static const ke_plan *logsumexp_plan(sheet *s)
{
  int32_t x, y, ms;

  *s = (sheet){0};
  x = add_slot(s, KE_I, D, true);
  y = add_slot(s, KE_J, D, true);
  ms = add_logsumexp(s, x, y);
  put(&s->final, 0, log_sum(&s->final, ms));
  return seal(s, KE_I, 1);
}

static double logsumexp_dense(const double *const *data, int64_t i, int64_t M, int64_t N)
{
  double m = -INFINITY, sum = 0;

  for (int64_t j = 0; j < N; j++) m = fmax(m, -dist2(data[0], i, M, data[1], j, N, D));
  for (int64_t j = 0; j < N; j++) sum += exp(-dist2(data[0], i, M, data[1], j, N, D) - m);
  return m + log(sum);
}

/* Its gradient in x along eta_i: -2 eta_i sum_j exp(-d2 - L_i) (x_i - y_j); arguments x y eta */
static const ke_plan *gradient_plan(sheet *s)
{
  int32_t x, y, eta, ms, a;
  int p;
  ke_place t, e;

  *s = (sheet){0};
  x = add_slot(s, KE_I, D, true);
  y = add_slot(s, KE_J, D, true);
  eta = add_slot(s, KE_I, 1, true);
  ms = add_logsumexp(s, x, y);
  p = add_pass(s, KE_I, KE_J, 0, D + 1, D);
  t = log_sum(&s->kept[p], ms);
  copy_slot(&s->kept[p], 0, x, 0, D);
  put(&s->kept[p], D, t);
  copy_slot(&s->red[p], 0, y, 0, D);
  t = emit(&s->pair[p], KE_OP_Minus, sq_dist(&s->pair[p], D), number(0));
  e = emit(&s->pair[p], KE_OP_Exp, emit(&s->pair[p], KE_OP_Subtract, t, kept(D, 0)), number(0));
  open_segment(&s->pair[p], 0, D);
  t = emit(&s->pair[p], KE_OP_Subtract, kept(0, 1), red(0, 1));
  close_segment(&s->pair[p], emit(&s->pair[p], KE_OP_Mult, e, t));
  a = add_reduce(s, p, KE_RED_SUM, D, 0, 1, number(0));
  t = emit(&s->final, KE_OP_Mult, load(&s->final, slot(eta, 0, 0)), number(-2));
  open_segment(&s->final, 0, D);
  close_segment(&s->final, emit(&s->final, KE_OP_Mult, t, load(&s->final, slot(a, 0, 1))));
  return seal(s, KE_I, D);
}

static void gradient_dense(const double *const *data, int64_t M, int64_t N, double *out)
{
  for (int64_t i = 0; i < M; i++) {
    double L = logsumexp_dense(data, i, M, N);

    for (int k = 0; k < D; k++) {
      double sum = 0;
      for (int64_t j = 0; j < N; j++)
        sum += exp(-dist2(data[0], i, M, data[1], j, N, D) - L) *
               (data[0][k * M + i] - data[1][k * N + j]);
      out[k * M + i] = -2 * data[2][i] * sum;
    }
  }
}

/* v_j . (sum over j of v, two components) for each j: a pass to one row, read again through `once`
 * of a pass that keeps j and reduces i: out_j = sum_i u_i * (v_j . total); arguments u v */
static const ke_plan *total_plan(sheet *s)
{
  int32_t u, v, total, a;
  int p;
  ke_place t0, t1;
  prog *pair;

  *s = (sheet){0};
  u = add_slot(s, KE_I, 1, true);
  v = add_slot(s, KE_J, 2, true);
  p = add_pass(s, KE_NONE, KE_J, 0, 0, 2);
  copy_slot(&s->red[p], 0, v, 0, 2);
  open_segment(&s->pair[p], 0, 2);
  close_segment(&s->pair[p], red(0, 1));
  total = add_reduce(s, p, KE_RED_SUM, 2, 0, 1, number(0));

  p = add_pass(s, KE_J, KE_I, 2, 2, 1);
  copy_slot(&s->once[p], 0, total, 0, 2);
  copy_slot(&s->kept[p], 0, v, 0, 2);
  copy_slot(&s->red[p], 0, u, 0, 1);
  pair = &s->pair[p];
  t0 = emit(pair, KE_OP_Mult, kept(0, 0), once(0));
  t1 = emit(pair, KE_OP_Mult, kept(1, 0), once(1));
  t0 = emit(pair, KE_OP_Add, t0, t1);
  put(pair, 0, emit(pair, KE_OP_Mult, t0, red(0, 0)));
  a = add_reduce(s, p, KE_RED_SUM, 1, 0, 1, number(0));
  copy_slot(&s->final, 0, a, 0, 1);
  return seal(s, KE_J, 1);
}

/* Nearest y of each x, then eta_i (two components) added up at it: out_j; arguments x y eta */
static const ke_plan *scatter_plan(sheet *s)
{
  int32_t x, y, eta, near, sum;
  int p;
  ke_place t;

  *s = (sheet){0};
  x = add_slot(s, KE_I, D, true);
  y = add_slot(s, KE_J, D, true);
  eta = add_slot(s, KE_I, 2, true);
  p = add_pass(s, KE_I, KE_J, 0, D, D);
  copy_slot(&s->kept[p], 0, x, 0, D);
  copy_slot(&s->red[p], 0, y, 0, D);
  t = sq_dist(&s->pair[p], D);
  put(&s->pair[p], 0, t);
  near = add_reduce(s, p, KE_RED_MIN, 1, 0, 1, number(0));
  sum = add_slot(s, KE_J, 2, false);
  p = add_pass(s, KE_J, KE_I, 0, 0, 0);
  s->pass[p].kind = KE_PASS_SCATTER;
  s->pass[p].scatter_slot = sum;
  s->pass[p].scatter_width = 2;
  copy_slot(&s->red[p], 0, eta, 0, 2);
  copy_slot(&s->red[p], 2, near, 1, 1);
  copy_slot(&s->final, 0, sum, 0, 2);
  return seal(s, KE_J, 2);
}

static void scatter_dense(const double *const *data, int64_t M, int64_t N, double *out)
{
  for (int64_t k = 0; k < 2 * N; k++) out[k] = 0;
  for (int64_t i = 0; i < M; i++) {
    int64_t best = -1;
    double least = INFINITY;

    for (int64_t j = 0; j < N; j++) {
      double d = dist2(data[0], i, M, data[1], j, N, D);
      if (d < least) least = d, best = j;
    }
    for (int c = 0; c < 2 && best >= 0; c++) out[c * N + best] += data[2][c * M + i];
  }
}

/* Wide rows, items and states: sum_j u_i[k] v_j[k] for each k; arguments u v */
static const ke_plan *wide_plan(sheet *s)
{
  int32_t u, v, a;
  int p;

  *s = (sheet){0};
  u = add_slot(s, KE_I, WIDE, true);
  v = add_slot(s, KE_J, WIDE, true);
  p = add_pass(s, KE_I, KE_J, 0, WIDE, WIDE);
  copy_slot(&s->kept[p], 0, u, 0, WIDE);
  copy_slot(&s->red[p], 0, v, 0, WIDE);
  open_segment(&s->pair[p], 0, WIDE);
  close_segment(&s->pair[p], emit(&s->pair[p], KE_OP_Mult, kept(0, 1), red(0, 1)));
  a = add_reduce(s, p, KE_RED_SUM, WIDE, 0, 1, number(0));
  copy_slot(&s->final, 0, a, 0, WIDE);
  return seal(s, KE_I, WIDE);
}

static void wide_dense(const double *const *data, int64_t M, int64_t N, double *out)
{
  for (int k = 0; k < WIDE; k++) {
    double sum = 0;

    for (int64_t j = 0; j < N; j++) sum += data[1][k * N + j];
    for (int64_t i = 0; i < M; i++) out[k * M + i] = data[0][k * M + i] * sum;
  }
}

/* ---- tests: reductions ---- */
static ke_reduce reduce_of(ke_reduce_kind kind, int width, int k)
{
  ke_reduce r = {.kind = kind, .width = width, .k = k};

  r.state_width = ke_reducer_of(kind)->states(&r);
  return r;
}

static void merge_case(ke_reduce r, const double *a, const double *b, const double *want)
{
  double state[16];

  memcpy(state, a, (size_t)r.state_width * sizeof(double));
  ke_reducer_of(r.kind)->merge(&r, state, b);
  CHECK_MSG(same(state, want, r.state_width), "kind %d: %g %g %g", (int)r.kind, state[0], state[1],
            r.state_width > 2 ? state[2] : 0);
}

static bool starts_as(ke_reduce r, const double *want)
{
  double state[16];

  ke_reducer_of(r.kind)->start(&r, state);
  return same(state, want, r.state_width);
}

/* The k least: any order of the heap's places but the first is as good, so look at what comes out. */
static bool ends_as(ke_reduce r, const double *a, const double *b, const double *want)
{
  double state[16], column[16];

  memcpy(state, a, (size_t)r.state_width * sizeof(double));
  if (b) ke_reducer_of(r.kind)->merge(&r, state, b);
  ke_reducer_of(r.kind)->finish(&r, state, column, 1);
  return same(column, want, ke_reducer_of(r.kind)->results(&r));
}

#define MERGE(kind, width, a, b, want)                                                             \
  merge_case(reduce_of(kind, width, 1), (const double[])a, (const double[])b, (const double[])want)
#define V(...)                                                                                     \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }

static void test_merges(void)
{
  const double inf = INFINITY;
  ke_reduce min2 = reduce_of(KE_RED_MIN, 2, 1), kahan = reduce_of(KE_RED_KAHAN, 1, 1);
  ke_reduce three = reduce_of(KE_RED_KMIN, 1, 3), two = reduce_of(KE_RED_KMIN, 2, 2);
  double column[9] = {0};

  CHECK(starts_as(min2, (double[]){inf, inf, -1, -1}));
  CHECK(starts_as(reduce_of(KE_RED_MAX, 2, 1), (double[]){-inf, -inf, -1, -1}));
  CHECK(starts_as(reduce_of(KE_RED_SUM, 2, 1), (double[]){0, 0}));
  CHECK(starts_as(reduce_of(KE_RED_SUMEXP, 3, 1), (double[]){-inf, 0, 0, 0}));
  CHECK(starts_as(kahan, (double[]){0, 0}));
  CHECK(starts_as(three, (double[]){inf, inf, inf, -1, -1, -1}));

  MERGE(KE_RED_SUM, 2, V(1, 2), V(10, NAN), V(11, NAN));
  MERGE(KE_RED_MIN, 2, V(1, 5, 7, 3), V(2, 4, 8, 9), V(1, 4, 7, 9));
  MERGE(KE_RED_MIN, 1, V(1, 7), V(1, 8), V(1, 7));
  MERGE(KE_RED_MIN, 1, V(1, 8), V(1, 7), V(1, 7)); /* lower index, whatever the order */
  MERGE(KE_RED_MIN, 1, V(inf, -1), V(inf, -1), V(inf, -1));
  MERGE(KE_RED_MIN, 1, V(inf, -1), V(3, 2), V(3, 2));
  MERGE(KE_RED_MIN, 1, V(3, 2), V(inf, -1), V(3, 2));
  MERGE(KE_RED_MAX, 1, V(1, 7), V(2, 8), V(2, 8));
  MERGE(KE_RED_MAX, 1, V(2, 9), V(2, 8), V(2, 8));
  MERGE(KE_RED_MAX, 1, V(-inf, -1), V(-5, 0), V(-5, 0));
  MERGE(KE_RED_MAX, 1, V(-5, 0), V(-inf, -1), V(-5, 0));

  MERGE(KE_RED_SUMEXP, 1, V(-inf, 0), V(-inf, 0), V(-inf, 0));
  MERGE(KE_RED_SUMEXP, 1, V(-inf, 0), V(3, 2), V(3, 2));
  MERGE(KE_RED_SUMEXP, 1, V(3, 2), V(-inf, 0), V(3, 2));
  MERGE(KE_RED_SUMEXP, 2, V(0, 2, 1), V(-800, 2, 1), V(0, 2, 1));
  MERGE(KE_RED_SUMEXP, 1, V(1, 2), V(1, 5), V(1, 7));
  MERGE(KE_RED_SUMEXP, 1, V(inf, 2), V(inf, 1), V(inf, 3));
  MERGE(KE_RED_SUMEXP, 1, V(inf, 2), V(4, 1), V(inf, 2));
  MERGE(KE_RED_SUMEXP, 1, V(NAN, 2), V(4, 1), V(NAN, NAN));
  MERGE(KE_RED_SUMEXP, 1, V(4, 2), V(NAN, 1), V(NAN, NAN));
  MERGE(KE_RED_SUMEXP, 1, V(-inf, NAN), V(4, 1), V(4, NAN));
  MERGE(KE_RED_SUMEXP, 1, V(0, 1), V(1, 1), V(1, 1 + exp(-1)));

  /* 1 + 2^-60 - 1, and sums that are no longer finite */
  CHECK(ends_as(kahan, (double[]){1, ldexp(1, -60)}, (double[]){-1, 0}, (double[]){ldexp(1, -60)}));
  CHECK(ends_as(kahan, (double[]){1, 0}, (double[]){inf, NAN}, (double[]){inf}));
  CHECK(ends_as(kahan, (double[]){inf, NAN}, (double[]){-inf, NAN}, (double[]){NAN}));

  CHECK(ends_as(three, (double[]){5, 2, 1, 4, 0, 2}, NULL, (double[]){1, 2, 5, 2, 0, 4}));
  CHECK(ends_as(three, (double[]){5, 2, 1, 4, 0, 2}, (double[]){inf, 3, inf, -1, 9, -1},
                (double[]){1, 2, 3, 2, 0, 9}));
  CHECK(ends_as(three, (double[]){inf, inf, 1, -1, -1, 2}, (double[]){inf, 3, inf, -1, 9, -1},
                (double[]){1, 3, inf, 2, 9, -1}));
  CHECK(ends_as(three, (double[]){7, 7, 7, 6, 4, 5}, (double[]){7, 7, 7, 3, 2, 8}, /* ties: lower indices */
                (double[]){7, 7, 7, 2, 3, 4}));
  CHECK(ends_as(two, (double[]){4, 3, 9, 8, 0, 1, 0, 1}, (double[]){5, 2, inf, inf, 3, 2, -1, -1},
                (double[]){2, 8, 3, 9, 2, 1, 1, 0}));

  ke_reducer_of(KE_RED_MIN)->finish(&min2, (double[]){1, 2, 3, 4}, column, 2);
  CHECK(same(column, (double[]){1, 0, 2, 0, 3, 0, 4, 0}, 8));
}

/* ---- tests: values ---- */
typedef void dense_fn(const double *const *data, int64_t M, int64_t N, double *out);

static void logsumexp_all(const double *const *data, int64_t M, int64_t N, double *out)
{
  for (int64_t i = 0; i < M; i++) out[i] = logsumexp_dense(data, i, M, N);
}

static void total_dense(const double *const *data, int64_t M, int64_t N, double *out)
{
  double u = 0, total[2] = {0, 0};

  for (int64_t i = 0; i < M; i++) u += data[0][i];
  for (int64_t j = 0; j < N; j++)
    for (int c = 0; c < 2; c++) total[c] += data[1][c * N + j];
  for (int64_t j = 0; j < N; j++) out[j] = u * (data[1][j] * total[0] + data[1][N + j] * total[1]);
}

static const struct {
  const char *name;
  const ke_plan *(*make)(sheet *s);
  dense_fn *dense;
  double loss; /* of digits, against the tolerance of a sum */
  int work;    /* of a pair, against that of a Gaussian */
} cases[] = {
    {"gauss", gauss_plan, gauss_dense, 1, 1},
    {"extreme", extreme_plan, extreme_dense, 1, 1},
    {"logsumexp", logsumexp_plan, logsumexp_all, 1, 1},
    {"gradient", gradient_plan, gradient_dense, 4, 2},
    {"total", total_plan, total_dense, 4, 1},
    {"scatter", scatter_plan, scatter_dense, 1, 1},
    {"wide", wide_plan, wide_dense, 4, 50},
};
enum { NCASES = sizeof cases / sizeof *cases };

/* Data for each argument. Values are floats, so that both precisions see the same, and few, so that
 * ties occur where `ties`. */
static void make_data(const ke_plan *plan, int64_t M, int64_t N, bool ties, double **data)
{
  for (int a = 0; a < plan->nargs; a++) {
    const ke_slot *s = &plan->slot[a];
    int64_t rows = s->side == KE_I ? M : s->side == KE_J ? N : 1;

    data[a] = matrix(rows, s->width, -1, 1);
    for (int64_t k = 0; k < rows * s->width; k++)
      data[a][k] = ties ? round(data[a][k] * 4) / 4 : (double)(float)data[a][k];
    if (s->side == KE_NONE) data[a][0] = 0.5;
  }
}

static void free_data(const ke_plan *plan, double **data)
{
  for (int a = 0; a < plan->nargs; a++) free(data[a]);
}

static void value_case(int c, int kind, int real_bytes, int64_t M, int64_t N)
{
  sheet s;
  const ke_plan *plan = cases[c].make(&s);
  int64_t rows = plan->final->side == KE_I ? M : N;
  double *data[MAX_SLOT], *out = blank(rows, plan->final->width), *want = blank(rows, plan->final->width);
  double error;

  make_data(plan, M, N, cases[c].dense == extreme_dense, data);
  cases[c].dense((const double *const *)data, M, N, want);
  run_plan(plan, kind, real_bytes, (const double *const *)data, M, N, 2, out);
  error = apart(out, want, rows * plan->final->width);
  CHECK_MSG(error <= tolerance(real_bytes) * cases[c].loss,
            "%s, kernel %d, %d bytes, %lld x %lld: off by %g", cases[c].name, kind, real_bytes,
            (long long)M, (long long)N, error);
  free_data(plan, data);
  free(out);
  free(want);
}

static void test_values(void)
{
  for (int c = 0; c < NCASES; c++)
    for (int kind = 0; kind < NKERNELS; kind++)
      for (int rb = 4; rb <= 8; rb += 4)
        for (int m = 0; m < NBORDERS; m++)
          for (int n = 0; n < NBORDERS; n++)
            if (borders[m] * borders[n] * cases[c].work <= (kind == INTERP ? 300000 : 5000))
              value_case(c, kind, rb, borders[m], borders[n]);
}

/* Items of which nothing remains: -Inf everywhere, and NaN somewhere. */
static void test_odd_items(void)
{
  sheet s;
  const ke_plan *plan = extreme_plan(&s);
  double u[2] = {1, 1}, v[40], out[8];
  const double *data[] = {u, v};

  for (int kind = 0; kind < NKERNELS; kind++) {
    for (int j = 0; j < 40; j++) v[j] = NAN;
    run_plan(plan, kind, 8, data, 2, 40, 1, out);
    CHECK(same(out, (double[]){INFINITY, INFINITY, -INFINITY, -INFINITY, -1, -1, -1, -1}, 8));
    v[33] = v[35] = 2;
    run_plan(plan, kind, 8, data, 2, 40, 1, out);
    CHECK(same(out, (double[]){2, 2, 2, 2, 33, 33, 33, 33}, 8));
  }
}

/* Costs that make the driver cut small sizes as it cuts large ones. */
static void set_cost(sheet *s, double cost)
{
  for (int p = 0; p < s->plan.npass; p++) s->pass[p].cost = cost;
}

/* The same bits for any number of threads, whole and cut into pieces of few items. */
static void test_threads(void)
{
  const int64_t sizes[][2] = {{1, 1000}, {7, 700}, {100, 300}, {257, 90}, {700, 10}};

  for (int c = 0; c < NCASES; c++)
    for (int kind = 0; kind < NKERNELS; kind++)
      for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
        sheet s;
        const ke_plan *plan = cases[c].make(&s);
        int64_t M = sizes[z][0], N = sizes[z][1], rows = plan->final->side == KE_I ? M : N;
        int64_t n = rows * plan->final->width;
        double *data[MAX_SLOT], *want, *out[3];

        if (kind != INTERP && M * N * cases[c].work > 50000) continue;
        want = blank(rows, plan->final->width);
        set_cost(&s, 1e5);
        make_data(plan, M, N, cases[c].dense == extreme_dense, data);
        cases[c].dense((const double *const *)data, M, N, want);
        for (int t = 0; t < 3; t++) {
          out[t] = blank(rows, plan->final->width);
          run_plan(plan, kind, 8, (const double *const *)data, M, N, t + 1, out[t]);
          CHECK(memcmp(out[t], out[0], (size_t)n * sizeof(double)) == 0);
        }
        CHECK_MSG(apart(out[0], want, n) <= 1e-12, "%s kernel %d: %g", cases[c].name, kind,
                  apart(out[0], want, n));
        for (int t = 0; t < 3; t++) free(out[t]);
        free_data(plan, data);
        free(want);
      }
}

/* More rows than one packing or final job, and items beyond one kernel call. */
static void test_long(void)
{
  sheet s;
  const ke_plan *plan = total_plan(&s);
  const int64_t sizes[][2] = {{5, 70001}, {70001, 3}};

  for (int kind = 0; kind < NKERNELS; kind++)
    for (int z = 0; z < 2; z++) {
      int64_t M = sizes[z][0], N = sizes[z][1];
      double *data[2], *out = blank(N, 1), *want = blank(N, 1);

      make_data(plan, M, N, true, data);
      total_dense((const double *const *)data, M, N, want);
      run_plan(plan, kind, 8, (const double *const *)data, M, N, 3, out);
      CHECK(apart(out, want, N) <= 1e-12);
      free_data(plan, data);
      free(out);
      free(want);
    }
}

/* Coordinates at 1e6 with a spread of 1: float alone would keep one digit behind the point. */
static void test_centre(void)
{
  for (int kind = 0; kind < NKERNELS; kind++)
    for (int64_t N = 1; N <= 1000; N += 333) {
      sheet s;
      const ke_plan *plan = gauss_plan(&s);
      int64_t M = 60;
      double *data[MAX_SLOT], *out = blank(M, 2), *want = blank(M, 2);
      double error;

      make_data(plan, M, N, false, data);
      for (int64_t k = 0; k < M * D; k++) data[0][k] += 1e6 * (double)(1 + k / M);
      for (int64_t k = 0; k < N * D; k++) data[1][k] += 1e6 * (double)(1 + k / N);
      gauss_dense((const double *const *)data, M, N, want);
      run_plan(plan, kind, 4, (const double *const *)data, M, N, 2, out);
      error = apart(out, want, M * 2);
      CHECK_MSG(error <= 1e-5, "off by %g", error);

      /* points far out, and points that are no numbers, do not draw the centre away */
      if (N > 10) {
        for (int k = 0; k < D; k++) {
          data[1][k * N] = 1e30;
          data[1][k * N + N - 1] = INFINITY;
        }
        gauss_dense((const double *const *)data, M, N, want);
        run_plan(plan, kind, 4, (const double *const *)data, M, N, 2, out);
        error = apart(out, want, M * 2);
        CHECK_MSG(error <= 1e-5, "with far points off by %g", error);

        for (int64_t j = 0; j < N * 3 / 4; j++) data[1][j] = INFINITY;
        gauss_dense((const double *const *)data, M, N, want);
        run_plan(plan, kind, 4, (const double *const *)data, M, N, 2, out);
        error = apart(out, want, M * 2);
        CHECK_MSG(error <= 1e-5, "with most at infinity off by %g", error);
      }
      free_data(plan, data);
      free(out);
      free(want);
    }
}

/* ---- tests: threads, polling, failures ---- */
static int64_t now_us(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

typedef struct {
  pthread_t caller;
  int calls, stop_at;  /* stop at this call; 0: never */
  atomic_int *started; /* or as soon as this is not 0 */
  int64_t last, gap;  /* us */
  bool foreign;
} poller;

static bool poll_count(void *data)
{
  poller *p = data;
  int64_t now = now_us();

  p->calls++;
  if (!pthread_equal(p->caller, pthread_self())) p->foreign = true;
  if (now - p->last > p->gap) p->gap = now - p->last;
  p->last = now;
  if (p->started && atomic_load(p->started) > 0) return true;
  return p->stop_at && p->calls >= p->stop_at;
}

static ke_status polled_run(bench *b, const ke_plan *plan, double **data, int64_t M, int64_t N,
                            int threads, poller *p, double *out, ke_error *err)
{
  ke_run run = make_run(b, (const double *const *)data, M, N, threads);

  run.poll = poll_count;
  run.poll_data = p;
  p->caller = pthread_self();
  p->last = now_us();
  return ke_run_plan(plan, &run, (double *const[]){out}, err);
}

/* Kernels that take their time: polled throughout by the caller alone, left at once when told so.
 */
static void test_poll(void)
{
  sheet s;
  const ke_plan *plan = gauss_plan(&s);
  int64_t M = 5, N = 6400;
  double *data[MAX_SLOT], *out = blank(M, 2), *want = blank(M, 2);

  set_cost(&s, 1e5);
  make_data(plan, M, N, false, data);
  gauss_dense((const double *const *)data, M, N, want);
  for (int threads = 1; threads <= 3; threads++) {
    bench b = {.nap_us = 1000};
    ke_error err = {0};
    poller never = {.stop_at = 0}, soon = {.stop_at = 3};
    int calls;

    if (!make_kernels(&b, plan, SLOW_SMALL, 8)) return;
    CHECK(polled_run(&b, plan, data, M, N, threads, &never, out, &err) == KE_OK);
    CHECK(apart(out, want, 2 * M) <= 1e-13);
    calls = atomic_load(&b.slow[0].calls);
    CHECK(never.calls >= 2 && !never.foreign);
    CHECK_MSG(never.gap < 250000, "%lld us between polls", (long long)never.gap);
#ifdef _OPENMP
    CHECK(atomic_load(&b.slow[0].threads) == (1 << threads) - 1);
#endif

    atomic_store(&b.slow[0].calls, 0);
    CHECK(polled_run(&b, plan, data, M, N, threads, &soon, out, &err) == KE_ERR_INTERRUPT);
    CHECK(err.status == KE_ERR_INTERRUPT);
    CHECK(soon.calls == 3 && !soon.foreign);
    CHECK_MSG(atomic_load(&b.slow[0].calls) < calls / 2, "%d calls", atomic_load(&b.slow[0].calls));
    ke_arena_free(b.arena);
  }
  free_data(plan, data);
  free(out);
  free(want);
}

/* The caller is through long before the others: it polls while it waits, and stops them by it. */
static void test_poll_waiting(void)
{
#ifdef _OPENMP
  sheet s;
  const ke_plan *plan = gauss_plan(&s);
  int64_t M = 3, N = 32; /* two units of one kernel call each */
  double *data[MAX_SLOT], *out = blank(M, 2);
  bench b = {.nap_us = 20000, .others_nap_us = 600000};
  poller p = {.stop_at = 0}, stop = {.stop_at = 5};
  ke_error err = {0};

  set_cost(&s, 1e6);
  make_data(plan, M, N, false, data);
  if (make_kernels(&b, plan, SLOW_SMALL, 8)) {
    CHECK(polled_run(&b, plan, data, M, N, 2, &p, out, &err) == KE_OK);
    CHECK(atomic_load(&b.slow[0].calls) == 2 && atomic_load(&b.slow[0].threads) == 3);
    CHECK_MSG(p.calls >= 4 && !p.foreign, "%d polls", p.calls);
    CHECK_MSG(p.gap < 250000, "%lld us between polls", (long long)p.gap);
    CHECK(polled_run(&b, plan, data, M, N, 2, &stop, out, &err) == KE_ERR_INTERRUPT);
  }
  ke_arena_free(b.arena);
  free_data(plan, data);
  free(out);
#endif
}

/* One unit of many kernel calls is left in its midst. */
static void test_poll_inside(void)
{
  sheet s;
  const ke_plan *plan = gauss_plan(&s);
  int64_t M = 1, N = 64 * 16 * 100;
  double *data[MAX_SLOT], *out = blank(M, 2);
  bench b = {.nap_us = 1000};
  poller p = {.started = &b.slow[0].calls};
  ke_error err = {0};

  set_cost(&s, 1e7);
  make_data(plan, M, N, false, data);
  if (make_kernels(&b, plan, SLOW_SMALL, 8)) {
    CHECK(polled_run(&b, plan, data, M, N, 1, &p, out, &err) == KE_ERR_INTERRUPT);
    CHECK_MSG(atomic_load(&b.slow[0].calls) < 60, "%d calls", atomic_load(&b.slow[0].calls));
  }
  ke_arena_free(b.arena);
  free_data(plan, data);
  free(out);
}

/* After threads have run here, a forked child with one thread still answers. */
static void test_fork(void)
{
  sheet s;
  const ke_plan *plan = gauss_plan(&s);
  int64_t M = 100, N = 300;
  double *data[MAX_SLOT], *out = blank(M, 2), *want = blank(M, 2);
  int status = -1;
  pid_t child;

  set_cost(&s, 1e5);
  make_data(plan, M, N, false, data);
  run_plan(plan, SLOW_WIDE, 8, (const double *const *)data, M, N, 3, want);
  fflush(stdout);
  child = fork();
  if (child == 0) {
    alarm(60); /* not to hang for ever */
    run_plan(plan, SLOW_WIDE, 8, (const double *const *)data, M, N, 1, out);
    _exit(memcmp(out, want, (size_t)(2 * M) * sizeof(double)) == 0 ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  free_data(plan, data);
  free(out);
  free(want);
}

/* Sizes whose memory cannot be had are an error; the data are not looked at before. (Items that few rows
 * see need no memory.) */
static void test_memory(void)
{
  sheet s;
  const ke_plan *plan = gauss_plan(&s);
  const int64_t huge = (int64_t)1 << 60, rows = 5000;
  double one[8] = {0}, out[8];
  const double *data[] = {one, one, one, one};

  for (int side = 0; side < 2; side++) {
    bench b = {0};
    ke_error err = {0};

    if (make_kernels(&b, plan, SLOW_SMALL, 8)) {
      ke_run run = make_run(&b, data, side ? huge : rows, side ? 1 : huge, 1);
      CHECK(ke_run_plan(plan, &run, (double *const[]){out}, &err) == KE_ERR_MEMORY);
      CHECK(err.status == KE_ERR_MEMORY);
    }
    ke_arena_free(b.arena);
  }
}

/* A plan whose parts do not fit is refused, and so is an index that no row has. */
static void test_broken_plans(void)
{
  sheet s;
  const ke_plan *plan = gauss_plan(&s);
  bench b = {0};
  ke_error err = {0};
  double one[8] = {0.5, 0, 0, 0, 0, 0, 0, 0}, out[8];
  const double *data[] = {one, one, one, one};
  ke_run run;

  if (!make_kernels(&b, plan, SLOW_SMALL, 8)) return;
  run = make_run(&b, data, 1, 1, 1);
  s.slot[4].width = 3;
  CHECK(ke_run_plan(plan, &run, (double *const[]){out}, &err) == KE_ERR_INTERNAL);
  s.slot[4].width = 2;
  s.pass[0].keptp.width = 2;
  CHECK(ke_run_plan(plan, &run, (double *const[]){out}, &err) == KE_ERR_INTERNAL);
  ke_arena_free(b.arena);

  s = (sheet){0}; /* index 7.. of an argument, two rows */
  add_slot(&s, KE_I, 2, true);
  add_slot(&s, KE_J, 1, false);
  add_pass(&s, KE_J, KE_I, 0, 0, 0);
  s.pass[0].kind = KE_PASS_SCATTER;
  s.pass[0].scatter_slot = 1;
  s.pass[0].scatter_width = 1;
  copy_slot(&s.red[0], 0, 0, 0, 2);
  copy_slot(&s.final, 0, 1, 0, 1);
  plan = seal(&s, KE_J, 1);
  run = (ke_run){.data = data, .size_i = 3, .size_j = 2, .threads = 1, .isa = ke_cpu_isa()};
  one[0] = 1, one[1] = 2, one[2] = 3; /* values, then rows */
  one[3] = 1, one[4] = -1, one[5] = 1;
  CHECK(ke_run_plan(plan, &run, (double *const[]){out}, &err) == KE_OK && out[0] == 0 && out[1] == 4);
  one[4] = NAN;
  CHECK(ke_run_plan(plan, &run, (double *const[]){out}, &err) == KE_OK && out[0] == 0 && out[1] == 4);
  one[4] = 2;
  CHECK(ke_run_plan(plan, &run, (double *const[]){out}, &err) == KE_ERR_INTERNAL);
}

int main(void)
{
  test_merges();
  test_values();
  test_odd_items();
  test_threads();
  test_long();
  test_centre();
  test_poll();
  test_poll_waiting();
  test_poll_inside();
  test_fork();
  test_memory();
  test_broken_plans();
  return check_end();
}
