/* Graph -> plan: cut at the reductions into passes, sort each pass's values by what they depend on.
 *
 * A pass holds the reductions that pair the same two sides and stand at the same level (none waits for
 * another). Of the values its pairs need, those of the kept row and of the item are computed once a row
 * (kept, red), those of nothing once a call (once); program.c writes the instructions. */
#include "build_plan.h"

#include "factors.h"
#include "reduction.h"

#include <string.h>

typedef struct {
  ke_graph *g;
  ke_arena *arena;
  const ke_node *root[KE_MAX_RESULTS];
  int nnodes;          /* after lowering, no node is added */
  ke_plan *plan;
  int *level;          /* by node id: passes that must have run; -1: not asked */
  const ke_node **cut; /* REDUCE and SCATTER nodes below the roots, in order of making */
  int ncut;
  int32_t *slot_of;    /* by node id, -1: not a leaf */
  int size_slot[3];    /* of KE_I, KE_J; -1: not made yet */
  ke_sum_scheme scheme;
  int *stamp, now;     /* by node id: visited in the search numbered `now` */
} builder;

static void *take(builder *b, size_t count, size_t each)
{
  void *p = b->g->failed ? NULL : ke_arena_alloc(b->arena, (count + 1) * each);

  if (!p) b->g->failed = true;
  return p;
}

/* ---- lowering: what every backend does alike ---- */

/* Exp(c s), c not of both sides -> 2^(s (c log2 e)): the constant is folded once. */
static const ke_node *lower_exp(ke_graph *g, const ke_node *f)
{
  const double log2e = 1.4426950408889634074;
  const ke_node *outside, *inside, *c;

  if (f->idx != (KE_I | KE_J)) return ke_unary(g, KE_OP_Exp, f);
  ke_split(g, KE_J, f, &outside, &inside);
  if (!outside || !inside || inside->idx != f->idx) return ke_unary(g, KE_OP_Exp, f);
  c = ke_binary(g, KE_OP_Mult, ke_const(g, log2e), outside);
  return ke_widen(g, ke_binary(g, KE_OP_Exp2Mul, inside, c), f->dim);
}

/* `waiting` operands of products above are still to come: a place is kept for each. */
static void find_factors(ke_graph *g, const ke_node *n, ke_factors *l, int waiting)
{
  bool room = l->n + waiting + 2 <= KE_MAX_FACTORS;

  if (room && n->op == KE_OP_Mult) {
    find_factors(g, n->child[0], l, waiting + 1);
    find_factors(g, n->child[1], l, waiting);
  } else if (room && n->op == KE_OP_Minus) {
    l->f[l->n++] = ke_const(g, -1);
    find_factors(g, n->child[0], l, waiting);
  } else {
    l->f[l->n++] = n;
  }
}

/* A product of both sides: what belongs to nothing, to one side, to the pair is multiplied there first,
 * signs and constants with the narrowest of them; scalars before vectors. */
static const ke_node *lower_product(ke_graph *g, const ke_node *n)
{
  ke_factors l = {.n = 0};
  const ke_node *scalar[4], *vector[4], *constant, *p = NULL;
  int home;

  find_factors(g, n, &l, 0);
  for (int idx = 0; idx <= (KE_I | KE_J); idx++) {
    scalar[idx] = ke_product_of(g, ke_plain_mult, &l, idx, false);
    vector[idx] = ke_product_of(g, ke_plain_mult, &l, idx, true);
  }
  constant = scalar[0];
  if (constant && !ke_is_const(constant, 1)) {
    home = scalar[KE_I] ? KE_I : scalar[KE_J] ? KE_J : 0;
    scalar[home] = home ? ke_times_or(g, ke_plain_mult, constant, scalar[home]) : constant;
  } else {
    home = 1;
  }
  for (int idx = home == 0 ? 0 : KE_I; idx <= (KE_I | KE_J); idx++) p = ke_times_or(g, ke_plain_mult, p, scalar[idx]);
  for (int idx = 0; idx <= (KE_I | KE_J); idx++) p = ke_times_or(g, ke_plain_mult, p, vector[idx]);
  return ke_widen(g, p, n->dim);
}

