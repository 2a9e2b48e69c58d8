/* The table made from op_list.h. */
#include "op.h"

#include <string.h>

const ke_op ke_ops[KE_OP_COUNT] = {
#define D(...) {__VA_ARGS__}
#define X(low, high) {low, high}
#define SCALAR_OP(name_, arity_, cost_, value_, derivatives_, domains_, about_)                            \
  [KE_OP_##name_] = {.name = #name_,                                                               \
                     .kind = KE_SCALAR,                                                            \
                     .arity = arity_,                                                              \
                     .cost = cost_,                                                                \
                     .value = #value_,                                                             \
                     .deriv = derivatives_,                                                        \
                     .domain = domains_,                                                           \
                     .about = about_},
#include "op_list.h"
#define FUSED_OP(name_, arity_, cost_, value_)                                                     \
  [KE_OP_##name_] = {                                                                              \
      .name = #name_, .kind = KE_FUSED, .arity = arity_, .cost = cost_, .value = #value_},
#include "op_list.h"
#define VECTOR_OP(name_, arity_, ints_, about_)                                                            \
  [KE_OP_##name_] = {.name = #name_, .kind = KE_VECTOR, .arity = arity_, .nint = ints_, .about = about_},
#include "op_list.h"
#define SUGAR_OP(name_, arity_, formula_, about_)                                                          \
  [KE_OP_##name_] = {.name = #name_, .kind = KE_SUGAR, .arity = arity_, .formula = formula_, .about = about_},
#include "op_list.h"
#define WORD_OP(name_, arity_, ints_, about_)                                                              \
  [KE_OP_##name_] = {.name = #name_, .kind = KE_WORD, .arity = arity_, .nint = ints_, .about = about_},
#include "op_list.h"
};

int ke_op_find(const char *name, size_t length)
{
  for (int k = 0; k < KE_OP_COUNT; k++)
    if (strlen(ke_ops[k].name) == length && !memcmp(ke_ops[k].name, name, length) &&
        ke_ops[k].kind != KE_FUSED)
      return k;
  return -1;
}
