/* Nodes -> instructions: how a value's components are computed, one program at a time.
 *
 * A component is asked for at an affine place of the loop counters (base + step . k). Structural
 * operations (Elem, Extract, Concat, ...) only move the place, so they cost nothing. What does not
 * depend on a loop's counter is written before the loop. Where the way to compute a component changes
 * along a vector (Concat, ExtractT), the loop over it is cut into segments. */
#include "build_plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  int32_t base, step[KE_MAX_LOOPS];
} comp;

typedef struct {
  const ke_node *node;
  comp at;
  ke_place place;
} made; /* a component written already */

/* Instructions of one loop body (or of the head), and what they have made. */
typedef struct {
  ke_instr *code;
  int n, size;
  made *memo;
  int nmemo, memo_size;
  int *bucket; /* open addressing: 1 + number in memo */
  int nbucket;
} scope;

typedef struct {
  const int32_t *v;
  int n;
} cuts; /* places inside a vector where segments meet, increasing */

struct ke_writer {
  ke_writer_input in;
  scope scopes[KE_MAX_LOOPS + 1]; /* head, then the loops around the present place */
  scope bodies;                   /* finished segment bodies */
  ke_segment *seg;
  int nseg, seg_size;
  int32_t ntemp;
  cuts *cut;   /* by node id; v NULL: not asked yet */
  char *folded; /* by node id: 1 no, 2 yes, 0 not asked yet */
  bool failed;
};

/* ---- growing lists ---- */
static void *grown(ke_writer *w, void *list, int n, int *size, size_t each)
{
  void *p = list;

  if (n == *size) {
    *size = *size ? 2 * *size : 16;
    p = realloc(list, (size_t)*size * each);
    if (!p) {
      w->failed = true;
      *size = n;
      return list;
    }
  }
  return p;
}

static void append(ke_writer *w, scope *s, const ke_instr *i)
{
  s->code = grown(w, s->code, s->n, &s->size, sizeof *s->code);
  if (!w->failed) s->code[s->n++] = *i;
}

static void append_all(ke_writer *w, scope *to, const scope *from)
{
  for (int k = 0; k < from->n; k++) append(w, to, &from->code[k]);
}

static void clear_scope(scope *s)
{
  free(s->code);
  free(s->memo);
  free(s->bucket);
  *s = (scope){0};
}

/* ---- places ---- */
static ke_place const_place(double value)
{
  return (ke_place){.kind = KE_AT_CONST, .value = value};
}

static ke_place temp_place(int32_t t)
{
  return (ke_place){.kind = KE_AT_TEMP, .base = t};
}

static ke_place array_place(ke_place_kind kind, int32_t slot, int32_t offset, const comp *at)
{
  ke_place p = {.kind = (uint8_t)kind, .slot = slot, .base = offset + at->base};

  memcpy(p.step, at->step, sizeof p.step);
  return p;
}

static const comp origin = {0};

/* Number of loops that a component's place depends on: the scope it belongs to. */
static int depth_of(const comp *c)
{
  int d = KE_MAX_LOOPS;

  while (d > 0 && c->step[d - 1] == 0) d--;
  return d;
}

static comp moved(comp c, int32_t by)
{
  c.base += by;
  return c;
}

/* Where the component is in the table, or the free place where it belongs. */
static int *find_made(const scope *s, const ke_node *n, const comp *at)
{
  uint32_t h = (uint32_t)n->id * 2654435761u ^ (uint32_t)at->base * 2246822519u;
  const made *m;

  for (int d = 0; d < KE_MAX_LOOPS; d++) h = (h ^ (uint32_t)at->step[d]) * 3266489917u;
  for (h ^= h >> 15;; h++) {
    int *b = &s->bucket[h & (uint32_t)(s->nbucket - 1)];
    if (!*b) return b;
    m = &s->memo[*b - 1];
    if (m->node == n && !memcmp(&m->at, at, sizeof *at)) return b;
  }
}

/* Twice the table, at most half full. */
static void grow_table(ke_writer *w, scope *s)
{
  int size = s->nbucket ? 2 * s->nbucket : 64;
  int *bucket = calloc((size_t)size, sizeof *bucket);

  if (!bucket) {
    w->failed = true;
    return;
  }
  free(s->bucket);
  s->bucket = bucket;
  s->nbucket = size;
  for (int k = 0; k < s->nmemo; k++) *find_made(s, s->memo[k].node, &s->memo[k].at) = k + 1;
}

