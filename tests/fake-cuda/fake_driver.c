/* A libcuda of GPUs that are not there: memory is the host's, a launch runs its threads as fibers, one after
 * the other between barriers, before it returns. For tests of src/cuda without a GPU; see fake_nvrtc.c.
 *   FAKE_CUDA_DEVICES=n (1)   FAKE_CUDA_MEMORY=bytes (4e9)   FAKE_CUDA_LIVE=file: allocations alive at exit
 * Everything checks that a context is current where CUDA wants one. */
#include "cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 256 << 10, MOST_THREADS = 1024, INVALID = 1, NO_CONTEXT = 201, LAUNCH_FAILED = 719 };

typedef struct { unsigned x, y, z; } index3;

static int depth; /* contexts pushed */
static size_t in_use;

#define NEED_CONTEXT() do { if (!depth) return NO_CONTEXT; } while (0)

int cuInit(unsigned flags) { return flags ? INVALID : 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *n)
{
  *n = getenv("FAKE_CUDA_DEVICES") ? atoi(getenv("FAKE_CUDA_DEVICES")) : 1;
  return 0;
}
int cuDeviceGet(cu_device *d, int ordinal) { *d = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, cu_device d) { snprintf(name, (size_t)size, "fake GPU %d", d); return 0; }
static size_t memory(void) { return getenv("FAKE_CUDA_MEMORY") ? (size_t)atof(getenv("FAKE_CUDA_MEMORY")) : (size_t)4e9; }
int cuDeviceTotalMem_v2(size_t *n, cu_device d) { (void)d; *n = memory(); return 0; }
int cuDeviceGetAttribute(int *value, int which, cu_device d)
{
  (void)d;
  *value = which == CU_MAJOR ? 9 : which == CU_MINOR ? 0 : which == CU_MULTIPROCESSORS ? 3
         : which == CU_MOST_SHARED ? 100 << 10 : 2;
  return 0;
}
int cuDevicePrimaryCtxRetain(cu_context *c, cu_device d) { *c = (cu_context)(uintptr_t)(d + 1); return 0; }
int cuCtxPushCurrent_v2(cu_context c) { (void)c; depth++; return 0; }
int cuCtxPopCurrent_v2(cu_context *c) { NEED_CONTEXT(); *c = NULL; depth--; return 0; }
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
  NEED_CONTEXT();
  *total = memory();
  *free_bytes = *total - in_use;
  return 0;
}

int cuMemAlloc_v2(cu_address *at, size_t n)
{
  size_t *p;

  NEED_CONTEXT();
  if (in_use + n > memory()) return CU_OUT_OF_MEMORY;
  p = aligned_alloc(256, (n + 511) / 256 * 256);
  if (!p) return CU_OUT_OF_MEMORY;
  memset(p, 0xff, (n + 511) / 256 * 256); /* NaN */
  *p = n;
  in_use += n;
  *at = (cu_address)(uintptr_t)p + 256;
  return 0;
}
int cuMemFree_v2(cu_address at)
{
  size_t *p = (size_t *)(uintptr_t)(at - 256);

  NEED_CONTEXT();
  in_use -= *p;
  free(p);
  return 0;
}
int cuMemHostAlloc(void **at, size_t n, unsigned flags) { NEED_CONTEXT(); (void)flags; *at = malloc(n); return !*at; }
int cuMemFreeHost(void *at) { NEED_CONTEXT(); free(at); return 0; }
int cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t n, cu_stream s)
{
  NEED_CONTEXT();
  if (!s) return INVALID;
  memcpy((void *)(uintptr_t)to, from, n);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t n, cu_stream s)
{
  NEED_CONTEXT();
  if (!s) return INVALID;
  memcpy(to, (void *)(uintptr_t)from, n);
  return 0;
}
int cuMemcpy2DAsync_v2(const cu_copy *c, cu_stream s)
{
  const char *from = c->src_type == CU_MEMORY_HOST ? c->src_host : (const char *)(uintptr_t)c->src_device;
  char *to = c->dst_type == CU_MEMORY_HOST ? c->dst_host : (char *)(uintptr_t)c->dst_device;

  NEED_CONTEXT();
  if (!s || c->src_pitch < c->width || c->dst_pitch < c->width) return INVALID;
  for (size_t k = 0; k < c->height; k++) memcpy(to + k * c->dst_pitch, from + k * c->src_pitch, c->width);
  return 0;
}
int cuMemsetD8Async(cu_address at, unsigned char byte, size_t n, cu_stream s)
{
  NEED_CONTEXT();
  (void)s;
  memset((void *)(uintptr_t)at, byte, n);
  return 0;
}
int cuStreamCreate(cu_stream *s, unsigned f) { NEED_CONTEXT(); (void)f; *s = malloc(1); return 0; }
int cuStreamDestroy_v2(cu_stream s) { free(s); return 0; }
int cuStreamSynchronize(cu_stream s) { NEED_CONTEXT(); (void)s; return 0; }
int cuEventCreate(cu_event *e, unsigned f) { NEED_CONTEXT(); (void)f; *e = malloc(1); return 0; }
int cuEventRecord(cu_event e, cu_stream s) { NEED_CONTEXT(); (void)e, (void)s; return 0; }
int cuEventQuery(cu_event e) { NEED_CONTEXT(); (void)e; return 0; }
int cuEventSynchronize(cu_event e) { NEED_CONTEXT(); (void)e; return 0; }
int cuEventElapsedTime(float *ms, cu_event a, cu_event b) { NEED_CONTEXT(); (void)a, (void)b; *ms = 1; return 0; }
int cuEventDestroy_v2(cu_event e) { free(e); return 0; }

