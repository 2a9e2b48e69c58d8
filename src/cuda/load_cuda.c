/* Kernels in memory (load_cuda.h). Modules are never unloaded: other formulas may use them. */
#include "load_cuda.h"

#include "compile_cuda.h"
#include "emit_cuda.h"
#include "sha256.h"

#include <stdlib.h>
#include <string.h>

typedef struct loaded {
  struct loaded *next;
  const ke_cuda_device *device;
  unsigned char digest[KE_SHA256_BYTES]; /* of the source */
  cu_function pairs, merge, norms, split;
} loaded;

static loaded *table;

static loaded *find_loaded(const ke_cuda_device *device, const unsigned char *digest)
{
  for (loaded *l = table; l; l = l->next)
    if (l->device == device && memcmp(l->digest, digest, sizeof l->digest) == 0) return l;
  return NULL;
}

static ke_status find_functions(const ke_cuda_driver *driver, cu_module module,
                                const ke_cuda_tiling *tiling, loaded *l, ke_error *err)
{
  CU_TRY(driver->module_function(&l->pairs, module, "ke_pairs"), "loading a kernel");
  CU_TRY(driver->module_function(&l->merge, module, "ke_merge"), "loading a kernel");
  if (!tiling->terms) return KE_OK;
  CU_TRY(driver->module_function(&l->norms, module, "ke_norms"), "loading a kernel");
  CU_TRY(driver->module_function(&l->split, module, "ke_split"), "loading a kernel");
  return ke_cuda_check(driver->function_set(l->pairs, CU_DYNAMIC_SHARED, tiling->dynamic), "loading a kernel",
                       err);
}

/* An image as functions. The driver copies the image. */
static ke_status load_image(const ke_cuda_driver *driver, const char *image, const ke_cuda_tiling *tiling,
                            loaded *l, ke_error *err)
{
  cu_module module;
  ke_status st;

  CU_TRY(driver->module_load(&module, image), "loading a kernel");
  st = find_functions(driver, module, tiling, l, err);
  if (st != KE_OK) driver->module_unload(module);
  return st;
}

static ke_status load_source(const ke_cuda_driver *driver, const ke_cuda_device *device,
                             const char *source, const ke_cuda_tiling *tiling,
                             const ke_gpu_settings *settings, loaded **out, ke_error *err)
{
  const ke_cuda_nvrtc *nvrtc;
  loaded fresh = {.device = device};
  ke_sha256 sum;
  char *image;
  size_t size;
  int version = 0;
  ke_status st;

  ke_sha256_init(&sum);
  ke_sha256_add(&sum, source, strlen(source));
  ke_sha256_end(&sum, fresh.digest);
  *out = find_loaded(device, fresh.digest);
  if (*out) {
    ke_cache_count((ke_cache_counters){.hits_memory = 1});
    return KE_OK;
  }
  CU_TRY(driver->driver_version(&version), "asking the driver for its version");
  KE_TRY(ke_cuda_nvrtc_open(settings->hint, version / 1000, &nvrtc, err));
  KE_TRY(ke_cuda_image(nvrtc, device->arch, source, &settings->compile, &image, &size, err));
  st = load_image(driver, image, tiling, &fresh, err);
  free(image);
  if (st != KE_OK) return st;
  *out = malloc(sizeof **out);
  if (!*out) return ke_fail_memory(err);
  fresh.next = table;
  **out = fresh;
  table = *out;
  return KE_OK;
}

/* Blocks that run at the same time. */
static ke_status count_blocks(const ke_cuda_driver *driver, ke_cuda_kernel *k, ke_error *err)
{
  int each = 0;

  CU_TRY(driver->occupancy(&each, k->pairs, k->tiling.across * k->tiling.lanes,
                           (size_t)k->tiling.dynamic),
         "fitting a kernel to a GPU");
  if (each < 1) return ke_fail(err, KE_ERR_DEVICE, -1, "a kernel does not fit this GPU");
  k->blocks = each * k->device->processors;
  return KE_OK;
}

ke_status ke_cuda_kernel_of(const ke_pairs_job *job, const ke_cuda_worker *worker,
                            const ke_cuda_tiling *tiling, const ke_gpu_settings *settings,
                            const ke_cuda_kernel **out, ke_error *err)
{
  const ke_cuda_driver *driver;
  ke_cuda_kernel fresh = {.device = worker->device, .accurate = settings->accurate, .tiling = *tiling}, *k;
  loaded *l;
  char *source;
  int count;
  ke_status st;

  for (k = *job->memo; k; k = k->next)
    if (k->device == fresh.device && k->accurate == fresh.accurate &&
        ke_cuda_tiling_same(&k->tiling, &fresh.tiling)) {
      *out = k;
      return KE_OK;
    }
  KE_TRY(ke_cuda_start(&driver, &count, err));
  KE_TRY(ke_emit_cuda(job->pass, &fresh.tiling, fresh.accurate, &source, err));
  st = load_source(driver, fresh.device, source, tiling, settings, &l, err);
  free(source);
  if (st != KE_OK) return st;
  fresh.pairs = l->pairs;
  fresh.merge = l->merge;
  fresh.norms = l->norms;
  fresh.split = l->split;
  KE_TRY(count_blocks(driver, &fresh, err));
  k = ke_arena_alloc(job->arena, sizeof *k);
  if (!k) return ke_fail_memory(err);
  fresh.next = *job->memo;
  *k = fresh;
  *job->memo = k;
  *out = k;
  return KE_OK;
}
