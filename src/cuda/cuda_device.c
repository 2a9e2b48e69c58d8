/* Devices and workers (cuda_device.h). Nothing is released at exit: the driver may be gone by then. */
#include "cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST_WORKERS = 32, UNIT_BYTES = 1 << 20 };

static struct {
  const ke_cuda_driver *driver; /* NULL: not started */
  pid_t starter;
  int count;
  ke_cuda_device device[KE_CUDA_DEVICES];
  ke_cuda_worker worker[MOST_WORKERS];
  int nworker;
} state;

ke_status ke_cuda_check(cu_result result, const char *what, ke_error *err)
{
  const char *name = NULL, *text = NULL;

  if (result == CU_SUCCESS) return KE_OK;
  if (state.driver) {
    state.driver->error_name(result, &name);
    state.driver->error_text(result, &text);
  }
  return ke_fail(err, KE_ERR_DEVICE, -1, "%s failed: %s (%s, error %d)", what,
                 text ? text : "no text", name ? name : "unknown", result);
}

/* ---- start ---- */
static ke_status start(ke_error *err)
{
  const ke_cuda_driver *driver;
  cu_result result;

  KE_TRY(ke_cuda_driver_open(&driver, err));
  result = driver->init(0);
  if (result == CU_SUCCESS) result = driver->device_count(&state.count);
  if (result == CU_NO_DEVICE || (result == CU_SUCCESS && state.count == 0))
    return ke_fail(err, KE_ERR_DEVICE, -1, "there is an NVIDIA driver, but it shows no GPU");
  if (result != CU_SUCCESS) {
    state.driver = driver; /* for its words */
    (void)!ke_cuda_check(result, "starting CUDA", err);
    state.driver = NULL;
    return KE_ERR_DEVICE;
  }
  if (state.count > KE_CUDA_DEVICES) state.count = KE_CUDA_DEVICES;
  state.driver = driver;
  state.starter = getpid();
  return KE_OK;
}

ke_status ke_cuda_start(const ke_cuda_driver **driver, int *devices, ke_error *err)
{
  *devices = 0;
  if (!state.driver) KE_TRY(start(err));
  if (state.starter != getpid())
    return ke_fail(err, KE_ERR_DEVICE, -1,
                   "CUDA cannot be used here: this process was forked from one that had started it; "
                   "start workers before the GPU is used, or use device = \"cpu\" in them");
  *driver = state.driver;
  *devices = state.count;
  return KE_OK;
}

ke_status ke_cuda_describe(int number, ke_cuda_device *out, ke_error *err)
{
  const ke_cuda_driver *driver;
  int count, major = 0, minor = 0;

  KE_TRY(ke_cuda_start(&driver, &count, err));
  if (number < 0 || number >= count)
    return ke_fail(err, KE_ERR_DEVICE, -1, "there is no GPU number %d: there %s %d, counted from 0",
                   number, count == 1 ? "is" : "are", count);
  *out = (ke_cuda_device){.number = number};
  CU_TRY(driver->device_get(&out->id, number), "looking at a GPU");
  CU_TRY(driver->device_name(out->name, (int)sizeof out->name, out->id), "looking at a GPU");
  CU_TRY(driver->device_memory(&out->memory, out->id), "looking at a GPU");
  CU_TRY(driver->device_attribute(&major, CU_MAJOR, out->id), "looking at a GPU");
  CU_TRY(driver->device_attribute(&minor, CU_MINOR, out->id), "looking at a GPU");
  CU_TRY(driver->device_attribute(&out->processors, CU_MULTIPROCESSORS, out->id),
         "looking at a GPU");
  if (driver->device_attribute(&out->double_ratio, CU_SINGLE_TO_DOUBLE, out->id) != CU_SUCCESS ||
      out->double_ratio < 1)
    out->double_ratio = 2;
  if (driver->device_attribute(&out->most_shared, CU_MOST_SHARED, out->id) != CU_SUCCESS)
    out->most_shared = 0;
  out->arch = 10 * major + minor;
  return KE_OK;
}

static ke_status open_device(int number, ke_cuda_device **out, ke_error *err)
{
  ke_cuda_device found;

  if (number >= 0 && number < KE_CUDA_DEVICES && state.device[number].context) {
    *out = &state.device[number];
    return KE_OK;
  }
  KE_TRY(ke_cuda_describe(number, &found, err));
  CU_TRY(state.driver->context_retain(&found.context, found.id), "starting a GPU");
  *out = &state.device[number];
  **out = found;
  return KE_OK;
}

/* ---- workers ---- */
ke_status ke_cuda_enter(const ke_cuda_worker *worker, ke_error *err)
{
  return ke_cuda_check(state.driver->context_push(worker->device->context), "turning to a GPU",
                       err);
}

void ke_cuda_leave(void)
{
  cu_context old;

  state.driver->context_pop(&old);
}

static ke_status make_events(ke_cuda_worker *w, ke_error *err)
{
  enum { NO_TIMES = 2 };
  const ke_cuda_driver *d = state.driver;

  CU_TRY(d->stream_create(&w->stream, CU_STREAM_NON_BLOCKING), "making a stream");
  for (int k = 0; k < KE_CUDA_STAGES; k++)
    CU_TRY(d->event_create(&w->staged[k], NO_TIMES), "making an event");
  for (int k = 0; k < KE_CUDA_IN_FLIGHT; k++)
    CU_TRY(d->event_create(&w->launched[k], NO_TIMES), "making an event");
  CU_TRY(d->event_create(&w->begin, 0), "making an event");
  CU_TRY(d->event_create(&w->end, 0), "making an event");
  return KE_OK;
}