/* ---- kernels ---- */
static index3 thread_index, block_index, block_size;
static ucontext_t scheduler, fiber[MOST_THREADS];
static char *stacks;
static bool finished[MOST_THREADS];
static unsigned running;
static void (*kernel)(void **);
static void **kernel_arguments;

static void sync_threads(void) { swapcontext(&fiber[running], &scheduler); }

static void run_thread(void)
{
  kernel(kernel_arguments);
  finished[running] = true;
  swapcontext(&fiber[running], &scheduler);
}

static int run_block(unsigned n)
{
  volatile unsigned left = n; /* kept over the changes of context */
  unsigned ended;

  for (unsigned k = 0; k < n; k++) {
    getcontext(&fiber[k]);
    fiber[k].uc_stack.ss_sp = stacks + (size_t)k * STACK;
    fiber[k].uc_stack.ss_size = STACK;
    fiber[k].uc_link = &scheduler;
    finished[k] = false;
    makecontext(&fiber[k], run_thread, 0);
  }
  while (left) {
    ended = 0;
    for (unsigned k = 0; k < n; k++) {
      if (finished[k]) continue;
      running = k;
      thread_index = (index3){k % block_size.x, k / block_size.x, 0};
      swapcontext(&scheduler, &fiber[k]);
      ended += finished[k];
    }
    left -= ended;
  }
  return 0;
}

int cuLaunchKernel(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, cu_stream s, void **arguments, void **extra)
{
  void *at = f;

  NEED_CONTEXT();
  if (!s || gx < 1 || gy != 1 || gz != 1 || bz != 1 || bx * by < 1 || bx * by > MOST_THREADS || extra)
    return INVALID;
  if (!stacks) stacks = malloc((size_t)STACK * MOST_THREADS);
  memcpy(&kernel, &at, sizeof kernel);
  kernel_arguments = arguments;
  block_size = (index3){bx, by, 1};
  for (unsigned g = 0; g < gx; g++) {
    block_index = (index3){g, 0, 0};
    if (run_block(bx * by)) return LAUNCH_FAILED;
  }
  return 0;
}

int cuModuleLoadData(cu_module *module, const void *image)
{
  char file[] = "/tmp/fake-cubin-XXXXXX";
  uint64_t size;
  void *library;
  int fd = mkstemp(file);

  NEED_CONTEXT();
  memcpy(&size, image, 8);
  if (fd < 0 || write(fd, (const char *)image + 8, size) != (ssize_t)size) return 200;
  close(fd);
  library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  unlink(file);
  if (!library) return 200;
  *(index3 **)dlsym(library, "fake_thread") = &thread_index;
  *(index3 **)dlsym(library, "fake_block") = &block_index;
  *(index3 **)dlsym(library, "fake_size") = &block_size;
  *(void (**)(void))dlsym(library, "fake_sync") = sync_threads;
  *module = library;
  return 0;
}
int cuModuleUnload(cu_module m) { return dlclose(m); }
int cuModuleGetFunction(cu_function *f, cu_module m, const char *name)
{
  char fake[64];

  snprintf(fake, sizeof fake, "fake_%s", name);
  *f = dlsym(m, fake);
  return *f ? 0 : 500;
}
int cuFuncGetAttribute(int *value, int which, cu_function f) { (void)which, (void)f; *value = 0; return 0; }
int cuFuncSetAttribute(cu_function f, int which, int value) { (void)f; return which != 8 || value > 100 << 10; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, cu_function f, int threads, size_t shared)
{
  (void)f, (void)threads, (void)shared;
  *n = 2;
  return 0;
}
int cuGetErrorName(cu_result e, const char **name) { (void)e; *name = "FAKE"; return 0; }
int cuGetErrorString(cu_result e, const char **text) { (void)e; *text = "an error of the fake driver"; return 0; }
