/* The tile interpreter's primitives. Included by interp_body.h alone, once for each instruction
 * set and precision.
 *
 * A primitive gets one ki_args: pointers and strides, worked out from the instruction's views by
 * run_instr(). It loops over the rows of the block and, inside, over the lanes [l0, l1) of the
 * tile, which are multiples of two vectors. Lanes that are no items of the task (`mask`) matter to
 * the accumulating primitives only: those leave them out by a select, never by a factor 0, which
 * would make Inf a NaN. */
#include "keops_kernel.h"

#define KI_INLINE static inline __attribute__((always_inline))
#define KI_PRIMITIVE static __attribute__((noinline)) /* registers for itself alone */

#if KE_REAL_BYTES == 4
typedef int32_t lane_int;
#define REAL_MAX K(3.40282346638528859812e+38)
#else
typedef int64_t lane_int;
#define REAL_MAX K(1.79769313486231570815e+308)
#endif

typedef struct {
  real *dst;
  const real *a, *b, *c;
  int64_t dst_row, a_row, b_row, c_row; /* from a row to the next */
  int64_t dst_k, a_k, b_k, c_k;         /* from a component to the next */
  int64_t l0, l1;                       /* lanes, multiples of 2 * KE_W */
  int64_t full0, full1;                 /* of these, those which need no mask, likewise */
  int64_t start;                        /* number of lane 0 in the chunk */
  int64_t n;
  int rows;
  bool keep;
  const vi *mask; /* lanes that are items; NULL: all */
} ki_args;

KI_INLINE vr load(const real *p)
{
  return *(const vr *)p;
}
KI_INLINE void store(real *p, vr v)
{
  *(vr *)p = v;
}

/* ---- elementwise primitives, from op_list.h ---- */

/* Two vectors at a time, read before one is written: dst may be an operand's own tile. One where
 * the operation is long, which would only make the code longer (the other branch is never
 * compiled). */
#define EACH_ROW_AND_LANE(cost, scalars, operands0, operands1, result)                             \
  for (int r = 0; r < g->rows; r++) {                                                              \
    real *dst = g->dst + r * g->dst_row;                                                           \
    scalars;                                                                                       \
    if (cost < LONG_COST) {                                                                        \
      for (int64_t l = g->l0; l < g->l1; l += 2 * KE_W) {                                          \
        const int64_t l2 = l + KE_W;                                                               \
        const vr first = result operands0, second = result operands1;                              \
        store(dst + l, first);                                                                     \
        store(dst + l2, second);                                                                   \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t l = g->l0; l < g->l1; l += KE_W) store(dst + l, result operands0);              \
    }                                                                                              \
  }
#define LONG_COST 9
#define ROW(p) const real *p = g->p + r * g->p##_row
#define ROW_SCALAR(p) const vr p = k_set(g->p[r * g->p##_row])

