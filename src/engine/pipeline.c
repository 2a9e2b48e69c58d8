/* The story on one screen: parse and check, plan, prepare a kernel for each pass, run.
 *
 * A ke_formula keeps what it has made: the plan, the interpreter's kernels, the functions of compiled
 * ones, for each precision. Making them again would give the same. */
#include "engine.h"

#include "build_plan.h"
#include "print.h"
#include "reduction_name.h"
#include "run_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SINGLE, DOUBLE, NPRECISIONS, NSCHEMES = KE_SUM_KAHAN + 1 };

typedef struct {
  ke_kernel *interpreted, *compiled; /* one a pass; NULL: no memory yet */
  ke_kernel_fn *fn;                  /* of the compiled ones */
  bool interpreted_made, compiled_made;
  void **memo; /* of the GPU's runner, one a pass */
} kernels;

/* What is made for one way to sum; plan NULL: not asked for yet. */
typedef struct {
  ke_plan *plan;
  kernels kernels[NPRECISIONS];
} variant;

struct ke_formula {
  ke_graph graph;
  ke_parsed parsed;
  variant variant[NSCHEMES];
  ke_formula_info info;
  ke_arg_info *args;
  ke_result_info result[KE_MAX_RESULTS];
  ke_strbuf text;
  ke_isa isa; /* for all of its kernels: asking the processor again is slow */
};

void ke_formula_free(ke_formula *f)
{
  if (!f) return;
  ke_graph_clear(&f->graph);
  ke_parsed_clear(&f->parsed);
  ke_strbuf_free(&f->text);
  free(f->args);
  free(f);
}

static ke_status describe(ke_formula *f, ke_error *err)
{
  const ke_parsed *p = &f->parsed;

  for (int k = 0; k < p->nresult; k++) {
    const ke_result *r = &p->result[k];

    if (k) ke_strbuf_add(&f->text, ";");
    ke_print_node(&f->text, r->node, p);
    f->result[k] = (ke_result_info){.category = ke_side_category(r->side),
                                    .dim = r->node->dim,
                                    .values = r->values,
                                    .k = r->k,
                                    .reduction = r->reduction};
  }
  f->args = calloc((size_t)p->nargs + 1, sizeof *f->args);
  if (f->text.failed || !f->args) return ke_fail_memory(err);
  for (int k = 0; k < p->nargs; k++)
    f->args[k] =
        (ke_arg_info){.name = p->arg[k].name, .category = p->arg[k].category, .dim = p->arg[k].dim};
  f->info = (ke_formula_info){.nargs = p->nargs,
                              .args = f->args,
                              .nresult = p->nresult,
                              .result = f->result,
                              .text = f->text.text};
  return KE_OK;
}

static ke_status variant_of(ke_formula *f, ke_sum_scheme scheme, variant **out, ke_error *err)
{
  *out = &f->variant[scheme];
  return (*out)->plan ? KE_OK : ke_plan_formula(&f->graph, &f->parsed, scheme, &(*out)->plan, err);
}

ke_status ke_formula_new(const char *formula, size_t length, const char *const *args, int nargs, bool ranged,
                         ke_formula **out, ke_error *err)
{
  ke_formula *f = calloc(1, sizeof *f);
  variant *v;
  ke_status st;

  if (!f) return ke_fail_memory(err);
  f->isa = ke_cpu_isa();
  st = ke_graph_init(&f->graph, err);
  f->graph.ranged = ranged;
  if (st == KE_OK) st = ke_parse_arguments(&f->graph, args, nargs, &f->parsed, err);
  if (st == KE_OK) st = ke_parse_formula(&f->graph, formula, length, &f->parsed, err);
  if (st == KE_OK) st = describe(f, err);
  if (st == KE_OK) st = variant_of(f, KE_SUM_BLOCK, &v, err);
  if (st != KE_OK) {
    ke_formula_free(f);
    return st;
  }
  *out = f;
  return KE_OK;
}

const ke_formula_info *ke_formula_describe(const ke_formula *f)
{
  return &f->info;
}

const ke_plan *ke_formula_plan(const ke_formula *f)
{
  return f->variant[KE_SUM_BLOCK].plan;
}

/* ---- sizes ---- */
static ke_status common_rows(const ke_formula *f, const ke_call *call, int category, int64_t *rows,
                             ke_error *err)
{
  const ke_arg_info *a;
  int first = -1;

  *rows = 1;
  for (int k = 0; k < f->info.nargs; k++) {
    a = &f->info.args[k];
    if (a->category != category) continue;
    if (first >= 0 && call->rows[k] != *rows)
      return ke_fail(err, KE_ERR_INPUT, -1, "arguments %d and %d have %lld and %lld rows: %s-variables need one number of rows",
                     first + 1, k + 1, (long long)*rows, (long long)call->rows[k],
                     category == 0 ? "i" : "j");
    if (first < 0) first = k;
    *rows = call->rows[k];
  }
  return KE_OK;
}

