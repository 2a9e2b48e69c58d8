/* Finds libcuda and libnvrtc (cuda_api.h). What was opened stays open: the driver's threads may use it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function of a library, or false. ISO C has no cast from object to function. */
static bool find_symbol(void *library, const char *symbol, void *function)
{
  void *at = dlsym(library, symbol);

  memcpy(function, &at, sizeof at);
  return at != NULL;
}

/* ---- the driver ---- */
static bool fill_driver(void *library, ke_cuda_driver *driver, const char **missing)
{
#define FILL(name, symbol, parameters)                                                             \
  if (!find_symbol(library, #symbol, &driver->name)) {                                             \
    *missing = #symbol;                                                                            \
    return false;                                                                                  \
  }
  KE_CUDA_DRIVER(FILL)
#undef FILL
  return true;
}

ke_status ke_cuda_driver_open(const ke_cuda_driver **out, ke_error *err)
{
  static const char *const names[] = {"libcuda.so.1", "libcuda.so",
                                      "/usr/lib/wsl/lib/libcuda.so.1"};
  static ke_cuda_driver driver;
  static bool open;
  const char *missing = NULL;
  void *library = NULL;

  *out = &driver;
  if (open) return KE_OK;
  for (size_t k = 0; !library && k < sizeof names / sizeof *names; k++)
    library = dlopen(names[k], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return ke_fail(err, KE_ERR_DEVICE, -1,
                   "no NVIDIA driver was found: libcuda.so.1 is not on the library path");
  if (!fill_driver(library, &driver, &missing)) {
    dlclose(library);
    return ke_fail(err, KE_ERR_DEVICE, -1, "the NVIDIA driver is too old: it has no %s", missing);
  }
  open = true;
  return KE_OK;
}

/* ---- NVRTC ---- */
enum { NEWEST_MAJOR = 14, OLDEST_MAJOR = 11, MOST_FOLDERS = 12, FOLDER = 400 };

static bool fill_nvrtc(void *library, ke_cuda_nvrtc *nvrtc)
{
#define FILL(name, symbol, parameters)                                                             \
  if (!find_symbol(library, #symbol, &nvrtc->name)) return false;
  KE_CUDA_NVRTC(FILL)
#undef FILL
  return nvrtc->version(&nvrtc->major, &nvrtc->minor) == 0;
}

typedef struct {
  char folder[MOST_FOLDERS][FOLDER]; /* "" is the library path */
  int n;
} places;

static void add_place(places *p, const char *folder, const char *below)
{
  if (!folder || !*folder || p->n == MOST_FOLDERS) return;
  snprintf(p->folder[p->n++], FOLDER, "%s%s/", folder, below);
}

static void find_places(places *p, const char *hint)
{
  p->folder[0][0] = '\0';
  p->n = 1;
  add_place(p, hint, "/lib64");
  add_place(p, hint, "/lib");
  add_place(p, hint, "");
  add_place(p, getenv("CUDA_HOME"), "/lib64");
  add_place(p, getenv("CUDA_PATH"), "/lib64");
  add_place(p, "/usr/local/cuda", "/lib64");
  add_place(p, "/opt/cuda", "/lib64");
}

/* An NVRTC of a major version in one of the places. */
static bool open_major(const places *p, int major, ke_cuda_nvrtc *out)
{
  char file[FOLDER + 64];
  Dl_info where;

  for (int k = 0; k < p->n; k++) {
    void *library, *symbol;

    snprintf(file, sizeof file, "%slibnvrtc.so.%d%s", p->folder[k], major, major == 11 ? ".2" : "");
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    if (fill_nvrtc(library, out) && out->major == major) {
      symbol = dlsym(library, "nvrtcVersion");
      snprintf(out->path, sizeof out->path, "%s",
               dladdr(symbol, &where) && where.dli_fname ? where.dli_fname : file);
      return true;
    }
    dlclose(library);
  }
  return false;
}

static ke_status fail_nvrtc(const places *p, const char *newer, int newest, ke_error *err)
{
  char list[600] = "the library path";

  for (int k = 1; k < p->n; k++) {
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, ", %s", p->folder[k]);
  }
  if (*newer)
    return ke_fail(err, KE_ERR_DEVICE, -1,
                   "the only NVRTC found, %s, is newer than the driver, which knows CUDA up to %d; "
                   "a libnvrtc.so.%d or older is needed (searched: %s)",
                   newer, newest, newest, list);
  return ke_fail(err, KE_ERR_DEVICE, -1,
                 "NVRTC, which compiles kernels for the GPU, was not found: no libnvrtc.so.%d to "
                 "libnvrtc.so.%d.2 on %s",
                 newest ? newest : NEWEST_MAJOR, OLDEST_MAJOR, list);
}

ke_status ke_cuda_nvrtc_open(const char *hint, int newest, const ke_cuda_nvrtc **out, ke_error *err)
{
  static ke_cuda_nvrtc known[NEWEST_MAJOR + 1]; /* by what was asked for; path "": not yet */
  ke_cuda_nvrtc *mine, other = {.path = ""};
  places p;

  if (newest < 0 || newest > NEWEST_MAJOR) newest = 0;
  *out = mine = &known[newest];
  if (*mine->path) return KE_OK;
  find_places(&p, hint);
  for (int major = newest ? newest : NEWEST_MAJOR; major >= OLDEST_MAJOR; major--) {
    if (open_major(&p, major, mine)) return KE_OK;
    *mine->path = '\0';
  }
  for (int major = NEWEST_MAJOR; newest && !*other.path && major > newest; major--)
    if (!open_major(&p, major, &other)) *other.path = '\0';
  return fail_nvrtc(&p, other.path, newest, err);
}