static const ke_node *lower(ke_graph *g, const ke_node *n, const ke_node **memo)
{
  const ke_node *child[KE_MAX_CHILD] = {NULL};
  bool same = true;

  if (memo[n->id]) return memo[n->id];
  for (int k = 0; k < n->nchild; k++) {
    child[k] = lower(g, n->child[k], memo);
    same &= child[k] == n->child[k];
  }
  if (n->op == KE_OP_Exp)
    memo[n->id] = lower_exp(g, child[0]);
  else
    memo[n->id] = same ? n : ke_rebuild(g, n, child);
  if (n->idx == (KE_I | KE_J) && (n->op == KE_OP_Mult || n->op == KE_OP_Minus))
    memo[n->id] = lower_product(g, memo[n->id]);
  return memo[n->id];
}

/* ---- reductions, their levels and slots ---- */
static bool is_cut(const ke_node *n)
{
  return n->op == KE_N_REDUCE || n->op == KE_N_SCATTER;
}

static bool is_leaf(const ke_node *n)
{
  return is_cut(n) || n->op == KE_N_VAR || n->op == KE_N_SIZE;
}

static int find_level(builder *b, const ke_node *n)
{
  int l = 0, c;

  if (b->level[n->id] >= 0) return b->level[n->id];
  for (int k = 0; k < n->nchild; k++) {
    c = find_level(b, n->child[k]);
    if (c > l) l = c;
  }
  if (is_cut(n)) {
    b->cut[b->ncut++] = n;
    l++;
  }
  b->level[n->id] = l;
  return l;
}

static int32_t add_slot(builder *b, int side, int32_t width, int32_t arg)
{
  b->plan->slot[b->plan->nslot] = (ke_slot){.side = side, .width = width, .arg = arg};
  return b->plan->nslot++;
}

static void slot_of_node(builder *b, const ke_node *n)
{
  int side;

  if (n->op == KE_N_VAR) b->slot_of[n->id] = n->ints[0];
  if (n->op == KE_N_SIZE) {
    side = n->ints[0];
    if (b->size_slot[side] < 0)
      b->size_slot[side] =
          add_slot(b, KE_NONE, 1, side == KE_I ? KE_SLOT_SIZE_I : KE_SLOT_SIZE_J);
    b->slot_of[n->id] = b->size_slot[side];
  }
}

/* ---- tables of ready values ---- */
static bool init_table(builder *b, ke_table *t)
{
  *t = (ke_table){.size = b->nnodes};
  t->node = take(b, (size_t)b->nnodes, sizeof *t->node);
  t->at = take(b, (size_t)b->nnodes, sizeof *t->at);
  if (!t->node || !t->at) return false;
  memset(t->at, -1, (size_t)b->nnodes * sizeof *t->at);
  return true;
}

static void add_ready(ke_table *t, const ke_node *n)
{
  if (t->at[n->id] >= 0) return;
  t->at[n->id] = t->width;
  t->width += n->dim;
  t->node[t->n++] = n;
}

/* Components of the leaves below n, each counted once. */
static int64_t leaf_width(builder *b, const ke_node *n)
{
  int64_t sum = 0;

  if (b->stamp[n->id] == b->now) return 0;
  b->stamp[n->id] = b->now;
  if (is_leaf(n) || n->op == KE_N_GATHER) return n->dim;
  for (int k = 0; k < n->nchild; k++) sum += leaf_width(b, n->child[k]);
  return sum;
}

/* Worth a place of its own beside the data: no wider than what it is made of, and not merely moved. */
static bool worth_storing(builder *b, const ke_node *n)
{
  if (n->dim == 1 || is_leaf(n) || n->op == KE_N_GATHER) return true;
  if (n->op == KE_OP_SumT || n->op == KE_OP_Concat || n->op == KE_OP_ElemT || n->op == KE_OP_ExtractT)
    return false;
  b->now++;
  return n->dim <= leaf_width(b, n);
}

