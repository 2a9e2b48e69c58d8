/* The text of a lazy matrix: one walk over its nodes, which are R lists (R/lazy.R says which).
 *
 * It could be R, and takes a third of the time of a small product there. Leaves get names by their place,
 * x0, y1, p2, ...; one that was met before keeps its name: it is known by its id (an environment), or, for
 * rows of i or j, by equal numbers; data of users are never one with what was made on the way. Memory is R's (R_alloc), so R may jump out of anything here. */
#include "ffi.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* places of a node's list */
enum { WORD = 0 };
enum { LEAF_DATA = 1, LEAF_SIDE = 2, LEAF_ID = 3, LEAF_GIVEN = 4, LEAF_DIM = 5 };
enum { OP_KIDS = 1, OP_INTS = 2, OP_INFIX = 3 };
enum { CONST_TEXT = 1 };

typedef struct {
  char *text;
  size_t length, room;
  SEXP *leaf; /* nodes of leaves, owned by the nodes given */
  int *side;
  int nleaf, leaf_room;
} walk;

static void put(walk *w, const char *text)
{
  size_t n = strlen(text);

  if (w->length + n + 1 > w->room) {
    size_t room = 2 * (w->length + n) + 256;
    char *wider = R_alloc(room, 1);

    if (w->length) memcpy(wider, w->text, w->length);
    w->text = wider;
    w->room = room;
  }
  memcpy(w->text + w->length, text, n + 1);
  w->length += n;
}

static const char *string_of(SEXP x)
{
  if (TYPEOF(x) != STRSXP || XLENGTH(x) != 1) Rf_error("lazy node: one string is needed");
  return CHAR(STRING_ELT(x, 0));
}

static void check_node(SEXP node, R_xlen_t least)
{
  if (TYPEOF(node) != VECSXP || XLENGTH(node) < least) Rf_error("not a node of a lazy matrix");
}

static SEXP place(SEXP node, int k)
{
  return VECTOR_ELT(node, k);
}

static bool is_infix(SEXP node)
{
  SEXP word = place(node, WORD);

  return !Rf_isNull(word) && strcmp(string_of(word), "#") != 0 && Rf_asLogical(place(node, OP_INFIX)) == 1;
}

static bool same_numbers(SEXP a, SEXP b)
{
  if (a == b) return true;
  if (TYPEOF(a) != REALSXP || TYPEOF(b) != REALSXP || XLENGTH(a) != XLENGTH(b)) return false;
  return memcmp(REAL(a), REAL(b), (size_t)XLENGTH(a) * sizeof(double)) == 0;
}

static bool same_leaf(SEXP a, SEXP b, int side)
{
  SEXP data = place(a, LEAF_DATA), other = place(b, LEAF_DATA);

  if (Rf_asInteger(place(a, LEAF_DIM)) != Rf_asInteger(place(b, LEAF_DIM))) return false;
  if (Rf_asLogical(place(a, LEAF_GIVEN)) != Rf_asLogical(place(b, LEAF_GIVEN))) return false;
  if (side == 2 && place(a, LEAF_ID) != place(b, LEAF_ID)) return false;
  return same_numbers(data, other);
}

static void put_name(walk *w, int k)
{
  char name[16];

  snprintf(name, sizeof name, "%c%d", "xyp"[w->side[k]], k);
  put(w, name);
}

static void put_leaf(walk *w, SEXP node, bool swap)
{
  int side = Rf_asInteger(place(node, LEAF_SIDE));

  if (side < 0 || side > 2) Rf_error("lazy leaf: side 0, 1 or 2 is needed");
  if (side < 2 && swap) side = 1 - side;
  for (int k = 0; k < w->nleaf; k++) {
    if (w->side[k] == side && same_leaf(w->leaf[k], node, side)) {
      put_name(w, k);
      return;
    }
  }
  if (w->nleaf == w->leaf_room) {
    int room = 2 * w->leaf_room + 8;
    SEXP *leaf = (SEXP *)R_alloc((size_t)room, sizeof *leaf);
    int *sides = (int *)R_alloc((size_t)room, sizeof *sides);

    if (w->nleaf) {
      memcpy(leaf, w->leaf, (size_t)w->nleaf * sizeof *leaf);
      memcpy(sides, w->side, (size_t)w->nleaf * sizeof *sides);
    }
    w->leaf = leaf;
    w->side = sides;
    w->leaf_room = room;
  }
  w->leaf[w->nleaf] = node;
  w->side[w->nleaf] = side;
  put_name(w, w->nleaf++);
}

/* (a + b) - c is a + b - c, and (a * b) * c is a * b * c: a long sum is one level of nesting in the text */
static bool same_level(const char *left, const char *word)
{
  if (strcmp(word, "*") == 0) return strcmp(left, "*") == 0;
  return (strcmp(word, "+") == 0 || strcmp(word, "-") == 0) && (strcmp(left, "+") == 0 || strcmp(left, "-") == 0);
}