/* ---- which backend ---- */
/* Nanoseconds of the pair programs on one core, where fused and other instructions count by these weights. */
static double plan_ns(const ke_plan *plan, const ke_run *run, double fused, double other)
{
  double ns = 0, pairs, rows, items;

  for (int k = 0; k < plan->npass; k++) {
    const ke_pass *p = &plan->pass[k];
    if (p->kind != KE_PASS_PAIRS) continue;
    rows = p->kept == KE_I ? (double)run->size_i : p->kept == KE_J ? (double)run->size_j : 1;
    items = p->red == KE_I ? (double)run->size_i : (double)run->size_j;
    pairs = p->ranged ? ke_ranges_pairs(ke_ranges_of(run->ranges, p->kept)) : rows * items;
    ns += pairs * p->cost / 16 * (p->fused ? fused : other);
  }
  return ns;
}

/* Choices are by formula, sizes and settings only: the same call twice takes the same way. */

/* Worth a compile of 0.1 to 0.2 s? */
static bool worth_compiling(const ke_plan *plan, const ke_run *run)
{
  return plan_ns(plan, run, 0.15, 0.6) > 2e8;
}

/* Worth the copies and the start of a GPU, as the time that all threads of the CPU would take? */
static bool worth_a_gpu(const ke_plan *plan, const ke_run *run)
{
  return plan_ns(plan, run, 0.3, 0.5) / run->threads > 1e8;
}

/* ---- kernels ---- */
static kernels *kernels_of(variant *v, int real_bytes)
{
  return &v->kernels[real_bytes == 8 ? DOUBLE : SINGLE];
}

static ke_status interpreted_kernels(ke_formula *f, variant *v, int real_bytes, ke_kernel **out,
                                     ke_error *err)
{
  kernels *ks = kernels_of(v, real_bytes);
  const ke_pass *pass = v->plan->pass;

  if (!ks->interpreted)
    ks->interpreted = ke_arena_alloc(f->graph.arena, ((size_t)v->plan->npass + 1) * sizeof(ke_kernel));
  if (!ks->interpreted) return ke_fail_memory(err);
  for (int k = 0; k < v->plan->npass && !ks->interpreted_made; k++)
    if (pass[k].kind == KE_PASS_PAIRS)
      KE_TRY(ke_interp_prepare(f->graph.arena, &pass[k], real_bytes, f->isa, &ks->interpreted[k], err));
  ks->interpreted_made = true;
  *out = ks->interpreted;
  return KE_OK;
}

static void run_compiled(const ke_kernel *kernel, const ke_task *task)
{
  (*(ke_kernel_fn *)kernel->impl)(task);
}

static ke_status compile_pass(ke_formula *f, const variant *v, const ke_call *call, int k, kernels *ks,
                              ke_report *report, ke_error *err)
{
  char *source;
  ke_status st;

  KE_TRY(ke_emit_c(&v->plan->pass[k], call->real_bytes, f->isa, &ks->compiled[k].shape, &source, err));
  st = ke_cc_fetch(source, &call->compile, &ks->fn[k], report->note, sizeof report->note, err);
  free(source);
  ks->compiled[k].run = run_compiled;
  ks->compiled[k].impl = &ks->fn[k];
  return st;
}

static ke_status compiled_kernels(ke_formula *f, variant *v, const ke_call *call, ke_kernel **out,
                                  ke_report *report, ke_error *err)
{
  kernels *ks = kernels_of(v, call->real_bytes);
  size_t n = (size_t)v->plan->npass + 1;

  if (!ks->compiled) ks->compiled = ke_arena_alloc(f->graph.arena, n * sizeof *ks->compiled);
  if (!ks->fn) ks->fn = ke_arena_alloc(f->graph.arena, n * sizeof *ks->fn);
  if (!ks->compiled || !ks->fn) return ke_fail_memory(err);
  for (int k = 0; k < v->plan->npass && !ks->compiled_made; k++)
    if (v->plan->pass[k].kind == KE_PASS_PAIRS) KE_TRY(compile_pass(f, v, call, k, ks, report, err));
  ks->compiled_made = true;
  *out = ks->compiled;
  return KE_OK;
}

static ke_status choose_kernels(ke_formula *f, variant *v, const ke_call *call, const ke_run *run,
                                ke_kernel **out, ke_report *report, ke_error *err)
{
  bool compile = call->backend == KE_BACKEND_COMPILED ||
                 (call->backend == KE_BACKEND_AUTO && worth_compiling(v->plan, run));
  ke_status st;

  if (compile) {
    st = compiled_kernels(f, v, call, out, report, err);
    report->compiled = st == KE_OK;
    if (st == KE_OK || call->backend == KE_BACKEND_COMPILED ||
        (st != KE_ERR_COMPILE && st != KE_ERR_IO))
      return st;
    snprintf(report->note, sizeof report->note, "%.400s; the built-in interpreter is used instead",
             err->message);
    ke_error_clear(err);
  }
  return interpreted_kernels(f, v, call->real_bytes, out, err);
}