ke_status ke_cuda_worker_of(int number, int nth, ke_cuda_worker **out, ke_error *err)
{
  const ke_cuda_driver *driver;
  ke_cuda_worker fresh = {.nth = nth};
  int count;
  ke_status st;

  KE_TRY(ke_cuda_start(&driver, &count, err));
  for (int k = 0; k < state.nworker; k++) {
    *out = &state.worker[k];
    if ((*out)->device->number == number && (*out)->nth == nth) return KE_OK;
  }
  if (state.nworker == MOST_WORKERS)
    return ke_fail(err, KE_ERR_DEVICE, -1, "at most %d GPUs can be used at a time", MOST_WORKERS);
  KE_TRY(open_device(number, &fresh.device, err));
  KE_TRY(ke_cuda_enter(&fresh, err));
  st = make_events(&fresh, err);
  ke_cuda_leave();
  if (st != KE_OK) return st;
  *out = &state.worker[state.nworker++];
  **out = fresh;
  return KE_OK;
}

/* ---- memory ---- */
enum { BUFFERS = 12 };

static void buffers_of(ke_cuda_worker *w, ke_cuda_buffer *list[BUFFERS])
{
  ke_cuda_buffer *all[BUFFERS] = {&w->kept, &w->red, &w->once, &w->state, &w->fresh, &w->partial,
                                  &w->ranges, &w->kept_terms, &w->red_terms, &w->norms, &w->rest, &w->largest};

  for (int k = 0; k < BUFFERS; k++) list[k] = all[k];
}

static size_t held_by(ke_cuda_worker *w)
{
  ke_cuda_buffer *list[BUFFERS];
  size_t sum = 0;

  buffers_of(w, list);
  for (int k = 0; k < BUFFERS; k++) sum += list[k]->size;
  return sum;
}

ke_status ke_cuda_memory(ke_cuda_worker *worker, size_t *free_bytes, size_t *held, ke_error *err)
{
  size_t total;

  CU_TRY(state.driver->memory_info(free_bytes, &total), "asking for free memory");
  *held = 0;
  for (int k = 0; k < state.nworker; k++)
    if (state.worker[k].device == worker->device) *held += held_by(&state.worker[k]);
  return KE_OK;
}

static void free_buffer(ke_cuda_buffer *b)
{
  if (b->at) state.driver->free(b->at);
  *b = (ke_cuda_buffer){0};
}

ke_status ke_cuda_reserve(ke_cuda_worker *worker, ke_cuda_buffer *buffer, size_t bytes,
                          ke_error *err)
{
  size_t free_bytes = 0, total = 0;
  cu_result result;

  if (bytes == 0) bytes = 1;
  if (bytes <= buffer->size) return KE_OK;
  free_buffer(buffer); /* waits until nobody uses it */
  if (bytes > SIZE_MAX - UNIT_BYTES) return ke_fail_memory(err);
  bytes = (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
  result = state.driver->alloc(&buffer->at, bytes);
  if (result == CU_SUCCESS) {
    buffer->size = bytes;
    return KE_OK;
  }
  buffer->at = 0;
  if (result != CU_OUT_OF_MEMORY) return ke_cuda_check(result, "allocating memory", err);
  state.driver->memory_info(&free_bytes, &total);
  return ke_fail(err, KE_ERR_DEVICE, -1,
                 "out of memory on GPU %d: %.1f MB are needed and %.1f of %.1f MB are free",
                 worker->device->number, (double)bytes / 1e6, (double)free_bytes / 1e6,
                 (double)total / 1e6);
}

static void free_stages(ke_cuda_worker *w)
{
  for (int k = 0; k < KE_CUDA_STAGES; k++) {
    if (w->stage[k]) state.driver->host_free(w->stage[k]);
    w->stage[k] = NULL;
  }
  w->stage_bytes = 0;
}

ke_status ke_cuda_reserve_stages(ke_cuda_worker *w, size_t bytes, ke_error *err)
{
  enum { PORTABLE = 1 };
  void *at;

  if (bytes <= w->stage_bytes) return KE_OK;
  CU_TRY(state.driver->stream_wait(w->stream), "waiting for a GPU");
  free_stages(w);
  for (int k = 0; k < KE_CUDA_STAGES; k++) {
    at = NULL;
    if (state.driver->host_alloc(&at, bytes, PORTABLE) != CU_SUCCESS) {
      free_stages(w);
      return ke_fail(err, KE_ERR_DEVICE, -1, "out of page-locked memory: %.1f MB are needed",
                     (double)bytes / 1e6);
    }
    w->stage[k] = at;
  }
  w->stage_bytes = bytes;
  return KE_OK;
}

void ke_cuda_release(void)
{
  ke_cuda_buffer *list[BUFFERS];

  if (!state.driver || state.starter != getpid()) return;
  for (int k = 0; k < state.nworker; k++) {
    ke_cuda_worker *w = &state.worker[k];

    if (ke_cuda_enter(w, NULL) != KE_OK) continue;
    buffers_of(w, list);
    for (int b = 0; b < BUFFERS; b++) free_buffer(list[b]);
    free_stages(w);
    ke_cuda_leave();
  }
}
