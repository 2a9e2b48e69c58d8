/* Words for matrices, tensors (row-major), components, splines and series.
 *
 * All is built from nodes that exist, so derivatives of any order come with it. */
#include "words.h"

#include <string.h>

/* ---- matrices ---- */
ke_status word_MatVecMult(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(ke_words_call(p, "MatVecMult", 2, v));
  if (v[0].node->dim % v[1].node->dim)
    return ke_words_dims(p, pos, "MatVecMult", "a matrix (n x p values) and a vector of p",
                     v[0].node->dim, v[1].node->dim);
  *out = ke_value_join(ke_matvec(p->g, v[0].node, v[1].node), v, 2);
  return KE_OK;
}

ke_status word_VecMatMult(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(ke_words_call(p, "VecMatMult", 2, v));
  if (v[1].node->dim % v[0].node->dim)
    return ke_words_dims(p, pos, "VecMatMult", "a vector of n and a matrix (n x p values)",
                     v[0].node->dim, v[1].node->dim);
  *out = ke_value_join(ke_vecmat(p->g, v[0].node, v[1].node), v, 2);
  return KE_OK;
}

static ke_status outer(ke_parser *p, int pos, const char *name, ke_value *v)
{
  KE_TRY(ke_words_call(p, name, 2, v));
  if ((int64_t)v[0].node->dim * v[1].node->dim > KE_MAX_DIM)
    return ke_words_dims(p, pos, name, "a product of dimensions up to 2^24", v[0].node->dim, v[1].node->dim);
  return KE_OK;
}

ke_status word_TensorProd(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];

  KE_TRY(outer(p, pos, "TensorProd", v));
  *out = ke_value_join(ke_tensorprod(p->g, v[0].node, v[1].node), v, 2);
  return KE_OK;
}

/* f_k - g_l */
ke_status word_DifferenceMatrix(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  ke_graph *g = p->g;
  const ke_node *one;

  KE_TRY(outer(p, pos, "DifferenceMatrix", v));
  one = ke_const(g, 1);
  *out = ke_value_join(ke_sub(g, ke_tensorprod(g, v[0].node, ke_widen(g, one, v[1].node->dim)),
                           ke_tensorprod(g, ke_widen(g, one, v[0].node->dim), v[1].node)),
                       v, 2);
  return KE_OK;
}

ke_status word_SymSqNorm(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  int64_t d;

  KE_TRY(ke_words_call(p, "SymSqNorm", 2, v));
  d = v[1].node->dim;
  if (v[0].node->dim != d * d)
    return ke_words_dims(p, pos, "SymSqNorm", "a matrix of d * d values and a vector of d",
                     v[0].node->dim, v[1].node->dim);
  *out = ke_value_join(ke_scalprod(p->g, v[1].node, ke_matvec(p->g, v[0].node, v[1].node)), v, 2);
  return KE_OK;
}

/* ---- tensors ---- */
enum { MAX_AXES = 8 };

typedef struct {
  int v[MAX_AXES], n;
} list;

/* [2,3], Ind(2,3), [] */
static ke_status read_list(ke_parser *p, const char *name, list *l)
{
  char buffer[64];
  bool square = ke_parse_at(p, '[');
  char close = square ? ']' : ')';

  l->n = 0;
  if (!square) {
    if (p->tok.kind != KE_TOK_NAME || p->tok.length != 3 || memcmp(p->text + p->tok.pos, "Ind", 3))
      return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "expected a list like [2,3] or Ind(2,3) in %s, found %s",
                           name, ke_parse_seen(p, buffer, sizeof buffer));
    ke_parse_advance(p);
    KE_TRY(ke_parse_expect(p, '(', "behind Ind"));
  } else {
    ke_parse_advance(p);
  }
  while (!ke_parse_at(p, close)) {
    if (l->n == MAX_AXES)
      return ke_parse_fail(p, KE_ERR_PARSE, p->tok.pos, "a list in %s has more than %d numbers", name, MAX_AXES);
    if (l->n) KE_TRY(ke_parse_expect(p, ',', "in a list"));
    KE_TRY(ke_parse_integer(p, "an entry of a list", &l->v[l->n++]));
  }
  ke_parse_advance(p);
  return KE_OK;
}

static ke_status read_lists(ke_parser *p, const char *name, int n, list *l)
{
  for (int k = 0; k < n; k++) {
    KE_TRY(ke_parse_comma(p, name));
    KE_TRY(read_list(p, name, &l[k]));
  }
  return KE_OK;
}

