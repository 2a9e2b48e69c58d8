/* Random formulas against themselves: derivatives of any order with differences of the formula's own
 * values, and compiled kernels with the interpreter.
 *
 *   fuzz_values [-t seconds] [-s seed] [-c one in so many formulas is compiled, 0: none]
 *
 * A formula may hold reductions inside reductions and gradients of gradients, so this reaches the passes
 * and the second derivatives that tests written by hand only sample. What the values themselves should be
 * is tested in R, against dense matrices. Ends with status 1 at the first difference. */
#define _GNU_SOURCE
#include "engine.h"
#include "make_formula.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ARGS = 12, MOST_TEXT = 1200, MOST_NUMBERS = 4000, ROWS_I = 4, ROWS_J = 5 };

static const char *include_dir = "inst/include", *cache_dir;
static long tried, differentiated, compiled, skipped;

typedef struct {
  char arg_text[MOST_ARGS][64];
  const char *arg[MOST_ARGS];
  int nargs;
  char text[MOST_TEXT + 64];
  ke_formula *f; /* NULL: does not parse */
  const ke_formula_info *info;
  int64_t rows[3]; /* of i, j, parameters: 1 where the formula has no variable of that kind */
  size_t n;        /* numbers of the result */
} formula;

static size_t size_of(const formula *f, int k)
{
  return (size_t)(f->rows[f->info->args[k].category] * f->info->args[k].dim);
}

/* `like`: whose numbers of rows it has, or NULL */
static bool parse(formula *f, const formula *like)
{
  static const int64_t rows[3] = {ROWS_I, ROWS_J, 1};
  ke_error err = {.pos = -1};
  ke_status st;

  for (int k = 0; k < f->nargs; k++) f->arg[k] = f->arg_text[k];
  st = ke_formula_new(f->text, strlen(f->text), f->arg, f->nargs, false, &f->f, &err);
  ke_error_clear(&err);
  if (st != KE_OK) {
    f->f = NULL;
    return false;
  }
  f->info = ke_formula_describe(f->f);
  for (int c = 0; c < 3; c++) f->rows[c] = like ? like->rows[c] : 1;
  for (int k = 0; k < f->info->nargs && !like; k++)
    f->rows[f->info->args[k].category] = rows[f->info->args[k].category];
  f->n = (size_t)(f->info->result->dim * f->rows[f->info->result->category]);
  return f->info->nargs == f->nargs;
}

/* KMin of more than there are: Inf, from where no slope comes back (0 times Inf). */
static bool pads(const formula *f)
{
  int64_t least = f->rows[0] < f->rows[1] ? f->rows[0] : f->rows[1];

  for (const char *p = strstr(f->text, "KMin_Reduction("); p; p = strstr(p + 1, "KMin_Reduction(")) {
    int depth = 0, k = 0;
    for (const char *q = strchr(p, '('); *q && (*q != ')' || --depth > 0); q++) {
      if (*q == '(') depth++;
      if (*q == ',' && depth == 1 && !k) k = atoi(q + 1);
    }
    if (k > least) return true;
  }
  return false;
}

/* A random formula that parses and is not too wide. */
static bool make(formula *f, uint64_t *random)
{
  maker m = {.text = f->text, .most = MOST_TEXT, .random = *random};
  size_t numbers;
  char *end;

  memset(f, 0, sizeof *f);
  add_args(&m);
  f->text[m.len] = '\0';
  for (char *p = f->text; p && *p != '\n' && f->nargs < 8; p = *end == ';' ? end + 1 : NULL) {
    end = p + strcspn(p, ";\n");
    snprintf(f->arg_text[f->nargs++], 64, "%.*s", (int)(end - p), p);
  }
  m.len = 0;
  if (draw(&m, 3)) add_reduction(&m, draw(&m, 2) ? 1 : any_dim(&m), 2 + (int)draw(&m, 4));
  else add_grad(&m, any_dim(&m), 3 + (int)draw(&m, 3));
  f->text[m.len] = '\0';
  *random = m.random;
  if (strstr(f->text, "1e300") || strstr(f->text, "1e-320") || !parse(f, NULL)) return false;
  if (pads(f)) return false;
  numbers = f->n;
  for (int k = 0; k < f->info->nargs; k++) numbers += size_of(f, k);
  return numbers <= MOST_NUMBERS;
}

static double uniform(uint64_t *random, double low, double high)
{
  maker m = {.random = *random};
  double u = draw(&m, 1 << 24) / (double)(1 << 24);

  *random = m.random;
  return low + u * (high - low);
}