static void put_node(walk *w, SEXP node, bool swap, bool bare)
{
  SEXP word, kids;
  const char *name;

  R_CheckStack();
  check_node(node, 2);
  word = place(node, WORD);
  if (Rf_isNull(word)) {
    check_node(node, LEAF_DIM + 1);
    put_leaf(w, node, swap);
    return;
  }
  name = string_of(word);
  if (strcmp(name, "#") == 0) {
    put(w, string_of(place(node, CONST_TEXT)));
    return;
  }
  check_node(node, OP_INFIX + 1);
  kids = place(node, OP_KIDS);
  check_node(kids, 1);
  if (strcmp(name, "t") == 0) {
    put_node(w, place(kids, 0), !swap, false);
  } else if (strcmp(name, "{}") == 0) {
    SEXP pieces = place(node, OP_INTS);

    if (TYPEOF(pieces) != STRSXP || XLENGTH(pieces) != XLENGTH(kids) + 1) Rf_error("lazy text: a piece around each operand is needed");
    put(w, "(");
    for (R_xlen_t k = 0; k <= XLENGTH(kids); k++) {
      put(w, CHAR(STRING_ELT(pieces, k)));
      if (k < XLENGTH(kids)) put_node(w, place(kids, (int)k), swap, false);
    }
    put(w, ")");
  } else if (is_infix(node)) {
    SEXP left = place(kids, 0);

    check_node(kids, 2);
    check_node(left, 2);
    if (!bare) put(w, "(");
    put_node(w, left, swap, is_infix(left) && same_level(string_of(place(left, WORD)), name));
    put(w, name);
    put_node(w, place(kids, 1), swap, false);
    if (!bare) put(w, ")");
  } else {
    put(w, name);
    put(w, "(");
    for (R_xlen_t k = 0; k < XLENGTH(kids); k++) {
      if (k > 0) put(w, ",");
      put_node(w, place(kids, (int)k), swap, false);
    }
    put(w, string_of(place(node, OP_INTS)));
    put(w, ")");
  }
}

/* list(text, leaf, data, side, place, name, declared): texts of the nodes, and their leaves. `becomes` holds the
 * category (0 i, 1 j, 2 parameter) under which leaves of each side are declared, their `place`. */
SEXP ffi_lazy_text(SEXP nodes, SEXP swap, SEXP becomes)
{
  enum { PARTS = 7 };
  static const char *const names[PARTS] = {"text", "leaf", "data", "side", "place", "name", "declared"};
  static const char *const marks[] = {"Vi", "Vj", "Pm"};
  walk w = {0};
  const void *memory = vmaxget();
  SEXP out, labels, text, leaf, data, side, place_of, name, declared;

  if (TYPEOF(nodes) != VECSXP) Rf_error("nodes: a list is needed");
  if (TYPEOF(becomes) != INTSXP || XLENGTH(becomes) != 3) Rf_error("becomes: three integers are needed");
  text = PROTECT(Rf_allocVector(STRSXP, XLENGTH(nodes)));
  for (R_xlen_t k = 0; k < XLENGTH(nodes); k++) {
    w.length = 0;
    put_node(&w, VECTOR_ELT(nodes, k), Rf_asLogical(swap) == 1, false);
    SET_STRING_ELT(text, k, Rf_mkCharCE(w.text, CE_UTF8));
  }
  leaf = PROTECT(Rf_allocVector(VECSXP, w.nleaf));
  data = PROTECT(Rf_allocVector(VECSXP, w.nleaf));
  side = PROTECT(Rf_allocVector(INTSXP, w.nleaf));
  place_of = PROTECT(Rf_allocVector(INTSXP, w.nleaf));
  name = PROTECT(Rf_allocVector(STRSXP, w.nleaf));
  declared = PROTECT(Rf_allocVector(STRSXP, w.nleaf));
  for (int k = 0; k < w.nleaf; k++) {
    char line[48];
    int category = INTEGER(becomes)[w.side[k]];

    if (category < 0 || category > 2) Rf_error("becomes: 0, 1 or 2 are needed");
    SET_VECTOR_ELT(leaf, k, w.leaf[k]);
    SET_VECTOR_ELT(data, k, place(w.leaf[k], LEAF_DATA));
    INTEGER(side)[k] = w.side[k];
    INTEGER(place_of)[k] = category;
    snprintf(line, sizeof line, "%c%d", "xyp"[w.side[k]], k);
    SET_STRING_ELT(name, k, Rf_mkChar(line));
    snprintf(line, sizeof line, "%c%d=%s(%d)", "xyp"[w.side[k]], k, marks[category],
             Rf_asInteger(place(w.leaf[k], LEAF_DIM)));
    SET_STRING_ELT(declared, k, Rf_mkChar(line));
  }
  out = PROTECT(Rf_allocVector(VECSXP, PARTS));
  labels = PROTECT(Rf_allocVector(STRSXP, PARTS));
  for (int k = 0; k < PARTS; k++) SET_STRING_ELT(labels, k, Rf_mkChar(names[k]));
  Rf_setAttrib(out, R_NamesSymbol, labels);
  SET_VECTOR_ELT(out, 0, text);
  SET_VECTOR_ELT(out, 1, leaf);
  SET_VECTOR_ELT(out, 2, data);
  SET_VECTOR_ELT(out, 3, side);
  SET_VECTOR_ELT(out, 4, place_of);
  SET_VECTOR_ELT(out, 5, name);
  SET_VECTOR_ELT(out, 6, declared);
  UNPROTECT(9);
  vmaxset(memory);
  return out;
}
