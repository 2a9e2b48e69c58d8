/* The name that was probably meant: the nearest by the number of edits (letters put in, left out, changed,
 * or swapped with a neighbour: Damerau 1964, Commun. ACM 7(3), 171-176, in the form where no part is
 * edited twice). A letter in the wrong case is half an edit. */
#include "spelling.h"

#include <string.h>

enum { EDIT = 2, CASE = 1 };

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int change(char a, char b)
{
  return a == b ? 0 : lower(a) == lower(b) ? CASE : EDIT;
}

static int least(int a, int b)
{
  return a < b ? a : b;
}

static int distance(const char *a, int n, const char *b, int m)
{
  int row[3][KE_SPELLING_MAX + 1], *before = row[0], *above = row[1], *now = row[2], *t;

  for (int k = 0; k <= m; k++) above[k] = k * EDIT;
  for (int i = 1; i <= n; i++) {
    now[0] = i * EDIT;
    for (int k = 1; k <= m; k++) {
      now[k] = least(above[k], now[k - 1]) + EDIT;
      now[k] = least(now[k], above[k - 1] + change(a[i - 1], b[k - 1]));
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        now[k] = least(now[k], before[k - 2] + EDIT);
    }
    t = before;
    before = above;
    above = now;
    now = t;
  }
  return above[m];
}

ke_spelling ke_spelling_of(const char *name, size_t length)
{
  return (ke_spelling){.name = name, .length = length};
}

void ke_spelling_try(ke_spelling *s, const char *candidate)
{
  size_t n = strlen(candidate);
  int cost;

  if (!n || n >= KE_SPELLING_MAX || s->length >= KE_SPELLING_MAX) return;
  cost = distance(s->name, (int)s->length, candidate, (int)n);
  /* near: another case only, or a third of its letters edited at most */
  if (cost > CASE && 3 * cost > EDIT * (int)s->length) return;
  if (s->best[0] && cost >= s->cost) return;
  s->cost = cost;
  memcpy(s->best, candidate, n + 1);
}