typedef struct {
  builder *b;
  ke_table once, kept, red;
  int kept_side, red_side;
  char *seen;
  const ke_node **pair; /* nodes of the pair program */
  int npair;
} sorter;

/* Values that need nothing, below a row's value: they come from `once`. */
static void sort_row(sorter *s, const ke_node *n)
{
  if (n->op == KE_N_CONST) return;
  if (n->idx == 0) {
    add_ready(&s->once, n);
    return;
  }
  if (s->seen[n->id] || is_leaf(n)) return;
  s->seen[n->id] = 1;
  for (int k = n->op == KE_N_GATHER; k < n->nchild; k++) /* what is gathered is a leaf */
    sort_row(s, n->child[k]);
}

static void sort_pair(sorter *s, const ke_node *n)
{
  ke_table *t;

  if (n->op == KE_N_CONST || s->seen[n->id]) return;
  if (n->idx == 0) {
    add_ready(&s->once, n);
    return;
  }
  t = n->idx == s->red_side ? &s->red : n->idx == s->kept_side ? &s->kept : NULL;
  if (t && worth_storing(s->b, n)) {
    add_ready(t, n);
    return;
  }
  s->seen[n->id] = 1;
  s->pair[s->npair++] = n;
  for (int k = 0; k < n->nchild; k++) sort_pair(s, n->child[k]);
}

/* ---- programs ---- */
static ke_writer *new_writer(builder *b, const ke_table *once, const ke_table *kept, const ke_table *red)
{
  ke_writer_input in = {.g = b->g,
                        .nnodes = b->nnodes,
                        .once = once,
                        .kept = kept,
                        .red = red,
                        .slot_of = b->slot_of};
  ke_writer *w = ke_writer_new(&in);

  if (!w) b->g->failed = true;
  return w;
}

/* Row program that gives all nodes of a table at their offsets. */
static void write_table(builder *b, const ke_table *t, const ke_table *once, ke_program *out)
{
  ke_writer *w = new_writer(b, once, NULL, NULL);

  if (!w) return;
  for (int k = 0; k < t->n; k++) ke_writer_segments(w, t->node[k], t->at[t->node[k]->id]);
  ke_writer_finish(w, t->width, out);
}

/* ---- one pass ---- */
/* Nodes that show different parts of one state. */
static bool same_state(const ke_node *a, const ke_node *b)
{
  return a->ints[0] == b->ints[0] && a->ints[3] == b->ints[3] && a->child[0] == b->child[0] &&
         a->nchild == b->nchild && (a->nchild < 2 || a->child[1] == b->child[1]);
}

static void write_reduce(builder *b, ke_writer *w, ke_pass *p, const ke_node *n)
{
  ke_reduce *r = &p->reduce[p->nreduce++];

  *r = (ke_reduce){.kind = ke_reduction_of(n).kind,
                   .width = n->nchild > 1 ? n->child[1]->dim : n->child[0]->dim,
                   .k = ke_reduction_of(n).k,
                   .seg = ke_writer_nseg(w)};
  if (r->kind == KE_RED_SUM && b->scheme == KE_SUM_KAHAN) r->kind = KE_RED_KAHAN;
  r->state = p->state_width;
  r->state_width = ke_reducer_of(r->kind)->states(r);
  p->state_width += r->state_width;
  r->slot = add_slot(b, p->kept, ke_reducer_of(r->kind)->results(r), KE_SLOT_PASS);
  if (r->kind != KE_RED_SUMEXP) {
    ke_writer_segments(w, n->child[0], 0);
  } else {
    r->score = ke_writer_scalar(w, n->child[0]);
    if (n->nchild > 1)
      ke_writer_segments(w, n->child[1], 0);
    else
      ke_writer_constant(w, 1, 0);
  }
  r->nseg = ke_writer_nseg(w) - r->seg;
}

