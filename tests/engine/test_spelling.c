/* The nearest name: which edits count, what is too far, and names that are empty or long. */
#include "check.h"
#include "spelling.h"

#include <string.h>

static const char *best(const char *name, const char *const *candidates)
{
  static ke_spelling s;

  s = ke_spelling_of(name, strlen(name));
  for (; *candidates; candidates++) ke_spelling_try(&s, *candidates);
  return s.best;
}

#define NEAREST(name, want, ...)                                                                   \
  CHECK_MSG(!strcmp(best(name, (const char *const[]){__VA_ARGS__, NULL}), want), "%s is %s", name,  \
            best(name, (const char *const[]){__VA_ARGS__, NULL}))

int main(void)
{
  char long_name[200], longest[KE_SPELLING_MAX];

  NEAREST("Sqdist", "SqDist", "SqNorm2", "SqDist");
  NEAREST("exp", "Exp", "Exp2", "Exp");       /* a case is less than a letter */
  NEAREST("Epx", "Exp", "Abs", "Exp");        /* two neighbours */
  NEAREST("Ex", "", "Exp");                   /* one of two is more than a third */
  NEAREST("Expp", "Exp", "Exp", "Exp2");      /* the first of equally near ones */
  NEAREST("Logsum", "LogSum", "LogSums", "LogSum");
  NEAREST("X", "x", "y", "x");
  NEAREST("z", "", "x", "y");
  NEAREST("abcdef", "", "abzzzf", "bcd", "");
  NEAREST("abcdef", "abzzef", "abzzzf", "abzzef"); /* two of six */
  NEAREST("", "", "x", "");
  memset(long_name, 'a', sizeof long_name);
  long_name[sizeof long_name - 1] = '\0';
  NEAREST(long_name, "", "aaaa");
  NEAREST("aaaa", "", long_name);
  memset(longest, 'a', sizeof longest);
  longest[sizeof longest - 1] = '\0';
  NEAREST(longest + 1, longest, longest);
  return check_end();
}