static ke_place remember(ke_writer *w, const ke_node *n, const comp *at, ke_place p)
{
  scope *s = &w->scopes[depth_of(at)];

  s->memo = grown(w, s->memo, s->nmemo, &s->memo_size, sizeof *s->memo);
  if (2 * (s->nmemo + 1) > s->nbucket) grow_table(w, s);
  if (w->failed) return p;
  s->memo[s->nmemo] = (made){n, *at, p};
  *find_made(s, n, at) = ++s->nmemo;
  return p;
}

static const ke_place *recall(const ke_writer *w, const ke_node *n, const comp *at)
{
  const scope *s = &w->scopes[depth_of(at)];
  int found = s->nbucket ? *find_made(s, n, at) : 0;

  return found ? &s->memo[found - 1].place : NULL;
}

/* Write an operation where its result is needed first; returns the temp. */
static ke_place write_op(ke_writer *w, int depth, int op, const ke_place *src, int nsrc)
{
  ke_instr i = {.op = (uint16_t)op, .dst = w->ntemp++};

  for (int k = 0; k < nsrc; k++) i.src[k] = src[k];
  append(w, &w->scopes[depth], &i);
  return temp_place(i.dst);
}

/* ---- segments of a vector ---- */
static int by_value(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

  return x < y ? -1 : x > y;
}

typedef struct {
  int32_t *v;
  int n, size;
} cut_list;

static void add_cut(ke_writer *w, cut_list *l, int32_t at, int dim)
{
  if (at <= 0 || at >= dim) return;
  l->v = grown(w, l->v, l->n, &l->size, sizeof *l->v);
  if (!w->failed) l->v[l->n++] = at;
}

static cuts cuts_of(ke_writer *w, const ke_node *n);

static void add_cuts(ke_writer *w, cut_list *l, const ke_node *child, int32_t shift, int dim)
{
  cuts c = cuts_of(w, child);

  for (int k = 0; k < c.n; k++) add_cut(w, l, c.v[k] + shift, dim);
}

static bool is_ready(const ke_table *t, const ke_node *n)
{
  return t && n->id < INT32_MAX && t->at[n->id] >= 0;
}

static bool is_array(const ke_writer *w, const ke_node *n)
{
  return is_ready(w->in.once, n) || is_ready(w->in.kept, n) || is_ready(w->in.red, n);
}

/* A component of n needs a fold. One that a loop around asks for again and again is better asked for
 * place by place: a place without a counter is written once, in the head. */
static bool is_folded(ke_writer *w, const ke_node *n)
{
  if (n->dim == 1 || is_array(w, n)) return false;
  if (!w->folded[n->id]) {
    w->folded[n->id] = n->op == KE_N_CONTRACT ? 2 : 1;
    for (int k = 0; k < n->nchild && n->op != KE_N_REDUCE; k++)
      if (is_folded(w, n->child[k])) w->folded[n->id] = 2;
  }
  return w->folded[n->id] == 2;
}

static bool is_uneven(ke_writer *w, const ke_node *n)
{
  return cuts_of(w, n).n || is_folded(w, n);
}

static void cut_everywhere(ke_writer *w, cut_list *l, int dim)
{
  for (int at = 1; at < dim; at++) add_cut(w, l, at, dim);
}

/* A contraction's axes, four numbers each. */
enum { EXTENT, IN_F, IN_G, IN_OUT };

/* Components of the result along which both factors move evenly. */
static int inner_extent(const ke_node *n)
{
  for (int a = 0; a < n->nint; a += 4)
    if (n->ints[a + IN_OUT] == 1 && n->ints[a + EXTENT] > 1) return n->ints[a + EXTENT];
  return 1;
}

