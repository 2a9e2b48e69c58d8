/* Words of the formula language, one at a time; text need not end with a zero. */
#include "lex.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

static size_t skip_digits(const char *t, size_t n, size_t p)
{
  while (p < n && is_digit(t[p])) p++;
  return p;
}

/* End of the number that starts at p: digits, a point, an exponent. */
static size_t number_end(const char *t, size_t n, size_t p)
{
  size_t e;

  p = skip_digits(t, n, p);
  if (p < n && t[p] == '.') p = skip_digits(t, n, p + 1);
  if (p < n && (t[p] == 'e' || t[p] == 'E')) {
    e = p + 1;
    if (e < n && (t[e] == '+' || t[e] == '-')) e++;
    if (e < n && is_digit(t[e])) p = skip_digits(t, n, e);
  }
  return p;
}

static double number_value(const char *t, size_t length)
{
  char buffer[64], *big;
  double value;

  if (length < sizeof buffer) {
    memcpy(buffer, t, length);
    buffer[length] = '\0';
    return strtod(buffer, NULL);
  }
  big = malloc(length + 1);
  if (!big) return 0;
  memcpy(big, t, length);
  big[length] = '\0';
  value = strtod(big, NULL);
  free(big);
  return value;
}

static ke_token_kind pair_kind(char a, char b)
{
  if (a == '*' && b == '*') return KE_TOK_POWER;
  if (a == '=' && b == '=') return KE_TOK_EQ;
  if (a == '!' && b == '=') return KE_TOK_NE;
  if (a == '<' && b == '=') return KE_TOK_LE;
  if (a == '>' && b == '=') return KE_TOK_GE;
  return KE_TOK_END;
}

ke_token ke_lex(const char *t, size_t n, size_t p)
{
  ke_token k = {.kind = KE_TOK_END};
  size_t e;

  while (p < n && (t[p] == ' ' || t[p] == '\t' || t[p] == '\n' || t[p] == '\r')) p++;
  k.pos = (int)p;
  if (p >= n) return k;
  k.ch = t[p];
  e = p + 1;
  if (is_digit(t[p]) || (t[p] == '.' && e < n && is_digit(t[e]))) {
    k.kind = KE_TOK_NUMBER;
    e = number_end(t, n, p);
    k.number = number_value(t + p, e - p);
  } else if (is_letter(t[p])) {
    k.kind = KE_TOK_NAME;
    while (e < n && (is_letter(t[e]) || is_digit(t[e]))) e++;
  } else if (t[p] == '$' && e < n && is_digit(t[e])) {
    k.kind = KE_TOK_OPERAND;
    k.number = t[e] - '0';
    e++;
  } else if (e < n && pair_kind(t[p], t[e]) != KE_TOK_END) {
    k.kind = pair_kind(t[p], t[e]);
    e++;
  } else if (t[p] == '^') {
    k.kind = KE_TOK_POWER;
  } else {
    k.kind = t[p] && strchr("+-*/|<>(),;=[]", t[p]) ? KE_TOK_CHAR : KE_TOK_BAD;
  }
  k.length = (int)(e - p);
  return k;
}
