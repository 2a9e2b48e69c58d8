/* Fuzzing from bytes to emitted source: parse, print, differentiate, plan, emit, and a small run.
 *
 * An input is text: the argument list in the first line, "x=Vi(3); y=Vj(3)", the formula in the rest;
 * without a line break it is all formula, and the arguments are a usual list. Properties:
 *   - nothing crashes, and every failure is a status with a message and a place inside the text;
 *   - printed and parsed again, a formula has the same shape, and it prints the same and gives the same
 *     source, or at least the same values (rules that order products may find a better order then);
 *   - the interpreter runs it, and gives the same bits twice.
 *
 * Two programs of one file. With clang -fsanitize=fuzzer -DKE_LIBFUZZER: libFuzzer's own main, this file's
 * mutator beside its own. Else a main of our own, for any compiler:
 *   fuzz_parse [-t seconds] [-s seed] [-o file for a failing input] corpus-file ...
 * tries the corpus, the limits, then formulas made by a grammar and mutations of all these. */
#define _GNU_SOURCE
#include "engine.h"
#include "make_formula.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  MOST_ARGS = 64,
  MOST_TEXT = 4096,  /* of made and mutated inputs */
  MOST_RUN = 2000,   /* numbers a row that a run may have */
  ROWS_I = 5,
  ROWS_J = 7
};

/* ---- the properties ---- */

static const char *property = "start";
static long same_text, other_text; /* formulas that print alike after printing and parsing, or not */

static void fail(const char *what)
{
  fprintf(stderr, "property failed: %s (at: %s)\n", what, property);
  abort();
}

typedef struct {
  char *arg[MOST_ARGS];
  int nargs;
  char *formula; /* exactly `length` bytes, no zero behind: reading on is a fault that ASan sees */
  size_t length;
} input;

static char *copy_bytes(const char *from, size_t n, size_t more)
{
  char *to = malloc(n + more ? n + more : 1);

  if (!to) exit(2);
  if (n) memcpy(to, from, n);
  if (more) to[n] = '\0';
  return to;
}

static void split_input(const char *text, size_t size, input *in)
{
  static const char *const usual[] = {"x=Vi(3)", "y=Vj(3)", "b=Vj(1)", "a=Vi(1)", "g=Pm(1)",
                                      "p=Pm(3)", "c=Vj(2)"};
  const char *end = memchr(text, '\n', size);

  memset(in, 0, sizeof *in);
  if (!end) {
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
      in->arg[in->nargs++] = copy_bytes(usual[k], strlen(usual[k]), 1);
    end = text - 1;
  } else {
    for (const char *p = text; p < end && in->nargs < MOST_ARGS;) {
      const char *stop = memchr(p, ';', (size_t)(end - p));
      size_t n = (size_t)((stop ? stop : end) - p);
      in->arg[in->nargs++] = copy_bytes(p, n, 1);
      p += n + 1;
    }
  }
  in->length = size - (size_t)(end + 1 - text);
  in->formula = copy_bytes(end + 1, in->length, 0);
}

static void free_input(input *in)
{
  for (int k = 0; k < in->nargs; k++) free(in->arg[k]);
  free(in->formula);
}

static char last_message[1024];

static void check_error(const ke_error *err, ke_status st, size_t length)
{
  if (err->status != st) fail("the record has another status");
  if (st == KE_ERR_INTERNAL) fail(err->message);
  if (!err->message[0]) fail("no message");
  if (memchr(err->message, '\0', sizeof err->message) == NULL) fail("message without end");
  if (err->pos < -1 || err->pos > (int)length) fail("the place lies outside the text");
  if (st == KE_ERR_DIMENSION && err->pos < 0) fail("no place");
}

static ke_formula *try_formula(const char *const *args, int nargs, const char *text, size_t length)
{
  ke_error err = {.pos = -1};
  ke_formula *f = NULL;
  ke_status st = ke_formula_new(text, length, args, nargs, false, &f, &err);

  if (st != KE_OK) {
    check_error(&err, st, length);
    snprintf(last_message, sizeof last_message, "%s", err.message);
    if (f) fail("a formula beside an error");
  } else if (!f) {
    fail("no formula");
  }
  ke_error_clear(&err);
  return f;
}