static cuts cuts_of(ke_writer *w, const ke_node *n)
{
  static const int32_t none[1] = {0};
  cut_list l = {0};
  cuts *c = &w->cut[n->id];
  int32_t *kept;
  int m = 0;

  if (c->v) return *c;
  c->v = none;
  if (n->dim == 1 || is_array(w, n)) return *c;
  switch (n->op) {
  case KE_OP_Concat:
    add_cut(w, &l, n->child[0]->dim, n->dim);
    add_cuts(w, &l, n->child[0], 0, n->dim);
    add_cuts(w, &l, n->child[1], n->child[0]->dim, n->dim);
    break;
  case KE_OP_ElemT:
    add_cut(w, &l, n->ints[1], n->dim);
    add_cut(w, &l, n->ints[1] + 1, n->dim);
    break;
  case KE_OP_Extract: add_cuts(w, &l, n->child[0], -n->ints[0], n->dim); break;
  case KE_OP_ExtractT:
    add_cut(w, &l, n->ints[0], n->dim);
    add_cut(w, &l, n->ints[0] + n->child[0]->dim, n->dim);
    add_cuts(w, &l, n->child[0], n->ints[0], n->dim);
    break;
  case KE_N_IOTA:
  case KE_N_PUT: cut_everywhere(w, &l, n->dim); break;
  case KE_N_PICK:
    if (cuts_of(w, n->child[0]).n) cut_everywhere(w, &l, n->dim);
    break;
  case KE_N_CONTRACT:
    if (is_uneven(w, n->child[0]) || is_uneven(w, n->child[1]))
      cut_everywhere(w, &l, n->dim);
    else
      for (int at = inner_extent(n); at < n->dim; at += inner_extent(n)) add_cut(w, &l, at, n->dim);
    break;
  default:
    if (ke_is_scalar_op(n))
      for (int k = 0; k < n->nchild; k++)
        if (n->child[k]->dim == n->dim) add_cuts(w, &l, n->child[k], 0, n->dim);
  }
  if (l.n) {
    qsort(l.v, (size_t)l.n, sizeof *l.v, by_value);
    for (int k = 0; k < l.n; k++)
      if (!k || l.v[k] != l.v[k - 1]) l.v[m++] = l.v[k];
    kept = ke_arena_copy(w->in.g->arena, l.v, (size_t)m * sizeof *l.v);
    if (kept) {
      c->v = kept;
      c->n = m;
    } else {
      w->failed = true;
    }
  }
  free(l.v);
  return *c;
}

/* ---- components ---- */
static ke_place component(ke_writer *w, const ke_node *n, comp at);

/* Components [from, to) of `n` as a place in the loop of depth `depth`: one needs no loop. */
static comp segment_comp(int32_t from, int32_t to, int depth)
{
  comp c = {.base = from};

  if (to - from > 1) c.step[depth] = 1;
  return c;
}

/* A fold is written in pieces: each gives its trips and body, all go on in one temp. */
typedef struct {
  ke_writer *w;
  int depth; /* of the scope it stands in, and so its counter */
  ke_fold_kind kind;
  int32_t dst; /* -1: nothing yet */
  scope outer; /* what the body's scope held */
} fold;

static void begin_body(fold *f)
{
  f->outer = f->w->scopes[f->depth + 1];
  f->w->scopes[f->depth + 1] = (scope){0};
}

static void end_body(fold *f, int32_t trips, ke_place result)
{
  ke_writer *w = f->w;
  scope body = w->scopes[f->depth + 1], *to = &w->scopes[f->depth];
  ke_instr i = {.op = KE_I_FOLD,
                .depth = (uint8_t)f->depth,
                .fold = (uint8_t)f->kind,
                .keep = f->dst >= 0,
                .n = trips,
                .len = body.n,
                .src = {result}};

  w->scopes[f->depth + 1] = f->outer;
  if (f->kind != KE_FOLD_SUM || result.kind != KE_AT_CONST || result.value != 0) {
    if (f->dst < 0) f->dst = w->ntemp++;
    i.dst = f->dst;
    append(w, to, &i);
    append_all(w, to, &body);
  }
  clear_scope(&body);
}

static ke_place fold_result(const fold *f)
{
  return f->dst < 0 ? const_place(0) : temp_place(f->dst);
}

/* Sum or extreme of the components of n's operand: one piece a segment, in the head. */
static ke_place write_fold(ke_writer *w, const ke_node *n, ke_fold_kind kind)
{
  const ke_node *f = n->child[0];
  fold all = {.w = w, .kind = kind, .dst = -1};
  cuts c = cuts_of(w, f);
  int32_t from = 0, to;

  for (int k = 0; k <= c.n && !w->failed; k++, from = to) {
    to = k < c.n ? c.v[k] : f->dim;
    begin_body(&all);
    end_body(&all, to - from, component(w, f, segment_comp(from, to, 0)));
  }
  return fold_result(&all);
}

/* ---- contractions ---- */

