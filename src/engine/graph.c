/* Nodes: made once each, found by a hash of their structure. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

ke_status ke_graph_init(ke_graph *g, ke_error *err)
{
  *g = (ke_graph){.dummy = {.op = KE_N_CONST, .dim = 1}};
  g->arena = ke_arena_new();
  g->size = 64;
  g->nbucket = 256;
  g->node = malloc((size_t)g->size * sizeof *g->node);
  g->bucket = calloc((size_t)g->nbucket, sizeof *g->bucket);
  if (g->arena && g->node && g->bucket) return KE_OK;
  ke_graph_clear(g);
  return ke_fail_memory(err);
}

void ke_graph_clear(ke_graph *g)
{
  ke_arena_free(g->arena);
  free(g->node);
  free(g->bucket);
  g->arena = NULL;
  g->node = NULL;
  g->bucket = NULL;
}

ke_status ke_graph_check(const ke_graph *g, ke_error *err)
{
  if (g->failed) return ke_fail_memory(err);
  if (g->too_big)
    return ke_fail(err, KE_ERR_PARSE, -1,
                   "the formula with its derivatives is too large: more than %d levels, %d nodes, or "
                   "%d components of a Min or Max with a derivative",
                   KE_MAX_DEPTH, KE_MAX_NODES, KE_MAX_TAKEN);
  return KE_OK;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

static uint64_t structure_hash(const ke_node *n)
{
  uint64_t h = mix(n->op, (uint64_t)n->dim), bits;

  memcpy(&bits, &n->value, sizeof bits);
  h = mix(h, bits);
  for (int k = 0; k < n->nint; k++) h = mix(h, (uint64_t)(int64_t)n->ints[k]);
  for (int k = 0; k < n->nchild; k++) h = mix(h, n->child[k]->hash);
  return mix(h, n->idx);
}

static bool same_parts(const ke_node *a, const ke_node *b)
{
  return a->op == b->op && a->dim == b->dim && a->idx == b->idx && a->nint == b->nint &&
         a->nchild == b->nchild && !memcmp(&a->value, &b->value, sizeof a->value) &&
         (!a->nint || !memcmp(a->ints, b->ints, a->nint * sizeof *a->ints)) &&
         !memcmp(a->child, b->child, a->nchild * sizeof *a->child);
}

/* Slot of an equal node, or of the free place where it belongs. */
static int find_bucket(const ke_graph *g, const ke_node *like)
{
  int mask = g->nbucket - 1;
  int b = (int)(like->hash & (uint64_t)mask);

  while (g->bucket[b] && !same_parts(g->node[g->bucket[b] - 1], like)) b = (b + 1) & mask;
  return b;
}

static bool grow(ke_graph *g)
{
  const ke_node **node = realloc(g->node, 2 * (size_t)g->size * sizeof *node);
  int *bucket;

  if (!node) return false;
  g->node = node;
  g->size *= 2;
  bucket = calloc(4 * (size_t)g->size, sizeof *bucket);
  if (!bucket) return false;
  free(g->bucket);
  g->bucket = bucket;
  g->nbucket = 4 * g->size;
  for (int k = 0; k < g->n; k++) g->bucket[find_bucket(g, g->node[k])] = k + 1;
  return true;
}

const ke_node *ke_intern(ke_graph *g, const ke_node *like)
{
  ke_node n = *like, *made;
  int b;

  if (g->failed || g->too_big) return &g->dummy;
  n.depth = 0;
  for (int k = 0; k < n.nchild; k++)
    if (n.child[k]->depth >= n.depth) n.depth = n.child[k]->depth + 1;
  n.hash = structure_hash(&n);
  b = find_bucket(g, &n);
  if (g->bucket[b]) return g->node[g->bucket[b] - 1];
  if (n.depth > KE_MAX_DEPTH || g->n >= KE_MAX_NODES) {
    g->too_big = true;
    return &g->dummy;
  }
  if (g->n == g->size) {
    if (!grow(g)) {
      g->failed = true;
      return &g->dummy;
    }
    b = find_bucket(g, &n);
  }
  n.id = g->n;
  if (n.nint) n.ints = ke_arena_copy(g->arena, n.ints, n.nint * sizeof *n.ints);
  made = n.nint && !n.ints ? NULL : ke_arena_copy(g->arena, &n, sizeof n);
  if (!made) {
    g->failed = true;
    return &g->dummy;
  }
  g->node[g->n++] = made;
  g->bucket[b] = g->n;
  return made;
}

static int order(double a, double b)
{
  return a < b ? -1 : a > b;
}

int ke_compare(const ke_node *a, const ke_node *b)
{
  int c;

  if (a == b) return 0;
  if ((a->op == KE_N_CONST) != (b->op == KE_N_CONST)) return a->op == KE_N_CONST ? -1 : 1;
  if (a->idx != b->idx) return order(a->idx, b->idx);
  if (a->op != b->op) return order(a->op, b->op);
  if (a->dim != b->dim) return order(a->dim, b->dim);
  if (a->nint != b->nint) return order(a->nint, b->nint);
  for (int k = 0; k < a->nint; k++)
    if (a->ints[k] != b->ints[k]) return order(a->ints[k], b->ints[k]);
  if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
  for (int k = 0; k < a->nchild && k < b->nchild; k++) {
    c = ke_compare(a->child[k], b->child[k]);
    if (c) return c;
  }
  return memcmp(&a->value, &b->value, sizeof a->value);
}