static char *source_of(ke_formula *f, int real_bytes)
{
  ke_error err = {.pos = -1};
  char *source = NULL;
  ke_status st = ke_formula_source(f, real_bytes, &source, &err);

  if (st != KE_OK) {
    check_error(&err, st, 0);
    source = NULL;
  } else if (!source) {
    fail("no source");
  }
  ke_error_clear(&err);
  return source;
}

static int brackets_deep(const char *text)
{
  int level = 0, most = 0;

  for (; *text; text++) {
    if (*text == '(' && ++level > most) most = level;
    if (*text == ')') level--;
  }
  return most;
}

/* Not where the text holds what the language has no word for, is cut, or has lost its reduction to
 * simplification (a sum over j is its summand where there is no j-variable), or nests deeper than is
 * allowed (chains of sums print with a bracket each). */
static bool parses_back(const char *text)
{
  static const char *const words[] = {"Size_(", "Gather_(", "Scatter_(", "Norm__Reduction", "_[", "inf", "nan"};

  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strstr(text, words[k])) return false;
  for (const char *r = text; r; r = strchr(r, ';') ? strchr(r, ';') + 1 : NULL) {
    const char *found = strstr(r, "_Reduction("), *end = strchr(r, ';');
    if (!found || (end && found > end)) return false;
  }
  return strlen(text) < 100000 && brackets_deep(text) < 120;
}

/* Arguments again as text, from what the formula says of itself. */
static int print_args(const ke_formula_info *info, char text[][160], const char **args)
{
  static const char *const kind[] = {"Vi", "Vj", "Pm"};

  for (int k = 0; k < info->nargs; k++) {
    const ke_arg_info *a = &info->args[k];
    if (a->category < 0 || a->category > 2 || a->dim < 1) fail("an argument's category or dimension");
    if (strlen(a->name) > 100) return -1;
    snprintf(text[k], 160, "%s%s%s(%d)", a->name, *a->name ? "=" : "", kind[a->category], a->dim);
    args[k] = text[k];
  }
  return info->nargs;
}

static void check_info(const ke_formula_info *info)
{
  if (info->nresult < 1) fail("no result");
  for (int k = 0; k < info->nresult; k++) {
    const ke_result_info *r = &info->result[k];
    if (r->dim < 1) fail("dimension of the result");
    if (r->values < 0 || r->values > r->dim) fail("values of the result");
    if (r->category < 0 || r->category > 2) fail("rows of the result");
    if (r->k < 0 || (r->k && r->dim % r->k)) fail("number of least values");
  }
  if (!info->text || !*info->text) fail("no text");
}

static double *make_data(size_t n, unsigned seed)
{
  double *data = malloc((n ? n : 1) * sizeof *data);

  if (!data) exit(2);
  for (size_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    data[k] = (double)(seed >> 8) / (1 << 23) - 0.9;
  }
  return data;
}

/* The result on some small data (malloc'd), *n numbers; NULL: too wide to run here. */
static double *run(ke_formula *f, int real_bytes, size_t *n)
{
  const ke_formula_info *info = ke_formula_describe(f);
  double *data[MOST_ARGS + 64] = {NULL}, *out, *to[64];
  int64_t rows[MOST_ARGS + 64];
  size_t numbers = 0, size;
  int64_t side_rows[3] = {1, 1, 1};
  ke_call call = {.data = (const double *const *)data,
                  .rows = rows,
                  .real_bytes = real_bytes,
                  .backend = KE_BACKEND_INTERPRETED,
                  .threads = 1};
  ke_error err = {.pos = -1};
  ke_report report;
  ke_status st;

  for (int k = 0; k < info->nresult; k++) numbers += (size_t)info->result[k].dim;
  for (int k = 0; k < info->nargs; k++) numbers += (size_t)info->args[k].dim;
  if (numbers > MOST_RUN || info->nargs > MOST_ARGS) return NULL;
  for (int k = 0; k < info->nargs; k++) {
    static const int64_t of[] = {ROWS_I, ROWS_J, 1};
    rows[k] = of[info->args[k].category];
    side_rows[info->args[k].category] = rows[k];
    data[k] = make_data((size_t)(rows[k] * info->args[k].dim), (unsigned)k + 1);
  }
  *n = 0;
  for (int k = 0; k < info->nresult; k++)
    *n += (size_t)(info->result[k].dim * side_rows[info->result[k].category]);
  out = make_data(*n, 99);
  size = 0;
  for (int k = 0; k < info->nresult; k++) {
    to[k] = out + size;
    size += (size_t)(info->result[k].dim * side_rows[info->result[k].category]);
  }
  st = ke_formula_run(f, &call, to, &report, &err);
  if (st != KE_OK) check_error(&err, st, 0);
  ke_error_clear(&err);
  for (int k = 0; k < info->nargs; k++) free(data[k]);
  return out;
}