/* Kept and reduced values that meet in differences only, one with one. */
static void find_centers(sorter *s, ke_pass *p, const ke_node *const *members, int nmembers)
{
  builder *b = s->b;
  int *partner = take(b, (size_t)b->nnodes, sizeof *partner); /* id + 1; -1: spoilt */
  const ke_node *n, *x, *y;
  bool difference;

  if (!partner) return;
  for (int k = 0; k < nmembers; k++) /* what is reduced as it stands is not in a difference */
    for (int m = 0; m < members[k]->nchild; m++) partner[members[k]->child[m]->id] = -1;
  for (int k = 0; k < s->npair; k++) {
    n = s->pair[k];
    x = n->child[0];
    y = n->nchild > 1 ? n->child[1] : NULL;
    difference = n->op == KE_OP_Subtract && x->dim == y->dim &&
                 ((s->kept.at[x->id] >= 0 && s->red.at[y->id] >= 0) ||
                  (s->red.at[x->id] >= 0 && s->kept.at[y->id] >= 0));
    for (int m = 0; m < n->nchild; m++) {
      int *mine = &partner[n->child[m]->id], other = difference ? n->child[1 - m]->id + 1 : -1;
      *mine = *mine && *mine != other ? -1 : other;
    }
  }
  p->center = take(b, (size_t)s->kept.n, sizeof *p->center);
  for (int k = 0; k < s->kept.n && p->center; k++) {
    x = s->kept.node[k];
    if (partner[x->id] <= 0) continue;
    y = b->g->node[partner[x->id] - 1];
    if (partner[y->id] == x->id + 1)
      p->center[p->ncenter++] =
          (ke_center){.kept = s->kept.at[x->id], .red = s->red.at[y->id], .width = x->dim};
  }
}

/* ---- cost, and what the interpreter does in one stroke ---- */
static double code_cost(const ke_instr *code, int n)
{
  double sum = 0;

  for (int k = 0; k < n; k++) {
    if (code[k].op == KE_I_FOLD) {
      sum += code[k].n * (1 + code_cost(code + k + 1, code[k].len));
      k += code[k].len;
    } else if (code[k].op < KE_OP_COUNT) {
      sum += ke_ops[code[k].op].cost;
    }
  }
  return sum;
}

/* A difference squared, a product, |difference| of kept and reduced components. */
static bool is_known_fold(const ke_instr *fold)
{
  const ke_instr *body = fold + 1;

  if (fold->len == 1) return body[0].op == KE_OP_Mult || body[0].op == KE_OP_Square;
  if (fold->len == 2)
    return body[0].op == KE_OP_Subtract && (body[1].op == KE_OP_Square || body[1].op == KE_OP_Abs);
  return fold->len == 0;
}

static bool is_known_body(const ke_instr *body, int n)
{
  if (n == 0) return true;
  if (n == 1) return body[0].op == KE_OP_Mult;
  return n == 2 && body[0].op == KE_OP_Subtract && body[1].op == KE_OP_Mult;
}

static bool is_fused(const ke_program *p)
{
  int scalars = 0;

  for (int k = 0; k < p->nhead; k++) {
    if (p->code[k].op == KE_I_FOLD) {
      if (!is_known_fold(&p->code[k])) return false;
      k += p->code[k].len;
    } else {
      scalars++;
    }
  }
  for (int k = 0; k < p->nseg; k++)
    if (!is_known_body(p->code + p->seg[k].first, p->seg[k].len)) return false;
  return scalars <= 4;
}

static double reduce_cost(const ke_pass *p)
{
  double sum = 0;
  const ke_segment *s;

  for (int k = 0; k < p->nreduce; k++) {
    sum += p->reduce[k].kind == KE_RED_SUM ? 0 : p->reduce[k].kind == KE_RED_SUMEXP ? 6 : 2;
    for (int m = 0; m < p->reduce[k].nseg; m++) {
      s = &p->pair.seg[p->reduce[k].seg + m];
      sum += s->n * (1 + code_cost(p->pair.code + s->first, s->len));
    }
  }
  return sum;
}

static bool init_sorter(builder *b, sorter *s, int kept, int red)
{
  *s = (sorter){.b = b, .kept_side = kept, .red_side = red};
  s->seen = take(b, (size_t)b->nnodes, 1);
  s->pair = take(b, (size_t)b->nnodes, sizeof *s->pair);
  return init_table(b, &s->once) && init_table(b, &s->kept) && init_table(b, &s->red) && s->seen &&
         s->pair;
}