/* Result in `out`; false: it failed (a compiler that is not there does not count as a failure). */
static bool run(const formula *f, double *const *data, ke_backend_choice backend, double *out)
{
  int64_t rows[MOST_ARGS];
  ke_call call = {.data = (const double *const *)data,
                  .rows = rows,
                  .real_bytes = 8,
                  .backend = backend,
                  .threads = 1,
                  .compile = {.include_dir = include_dir, .cache_dir = cache_dir, .version = "fuzz"}};
  ke_error err = {.pos = -1};
  ke_report report;
  ke_status st;

  for (int k = 0; k < f->info->nargs; k++) rows[k] = f->rows[f->info->args[k].category];
  st = ke_formula_run(f->f, &call, (double *const[]){out}, &report, &err);
  if (st != KE_OK) {
    fprintf(stderr, "%s\n%s\n%s\n", f->text, err.message, err.log ? err.log : "");
    exit(1);
  }
  ke_error_clear(&err);
  return true;
}

static void say(const formula *f, const char *what, double a, double b)
{
  fprintf(stderr, "%s: %.15g and %.15g\n", what, a, b);
  for (int k = 0; k < f->nargs; k++) fprintf(stderr, "%s%s", k ? ";" : "", f->arg_text[k]);
  fprintf(stderr, "\n%s\n", f->text);
  exit(1);
}

/* Largest absolute value; Inf if one is not finite. */
static double largest(const double *v, size_t n)
{
  double most = 0;

  for (size_t k = 0; k < n; k++) {
    if (!isfinite(v[k])) return INFINITY;
    most = fmax(most, fabs(v[k]));
  }
  return most;
}

/* ---- compiled against interpreted ---- */

/* Jumps of the value: rounding may decide them one way here and the other way there. */
static bool jumps(const char *text)
{
  static const char *const words[] = {"Sign(", "Step(", "Equal(", "Less", "IfElse(", "Arg", "==", "<", ">",
                                      "!=", "Floor(", "Ceil(", "Trunc(", "Round", "Mod(", "And(", "Or(",
                                      "Not(", "OneHot(", "ClampInt(", "Atan2(", "Angle("};

  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strstr(text, words[k])) return true;
  return false;
}

/* Functions without a value somewhere: what a minimum passes over may still make a derivative NaN. */
static bool partial(const char *text)
{
  static const char *const words[] = {"Log", "Sqrt(", "sqrt(", "Asin(", "Acos(", "Acosh(", "Atanh(", "Pow",
                                      "**", "^", "/", "Inv(", "Divide(", "Norm", "Hypot(", "Kernel("};

  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strstr(text, words[k])) return true;
  return false;
}

static void compare_backends(const formula *f, double *const *data, const double *interpreted)
{
  double *out = malloc(f->n * sizeof *out), most = largest(interpreted, f->n);

  if (!out) exit(2);
  run(f, data, KE_BACKEND_COMPILED, out);
  for (size_t k = 0; k < f->n && most < 1e8; k++)
    if (!(fabs(out[k] - interpreted[k]) <= 1e-7 * fmax(1, most)))
      say(f, "interpreted and compiled", interpreted[k], out[k]);
  free(out);
  compiled++;
}

/* ---- derivatives ---- */

/* sum of e * F with variable v moved by t * u */
static double moved(const formula *f, double *const *data, int v, const double *u, const double *e, double t)
{
  double *args[MOST_ARGS], *at, *out = malloc(f->n * sizeof *out), sum = 0;
  size_t n = size_of(f, v);

  at = malloc(n * sizeof *at);
  if (!out || !at) exit(2);
  for (int k = 0; k < f->nargs; k++) args[k] = data[k];
  for (size_t k = 0; k < n; k++) at[k] = data[v][k] + t * u[k];
  args[v] = at;
  run(f, args, KE_BACKEND_INTERPRETED, out);
  for (size_t k = 0; k < f->n; k++) sum += e[k] * out[k];
  free(out);
  free(at);
  return sum;
}

static double difference(const formula *f, double *const *data, int v, const double *u, const double *e,
                         double h)
{
  double one = moved(f, data, v, u, e, h) - moved(f, data, v, u, e, -h);
  double two = moved(f, data, v, u, e, 2 * h) - moved(f, data, v, u, e, -2 * h);

  return (8 * one - two) / (12 * h);
}