static void check_run(ke_formula *f, int real_bytes)
{
  size_t n;
  double *a = run(f, real_bytes, &n), *b = run(f, real_bytes, &n);

  if (a && memcmp(a, b, n * sizeof *a) != 0) fail("two runs, two results");
  free(a);
  free(b);
}

/* Without jumps and extreme numbers, so that rounding cannot make a difference of note? */
static bool tame(const char *text)
{
  static const char *const words[] = {"Sign(", "Step(", "Equal(", "Less", "IfElse(", "ReLU(", "Arg",
                                      "Min_", "Max_", "KMin", "e-", "e+", "Powf("};

  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strstr(text, words[k])) return false;
  return true;
}

static bool same_rows(const ke_formula_info *a, const ke_formula_info *b)
{
  for (int k = 0; k < a->nresult; k++)
    if (a->result[k].category != b->result[k].category) return false;
  return true;
}

static void check_same_values(ke_formula *f, ke_formula *again)
{
  size_t n, m;
  double *a, *b, most = 0;

  if (!tame(ke_formula_describe(f)->text)) return;
  a = run(f, 8, &n);
  b = run(again, 8, &m);
  for (size_t k = 0; a && b && n == m && k < n; k++) {
    if (!(fabs(a[k]) < 1e6) || !(fabs(b[k]) < 1e6)) most = INFINITY;
    if (fabs(a[k]) > most) most = fabs(a[k]);
  }
  for (size_t k = 0; a && b && n == m && k < n && most < INFINITY; k++)
    if (fabs(a[k] - b[k]) > 1e-6 * (1 + most)) {
      fprintf(stderr, "%s\n%s\n%.17g %.17g\n", ke_formula_describe(f)->text,
              ke_formula_describe(again)->text, a[k], b[k]);
      fail("the printed formula has another value");
    }
  free(a);
  free(b);
}

static void check_print(ke_formula *f, char *const source[2])
{
  static char text[MOST_ARGS + 64][160];
  const char *args[MOST_ARGS + 64];
  const ke_formula_info *info = ke_formula_describe(f), *info2;
  ke_formula *again;
  int nargs;

  if (info->nargs > MOST_ARGS + 64 || !parses_back(info->text)) return;
  nargs = print_args(info, text, args);
  if (nargs < 0) return;
  property = "printed and parsed again";
  again = try_formula(args, nargs, info->text, strlen(info->text));
  /* a sum over j has rows of i by declaration, which a formula of j around it may not have */
  if (!again && strstr(last_message, "still depends on i and j")) return;
  if (!again) {
    fprintf(stderr, "%s\n%s\n", info->text, last_message);
    fail("the printed formula does not parse");
  }
  info2 = ke_formula_describe(again);
  if (info->nresult != info2->nresult || info->nargs != info2->nargs)
    fail("the printed formula is another one");
  for (int k = 0; k < info->nresult; k++)
    if (info->result[k].dim != info2->result[k].dim) fail("the printed formula has another dimension");
  if (strcmp(info->text, info2->text) != 0) {
    other_text++;
    if (same_rows(info, info2)) check_same_values(f, again);
    ke_formula_free(again);
    return;
  }
  same_text++;
  /* the rows declared may be lost with a reduction, and then the plan is another one */
  for (int k = 0; k < 2 && same_rows(info, info2); k++) {
    char *other = source_of(again, k ? 8 : 4);
    if (!other != !source[k] || (other && strcmp(other, source[k]) != 0))
      fail("the printed formula gives another source");
    free(other);
  }
  ke_formula_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *source[2] = {NULL, NULL};
  ke_formula *f;
  input in;

  split_input((const char *)data, size, &in);
  property = "parsed and planned";
  f = try_formula((const char *const *)in.arg, in.nargs, in.formula, in.length);
  if (f) {
    check_info(ke_formula_describe(f));
    property = "emitted";
    for (int k = 0; k < 2; k++) source[k] = source_of(f, k ? 8 : 4);
    check_print(f, source);
    property = "run in single";
    check_run(f, 4);
    property = "run in double";
    check_run(f, 8);
    for (int k = 0; k < 2; k++) free(source[k]);
    ke_formula_free(f);
  }
  free_input(&in);
  return 0;
}

