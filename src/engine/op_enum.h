/* Numbers of the operations: scalar ones first, then fused, vector, sugar, words, each in the list's order. */
#ifndef KE_OP_ENUM_H
#define KE_OP_ENUM_H

enum {
#define SCALAR_OP(name, arity, cost, value, derivatives, domains, about) KE_OP_##name,
#include "op_list.h"
#define FUSED_OP(name, arity, cost, value) KE_OP_##name,
#include "op_list.h"
#define VECTOR_OP(name, arity, ints, about) KE_OP_##name,
#include "op_list.h"
#define SUGAR_OP(name, arity, formula, about) KE_OP_##name,
#include "op_list.h"
#define WORD_OP(name, arity, ints, about) KE_OP_##name,
#include "op_list.h"
  KE_OP_COUNT
};

#endif