static ke_status check_shape(ke_parser *p, int pos, const char *name, const list *l, int dim)
{
  int64_t product = 1;

  for (int k = 0; k < l->n; k++) {
    KE_TRY(ke_parse_range(p, pos, strcmp(name, "Kron") ? "an extent in TensorDot" : "an extent in Kron", l->v[k], 1, KE_MAX_DIM));
    product *= l->v[k];
    if (product > KE_MAX_DIM) break;
  }
  if (product == dim) return KE_OK;
  return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "%s: the extents multiply to %lld, the operand has dimension %d",
                       name, (long long)product, dim);
}

/* Row-major stride of axis k. */
static int stride(const list *shape, int k)
{
  int s = 1;

  for (k++; k < shape->n; k++) s *= shape->v[k];
  return s;
}

static int find(const list *l, int value)
{
  for (int k = 0; k < l->n; k++)
    if (l->v[k] == value) return k;
  return -1;
}

typedef struct {
  int extent, f, g;
} kept_axis;

/* Strides of the result from its axes in their order. */
static const ke_node *tensor_product(ke_graph *g, const ke_value *v, const kept_axis *kept, int nkept,
                                     const kept_axis *summed, int nsummed)
{
  int axes[4 * 3 * MAX_AXES], n = 0, so = 1;

  for (int k = nkept - 1; k >= 0; k--, n += 4) {
    axes[n] = kept[k].extent;
    axes[n + 1] = kept[k].f;
    axes[n + 2] = kept[k].g;
    axes[n + 3] = so;
    so *= kept[k].extent;
  }
  for (int k = 0; k < nsummed; k++, n += 4) {
    axes[n] = summed[k].extent;
    axes[n + 1] = summed[k].f;
    axes[n + 2] = summed[k].g;
    axes[n + 3] = 0;
  }
  return ke_contract(g, v[0].node, v[1].node, axes, n / 4);
}

static ke_status check_axes(ke_parser *p, int pos, const list *axes, const list *shape)
{
  for (int k = 0; k < axes->n; k++) {
    KE_TRY(ke_parse_range(p, pos, "a contracted axis in TensorDot", axes->v[k], 0, shape->n - 1));
    if (find(axes, axes->v[k]) != k)
      return ke_parse_fail(p, KE_ERR_PARSE, pos, "TensorDot contracts axis %d twice", axes->v[k]);
  }
  return KE_OK;
}

/* Result's axes: kept ones of f, then of g; kept axis k goes to position perm[k]. */
static ke_status tensor_dot(ke_parser *p, int pos, const ke_value *v, const list *l, const list *perm, ke_value *out)
{
  const list *df = &l[0], *dg = &l[1], *cf = &l[2], *cg = &l[3];
  kept_axis kept[2 * MAX_AXES], placed[2 * MAX_AXES], summed[MAX_AXES];
  int n = 0;
  int64_t dim = 1;

  KE_TRY(check_shape(p, pos, "TensorDot", df, v[0].node->dim));
  KE_TRY(check_shape(p, pos, "TensorDot", dg, v[1].node->dim));
  KE_TRY(check_axes(p, pos, cf, df));
  KE_TRY(check_axes(p, pos, cg, dg));
  if (cf->n != cg->n)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "TensorDot contracts %d axes with %d", cf->n, cg->n);
  for (int k = 0; k < cf->n; k++) {
    if (df->v[cf->v[k]] != dg->v[cg->v[k]])
      return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "TensorDot contracts an axis of extent %d with one of %d",
                           df->v[cf->v[k]], dg->v[cg->v[k]]);
    summed[k] = (kept_axis){df->v[cf->v[k]], stride(df, cf->v[k]), stride(dg, cg->v[k])};
  }
  for (int k = 0; k < df->n; k++)
    if (find(cf, k) < 0) kept[n++] = (kept_axis){df->v[k], stride(df, k), 0};
  for (int k = 0; k < dg->n; k++)
    if (find(cg, k) < 0) kept[n++] = (kept_axis){dg->v[k], 0, stride(dg, k)};
  if (perm && perm->n != n)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "TensorDot: the permutation has %d numbers, the result %d axes",
                         perm->n, n);
  for (int k = 0; k < n; k++) {
    int to = perm ? perm->v[k] : k;
    if (perm) KE_TRY(ke_parse_range(p, pos, "a place in the permutation", to, 0, n - 1));
    if (perm && find(perm, to) != k)
      return ke_parse_fail(p, KE_ERR_PARSE, pos, "TensorDot: the permutation names place %d twice", to);
    placed[to] = kept[k];
    dim *= kept[k].extent;
    if (dim > KE_MAX_DIM)
      return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "TensorDot makes more than 2^24 components");
  }
  *out = ke_value_join(tensor_product(p->g, v, placed, n, summed, cf->n), v, 2);
  return KE_OK;
}