/* ---- mutations ---- */

static unsigned draw_from(uint64_t *random, unsigned n)
{
  maker m = {.random = *random};
  unsigned k = draw(&m, n);

  *random = m.random;
  return k;
}

/* A stretch of whole words, or a bracketed part. */
static void choose_stretch(const uint8_t *data, size_t size, uint64_t *random, size_t *from, size_t *to)
{
  size_t p = draw_from(random, (unsigned)size), q;
  int level = 0;

  while (p > 0 && ((data[p - 1] | 32) >= 'a' && (data[p - 1] | 32) <= 'z')) p--;
  for (q = p; q < size; q++) {
    if (data[q] == '(') level++;
    if (data[q] == ')' && --level <= 0) break;
    if (level == 0 && strchr(",+-*/|\n;", data[q]) && q > p) break;
  }
  if (q < size && data[q] == ')' && level == 0 && memchr(data + p, '(', q - p)) q++;
  if (q == p && q < size) q++;
  *from = p;
  *to = q;
}

/* Replace data[from, to) by `n` bytes; the new size, or the old one where it does not fit. */
static size_t replace(uint8_t *data, size_t size, size_t most, size_t from, size_t to,
                      const uint8_t *with, size_t n)
{
  if (size - (to - from) + n > most) return size;
  memmove(data + from + n, data + to, size - to);
  memcpy(data + from, with, n);
  return size - (to - from) + n;
}

static size_t mutate(uint8_t *data, size_t size, size_t most, uint64_t *random)
{
  static const char *const words[] = {
      "(", ")", ",", "+", "-", "**", "|", "<=", "!=", "0", "1", "-1", "16777216", "99999999999", "1e999",
      "0.5", "$0", "Vi(3)", "Var(0,3,0)", "Var(1,3,1)", "Var(7,1,2)", "Grad(", "Sum_Reduction(", ",1)",
      "Elem(", "Concat(", "Extract(", "SumT(", ";z=Pm(2)", "x", "y", "b", "Size_(0)", "\n", "Zero(3)"};
  uint8_t part[MOST_TEXT];
  const char *word = words[draw_from(random, sizeof words / sizeof *words)];
  size_t from, to, from2, to2, n;

  if (size == 0 || draw_from(random, 12) == 0) return make_input(data, most, random);
  choose_stretch(data, size, random, &from, &to);
  switch (draw_from(random, 7)) {
  case 0: /* a word in its place, or before it */
    return replace(data, size, most, from, draw_from(random, 2) ? to : from, (const uint8_t *)word,
                   strlen(word));
  case 1: return replace(data, size, most, from, to, part, 0);
  case 2: /* another part of it */
  case 3:
    choose_stretch(data, size, random, &from2, &to2);
    n = to2 - from2 < sizeof part ? to2 - from2 : sizeof part;
    memcpy(part, data + from2, n);
    return replace(data, size, most, from, to, part, n);
  case 4: { /* something new */
    maker m = {.text = (char *)part, .most = sizeof part, .random = *random};
    snprintf(m.name[0], sizeof m.name[0], "x");
    snprintf(m.name[1], sizeof m.name[1], "y");
    snprintf(m.name[2], sizeof m.name[2], "b");
    m.nargs = 3;
    m.dim[0] = m.dim[1] = 3;
    m.dim[2] = m.category[1] = m.category[2] = 1;
    add_expression(&m, draw(&m, 2) ? 1 : 3, 3);
    *random = m.random;
    return replace(data, size, most, from, to, part, m.len);
  }
  case 5: /* around it */
    n = (size_t)snprintf((char *)part, sizeof part, "%s(", ke_ops[draw_from(random, KE_OP_COUNT)].name);
    return replace(data, size, most, from, from, part, n);
  default:
    data[draw_from(random, (unsigned)size)] = (uint8_t)draw_from(random, 256);
    return size;
  }
}

