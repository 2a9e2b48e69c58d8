/* Between parse.c (levels of precedence, arguments) and words.c (operations with a syntax of their own). */
#ifndef KE_PARSE_WORDS_H
#define KE_PARSE_WORDS_H

#include "lex.h"
#include "parse.h"
#include "reduction_name.h"

typedef struct {
  const ke_node *node;
  int side;     /* rows declared; contains node->idx */
  bool reduced; /* holds a reduction */
} ke_value;

typedef struct {
  ke_graph *g;
  const char *text;
  size_t length;
  ke_token tok;
  int nesting;
  int template_pos;               /* templates: where the call stands in the user's text, else -1 */
  const char *template_name;      /* and what operation is called there, NULL if it is said otherwise */
  ke_parsed *out;                 /* NULL in templates */
  const ke_value *operand;        /* $0 $1 ... */
  int noperand;
  const ke_reduction_name *last_reduction; /* the one parsed last, and its node */
  const ke_node *last_node;
  int last_k;
  ke_error *err;
} ke_parser;

/* A word is read with its '('; it reads on to its ')'. `pos` is where the word stands. */
typedef ke_status (*ke_word)(ke_parser *p, int pos, ke_value *out);

/* The function of a word of op_list.h, NULL if it is none. */
ke_word ke_word_of(int op);

/* ---- parse.c ---- */
ke_status ke_parse_fail(ke_parser *p, ke_status status, int pos, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
ke_status ke_parse_value(ke_parser *p, ke_value *out);
ke_status ke_parse_integer(ke_parser *p, const char *what, int *out);
ke_status ke_parse_expect(ke_parser *p, char c, const char *where);
/* The word as it stands, for messages: quoted, short. */
const char *ke_parse_seen(const ke_parser *p, char *buffer, size_t size);
void ke_parse_advance(ke_parser *p);
bool ke_parse_at(const ke_parser *p, char c);
ke_status ke_parse_operands(ke_parser *p, const char *name, int n, ke_value *v);
/* The ',' between what `name` takes. */
ke_status ke_parse_comma(ke_parser *p, const char *name);
ke_status ke_parse_close(ke_parser *p, const char *name);
ke_status ke_parse_range(ke_parser *p, int pos, const char *what, int found, int low, int high);
ke_status ke_parse_make(ke_parser *p, int pos, int op, const ke_value *v, const int *ints, ke_value *out);
ke_status ke_parse_scalprod(ke_parser *p, int pos, const ke_value *v, ke_value *out);
/* Values v in the place of $0 $1 ... of the formula of operation `name`; a fault in it is told at `pos`. */
ke_status ke_parse_template(ke_parser *p, int pos, const char *name, const char *text, const ke_value *v, int n,
                            ke_value *out);
ke_value ke_value_plain(const ke_node *n);
/* Rows and kind of something made from operands. */
ke_value ke_value_join(const ke_node *n, const ke_value *v, int count);
/* Argument `number`, appended if it is the next one. */
ke_status ke_parse_positional(ke_parser *p, int pos, int number, int dim, int category, ke_value *out);

#endif