/* Where the two factors are read for one place of the result; free axes are still to be summed over. */
typedef struct {
  const ke_node *n;
  comp f, g;
} product_at;

static product_at factors_at(const ke_node *n, comp at)
{
  product_at p = {.n = n};
  int inner = -1, k;

  for (int a = 0; a < n->nint; a += 4) {
    const int *axis = n->ints + a;
    if (!axis[IN_OUT] || axis[EXTENT] == 1) continue;
    if (axis[IN_OUT] == 1) inner = a;
    k = at.base / axis[IN_OUT] % axis[EXTENT];
    p.f.base += k * axis[IN_F];
    p.g.base += k * axis[IN_G];
  }
  for (int d = 0; inner >= 0 && d < KE_MAX_LOOPS; d++) {
    p.f.step[d] = at.step[d] * n->ints[inner + IN_F];
    p.g.step[d] = at.step[d] * n->ints[inner + IN_G];
  }
  return p;
}

/* The longest summed axis is the loop, the others are written out. */
static int summed_loop(const ke_node *n)
{
  int best = -1;

  for (int a = 0; a < n->nint; a += 4)
    if (!n->ints[a + IN_OUT] && n->ints[a + EXTENT] > 1 &&
        (best < 0 || n->ints[a + EXTENT] > n->ints[best + EXTENT]))
      best = a;
  return best;
}

/* First trip at or behind k from which component base + step k is no longer below a cut. */
static int32_t next_cut(ke_writer *w, const ke_node *f, const comp *at, int32_t step, int32_t k, int32_t end)
{
  cuts c = cuts_of(w, f);
  int32_t here = at->base + step * k, trip;

  if (is_folded(w, f) && step > 0) return k + 1;
  for (int m = 0; m < c.n && step > 0; m++)
    if (c.v[m] > here) {
      trip = (c.v[m] - at->base + step - 1) / step;
      return trip < end ? trip : end;
    }
  return end;
}

static ke_place product_place(ke_writer *w, const product_at *p, int depth)
{
  ke_place src[2] = {component(w, p->n->child[0], p->f), component(w, p->n->child[1], p->g)};

  for (int k = 0; k < 2; k++)
    if (src[k].kind == KE_AT_CONST && src[k].value == 0) return src[k];
  return write_op(w, depth, KE_OP_Mult, src, 2);
}

/* Sum over the axis that is looped, in pieces where a factor's way of being computed changes. */
static void sum_loop(fold *all, product_at p, int axis)
{
  ke_writer *w = all->w;
  const int *ax = p.n->ints + axis;
  int32_t from = 0, to, other, n = axis < 0 ? 1 : ax[EXTENT];
  product_at q;

  for (; from < n && !w->failed; from = to) {
    q = p;
    to = n;
    if (axis >= 0) {
      to = next_cut(w, p.n->child[0], &p.f, ax[IN_F], from, n);
      other = next_cut(w, p.n->child[1], &p.g, ax[IN_G], from, n);
      if (other < to) to = other;
      q.f.base += from * ax[IN_F];
      q.g.base += from * ax[IN_G];
      if (to - from > 1) {
        q.f.step[all->depth] = ax[IN_F];
        q.g.step[all->depth] = ax[IN_G];
      }
    }
    begin_body(all);
    end_body(all, to - from, product_place(w, &q, all->depth + 1));
  }
}

static void sum_axes(fold *all, product_at p, int a, int loop)
{
  const ke_node *n = p.n;

  for (; a < n->nint; a += 4) {
    if (n->ints[a + IN_OUT] || n->ints[a + EXTENT] == 1 || a == loop) continue;
    for (int k = 0; k < n->ints[a + EXTENT]; k++) {
      sum_axes(all, p, a + 4, loop);
      p.f.base += n->ints[a + IN_F];
      p.g.base += n->ints[a + IN_G];
    }
    return;
  }
  sum_loop(all, p, loop);
}

static ke_place write_contraction(ke_writer *w, const ke_node *n, comp at)
{
  product_at p = factors_at(n, at);
  int depth = depth_of(&at), loop = summed_loop(n);
  fold all = {.w = w, .depth = depth, .kind = KE_FOLD_SUM, .dst = -1};

  if (loop < 0) return product_place(w, &p, depth);
  sum_axes(&all, p, 0, loop);
  return fold_result(&all);
}