#ifdef KE_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
  uint64_t random = ((uint64_t)seed << 20 | 1) * 0x9e3779b97f4a7c15u;

  if (draw_from(&random, 2)) return LLVMFuzzerMutate(data, size, most);
  return mutate(data, size, most, &random);
}
#else

/* ---- our own main ---- */

static const uint8_t *current;
static size_t current_size;
static const char *failing_file = "fuzz-failure.txt";

/* What was being tried when it went wrong: called by the sanitizers, or by a signal. */
static void save_current(void)
{
  FILE *out = fopen(failing_file, "w");

  if (!out) return;
  fwrite(current, 1, current_size, out);
  fclose(out);
  fprintf(stderr, "the input is in %s (at: %s)\n", failing_file, property);
}

static void on_signal(int number)
{
  fprintf(stderr, number == SIGALRM ? "too slow: 30 s for one input\n" : "signal %d\n", number);
  save_current();
  _exit(3);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* Asked by the runtime of UBSan: end by a signal, so that the input gets saved. */
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
  return "abort_on_error=1:print_stacktrace=1";
}

static void try_input(const void *data, size_t size)
{
  current = data;
  current_size = size;
  alarm(30);
  LLVMFuzzerTestOneInput(data, size);
  alarm(0);
}

/* Text made of a repeated piece: head, n times piece, tail. */
static void try_repeated(const char *head, const char *piece, size_t n, const char *tail)
{
  size_t h = strlen(head), p = strlen(piece), t = strlen(tail), size = h + n * p + t;
  char *text = malloc(size + 1);

  if (!text) exit(2);
  memcpy(text, head, h);
  for (size_t k = 0; k < n; k++) memcpy(text + h + k * p, piece, p);
  memcpy(text + h + n * p, tail, t + 1);
  try_input(text, size);
  free(text);
}

/* Depth and size: each must end in an error or an answer, soon. */
static void try_limits(void)
{
  static const size_t counts[] = {10, 240, 260, 3000, 100000, 1100000};
  static const struct {
    const char *head, *piece, *tail;
  } rows[] = {
      {"", "(", ""}, {"", "-", "x"}, {"", "x+", "x"}, {"", "x**", "2"}, {"Sum_Reduction(", "Exp(", "x"},
      {"Sum_Reduction(x", "+y", ",1)"}, {"Sum_Reduction(x", "*(y-x)", ",1)"},
      {"Sum_Reduction(b", "+Exp(b)*", "b,1)"}, {"", "Sum_Reduction(", "x"}, {"", "Grad(", ""},
      {"x=Vi(3)", ";z=Pm(1)", "\nSum_Reduction(x,1)"}, {"", "z", ""}, {"", "1", ""}, {"", "1e", ""},
      {"Sum_Reduction(", "Sin(", "b"}, {"Sum_Reduction(b", "/(1+b)", ",1)"}, {"", " ", ""},
      {"Sum_Reduction(Elem(", "Concat(x,", "y"}, {"Sum_Reduction(1", ".5", ",1)"}, {"x=Vi(", "9", ")\nx"}};
  char text[20000], *p;

  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
      try_repeated(rows[r].head, rows[r].piece, counts[k], rows[r].tail);
  for (int n = 1; n < 100; n += n < 10 ? 1 : 30) { /* graphs that are small and print endlessly */
    p = text + sprintf(text, "Sum_Reduction(");
    for (int k = 0; k < n; k++) p += sprintf(p, "Square(");
    p += sprintf(p, "x+y");
    for (int k = 0; k < n; k++) p += sprintf(p, "+%d)", k);
    p += sprintf(p, ",1)");
    try_input(text, (size_t)(p - text));
  }
  for (int n = 1; n <= 10; n++) { /* derivatives of high order */
    p = text;
    for (int k = 0; k < n; k++) p += sprintf(p, "Grad(");
    p += sprintf(p, "Sum_Reduction(Exp(-g*SqDist(x,y))*b,1)");
    for (int k = 0; k < n; k++) p += sprintf(p, ",x,%s)", k ? "x" : "a");
    try_input(text, (size_t)(p - text));
  }
  for (int n = 10; n <= 10000000; n *= 10) { /* words that take a variable apart */
    static const char *const forms[] = {"Laplacian(SqNorm2(x),x)", "Divergence(Exp(x),x)",
                                        "TraceOperator(x*2,x)", "Sum(GradMatrix(x,x))", "Max(x)",
                                        "SymSqNorm(x,a)", "Sum(MatVecMult(x,x))", "Sum(TensorProd(x,x))",
                                        "SoftDTW_SqDist(x,x,a)", "Sum(BSpline(x,a,3))", "Sum(x*x)",
                                        "Grad(Min_Reduction(x*a,1),x,x)",
                                        "Diff(Max_Reduction(x*a,1),x,x)"};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
      int len = snprintf(text, sizeof text, "x=Vi(%d);a=Vj(1)\nSum_Reduction(%s,1)", n, forms[k]);
      try_input(text, (size_t)len);
    }
  }
  for (int n = 1; n <= 30; n++) { /* widths that double */
    p = text + sprintf(text, "Sum_Reduction(Sum(");
    for (int k = 0; k < n; k++) p += sprintf(p, "Concat(Exp(");
    p += sprintf(p, "x");
    for (int k = 0; k < n; k++) p += sprintf(p, "),SumT(a,%d))", 3 << k);
    p += sprintf(p, "),1)");
    try_input(text, (size_t)(p - text));
  }
}

