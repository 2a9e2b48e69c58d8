/* Runs classical.cu for bench/cuda/run.R by the driver and NVRTC: .C("classical", source, kind, bytes, d, e, m, n,
 * tx, ty, tb, g, repeats, out, ms). ms: -1 and more below is the step that failed; else the median time of the
 * kernel by events. The packages's src/cuda/cuda_api.c is compiled in. */
#include "cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ke_cuda_driver *driver;
static const ke_cuda_nvrtc *nvrtc;
static cu_stream stream;

static int fail(double *ms, int step)
{
  *ms = -step;
  return 0;
}

static int start(void)
{
  int version = 0;
  cu_device device;
  cu_context context;

  if (stream) return 1;
  if (ke_cuda_driver_open(&driver, NULL) != KE_OK || driver->init(0) || driver->driver_version(&version)) return 0;
  if (ke_cuda_nvrtc_open(NULL, version / 1000, &nvrtc, NULL) != KE_OK) return 0;
  if (driver->device_get(&device, 0) || driver->context_retain(&context, device)) return 0;
  return !driver->context_push(context) && !driver->stream_create(&stream, 1);
}

static cu_function compile(const char *source, int kind, int bytes, int d, int e)
{
  char define[4][48];
  const char *options[] = {"-arch=sm_90", "-std=c++17", define[0], define[1], define[2], define[3]};
  nvrtc_program program;
  cu_module module;
  cu_function f = NULL;
  size_t size;
  char *image;

  snprintf(define[0], 48, "-DD=%d", d);
  snprintf(define[1], 48, "-DE=%d", e);
  snprintf(define[2], 48, "-DREAL=%s", bytes == 4 ? "float" : "double");
  snprintf(define[3], 48, "-DKIND=%d", kind);
  if (nvrtc->create(&program, source, "classical.cu", 0, NULL, NULL)) return NULL;
  if (nvrtc->compile(program, 6, options) || nvrtc->cubin_size(program, &size)) return NULL;
  image = malloc(size);
  if (nvrtc->cubin(program, image) == 0 && driver->module_load(&module, image) == 0)
    driver->module_function(&f, module, "classical");
  free(image);
  nvrtc->destroy(&program);
  return f;
}

static cu_address upload(const double *x, size_t n, int bytes)
{
  cu_address at = 0;
  float *f = NULL;

  if (driver->alloc(&at, n * (size_t)bytes + 16)) return 0;
  if (bytes == 4) {
    f = malloc(n * sizeof *f);
    for (size_t k = 0; k < n; k++) f[k] = (float)x[k];
  }
  driver->upload(at, f ? (const void *)f : x, n * (size_t)bytes, stream);
  driver->stream_wait(stream);
  free(f);
  return at;
}

static int by_size(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

int classical(char **source, int *kind, int *bytes, int *d, int *e, int *m, int *n, double *x, double *y, double *b,
              double *g, int *repeats, double *out, double *ms)
{
  size_t width = (size_t)(*kind == 1 ? *d : *kind >= 2 && *kind <= 3 ? 1 : *e), count = (size_t)*m * width;
  float times[64], gf = (float)*g;
  cu_address px, py, pb, po;
  cu_event begin, end;
  cu_function f;

  if (!start()) return fail(ms, 1);
  f = compile(*source, *kind, *bytes, *d, *e);
  if (!f) return fail(ms, 2);
  px = upload(x, (size_t)*m * (size_t)*d, *bytes);
  py = upload(y, (size_t)*n * (size_t)*d, *bytes);
  pb = upload(b, (size_t)*n * (size_t)*e, *bytes);
  if (!px || !py || !pb || driver->alloc(&po, count * 8) || driver->event_create(&begin, 0) || driver->event_create(&end, 0))
    return fail(ms, 3);
  void *arguments[] = {m, n, &px, &py, &pb, *bytes == 4 ? (void *)&gf : (void *)g, &po};
  for (int k = 0; k <= *repeats && k < 64; k++) { /* the first one warms up */
    driver->event_record(begin, stream);
    if (driver->launch(f, (unsigned)((*m + 191) / 192), 1, 1, 192, 1, 1, 0, stream, arguments, NULL)) return fail(ms, 4);
    driver->event_record(end, stream);
    if (driver->stream_wait(stream)) return fail(ms, 5);
    if (k > 0) driver->event_ms(&times[k - 1], begin, end);
  }
  qsort(times, (size_t)*repeats, sizeof *times, by_size);
  *ms = (double)times[*repeats / 2];
  if (*bytes == 8) {
    driver->download(out, po, count * 8, stream);
  } else {
    float *held = malloc(count * sizeof *held);
    driver->download(held, po, count * 4, stream);
    driver->stream_wait(stream);
    for (size_t k = 0; k < count; k++) out[k] = (double)held[k];
    free(held);
  }
  driver->stream_wait(stream);
  driver->free(px), driver->free(py), driver->free(pb), driver->free(po);
  return 1;
}