/* A value that a row program finds in a slot, at the lane's row or at the row numbered by `index`. */
static ke_place load(ke_writer *w, int32_t slot, int32_t offset, comp at, const ke_place *index)
{
  ke_place src[2] = {array_place(KE_AT_SLOT, slot, offset, &at)};

  if (!index) return write_op(w, depth_of(&at), KE_I_LOAD, src, 1);
  src[1] = *index;
  return write_op(w, depth_of(&at), KE_I_GATHER, src, 2);
}

/* Finished states as values: see ke_reduce_kind for what lies in the slot. */
static ke_place leaf(ke_writer *w, const ke_node *n, comp at, const ke_place *index)
{
  int32_t slot = w->in.slot_of[n->id];
  ke_part part = n->op == KE_N_REDUCE ? ke_reduction_of(n).part : KE_PART_VALUE;
  ke_place p[2];

  if (part == KE_PART_RATIO) {
    p[0] = load(w, slot, 2, at, index);
    p[1] = load(w, slot, 1, origin, index);
    return write_op(w, depth_of(&at), KE_OP_Divide, p, 2);
  }
  if (n->op != KE_N_REDUCE || n->ints[0] != KE_RED_SUMEXP || part == KE_PART_RAW)
    return load(w, slot, part == KE_PART_INDEX ? n->dim : 0, at, index);
  p[0] = load(w, slot, 0, origin, index); /* m + log(s) */
  p[1] = load(w, slot, 1, at, index);
  p[1] = write_op(w, depth_of(&at), KE_OP_Log, &p[1], 1);
  return write_op(w, depth_of(&at), KE_OP_Add, p, 2);
}

static ke_place vector_component(ke_writer *w, const ke_node *n, comp at)
{
  const ke_node *a = n->child[0];
  int32_t start;

  switch (n->op) {
  case KE_OP_Sum: return write_fold(w, n, KE_FOLD_SUM);
  case KE_OP_SumT: return component(w, a, origin);
  case KE_OP_Elem: return component(w, a, (comp){.base = n->ints[0]});
  case KE_OP_Extract: return component(w, a, moved(at, n->ints[0]));
  case KE_OP_Concat:
    return at.base < a->dim ? component(w, a, at) : component(w, n->child[1], moved(at, -a->dim));
  case KE_OP_ElemT: return at.base == n->ints[1] ? component(w, a, origin) : const_place(0);
  default: /* ExtractT */
    start = n->ints[0];
    return at.base >= start && at.base < start + a->dim ? component(w, a, moved(at, -start))
                                                        : const_place(0);
  }
}

static comp picked(comp c, int32_t start, int32_t step)
{
  c.base = start + step * c.base;
  for (int d = 0; d < KE_MAX_LOOPS; d++) c.step[d] *= step;
  return c;
}

static ke_place put_component(ke_writer *w, const ke_node *n, int32_t k)
{
  int32_t step = n->ints[1];

  if (k < 0 || k % step || k / step >= n->child[0]->dim) return const_place(0);
  return component(w, n->child[0], (comp){.base = k / step});
}

static bool is_zero(const ke_place *p)
{
  return p->kind == KE_AT_CONST && p->value == 0;
}

static ke_place write_component(ke_writer *w, const ke_node *n, comp at)
{
  ke_place src[KE_MAX_CHILD], index;

  if (ke_is_scalar_op(n)) {
    for (int k = 0; k < n->nchild; k++) src[k] = component(w, n->child[k], at);
    if (n->op == KE_OP_Add && is_zero(&src[0])) return src[1]; /* parts put beside each other */
    if (n->op == KE_OP_Add && is_zero(&src[1])) return src[0];
    return write_op(w, depth_of(&at), n->op, src, n->nchild);
  }
  if (n->op < KE_OP_COUNT) return vector_component(w, n, at);
  switch (n->op) {
  case KE_N_IOTA: return const_place(at.base);
  case KE_N_PICK: return component(w, n->child[0], picked(at, n->ints[0], n->ints[1]));
  case KE_N_PUT: return put_component(w, n, at.base - n->ints[0]);
  case KE_N_EXTREME: return write_fold(w, n, n->ints[0] ? KE_FOLD_MAX : KE_FOLD_MIN);
  case KE_N_CONTRACT: return write_contraction(w, n, at);
  default: break;
  }
  if (n->op == KE_N_GATHER) {
    index = component(w, n->child[1], origin);
    return leaf(w, n->child[0], at, &index);
  }
  return leaf(w, n, at, NULL);
}