#define ELEMENTWISE_1(name, cost)                                                                  \
  static void name##_v(const ki_args *g)                                                           \
  {                                                                                                \
    EACH_ROW_AND_LANE(cost, ROW(a), (load(a + l)), (load(a + l2)), value_##name)                   \
  }
#define ELEMENTWISE_2(name, cost)                                                                  \
  static void name##_vv(const ki_args *g)                                                          \
  {                                                                                                \
    EACH_ROW_AND_LANE(cost, ROW(a); ROW(b), (load(a + l), load(b + l)),                            \
                      (load(a + l2), load(b + l2)), value_##name)                                  \
  }                                                                                                \
  static void name##_vs(const ki_args *g)                                                          \
  {                                                                                                \
    EACH_ROW_AND_LANE(cost, ROW(a); ROW_SCALAR(b), (load(a + l), b), (load(a + l2), b),            \
                      value_##name)                                                                \
  }                                                                                                \
  static void name##_sv(const ki_args *g)                                                          \
  {                                                                                                \
    EACH_ROW_AND_LANE(cost, ROW_SCALAR(a); ROW(b), (a, load(b + l)), (a, load(b + l2)),            \
                      value_##name)                                                                \
  }
#define ELEMENTWISE_3(name, cost)                                                                  \
  static void name##_vvv(const ki_args *g)                                                         \
  {                                                                                                \
    EACH_ROW_AND_LANE(cost, ROW(a); ROW(b); ROW(c), (load(a + l), load(b + l), load(c + l)),       \
                      (load(a + l2), load(b + l2), load(c + l2)), value_##name)                    \
  }
#define PARAMETERS_1 vr a
#define PARAMETERS_2 vr a, vr b
#define PARAMETERS_3 vr a, vr b, vr c
#define ELEMENTWISE(name, arity, cost, value)                                                      \
  KI_INLINE vr value_##name(PARAMETERS_##arity)                                                    \
  {                                                                                                \
    return value;                                                                                  \
  }                                                                                                \
  ELEMENTWISE_##arity(name, cost)

#define SCALAR_OP(name, arity, cost, value, derivatives, domains, about)                                  \
  ELEMENTWISE(name, arity, cost, value)
#define FUSED_OP(name, arity, cost, value) ELEMENTWISE(name, arity, cost, value)
#include "op_list.h"

typedef void (*elementwise_fn)(const ki_args *);

#define MODES_1(name) {name##_v, NULL, NULL}
#define MODES_2(name) {name##_vv, name##_vs, name##_sv}
#define MODES_3(name) {name##_vvv, NULL, NULL}
static const elementwise_fn elementwise[KE_OP_COUNT][KI_MODES] = {
#define SCALAR_OP(name, arity, cost, value, derivatives, domains, about)                                  \
  [KE_OP_##name] = MODES_##arity(name),
#define FUSED_OP(name, arity, cost, value) [KE_OP_##name] = MODES_##arity(name),
#include "op_list.h"
};

KI_PRIMITIVE void splat(const ki_args *g)
{
  for (int r = 0; r < g->rows; r++) {
    const vr a = k_set(g->a[r * g->a_row]);
    for (int64_t l = g->l0; l < g->l1; l += KE_W) store(g->dst + r * g->dst_row + l, a);
  }
}

KI_PRIMITIVE void muladd_vv(const ki_args *g)
{
  for (int r = 0; r < g->rows; r++) {
    real *dst = g->dst + r * g->dst_row;
    ROW(a);
    ROW(b);
    for (int64_t l = g->l0; l < g->l1; l += KE_W)
      store(dst + l, load(dst + l) + load(a + l) * load(b + l));
  }
}

KI_PRIMITIVE void muladd_vs(const ki_args *g)
{
  for (int r = 0; r < g->rows; r++) {
    real *dst = g->dst + r * g->dst_row;
    ROW(a);
    ROW_SCALAR(b);
    for (int64_t l = g->l0; l < g->l1; l += KE_W) store(dst + l, load(dst + l) + load(a + l) * b);
  }
}

/* dst = a where a is beyond dst; all of a in the `first` round. */
KI_INLINE void fold_extreme(bool is_max, bool first, const ki_args *g)
{
  for (int r = 0; r < g->rows; r++) {
    real *dst = g->dst + r * g->dst_row;
    ROW(a);
    for (int64_t l = g->l0; l < g->l1; l += KE_W) {
      const vr new = load(a + l), old = load(dst + l);
      store(dst + l, first ? new : k_select(is_max ? new > old : new < old, new, old));
    }
  }
}

KI_PRIMITIVE void fold_max(bool first, const ki_args *g)
{
  fold_extreme(true, first, g);
}
KI_PRIMITIVE void fold_min(bool first, const ki_args *g)
{
  fold_extreme(false, first, g);
}

/* ---- folds over the components of a row and an item, in registers ---- */

/* One more component of the sum: x of the row, y of the item, w a weight. */
KI_INLINE vr fold_term(int op, vr sum, vr x, vr y, vr w)
{
  const vr d = x - y;
  switch (op) {
  case KI_SQDIST: return sum + d * d;
  case KI_WSQDIST: return sum + w * (d * d);
  case KI_DOT: return sum + x * y;
  default: return sum + k_abs(d);
  }
}

/* 4 rows and 2 vectors, the components innermost: 8 sums in registers whatever n is. */
KI_INLINE void fold_4_rows(int op, const ki_args *g, int r, int64_t l)
{
  real *d0 = g->dst + r * g->dst_row + l, *d1 = d0 + g->dst_row, *d2 = d1 + g->dst_row,
       *d3 = d2 + g->dst_row;
  const real *x0 = g->a + r * g->a_row, *x1 = x0 + g->a_row, *x2 = x1 + g->a_row,
             *x3 = x2 + g->a_row, *y = g->b + l, *w = g->c;
  const int64_t w_row = op == KI_WSQDIST ? g->c_row : 0;
  vr s0 = k_set(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;

  if (g->keep) {
    s0 = load(d0), s1 = load(d1), s2 = load(d2), s3 = load(d3);
    t0 = load(d0 + KE_W), t1 = load(d1 + KE_W), t2 = load(d2 + KE_W), t3 = load(d3 + KE_W);
  }
  if (op == KI_WSQDIST) w += r * w_row;
  for (int64_t k = 0; k < g->n; k++) {
    const vr y0 = load(y), y1 = load(y + KE_W);
    vr x, v = y0;
#define FOLD_ROW(u)                                                                                \
  x = k_set(*x##u);                                                                                \
  if (op == KI_WSQDIST) v = k_set(w[u * w_row]);                                                   \
  s##u = fold_term(op, s##u, x, y0, v);                                                            \
  t##u = fold_term(op, t##u, x, y1, v);                                                            \
  x##u += g->a_k;
    FOLD_ROW(0)
    FOLD_ROW(1)
    FOLD_ROW(2)
    FOLD_ROW(3)
#undef FOLD_ROW
    y += g->b_k;
    if (op == KI_WSQDIST) w += g->c_k;
  }
  store(d0, s0), store(d1, s1), store(d2, s2), store(d3, s3);
  store(d0 + KE_W, t0), store(d1 + KE_W, t1), store(d2 + KE_W, t2), store(d3 + KE_W, t3);
}

KI_INLINE void fold_row(int op, const ki_args *g, int r, int64_t l)
{
  real *dst = g->dst + r * g->dst_row + l;
  const real *x = g->a + r * g->a_row, *y = g->b + l, *w = g->c;
  vr s = k_set(0), t = s, v = s;

  if (g->keep) s = load(dst), t = load(dst + KE_W);
  if (op == KI_WSQDIST) w += r * g->c_row;
  for (int64_t k = 0; k < g->n; k++) {
    if (op == KI_WSQDIST) v = k_set(w[k * g->c_k]);
    s = fold_term(op, s, k_set(*x), load(y), v);
    t = fold_term(op, t, k_set(*x), load(y + KE_W), v);
    x += g->a_k;
    y += g->b_k;
  }
  store(dst, s);
  store(dst + KE_W, t);
}

KI_INLINE void fold(int op, const ki_args *g)
{
  int r = 0;

  for (; r + 4 <= g->rows; r += 4)
    for (int64_t l = g->l0; l < g->l1; l += 2 * KE_W) fold_4_rows(op, g, r, l);
  for (; r < g->rows; r++)
    for (int64_t l = g->l0; l < g->l1; l += 2 * KE_W) fold_row(op, g, r, l);
}

KI_PRIMITIVE void fold_sqdist(const ki_args *g)
{
  fold(KI_SQDIST, g);
}
KI_PRIMITIVE void fold_wsqdist(const ki_args *g)
{
  fold(KI_WSQDIST, g);
}
KI_PRIMITIVE void fold_dot(const ki_args *g)
{
  fold(KI_DOT, g);
}
KI_PRIMITIVE void fold_l1(const ki_args *g)
{
  fold(KI_L1, g);
}

/* ---- sums over the items; the accumulators are g->dst[component][row], one vector each ---- */

/* One more vector of items: a, b of the items, x of the row. */
KI_INLINE vr sum_term(int op, vr sum, vr a, vr b, vr x)
{
  switch (op) {
  case KI_SUM: return sum + a;
  case KI_SUM_MUL: return sum + a * b;
  case KI_SUM_DIFF: return sum + a * (x - b);
  default: return sum + a * (b - x);
  }
}

KI_INLINE void sum_row(int op, bool b_scalar, const ki_args *g, int r, int64_t k)
{
  const real *a = g->a + k * g->a_k + r * g->a_row;
  const real *b = op == KI_SUM ? a : g->b + k * g->b_k + r * g->b_row;
  const vr zero = k_set(0);
  const vr b_all = b_scalar ? k_set(*b) : zero;
  const vr x = op == KI_SUM_DIFF || op == KI_SUM_DIFF_NEG ? k_set(g->c[k * g->c_k + r * g->c_row])
                                                          : zero;
  real *acc = g->dst + k * g->dst_k + r * g->dst_row;
  vr s = load(acc), t = zero;

  if (g->mask) {
    for (int64_t l = g->l0; l < g->l1; l += KE_W) {
      const vr term = sum_term(op, zero, load(a + l), b_scalar ? b_all : load(b + l), x);
      s += k_select(g->mask[l / KE_W], term, zero);
    }
  } else {
    for (int64_t l = g->l0; l < g->l1; l += 2 * KE_W) {
      s = sum_term(op, s, load(a + l), b_scalar ? b_all : load(b + l), x);
      t = sum_term(op, t, load(a + l + KE_W), b_scalar ? b_all : load(b + l + KE_W), x);
    }
  }
  store(acc, s + t);
}

/* 4 rows of one component, 2 vectors at a time; b the same for all rows. */
KI_INLINE void sum_4_rows(int op, const ki_args *g, int r, int64_t k)
{
  const int64_t row = g->a_row;
  const real *a = g->a + k * g->a_k + r * row, *b = op == KI_SUM ? a : g->b + k * g->b_k;
  real *acc = g->dst + k * g->dst_k + r * g->dst_row;
  const int64_t acc_row = g->dst_row;
  vr x0 = k_set(0), x1 = x0, x2 = x0, x3 = x0, t0 = x0, t1 = x0, t2 = x0, t3 = x0;
  vr s0 = load(acc), s1 = load(acc + acc_row), s2 = load(acc + 2 * acc_row),
     s3 = load(acc + 3 * acc_row);

  if (op == KI_SUM_DIFF || op == KI_SUM_DIFF_NEG) {
    const real *x = g->c + k * g->c_k + r * g->c_row;
    x0 = k_set(x[0]), x1 = k_set(x[g->c_row]), x2 = k_set(x[2 * g->c_row]),
    x3 = k_set(x[3 * g->c_row]);
  }
  for (int64_t l = g->l0; l < g->l1; l += 2 * KE_W) {
    const real *p = a + l;
    const vr b0 = op == KI_SUM ? x0 : load(b + l), b1 = op == KI_SUM ? x0 : load(b + l + KE_W);
    s0 = sum_term(op, s0, load(p), b0, x0);
    t0 = sum_term(op, t0, load(p + KE_W), b1, x0);
    s1 = sum_term(op, s1, load(p + row), b0, x1);
    t1 = sum_term(op, t1, load(p + row + KE_W), b1, x1);
    s2 = sum_term(op, s2, load(p + 2 * row), b0, x2);
    t2 = sum_term(op, t2, load(p + 2 * row + KE_W), b1, x2);
    s3 = sum_term(op, s3, load(p + 3 * row), b0, x3);
    t3 = sum_term(op, t3, load(p + 3 * row + KE_W), b1, x3);
  }
  store(acc, s0 + t0), store(acc + acc_row, s1 + t1);
  store(acc + 2 * acc_row, s2 + t2), store(acc + 3 * acc_row, s3 + t3);
}

/* 4 rows of three components: a wide output is a small matrix product, 12 sums in registers. */
KI_INLINE void sum_mul_4x3(const ki_args *g, int r, int64_t k)
{
  const real *a = g->a + r * g->a_row, *b0 = g->b + k * g->b_k, *b1 = b0 + g->b_k,
             *b2 = b1 + g->b_k;
  real *acc0 = g->dst + k * g->dst_k + r * g->dst_row, *acc1 = acc0 + g->dst_k,
       *acc2 = acc1 + g->dst_k;
#define EACH_ROW(what) what(0) what(1) what(2) what(3)
#define FETCH(u)                                                                                   \
  vr s##u = load(acc0 + u * g->dst_row), t##u = load(acc1 + u * g->dst_row),                       \
     v##u = load(acc2 + u * g->dst_row);
#define ADD(u)                                                                                     \
  p = load(a + u * g->a_row + l);                                                                  \
  s##u += p * x;                                                                                   \
  t##u += p * y;                                                                                   \
  v##u += p * z;
#define PUT(u)                                                                                     \
  store(acc0 + u * g->dst_row, s##u);                                                              \
  store(acc1 + u * g->dst_row, t##u);                                                              \
  store(acc2 + u * g->dst_row, v##u);

  EACH_ROW(FETCH)
  for (int64_t l = g->l0; l < g->l1; l += KE_W) {
    const vr x = load(b0 + l), y = load(b1 + l), z = load(b2 + l);
    vr p;
    EACH_ROW(ADD)
  }
  EACH_ROW(PUT)
#undef EACH_ROW
#undef FETCH
#undef ADD
#undef PUT
}

KI_INLINE void sum_unmasked(int op, const ki_args *g)
{
  int r = 0;

  if (op == KI_SUM || g->b_row == 0)
    for (; r + 4 <= g->rows; r += 4) {
      int64_t k = 0;
      if (op == KI_SUM_MUL && g->a_k == 0)
        for (; k + 3 <= g->n; k += 3) sum_mul_4x3(g, r, k);
      for (; k < g->n; k++) sum_4_rows(op, g, r, k);
    }
  for (; r < g->rows; r++)
    for (int64_t k = 0; k < g->n; k++) sum_row(op, false, g, r, k);
}

KI_INLINE void sum_one_by_one(int op, bool b_scalar, const ki_args *g)
{
  for (int r = 0; r < g->rows; r++)
    for (int64_t k = 0; k < g->n; k++) sum_row(op, b_scalar, g, r, k);
}

/* Masks cost: a tile that is no whole one is cut in three, the ends with a mask, the middle
 * without. */
KI_INLINE void sum_rows(int op, const ki_args *g)
{
  ki_args part;

  if (!g->mask) {
    sum_unmasked(op, g);
    return;
  }
  part = *g;
  part.l1 = g->full0;
  if (part.l0 < part.l1) sum_one_by_one(op, false, &part);
  part.l0 = g->full1;
  part.l1 = g->l1;
  if (part.l0 < part.l1) sum_one_by_one(op, false, &part);
  part.l0 = g->full0;
  part.l1 = g->full1;
  part.mask = NULL;
  if (part.l0 < part.l1) sum_unmasked(op, &part);
}

KI_PRIMITIVE void sum_plain(const ki_args *g)
{
  sum_rows(KI_SUM, g);
}
KI_PRIMITIVE void sum_mul_vv(const ki_args *g)
{
  sum_rows(KI_SUM_MUL, g);
}
KI_PRIMITIVE void sum_mul_vs(const ki_args *g)
{
  sum_one_by_one(KI_SUM_MUL, true, g);
}
KI_PRIMITIVE void sum_diff(const ki_args *g)
{
  sum_rows(KI_SUM_DIFF, g);
}
KI_PRIMITIVE void sum_diff_neg(const ki_args *g)
{
  sum_rows(KI_SUM_DIFF_NEG, g);
}

/* ---- minimum and maximum with index; accumulators: values, then indices, c_k behind them ---- */

KI_INLINE vi lane_numbers(int64_t first)
{
  vi number = {0};

  for (int l = 0; l < KE_W; l++) number[l] = (lane_int)(first + l);
  return number;
}

/* Strictly smaller only, so that the first of equal items stays, and NaN never enters. */
KI_INLINE void extreme(bool is_max, const ki_args *g)
{
  for (int64_t k = 0; k < g->n; k++)
    for (int r = 0; r < g->rows; r++) {
      const real *a = g->a + k * g->a_k + r * g->a_row;
      real *acc = g->dst + k * g->dst_k + r * g->dst_row, *acc_index = acc + g->c_k;
      vr best = load(acc);
      vi index = (vi)load(acc_index), number = lane_numbers(g->start + g->l0);

      for (int64_t l = g->l0; l < g->l1; l += KE_W) {
        const vr v = load(a + l);
        vi better = is_max ? v > best : v < best;
        if (g->mask) better &= g->mask[l / KE_W];
        best = k_select(better, v, best);
        index = (number & better) | (index & ~better);
        number += KE_W;
      }
      store(acc, best);
      store(acc_index, (vr)index);
    }
}

KI_PRIMITIVE void extreme_min(const ki_args *g)
{
  extreme(false, g);
}
KI_PRIMITIVE void extreme_max(const ki_args *g)
{
  extreme(true, g);
}

/* ---- compensated sums; accumulators: sums, then what rounding took off them, c_k behind ---- */

KI_PRIMITIVE void sum_kahan(const ki_args *g)
{
  for (int64_t k = 0; k < g->n; k++)
    for (int r = 0; r < g->rows; r++) {
      const real *a = g->a + k * g->a_k + r * g->a_row;
      real *acc = g->dst + k * g->dst_k + r * g->dst_row, *acc_rest = acc + g->c_k;
      vr sum = load(acc), rest = load(acc_rest);

      for (int64_t l = g->l0; l < g->l1; l += KE_W) {
        vr x = load(a + l), s, part;
        if (g->mask) x = (vr)(g->mask[l / KE_W] & (vi)x);
        s = sum + x;
        part = s - sum;
        rest += (sum - (s - part)) + (x - part);
        sum = s;
      }
      store(acc, sum);
      store(acc_rest, rest);
    }
}

/* ---- LogSumExp: scores to weights ---- */

KI_INLINE vr clamp_finite(vr m)
{
  return k_min(k_set(REAL_MAX), k_max(k_set(-REAL_MAX), m));
}

/* Largest score of a row's tile where it is more than m, else m; NaN is passed over. */
KI_INLINE real tile_maximum(const ki_args *g, const real *a, real m)
{
  const vr none = k_set(-K_INF);
  vr best = none, other = none;

  if (g->mask)
    for (int64_t l = g->l0; l < g->l1; l += KE_W)
      best = k_max(k_select(g->mask[l / KE_W], load(a + l), none), best);
  else
    for (int64_t l = g->l0; l < g->l1; l += 2 * KE_W) {
      best = k_max(load(a + l), best);
      other = k_max(load(a + l + KE_W), other);
    }
  best = k_max(other, best);
  if (K_RARE(k_less_bits(k_set(m), best)))
    for (int l = 0; l < KE_W; l++)
      if (best[l] > m) m = best[l];
  return m;
}

/* dst = exp(a - m), m the row's largest score so far (g->c, one a row). Where m grows, the row's
 * sums (n of them, from g->b) shrink with it. An infinite m stands for the largest finite number:
 * with it the weight of a score -Inf is 0 and that of +Inf is Inf, and no NaN comes up but from
 * NaN. */
KI_PRIMITIVE void exp_shift(const ki_args *g, real *m, real *sums)
{
  for (int r = 0; r < g->rows; r++) {
    ROW(a);
    real *dst = g->dst + r * g->dst_row;
    const real top = tile_maximum(g, a, m[r]);
    vr shift;

    if (top > m[r]) {
      const vr less = k_exp(clamp_finite(k_set(m[r])) - clamp_finite(k_set(top)));
      for (int64_t k = 0; k < g->n; k++) {
        real *s = sums + (k * KI_ROWS + r) * KE_W;
        store(s, load(s) * less);
      }
      m[r] = top;
    }
    shift = clamp_finite(k_set(m[r]));
    for (int64_t l = g->l0; l < g->l1; l += 2 * KE_W) {
      const vr first = k_exp(load(a + l) - shift), second = k_exp(load(a + l + KE_W) - shift);
      store(dst + l, first);
      store(dst + l + KE_W, second);
    }
  }
}