/* once, keptp and redp from the tables. */
static void write_rows(sorter *s, ke_pass *p)
{
  builder *b = s->b;

  memset(s->seen, 0, (size_t)b->nnodes);
  for (int k = 0; k < s->kept.n; k++) sort_row(s, s->kept.node[k]);
  for (int k = 0; k < s->red.n; k++) sort_row(s, s->red.node[k]);
  write_table(b, &s->once, NULL, &p->once);
  write_table(b, &s->kept, &s->once, &p->keptp);
  write_table(b, &s->red, &s->once, &p->redp);
  p->once_width = s->once.width;
  p->kept_width = s->kept.width;
  p->red_width = s->red.width;
}

static void build_pairs(builder *b, ke_pass *p, const ke_node *const *members, int n)
{
  sorter s;
  ke_writer *w;

  p->reduce = take(b, (size_t)n, sizeof *p->reduce);
  if (!p->reduce || !init_sorter(b, &s, p->kept, p->red)) return;
  for (int k = 0; k < n; k++)
    for (int m = 0; m < members[k]->nchild; m++) sort_pair(&s, members[k]->child[m]);
  w = new_writer(b, &s.once, &s.kept, &s.red);
  if (!w) return;
  for (int k = 0; k < n; k++) {
    int first = 0;
    while (!same_state(members[first], members[k])) first++;
    if (first == k) write_reduce(b, w, p, members[k]);
    b->slot_of[members[k]->id] =
        first == k ? b->plan->nslot - 1 : b->slot_of[members[first]->id];
  }
  ke_writer_finish(w, 0, &p->pair);
  if (b->g->failed) return;
  find_centers(&s, p, members, n);
  write_rows(&s, p);
  p->cost = code_cost(p->pair.code, p->pair.nhead) + reduce_cost(p);
  p->fused = is_fused(&p->pair);
}

static void build_scatter(builder *b, ke_pass *p, const ke_node *n)
{
  sorter s;
  ke_writer *w;

  p->kind = KE_PASS_SCATTER;
  p->scatter_width = n->dim;
  p->scatter_slot = b->slot_of[n->id] = add_slot(b, p->kept, n->dim, KE_SLOT_PASS);
  if (!init_sorter(b, &s, KE_NONE, p->red)) return;
  for (int k = 0; k < 2; k++) sort_row(&s, n->child[k]);
  write_table(b, &s.once, NULL, &p->once);
  p->once_width = s.once.width;
  p->red_width = n->dim + 1;
  w = new_writer(b, &s.once, NULL, NULL);
  if (!w) return;
  ke_writer_segments(w, n->child[0], 0);
  ke_writer_segments(w, n->child[1], n->dim);
  ke_writer_finish(w, n->dim + 1, &p->redp);
}

static int kept_side(const ke_node *n)
{
  return n->op == KE_N_SCATTER ? n->ints[1] : n->idx;
}

static int red_side(const ke_node *n)
{
  return n->op == KE_N_SCATTER ? n->ints[0] : n->ints[1];
}

static bool one_pass(const builder *b, const ke_node *a, const ke_node *c)
{
  return a->op == KE_N_REDUCE && c->op == KE_N_REDUCE && b->level[a->id] == b->level[c->id] &&
         kept_side(a) == kept_side(c) && red_side(a) == red_side(c) &&
         ke_reduction_of(a).ranged == ke_reduction_of(c).ranged;
}

/* Rounding asks for blocks only where values are added up. */
static bool any_sum(const ke_pass *p)
{
  for (int32_t q = 0; q < p->nreduce; q++)
    if (p->reduce[q].kind == KE_RED_SUM || p->reduce[q].kind == KE_RED_KAHAN ||
        p->reduce[q].kind == KE_RED_SUMEXP)
      return true;
  return false;
}

