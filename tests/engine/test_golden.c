/* Golden files: blocks of text that say what a formula becomes, or the exact words of its error.
 *
 *   formula: <text>
 *   args: <x=Vi(3)> <y=Vj(3)> ...
 *   rows: i | j | -            tree: <canonical text>           plan: <dump, indented lines>
 *   or  error: <kind> at <position>: <message>
 *
 * Blocks are parted by an empty line. `test_golden --renew` writes the files anew (make golden): read the
 * difference before you commit it. */
#include "build_plan.h"
#include "dump.h"
#include "print.h"

#include "check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef GOLDEN_DIR
#define GOLDEN_DIR "tests/engine/golden"
#endif

enum { MAX_ARGS = 16, MAX_LINE = 4096 };

static char *read_file(const char *path)
{
  FILE *f = fopen(path, "rb");
  char *text;
  long n;

  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  n = ftell(f);
  rewind(f);
  text = calloc((size_t)n + 1, 1);
  if (text && fread(text, 1, (size_t)n, f) != (size_t)n) text[0] = '\0';
  fclose(f);
  return text;
}

static const char *kind_name(ke_status st)
{
  return st == KE_ERR_PARSE ? "parse" : st == KE_ERR_DIMENSION ? "dimension" : st == KE_ERR_INPUT ? "input" : "other";
}

static ke_status plan_of(ke_graph *g, ke_parsed *p, const char *formula, const char *const *args,
                         int nargs, ke_plan **plan, ke_error *err)
{
  KE_TRY(ke_parse_arguments(g, args, nargs, p, err));
  KE_TRY(ke_parse_formula(g, formula, strlen(formula), p, err));
  return ke_plan_formula(g, p, KE_SUM_BLOCK, plan, err);
}

/* What the block of this formula should say. */
static void describe(ke_strbuf *b, const char *formula, const char *arg_line, bool want_plan)
{
  static const char *const rows[] = {"-", "i", "j"};
  char line[MAX_LINE], *word;
  const char *args[MAX_ARGS];
  int nargs = 0;
  ke_graph g;
  ke_parsed p = {0};
  ke_plan *plan;
  ke_error err = {.pos = -1};

  ke_strbuf_addf(b, "formula: %s\nargs: %s\n", formula, arg_line);
  snprintf(line, sizeof line, "%s", arg_line);
  for (word = strtok(line, " "); word && nargs < MAX_ARGS; word = strtok(NULL, " ")) args[nargs++] = word;
  if (ke_graph_init(&g, &err) != KE_OK) return;
  if (plan_of(&g, &p, formula, args, nargs, &plan, &err) != KE_OK) {
    ke_strbuf_addf(b, "error: %s at %d: %s\n", kind_name(err.status), err.pos, err.message);
  } else {
    for (int k = 0; k < p.nresult; k++) {
      ke_strbuf_addf(b, "rows: %s\ntree: ", rows[p.result[k].side]);
      ke_print_node(b, p.result[k].node, &p);
      ke_strbuf_add(b, "\n");
    }
    if (want_plan) ke_dump_plan(b, plan);
  }
  ke_parsed_clear(&p);
  ke_graph_clear(&g);
}

static bool starts(const char *line, const char *key)
{
  return !strncmp(line, key, strlen(key));
}

/* The file as it should be, from its formula: and args: lines. */
static void remake(ke_strbuf *b, const char *text, bool want_plan)
{
  char formula[MAX_LINE] = "", args[MAX_LINE] = "";
  const char *p = text, *end;
  bool first = true;

  for (; *p; p = *end ? end + 1 : end) {
    end = strchr(p, '\n');
    if (!end) end = p + strlen(p);
    if (starts(p, "formula: ")) snprintf(formula, sizeof formula, "%.*s", (int)(end - p - 9), p + 9);
    if (starts(p, "args:")) {
      int skip = p[5] == ' ' ? 6 : 5;
      snprintf(args, sizeof args, "%.*s", (int)(end - p - skip), p + skip);
      if (!first) ke_strbuf_add(b, "\n");
      first = false;
      describe(b, formula, args, want_plan);
    }
  }
}

/* Number of the line where two texts part. */
static int first_difference(const char *a, const char *b)
{
  int line = 1;

  for (; *a && *a == *b; a++, b++)
    if (*a == '\n') line++;
  return line;
}

static void one_file(const char *name, bool renew)
{
  char path[1024];
  char *text;
  ke_strbuf b = {0};
  FILE *f;
  bool same;

  snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
  text = read_file(path);
  CHECK(text != NULL);
  if (!text) return;
  remake(&b, text, starts(name, "plan"));
  same = b.text && !strcmp(b.text, text);
  if (renew && b.text && !same) {
    f = fopen(path, "wb");
    if (f) {
      fputs(b.text, f);
      fclose(f);
    }
  } else {
    if (!same) printf("%s differs at line %d\n", name, first_difference(b.text ? b.text : "", text));
    CHECK(same);
  }
  ke_strbuf_free(&b);
  free(text);
}

int main(int argc, char **argv)
{
  bool renew = argc > 1 && !strcmp(argv[1], "--renew");
  DIR *dir = opendir(GOLDEN_DIR);
  struct dirent *e;
  int n = 0;

  CHECK(dir != NULL);
  while (dir && (e = readdir(dir)))
    if (strstr(e->d_name, ".txt")) {
      one_file(e->d_name, renew);
      n++;
    }
  if (dir) closedir(dir);
  CHECK(n >= 3);
  return check_end();
}
