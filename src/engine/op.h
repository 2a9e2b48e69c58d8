/* The operation table as data: what op_list.h says, looked up by number or name. */
#ifndef KE_OP_H
#define KE_OP_H

#include "op_enum.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum { KE_SCALAR, KE_FUSED, KE_VECTOR, KE_SUGAR, KE_WORD } ke_op_kind;

typedef struct {
  const char *name;
  ke_op_kind kind;
  int arity;
  int nint;             /* integer parameters behind the operands */
  double cost;          /* ns per 16 elements, roughly */
  const char *value;    /* C expression in a, b, c */
  const char *deriv[3]; /* formulas in $0 $1 $2; "" or NULL: a step; "?": undefined */
  double domain[3][2];
  const char *formula;  /* SUGAR: what it stands for */
} ke_op;

extern const ke_op ke_ops[KE_OP_COUNT];

/* Whether the derivative in operand k exists but cannot be written in our language. */
static inline bool ke_op_undefined(int op, int k)
{
  return ke_ops[op].deriv[k] && ke_ops[op].deriv[k][0] == '?';
}

/* Number of the operation a formula calls by this name, -1 if there is none. */
int ke_op_find(const char *name, size_t length);

#endif