static void build_passes(builder *b, int top)
{
  const ke_node **members = take(b, (size_t)b->ncut, sizeof *members), *n;
  char *done = take(b, (size_t)b->ncut, 1);
  ke_pass *p;
  int count;

  for (int l = 1; l <= top && members && done; l++)
    for (int k = 0; k < b->ncut && !b->g->failed; k++) {
      n = b->cut[k];
      if (b->level[n->id] != l || done[k]) continue;
      p = &b->plan->pass[b->plan->npass++];
      *p = (ke_pass){.kind = KE_PASS_PAIRS,
                     .kept = kept_side(n),
                     .red = red_side(n),
                     .block = b->scheme == KE_SUM_DIRECT ? KE_DIRECT_ITEMS : KE_BLOCK_ITEMS};
      if (n->op == KE_N_SCATTER) {
        build_scatter(b, p, n);
        continue;
      }
      p->ranged = ke_reduction_of(n).ranged;
      count = 0;
      for (int m = k; m < b->ncut; m++)
        if (!done[m] && one_pass(b, n, b->cut[m])) {
          members[count++] = b->cut[m];
          done[m] = 1;
        }
      build_pairs(b, p, members, count);
      if (!any_sum(p)) p->block = KE_DIRECT_ITEMS;
    }
}

static void build_final(builder *b, const ke_node *root, int side, ke_final *f)
{
  sorter s;
  ke_writer *w;

  *f = (ke_final){.side = side, .width = root->dim};
  if (!init_sorter(b, &s, side, KE_NONE)) return;
  sort_row(&s, root);
  write_table(b, &s.once, NULL, &f->once);
  f->once_width = s.once.width;
  w = new_writer(b, &s.once, NULL, NULL);
  if (!w) return;
  ke_writer_segments(w, root, 0);
  ke_writer_finish(w, root->dim, &f->rows);
}

ke_status ke_plan_formula(ke_graph *g, const ke_parsed *formula, ke_sum_scheme scheme, ke_plan **out,
                          ke_error *err)
{
  builder b = {.g = g, .arena = g->arena, .scheme = scheme, .size_slot = {-1, -1, -1}};
  const ke_node **memo = take(&b, (size_t)g->n, sizeof *memo);
  int top = 0, level;

  if (!memo) return ke_fail_memory(err);
  for (int k = 0; k < formula->nresult; k++) b.root[k] = lower(g, formula->result[k].node, memo);
  KE_TRY(ke_graph_check(g, err));
  b.nnodes = g->n;
  b.plan = take(&b, 1, sizeof *b.plan);
  b.level = take(&b, (size_t)g->n, sizeof *b.level);
  b.cut = take(&b, (size_t)g->n, sizeof *b.cut);
  b.slot_of = take(&b, (size_t)g->n, sizeof *b.slot_of);
  b.stamp = take(&b, (size_t)g->n, sizeof *b.stamp);
  if (g->failed) return ke_fail_memory(err);
  memset(b.level, -1, (size_t)g->n * sizeof *b.level);
  memset(b.slot_of, -1, (size_t)g->n * sizeof *b.slot_of);
  for (int k = 0; k < formula->nresult; k++) {
    level = find_level(&b, b.root[k]);
    if (level > top) top = level;
  }
  b.plan->slot = take(&b, (size_t)(formula->nargs + b.ncut + 2), sizeof *b.plan->slot);
  b.plan->pass = take(&b, (size_t)b.ncut, sizeof *b.plan->pass);
  b.plan->final = take(&b, (size_t)formula->nresult, sizeof *b.plan->final);
  if (g->failed) return ke_fail_memory(err);
  b.plan->nargs = formula->nargs;
  for (int k = 0; k < formula->nargs; k++)
    add_slot(&b, ke_category_side(formula->arg[k].category), formula->arg[k].dim, k);
  for (int k = 0; k < b.nnodes; k++)
    if (b.level[k] >= 0) slot_of_node(&b, g->node[k]);
  build_passes(&b, top);
  b.plan->nfinal = formula->nresult;
  for (int k = 0; k < formula->nresult && !g->failed; k++)
    build_final(&b, b.root[k], formula->result[k].side, &b.plan->final[k]);
  KE_TRY(ke_graph_check(g, err));
  *out = b.plan;
  return KE_OK;
}