ke_status word_TensorDot(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  list l[5];
  bool perm;

  KE_TRY(ke_parse_operands(p, "TensorDot", 2, v));
  KE_TRY(read_lists(p, "TensorDot", 4, l));
  perm = ke_parse_at(p, ',');
  if (perm) KE_TRY(read_lists(p, "TensorDot", 1, &l[4]));
  KE_TRY(ke_parse_close(p, "TensorDot"));
  return tensor_dot(p, pos, v, l, perm ? &l[4] : NULL, out);
}

ke_status word_Kron(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  list l[2];
  kept_axis kept[2 * MAX_AXES];

  KE_TRY(ke_parse_operands(p, "Kron", 2, v));
  KE_TRY(read_lists(p, "Kron", 2, l));
  KE_TRY(ke_parse_close(p, "Kron"));
  KE_TRY(check_shape(p, pos, "Kron", &l[0], v[0].node->dim));
  KE_TRY(check_shape(p, pos, "Kron", &l[1], v[1].node->dim));
  if (l[0].n != l[1].n)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "Kron needs tensors of equally many axes, not %d and %d", l[0].n,
                         l[1].n);
  if ((int64_t)v[0].node->dim * v[1].node->dim > KE_MAX_DIM)
    return ke_words_dims(p, pos, "Kron", "a product of dimensions up to 2^24", v[0].node->dim, v[1].node->dim);
  for (int k = 0; k < l[0].n; k++) {
    kept[2 * k] = (kept_axis){l[0].v[k], stride(&l[0], k), 0};
    kept[2 * k + 1] = (kept_axis){l[1].v[k], 0, stride(&l[1], k)};
  }
  *out = ke_value_join(tensor_product(p->g, v, kept, 2 * l[0].n, NULL, 0), v, 2);
  return KE_OK;
}

/* ---- components ---- */
#define EXTREME(name, function, largest)                                                           \
  ke_status word_##name(ke_parser *p, int pos, ke_value *out)                                      \
  {                                                                                                \
    ke_value v;                                                                                    \
    (void)pos;                                                                                     \
    KE_TRY(ke_words_call(p, #name, 1, &v));                                                        \
    *out = ke_value_join(function(p->g, v.node, largest), &v, 1);                                  \
    return KE_OK;                                                                                  \
  }
EXTREME(Max, ke_extreme, true)
EXTREME(Min, ke_extreme, false)
EXTREME(ArgMax, ke_arg_extreme, true)
EXTREME(ArgMin, ke_arg_extreme, false)

/* 1 at the index trunc(f + 1/2), all zeros where that is outside */
ke_status word_OneHot(ke_parser *p, int pos, ke_value *out)
{
  ke_value v;
  ke_graph *g = p->g;
  int d;

  KE_TRY(ke_parse_operands(p, "OneHot", 1, &v));
  KE_TRY(ke_parse_comma(p, "OneHot"));
  KE_TRY(ke_parse_integer(p, "the number of classes in OneHot", &d));
  KE_TRY(ke_parse_close(p, "OneHot"));
  KE_TRY(ke_parse_range(p, pos, "the number of classes in OneHot", d, 1, KE_MAX_DIM));
  if (v.node->dim != 1)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "OneHot needs an operand of dimension 1, not %d", v.node->dim);
  *out = ke_value_join(
      ke_widen(g, ke_binary(g, KE_OP_Equal, ke_iota(g, d), ke_unary(g, KE_OP_Trunc, ke_add(g, v.node, ke_const(g, 0.5)))), d),
      &v, 1);
  return KE_OK;
}

/* ---- splines and series ---- */
static const ke_node *elem(ke_graph *g, const ke_node *f, int k)
{
  return ke_with_int(g, KE_OP_Elem, f, k, 0);
}

/* a / b, 0 where b is 0 */
static const ke_node *safe_ratio(ke_graph *g, const ke_node *a, const ke_node *b)
{
  const ke_node *none = ke_binary(g, KE_OP_Equal, b, ke_const(g, 0));

  return ke_mult(g, ke_sub(g, ke_const(g, 1), none), ke_binary(g, KE_OP_Divide, a, ke_add(g, b, none)));
}

/* Concat of many, halved again and again so that the graph stays flat. */
static const ke_node *concat_all(ke_graph *g, const ke_node *const *f, int n)
{
  if (n == 1) return f[0];
  return ke_binary(g, KE_OP_Concat, concat_all(g, f, n / 2), concat_all(g, f + n / 2, n - n / 2));
}

enum { MAX_SPLINE = 512, MAX_SERIES_CELLS = 4096 };

/* B-splines of degree k on knots t at x, by Cox and de Boor's recursion. */
ke_status word_BSpline(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[2];
  ke_graph *g = p->g;
  const ke_node *b[MAX_SPLINE], *t, *x, *up, *down;
  int degree, n;

  KE_TRY(ke_parse_operands(p, "BSpline", 2, v));
  KE_TRY(ke_parse_comma(p, "BSpline"));
  KE_TRY(ke_parse_integer(p, "the degree in BSpline", &degree));
  KE_TRY(ke_parse_close(p, "BSpline"));
  t = v[0].node;
  x = v[1].node;
  KE_TRY(ke_parse_range(p, pos, "the number of knots in BSpline", t->dim, 2, MAX_SPLINE));
  KE_TRY(ke_parse_range(p, pos, "the degree in BSpline", degree, 0, t->dim - 2));
  if (x->dim != 1)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "BSpline needs a place of dimension 1, not %d", x->dim);
  n = t->dim - 1;
  for (int l = 0; l < n; l++)
    b[l] = ke_mult(g, ke_binary(g, KE_OP_LessOrEqual, elem(g, t, l), x), ke_binary(g, KE_OP_LessThan, x, elem(g, t, l + 1)));
  for (int k = 1; k <= degree; k++) {
    n--;
    for (int l = 0; l < n; l++) {
      up = safe_ratio(g, ke_sub(g, x, elem(g, t, l)), ke_sub(g, elem(g, t, l + k), elem(g, t, l)));
      down = safe_ratio(g, ke_sub(g, elem(g, t, l + k + 1), x), ke_sub(g, elem(g, t, l + k + 1), elem(g, t, l + 1)));
      b[l] = ke_add(g, ke_mult(g, up, b[l]), ke_mult(g, down, b[l + 1]));
    }
  }
  *out = ke_value_join(concat_all(g, b, n), v, 2);
  return KE_OK;
}