static ke_status run_on_gpu(ke_formula *f, variant *v, const ke_call *call, const ke_run *on_cpu, double *const *out,
                            ke_error *err)
{
  kernels *ks = kernels_of(v, call->real_bytes);
  ke_pairs_runner runner;
  ke_run run = *on_cpu;
  ke_status st;

  if (!ks->memo) ks->memo = ke_arena_alloc(f->graph.arena, ((size_t)v->plan->npass + 1) * sizeof *ks->memo);
  if (!ks->memo) return ke_fail_memory(err);
  KE_TRY(call->gpu->open(&call->gpu_settings, &runner, err));
  run.runner = &runner;
  run.real_bytes = call->real_bytes;
  run.memo = ks->memo;
  run.memo_arena = f->graph.arena;
  st = ke_run_plan(v->plan, &run, out, err);
  call->gpu->close(&runner);
  return st;
}

static bool take_gpu(const variant *v, const ke_call *call, const ke_run *run)
{
  if (call->device == KE_DEVICE_GPU) return true;
  return call->device == KE_DEVICE_AUTO && call->gpu && call->backend == KE_BACKEND_AUTO &&
         worth_a_gpu(v->plan, run) && call->gpu->present();
}

ke_status ke_formula_run(ke_formula *f, const ke_call *call, double *const *out, ke_report *report,
                         ke_error *err)
{
  ke_run run = {.data = call->data,
                .ranges = call->ranges,
                .isa = f->isa,
                .threads = call->threads,
                .poll = call->poll,
                .poll_data = call->poll_data};
  char note[sizeof report->note] = "";
  ke_kernel *kernel = NULL;
  variant *v;
  ke_status st;

  *report = (ke_report){.compiled = false};
  if (f->graph.ranged && !call->ranges)
    return ke_fail(err, KE_ERR_INPUT, -1, "a formula over ranges needs them at each call");
  KE_TRY(common_rows(f, call, 0, &run.size_i, err));
  KE_TRY(common_rows(f, call, 1, &run.size_j, err));
  KE_TRY(variant_of(f, call->scheme, &v, err));
  if (take_gpu(v, call, &run)) {
    st = run_on_gpu(f, v, call, &run, out, err);
    report->gpu = st == KE_OK;
    if (st == KE_OK || call->device == KE_DEVICE_GPU || (st != KE_ERR_DEVICE && st != KE_ERR_COMPILE))
      return st;
    snprintf(note, sizeof note, "the GPU cannot be used, the CPU is used instead: %.400s", err->message);
    ke_error_clear(err);
  }
  KE_TRY(choose_kernels(f, v, call, &run, &kernel, report, err));
  if (*note) memcpy(report->note, note, sizeof note);
  run.kernels = kernel;
  return ke_run_plan(v->plan, &run, out, err);
}

ke_status ke_formula_source(ke_formula *f, int real_bytes, char **source, ke_error *err)
{
  ke_strbuf all = {0};
  const variant *v = &f->variant[KE_SUM_BLOCK];
  ke_shape shape;
  char *one;
  ke_status st;

  ke_strbuf_add(&all, "");
  for (int k = 0; k < v->plan->npass; k++) {
    if (v->plan->pass[k].kind != KE_PASS_PAIRS) continue;
    st = ke_emit_c(&v->plan->pass[k], real_bytes, f->isa, &shape, &one, err);
    if (st != KE_OK) {
      ke_strbuf_free(&all);
      return st;
    }
    ke_strbuf_addf(&all, "/* pass %d */\n%s", k + 1, one);
    free(one);
  }
  if (all.failed) {
    ke_strbuf_free(&all);
    return ke_fail_memory(err);
  }
  *source = all.text;
  return KE_OK;
}

/* ---- tables ---- */
int ke_op_table(const ke_op_info **table)
{
  static ke_op_info info[KE_OP_COUNT];
  static const char *const kinds[] = {"scalar", "fused", "vector", "sugar", "word"};
  ke_op_info *t;
  int n = 0;

  for (int op = 0; op < KE_OP_COUNT; op++) {
    if (ke_ops[op].kind == KE_FUSED) continue;
    t = &info[n++];
    *t = (ke_op_info){.name = ke_ops[op].name,
                      .kind = kinds[ke_ops[op].kind],
                      .arity = ke_ops[op].arity,
                      .nint = ke_ops[op].nint,
                      .smooth = true};
    for (int k = 0; k < 3; k++) {
      t->low[k] = ke_ops[op].domain[k][0];
      t->high[k] = ke_ops[op].domain[k][1];
      if (ke_ops[op].kind == KE_SCALAR && k < t->arity && !*ke_ops[op].deriv[k]) t->smooth = false;
    }
  }
  *table = info;
  return n;
}

int ke_reduction_table(const char *const **names)
{
  static const char *list[32];
  const ke_reduction_name *table;
  int n = ke_reduction_names(&table);

  for (int k = 0; k < n && k < 32; k++) list[k] = table[k].name;
  *names = list;
  return n;
}
