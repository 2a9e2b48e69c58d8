/* Operations with a syntax or a shape rule of their own; words.c has the table. */
#ifndef KE_WORDS_H
#define KE_WORDS_H

#include "parse_words.h"

#define WORD_OP(name, arity, ints, about) ke_status word_##name(ke_parser *p, int pos, ke_value *out);
#include "op_list.h"

/* n operands and ')' */
ke_status ke_words_call(ke_parser *p, const char *name, int n, ke_value *v);
/* "<name> needs <rule>, not <a> and <b>" */
ke_status ke_words_dims(ke_parser *p, int pos, const char *name, const char *rule, int a, int b);
ke_status ke_words_same_dim(ke_parser *p, int pos, const char *name, const char *what, int found, int wanted);

#endif
