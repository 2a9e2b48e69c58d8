/* Printing the code of a pair program: operands, instructions, folds, and the loop nests around
 * them.
 *
 * Shared by the emitters of C and CUDA, which print the loops over tiles and the reductions. What
 * is printed is written in macros that the emitter's prelude defines:
 *   ROWS, VECS    loops over r (rows) and v (vectors of items), unrolled
 *   ONCE(i), KEPT(i), RED(i)    component i of the pass's arrays, as vectors; KEPT uses r, RED uses
 * v KE_OP_<name>(a, ...)        an operation; ke_emit_ops prints those that were used
 *
 * Everything is emitted twice. The first time is dry: nothing is printed, but it becomes known
 * which temporaries live within one loop nest (plain variables) and which cross to others
 * (arrays). */
#ifndef KE_EMIT_H
#define KE_EMIT_H

#include "error.h"
#include "op_enum.h"
#include "plan.h"
#include "strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum { KE_AXIS_ROW = 1, KE_AXIS_LANE = 2, KE_AXIS_BOTH = 3 };

typedef struct {
  uint8_t axes;         /* along which its values differ */
  bool shared;          /* an array, because it crosses loop nests */
  int32_t nest;         /* where it was defined last */
  const ke_instr *sunk; /* not a variable: printed where it is used, once */
} ke_emit_temp;

typedef struct {
  const ke_program *code;
  ke_strbuf *out;
  ke_emit_temp *temp; /* [ntemp] */
  bool used[KE_OP_COUNT];
  bool dry;
  int indent;
  int unroll;     /* most trips of a fold written out */
  int cells;      /* rows * vectors */
  int nest;       /* number of the loop nest open or last closed */
  int open;       /* its axes, or -1: none is open */
  unsigned loops; /* depths whose counter runs */
} ke_emit;

/* Text, unless dry. */
#define KE_TEXT(e, ...)                                                                            \
  do {                                                                                             \
    if (!(e)->dry) ke_strbuf_addf((e)->out, __VA_ARGS__);                                          \
  } while (0)
/* A line of its own, indented. */
#define KE_LINE(e, ...)                                                                            \
  do {                                                                                             \
    ke_emit_indent(e);                                                                             \
    KE_TEXT(e, __VA_ARGS__);                                                                       \
    KE_TEXT(e, "\n");                                                                              \
  } while (0)

/* Check a pair program and prepare to print it; ke_emit_close frees, also after a failure. */
ke_status ke_emit_open(ke_emit *e, const ke_program *code, ke_strbuf *out,
                       ke_error *err) KE_MUST_USE;
void ke_emit_close(ke_emit *e);
/* If `place` is a product made in the head for this use alone, make it where it is used, so that
 * the compiler finds product and sum together. */
void ke_emit_sink(ke_emit *e, const ke_place *place);
void ke_emit_restart(ke_emit *e, bool dry);

void ke_emit_indent(ke_emit *e);
void ke_emit_place(ke_emit *e, const ke_place *place);
int ke_emit_axes(const ke_emit *e, const ke_place *place);

/* Lines that go into the last nest of a list, to use its values where they are made. */
typedef struct {
  int axes;
  void (*print)(ke_emit *e, const void *data);
  const void *data;
} ke_emit_tail;

/* Declare and compute code[first, first + len), then `tail` (NULL: none). */
void ke_emit_list(ke_emit *e, int32_t first, int32_t len, const ke_emit_tail *tail);

/* `#define KE_OP_<name>(a, ...) (value)` for each operation used. */
void ke_emit_ops(ke_emit *e);

#endif
