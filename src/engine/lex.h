/* Words of the formula language. */
#ifndef KE_LEX_H
#define KE_LEX_H

#include <stddef.h>

typedef enum {
  KE_TOK_END,
  KE_TOK_NUMBER,
  KE_TOK_NAME,
  KE_TOK_OPERAND, /* $0, $1, $2: in templates */
  KE_TOK_POWER,   /* ** or ^ */
  KE_TOK_EQ,
  KE_TOK_NE,
  KE_TOK_LE,
  KE_TOK_GE,
  KE_TOK_BAD, /* a character that has no meaning */
  KE_TOK_CHAR /* any of + - * / | < > ( ) , = [ ]: `ch` */
} ke_token_kind;

typedef struct {
  ke_token_kind kind;
  int pos, length; /* in the text */
  char ch;
  double number;
} ke_token;

/* The word at or behind `pos`. */
ke_token ke_lex(const char *text, size_t length, size_t pos);

#endif