/* Grad(F, v, e) for a random variable v, as a formula; false: it has none of these. */
static bool gradient_of(const formula *f, int v, formula *g)
{
  static const char *const kind[] = {"Vi", "Vj", "Pm"};
  const char *name = f->info->args[v].name;

  memset(g, 0, sizeof *g);
  if (f->nargs >= MOST_ARGS || strlen(f->text) >= MOST_TEXT) return false;
  g->nargs = f->nargs + 1;
  memcpy(g->arg_text, f->arg_text, sizeof g->arg_text);
  snprintf(g->arg_text[f->nargs], 64, "eta=%s(%d)", kind[f->info->result->category], f->info->result->dim);
  snprintf(g->text, sizeof g->text, "Grad(%.*s,%s,eta)", MOST_TEXT, f->text, name);
  return parse(g, f) && g->n == size_of(f, v) && g->n <= MOST_NUMBERS;
}

static void check_gradient(const formula *f, double **data, uint64_t *random, bool compile)
{
  int v = (int)(*random >> 33) % f->nargs;
  size_t n = size_of(f, v);
  double *e = malloc(f->n * sizeof *e), *u = malloc(n * sizeof *u), *out = malloc(n * sizeof *out);
  double slope = 0, d1, d2, most;
  formula g;

  if (!e || !u || !out) exit(2);
  for (size_t k = 0; k < f->n; k++) e[k] = uniform(random, -1, 1);
  for (size_t k = 0; k < n; k++) u[k] = uniform(random, -1, 1);
  if (gradient_of(f, v, &g)) {
    data[f->nargs] = e;
    run(&g, data, KE_BACKEND_INTERPRETED, out);
    most = largest(out, n);
    for (size_t k = 0; k < n; k++) slope += out[k] * u[k];
    d1 = difference(f, data, v, u, e, 1e-3);
    d2 = difference(f, data, v, u, e, 3e-4);
    /* where two differences agree there is no kink or pole near, and they can be trusted */
    if (fabs(d1) < 1e4 && fabs(d1 - d2) <= 1e-7 * fmax(1, fabs(d1)) && (most < 1e5 || (most == INFINITY && !partial(f->text)))) {
      if (!(fabs(slope - d2) <= 1e-5 * fmax(1, fmax(fabs(d2), most)))) say(&g, "slope and difference", slope, d2);
      differentiated++;
    } else {
      skipped++;
    }
    if (compile && !jumps(g.text)) compare_backends(&g, data, out);
  }
  ke_formula_free(g.f);
  free(e);
  free(u);
  free(out);
}

static void try_one(uint64_t *random, int one_in)
{
  double *data[MOST_ARGS] = {NULL}, *out = NULL;
  bool compile;
  formula f;

  if (make(&f, random)) {
    tried++;
    compile = one_in && *random >> 20 & 0xffff ? (*random >> 20) % (unsigned)one_in == 0 : false;
    for (int k = 0; k < f.nargs; k++) {
      size_t n = size_of(&f, k);
      data[k] = malloc(n * sizeof **data);
      if (!data[k]) exit(2);
      for (size_t c = 0; c < n; c++) data[k][c] = uniform(random, *random & 1 ? 0.2 : -1, 1.5);
    }
    out = malloc(f.n * sizeof *out);
    if (!out) exit(2);
    run(&f, data, KE_BACKEND_INTERPRETED, out);
    if (largest(out, f.n) < 1e6) {
      if (compile && !jumps(f.text)) compare_backends(&f, data, out);
      if (!jumps(f.text)) check_gradient(&f, data, random, compile);
    }
    free(out);
    for (int k = 0; k < f.nargs; k++) free(data[k]);
  }
  ke_formula_free(f.f);
}

int main(int argc, char **argv)
{
  long seconds = 10;
  int one_in = 0, opt;
  uint64_t random = 0x9e3779b97f4a7c15u;
  char place[] = "/tmp/keops-fuzz-XXXXXX", command[80];
  time_t end;

  while ((opt = getopt(argc, argv, "t:s:c:i:")) != -1) {
    if (opt == 't') seconds = atol(optarg);
    else if (opt == 's') random ^= (uint64_t)atol(optarg) * 0xbf58476d1ce4e5b9u;
    else if (opt == 'c') one_in = atoi(optarg);
    else if (opt == 'i') include_dir = optarg;
    else return 2;
  }
  cache_dir = mkdtemp(place);
  if (!cache_dir) return 2;
  for (end = time(NULL) + seconds; time(NULL) < end;) try_one(&random, one_in);
  printf("%ld formulas, %ld gradients checked (%ld left out: a kink or a pole near), %ld compiled\n", tried,
         differentiated, skipped, compiled);
  snprintf(command, sizeof command, "rm -rf %s", place);
  return system(command) != 0;
}
