/* Between the files that prepare programs for the interpreter: interp_match.c looks,
 * interp_lower.c rewrites, interp.c gives out memory. Nobody else includes this. */
#ifndef KE_INTERP_LOWER_H
#define KE_INTERP_LOWER_H

#include "arena.h"
#include "interp.h"
#include "op.h"

typedef struct {
  bool flat;       /* one row for all */
  int32_t born;    /* instruction that makes it first, -1: none */
  int32_t release; /* 2 i: free once instruction i has read it; 2 i + 1: once i is done */
  int32_t slot;
  int32_t next;    /* in the list of those released at the same time */
} ki_temp;

/* What a fold, or a segment with its reduction, comes down to: a primitive and its operands. */
typedef struct {
  uint16_t op; /* 0: none */
  int32_t reduce; /* LEAST: number of the reduction */
  ke_place a, b, c;
} ki_form;

/* A program on its way. Temps are the program's, then a weight for each reduction, then splats. */
typedef struct {
  ke_arena *arena;
  const ke_program *program;
  const ke_pass *pass; /* NULL: a row program */
  const ki_reduce *reduce;
  int32_t lanes;       /* of a vector */
  ki_instr *code;
  int32_t ncode, room;
  double *constant;
  int32_t nconstant, constant_room;
  int32_t *uses;       /* of a temp of the program: places that read it */
  int32_t *maker;      /* the one instruction that writes it, below 0: none or several */
  int32_t *region;     /* of an instruction: the straight line that it is in */
  int32_t *body;       /* of a FOLD: region of its body */
  int32_t nregion;
  bool *melted;        /* instruction has become part of another */
  ki_form *form;       /* of each segment */
  ki_temp *temp;
  int32_t ntemp, max_temp;
  int32_t nfull, nflat; /* slots */
  bool no_memory;
  const char *fault;    /* what no plan should hold */
} ki_lowering;

/* At least `count` zeroed elements; NULL, and no_memory set, if there is no memory. */
void *ke_interp_take(ki_lowering *w, int64_t count, size_t size);

/* Fill uses, maker, region, body, flat temps and the segments' forms; or set `fault`. */
void ke_interp_look(ki_lowering *w);
/* The instruction that makes a value which nobody else reads and which can be made where it is
 * read: in the same straight line, or in the head. -1: there is none. */
int32_t ke_interp_own_maker(const ki_lowering *w, const ke_place *p, int32_t region);
/* The primitive that does a fold in registers; op 0: there is none. */
ki_form ke_interp_match_fold(const ke_instr *fold);
bool ke_interp_is_row_scalar(const ke_place *p);

/* The program as primitives, in `code`; may set no_memory. */
void ke_interp_lower(ki_lowering *w);

#endif