/* min - h log(sum exp((min - a) / h)) of three costs */
static const ke_node *soft_min(ke_graph *g, const ke_node *h, const ke_node *a, const ke_node *b, const ke_node *c)
{
  const ke_node *all[3] = {a, b, c}, *three = concat_all(g, all, 3), *least = ke_extreme(g, three, false), *e;

  e = ke_unary(g, KE_OP_Exp, ke_binary(g, KE_OP_Divide, ke_sub(g, least, three), h));
  return ke_sub(g, least, ke_mult(g, h, ke_unary(g, KE_OP_Log, ke_unary(g, KE_OP_Sum, e))));
}

/* Soft dynamic time warping of two scalar series with squared differences as cost. */
ke_status word_SoftDTW_SqDist(ke_parser *p, int pos, ke_value *out)
{
  ke_value v[3];
  ke_graph *g = p->g;
  const ke_node *row[MAX_SERIES_CELLS], *cost, *corner, *above;
  int n, m;

  KE_TRY(ke_words_call(p, "SoftDTW_SqDist", 3, v));
  n = v[0].node->dim;
  m = v[1].node->dim;
  if (v[2].node->dim != 1)
    return ke_parse_fail(p, KE_ERR_DIMENSION, pos, "SoftDTW_SqDist needs a smoothing of dimension 1, not %d",
                         v[2].node->dim);
  if ((int64_t)n * m > MAX_SERIES_CELLS)
    return ke_words_dims(p, pos, "SoftDTW_SqDist", "series whose lengths multiply to 4096 at most", n, m);
  for (int k = 0; k < n; k++) {
    corner = NULL;
    for (int l = 0; l < m; l++) {
      cost = ke_unary(g, KE_OP_Square, ke_sub(g, elem(g, v[0].node, k), elem(g, v[1].node, l)));
      above = k ? row[l] : NULL;
      if (!k && !l)
        row[l] = cost;
      else if (!k)
        row[l] = ke_add(g, cost, row[l - 1]);
      else if (!l)
        row[l] = ke_add(g, cost, above);
      else
        row[l] = ke_add(g, cost, soft_min(g, v[2].node, corner, above, row[l - 1]));
      corner = above;
    }
  }
  *out = ke_value_join(row[m - 1], v, 3);
  return KE_OK;
}