static ke_place component(ke_writer *w, const ke_node *n, comp at)
{
  const ke_place *known;

  if (n->dim == 1) at = origin;
  if (n->op == KE_N_CONST) return const_place(n->value);
  if (w->failed) return const_place(0);
  if (is_ready(w->in.once, n)) return array_place(KE_AT_ONCE, 0, w->in.once->at[n->id], &at);
  if (is_ready(w->in.kept, n)) return array_place(KE_AT_KEPT, 0, w->in.kept->at[n->id], &at);
  if (is_ready(w->in.red, n)) return array_place(KE_AT_RED, 0, w->in.red->at[n->id], &at);
  known = recall(w, n, &at);
  if (known) return *known;
  return remember(w, n, &at, write_component(w, n, at));
}

/* ---- the writer ---- */
ke_writer *ke_writer_new(const ke_writer_input *in)
{
  ke_writer *w = calloc(1, sizeof *w);

  if (!w) return NULL;
  w->in = *in;
  w->cut = calloc((size_t)in->nnodes + 1, sizeof *w->cut);
  w->folded = calloc((size_t)in->nnodes + 1, 1);
  if (w->cut && w->folded) return w;
  free(w->cut);
  free(w->folded);
  free(w);
  return NULL;
}

static void add_segment(ke_writer *w, int32_t out, int32_t n, scope *body, ke_place result)
{
  ke_segment s = {.out = out, .n = n, .first = w->bodies.n, .len = body->n, .result = result};

  w->seg = grown(w, w->seg, w->nseg, &w->seg_size, sizeof *w->seg);
  if (!w->failed) w->seg[w->nseg++] = s;
  append_all(w, &w->bodies, body);
}

/* The last product of a pair program's scalar summand: written beside the reduction when one factor is
 * an item's own, so that backends see "value times weight" there. */
static bool is_weighting(const ke_writer *w, const ke_node *n)
{
  return w->in.red && n->dim == 1 && n->op == KE_OP_Mult && !is_array(w, n) &&
         is_ready(w->in.red, n->child[0]) != is_ready(w->in.red, n->child[1]);
}

void ke_writer_segments(ke_writer *w, const ke_node *n, int32_t out)
{
  cuts c = cuts_of(w, n);
  int32_t from = 0, to;
  ke_place r, src[2];

  if (is_weighting(w, n) && !recall(w, n, &origin)) {
    for (int k = 0; k < 2; k++) src[k] = component(w, n->child[k], origin);
    r = write_op(w, 1, KE_OP_Mult, src, 2);
    add_segment(w, out, 1, &w->scopes[1], r);
    clear_scope(&w->scopes[1]);
    return;
  }
  for (int k = 0; k <= c.n && !w->failed; k++, from = to) {
    to = k < c.n ? c.v[k] : n->dim;
    r = component(w, n, segment_comp(from, to, 0));
    add_segment(w, out + from, to - from, &w->scopes[1], r);
    clear_scope(&w->scopes[1]);
  }
}

void ke_writer_constant(ke_writer *w, double value, int32_t out)
{
  scope empty = {0};

  add_segment(w, out, 1, &empty, const_place(value));
}

ke_place ke_writer_scalar(ke_writer *w, const ke_node *n)
{
  return component(w, n, origin);
}

int ke_writer_nseg(const ke_writer *w)
{
  return w->nseg;
}

void ke_writer_finish(ke_writer *w, int32_t width, ke_program *out)
{
  ke_arena *arena = w->in.g->arena;
  scope *head = &w->scopes[0];

  *out = (ke_program){.nhead = head->n, .ntemp = w->ntemp, .nseg = w->nseg, .width = width};
  append_all(w, head, &w->bodies);
  for (int k = 0; k < w->nseg; k++) w->seg[k].first += out->nhead;
  out->ncode = head->n;
  out->code = ke_arena_copy(arena, head->code, (size_t)head->n * sizeof *head->code);
  out->seg = ke_arena_copy(arena, w->seg, (size_t)w->nseg * sizeof *w->seg);
  if (!out->code || !out->seg || w->failed) w->in.g->failed = true;
  for (int k = 0; k <= KE_MAX_LOOPS; k++) clear_scope(&w->scopes[k]);
  clear_scope(&w->bodies);
  free(w->seg);
  free(w->cut);
  free(w->folded);
  free(w);
}