static uint8_t *read_file(const char *name, size_t *size)
{
  FILE *in = fopen(name, "r");
  uint8_t *data = malloc(1 << 20);

  if (!in || !data) {
    perror(name);
    exit(2);
  }
  *size = fread(data, 1, 1 << 20, in);
  fclose(in);
  return data;
}

int main(int argc, char **argv)
{
  enum { POOL = 4096 };
  static uint8_t *pool[POOL];
  static size_t pool_size[POOL];
  static uint8_t work[MOST_TEXT];
  long seconds = 0, tried = 0;
  uint64_t random = 0x9e3779b97f4a7c15u;
  size_t npool = 0, n;
  time_t end;
  int opt;

  while ((opt = getopt(argc, argv, "t:s:o:")) != -1) {
    if (opt == 't') seconds = atol(optarg);
    else if (opt == 's') random ^= (uint64_t)atol(optarg) * 0xbf58476d1ce4e5b9u;
    else if (opt == 'o') failing_file = optarg;
    else return 2;
  }
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_current);
  signal(SIGALRM, on_signal);
  signal(SIGABRT, on_signal);
  if (!__sanitizer_set_death_callback) signal(SIGSEGV, on_signal);
  for (int k = optind; k < argc && npool < POOL; k++, npool++) {
    pool[npool] = read_file(argv[k], &pool_size[npool]);
    try_input(pool[npool], pool_size[npool]);
    tried++;
  }
  printf("corpus: %ld inputs\n", tried);
  fflush(stdout);
  try_limits();
  printf("limits: done\n");
  fflush(stdout);
  end = time(NULL) + seconds;
  while (time(NULL) < end) {
    size_t k = npool ? draw_from(&random, (unsigned)npool) : 0;
    if (npool && draw_from(&random, 3)) {
      n = pool_size[k] < sizeof work ? pool_size[k] : sizeof work;
      memcpy(work, pool[k], n);
      for (unsigned r = 1 + draw_from(&random, 4); r > 0; r--) n = mutate(work, n, sizeof work, &random);
    } else {
      n = make_input(work, sizeof work, &random);
    }
    try_input(work, n);
    tried++;
    if (draw_from(&random, 20) == 0) { /* some of them are the ancestors of later ones */
      k = npool < POOL ? npool++ : draw_from(&random, POOL);
      if (k < (size_t)(argc - optind)) continue;
      free(pool[k]);
      pool[k] = (uint8_t *)copy_bytes((const char *)work, n, 0);
      pool_size[k] = n;
    }
  }
  printf("fuzz: %ld inputs, %ld formulas printed and parsed (%ld print otherwise then), no finding\n",
         tried, same_text + other_text, other_text);
  for (size_t k = 0; k < npool; k++) free(pool[k]);
  return 0;
}
#endif
