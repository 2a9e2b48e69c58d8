/* The GPU as the engine sees it (cuda_backend.h). */
#include "cuda_backend.h"

#include "compile_cuda.h"
#include "emit_cuda.h"
#include "run_cuda.h"
#include "strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- for runs ---- */
static bool present(void)
{
  const ke_cuda_driver *driver;
  ke_error err = {.pos = -1};
  int devices = 0;
  ke_status st = ke_cuda_driver_open(&driver, &err);

  if (st == KE_OK) st = ke_cuda_start(&driver, &devices, &err);
  return devices > 0 || (st == KE_ERR_DEVICE && strstr(err.message, "forked"));
}

static void close_session(ke_pairs_runner *runner)
{
  free(runner->device);
  *runner = (ke_pairs_runner){0};
}

static ke_status open_session(const ke_gpu_settings *settings, ke_pairs_runner *out, ke_error *err)
{
  ke_cuda_session *s;
  ke_status st = KE_OK;

  *out = (ke_pairs_runner){0};
  if (settings->ndevice < 1 || settings->ndevice > KE_CUDA_DEVICES)
    return ke_fail(err, KE_ERR_DEVICE, -1, "%d GPUs were asked for; 1 to %d can be used at a time",
                   settings->ndevice, KE_CUDA_DEVICES);
  s = calloc(1, sizeof *s);
  if (!s) return ke_fail_memory(err);
  s->settings = *settings;
  for (int k = 0; st == KE_OK && k < settings->ndevice; k++) {
    int nth = 0;
    for (int j = 0; j < k; j++) nth += settings->device[j] == settings->device[k];
    st = ke_cuda_worker_of(settings->device[k], nth, &s->worker[k], err);
    s->nworker = k + 1;
  }
  *out = (ke_pairs_runner){ke_cuda_run, s};
  if (st != KE_OK) close_session(out);
  return st;
}

const ke_gpu *ke_cuda_backend(void)
{
  static const ke_gpu gpu = {present, open_session, close_session};

  return &gpu;
}

/* ---- what there is ---- */
void ke_cuda_look(const char *hint, ke_cuda_info *out)
{
  const ke_cuda_driver *driver;
  const ke_cuda_nvrtc *nvrtc;
  ke_error err = {.pos = -1};

  *out = (ke_cuda_info){0};
  if (ke_cuda_driver_open(&driver, &err) == KE_OK) {
    if (driver->driver_version(&out->driver) != CU_SUCCESS) out->driver = 0;
    if (ke_cuda_start(&driver, &out->devices, &err) != KE_OK) out->devices = 0;
  }
  if (ke_cuda_nvrtc_open(hint, out->driver / 1000, &nvrtc, *err.message ? NULL : &err) == KE_OK) {
    out->nvrtc = 1000 * nvrtc->major + 10 * nvrtc->minor;
    snprintf(out->nvrtc_path, sizeof out->nvrtc_path, "%s", nvrtc->path);
  }
  memcpy(out->problem, err.message, sizeof out->problem);
}

ke_status ke_cuda_look_at(int number, ke_cuda_device_info *out, ke_error *err)
{
  ke_cuda_device d;

  KE_TRY(ke_cuda_describe(number, &d, err));
  *out = (ke_cuda_device_info){.arch = d.arch, .processors = d.processors, .memory = (double)d.memory};
  memcpy(out->name, d.name, sizeof out->name);
  return KE_OK;
}

void ke_cuda_free_pools(void)
{
  ke_cuda_release();
}

double ke_cuda_last_ms(void)
{
  return ke_cuda_run_ms();
}

/* ---- source, for tests and the curious ---- */
static int64_t rows_of(int side, int64_t size_i, int64_t size_j)
{
  return side == KE_I ? size_i : side == KE_J ? size_j : 1;
}

enum { FORMS = 3 }; /* of a pass: as it is, and on tensor cores with 2 and 3 terms */

/* Source of a form of a pass; NULL: it has no such form. */
static ke_status source_of(const ke_pass *pass, int form, int real_bytes, int64_t size_i, int64_t size_j,
                           char **source, ke_error *err)
{
  ke_cuda_tiling tiling;
  ke_dots dots;

  *source = NULL;
  if (form == 0)
    ke_cuda_tiling_choose(pass, real_bytes, 90, false, NULL, rows_of(pass->kept, size_i, size_j),
                          rows_of(pass->red, size_i, size_j), &tiling);
  else if (real_bytes == 4 && ke_dots_find(pass, &dots))
    ke_cuda_tiling_dots(pass, &dots, form + 1, &tiling);
  else
    return KE_OK;
  return ke_emit_cuda(pass, &tiling, false, source, err);
}

ke_status ke_cuda_source(const ke_plan *plan, int real_bytes, int64_t size_i, int64_t size_j,
                         char **source, ke_error *err)
{
  ke_strbuf all = {0};
  char *one;
  ke_status st = KE_OK;

  ke_strbuf_add(&all, "");
  for (int k = 0; k < plan->npass * FORMS && st == KE_OK; k++) {
    const ke_pass *pass = &plan->pass[k / FORMS];
    if (pass->kind != KE_PASS_PAIRS) continue;
    st = source_of(pass, k % FORMS, real_bytes, size_i, size_j, &one, err);
    if (st != KE_OK || !one) continue;
    ke_strbuf_addf(&all, "/* pass %d%s */\n%s", k / FORMS + 1,
                   k % FORMS == 0 ? "" : k % FORMS == 1 ? ", tensor cores, 2 terms" : ", tensor cores, 3 terms", one);
    free(one);
  }
  if (st == KE_OK && all.failed) st = ke_fail_memory(err);
  if (st == KE_OK)
    *source = all.text;
  else
    ke_strbuf_free(&all);
  return st;
}

ke_status ke_cuda_try(const ke_plan *plan, int real_bytes, int64_t size_i, int64_t size_j, int arch,
                      int newest, const ke_gpu_settings *settings, double *bytes, ke_error *err)
{
  const ke_cuda_nvrtc *nvrtc;
  char *source, *image;
  size_t size;
  ke_status st;

  *bytes = 0;
  KE_TRY(ke_cuda_nvrtc_open(settings->hint, newest, &nvrtc, err));
  for (int k = 0; k < plan->npass * FORMS; k++) {
    const ke_pass *pass = &plan->pass[k / FORMS];
    if (pass->kind != KE_PASS_PAIRS) continue;
    KE_TRY(source_of(pass, k % FORMS, real_bytes, size_i, size_j, &source, err));
    if (!source) continue;
    st = ke_cuda_compile(nvrtc, arch, source, settings->compile.include_dir, &image, &size, err);
    free(source);
    if (st != KE_OK) return st;
    free(image);
    *bytes += (double)size;
  }
  return KE_OK;
}
