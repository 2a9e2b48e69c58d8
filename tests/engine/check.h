/* What every test program of the engine is written with: CHECK() counts, check_end() sums up. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static int check_passed, check_failed;

/* One fact. A false one is printed and counted; the program goes on. */
#define CHECK(cond) check_note((cond) ? 1 : 0, __FILE__, __LINE__, #cond)

/* The same with what led to it, in printf's manner: CHECK_MSG(got == want, "n = %d", n). */
#define CHECK_MSG(cond, ...)                                                                       \
  do {                                                                                             \
    if (!check_note((cond) ? 1 : 0, __FILE__, __LINE__, #cond)) {                                  \
      printf("    ");                                                                              \
      printf(__VA_ARGS__);                                                                         \
      printf("\n");                                                                                \
    }                                                                                              \
  } while (0)

static inline int check_note(int ok, const char *file, int line, const char *cond)
{
  if (ok) {
    check_passed++;
  } else {
    check_failed++;
    printf("%s:%d: failed: %s\n", file, line, cond);
    fflush(stdout);
  }
  return ok;
}

/* Last line of main: `return check_end();`. A program that checked nothing has failed. */
static inline int check_end(void)
{
  if (check_passed + check_failed == 0) check_failed = 1;
  printf("%d passed, %d failed\n", check_passed, check_failed);
  return check_failed ? 1 : 0;
}

#endif
