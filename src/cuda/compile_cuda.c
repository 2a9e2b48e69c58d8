/* NVRTC, and the cache around it (compile_cuda.h). */
#include "compile_cuda.h"

#include "cache.h"
#include "strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADERS = 13, MOST_HEADER = 1 << 20, MOST_ARCHS = 64, MOST_NAME = 512, TRIM_EVERY = 32 };

static const char *const header_names[HEADERS] = {
  "keops_cuda.h",        "keops_cuda_task.h",   "keops_cuda_pairs.h",  "keops_cuda_units.h", "keops_cuda_blocks.h",
  "keops_cuda_tensor.h", "keops_cuda_dots.h",   "keops_cuda_wide.h",   "keops_cuda_least.h", "keops_cuda_special.h",
  "keops_digamma.h",     "keops_sum.h",         "keops_orders.h"};

/* ---- the headers, which are part of each source ---- */
static void free_headers(char *text[HEADERS])
{
  for (int k = 0; k < HEADERS; k++) free(text[k]);
}

static ke_status read_headers(const char *include_dir, char *text[HEADERS], ke_error *err)
{
  char file[MOST_NAME * 2];
  size_t n;
  ke_status st = KE_OK;

  for (int k = 0; k < HEADERS; k++) text[k] = NULL;
  for (int k = 0; k < HEADERS && st == KE_OK; k++) {
    snprintf(file, sizeof file, "%s/%s", include_dir ? include_dir : ".", header_names[k]);
    st = ke_file_read(file, MOST_HEADER, &text[k], &n, err);
  }
  if (st != KE_OK) free_headers(text);
  return st;
}

/* ---- NVRTC ---- */

/* The architecture to compile for: the device's own, or the newest this NVRTC knows before it. */
static ke_status known_arch(const ke_cuda_nvrtc *nvrtc, int arch, int *known, ke_error *err)
{
  int list[MOST_ARCHS], n = 0, oldest = 0;

  *known = 0;
  if (nvrtc->arch_count(&n) != 0 || n > MOST_ARCHS || nvrtc->archs(list) != 0) n = 0;
  for (int k = 0; k < n; k++) {
    if (list[k] <= arch && list[k] > *known) *known = list[k];
    if (!oldest || list[k] < oldest) oldest = list[k];
  }
  if (*known) return KE_OK;
  return ke_fail(err, KE_ERR_DEVICE, -1,
                 "NVRTC %d.%d (%s) makes no code for compute capability %d.%d; the oldest it knows is %d.%d",
                 nvrtc->major, nvrtc->minor, nvrtc->path, arch / 10, arch % 10, oldest / 10, oldest % 10);
}

static void add_numbered(ke_strbuf *out, const char *source)
{
  int line = 1;

  while (*source) {
    size_t n = strcspn(source, "\n");
    ke_strbuf_addf(out, "%4d  ", line++);
    ke_strbuf_addn(out, source, n);
    ke_strbuf_add(out, "\n");
    source += n + (source[n] == '\n');
  }
}

static ke_status fail_compile(const ke_cuda_nvrtc *nvrtc, nvrtc_program program, const char *options,
                              const char *source, ke_error *err)
{
  ke_strbuf log = {0};
  char *said = NULL;
  size_t n = 0;

  if (nvrtc->log_size(program, &n) == 0 && n > 0) said = malloc(n + 1);
  if (said && nvrtc->log(program, said) == 0) said[n] = '\0';
  ke_strbuf_addf(&log, "command:\nNVRTC %d.%d %s\noutput:\n", nvrtc->major, nvrtc->minor, options);
  ke_strbuf_add(&log, said ? said : "");
  ke_strbuf_add(&log, "\nsource:\n");
  add_numbered(&log, source);
  free(said);
  if (err && !log.failed) {
    free(err->log);
    err->log = log.text;
  } else {
    ke_strbuf_free(&log);
  }
  return ke_fail(err, KE_ERR_COMPILE, -1, "NVRTC could not compile a kernel");
}

static ke_status take_image(const ke_cuda_nvrtc *nvrtc, nvrtc_program program, bool cubin, char **image,
                            size_t *size, ke_error *err)
{
  int failed = cubin ? nvrtc->cubin_size(program, size) : nvrtc->ptx_size(program, size);

  if (failed || *size == 0) return ke_fail(err, KE_ERR_DEVICE, -1, "NVRTC gave no code");
  *image = malloc(*size);
  if (!*image) return ke_fail_memory(err);
  failed = cubin ? nvrtc->cubin(program, *image) : nvrtc->ptx(program, *image);
  if (!failed) return KE_OK;
  free(*image);
  *image = NULL;
  return ke_fail(err, KE_ERR_DEVICE, -1, "NVRTC gave no code");
}

static ke_status compile_with(const ke_cuda_nvrtc *nvrtc, int arch, const char *source,
                              char *const header[HEADERS], char **image, size_t *size, ke_error *err)
{
  const char *options[2] = {NULL, "-std=c++17"};
  char arch_option[48], all[96];
  nvrtc_program program = NULL;
  int known;
  ke_status st;

  KE_TRY(known_arch(nvrtc, arch, &known, err));
  snprintf(arch_option, sizeof arch_option, "-arch=%s_%d", known == arch ? "sm" : "compute", known);
  options[0] = arch_option;
  snprintf(all, sizeof all, "%s %s", options[0], options[1]);
  if (nvrtc->create(&program, source, "kernel.cu", HEADERS, (const char *const *)header,
                    header_names) != 0)
    return ke_fail(err, KE_ERR_DEVICE, -1, "NVRTC could not take a source");
  if (nvrtc->compile(program, 2, options) == 0)
    st = take_image(nvrtc, program, known == arch, image, size, err);
  else
    st = fail_compile(nvrtc, program, all, source, err);
  nvrtc->destroy(&program);
  return st;
}

ke_status ke_cuda_compile(const ke_cuda_nvrtc *nvrtc, int arch, const char *source,
                          const char *include_dir, char **image, size_t *size, ke_error *err)
{
  char *header[HEADERS];
  ke_status st;

  *image = NULL;
  KE_TRY(read_headers(include_dir, header, err));
  st = compile_with(nvrtc, arch, source, header, image, size, err);
  free_headers(header);
  return st;
}

/* ---- the cache ---- */
typedef struct {
  const char *source;
  char *header[HEADERS];
  char key[KE_KEY_TEXT];
} wanted;

static void make_key(wanted *w, const ke_cuda_nvrtc *nvrtc, int arch, const char *version)
{
  char target[64];
  ke_key key;

  snprintf(target, sizeof target, "NVRTC %d.%d sm_%d", nvrtc->major, nvrtc->minor, arch);
  ke_key_init(&key);
  ke_key_add_text(&key, "version", version);
  for (int k = 0; k < HEADERS; k++) ke_key_add_text(&key, "prelude", w->header[k]);
  ke_key_add_text(&key, "source", w->source);
  ke_key_add_text(&key, "target", target);
  ke_key_end(&key, w->key);
}

static char *find_in(const wanted *w, const char *dir, size_t *size)
{
  ke_cache_state is = KE_CACHE_ABSENT;
  char *path, *file, *image = NULL;

  if (!dir || ke_cache_open(dir, false, &path, NULL) != KE_OK) return NULL;
  file = ke_cache_object_path(path, w->key, KE_SUFFIX_CUBIN);
  if (file) image = ke_cache_content(file, w->key, size, &is);
  if (image)
    ke_cache_count((ke_cache_counters){.hits_disk = 1});
  else if (is == KE_CACHE_BAD)
    ke_cache_count((ke_cache_counters){.rejected = 1});
  free(file);
  free(path);
  return image;
}

/* Write, seal and publish; false: the place cannot be used. */
static bool keep_in(const wanted *w, const char *dir, const char *image, size_t size)
{
  char file[2 * MOST_NAME], *path, *work = NULL;
  bool kept = false;

  if (!dir || ke_cache_open(dir, true, &path, NULL) != KE_OK) return false;
  if (ke_cache_work_dir(path, &work, NULL) == KE_OK) {
    int n = snprintf(file, sizeof file, "%s/kernel.cubin", work);
    kept = n > 0 && (size_t)n < sizeof file && ke_file_write(file, image, size) == 0 &&
           ke_cache_seal(file, path, w->key, NULL) == KE_OK &&
           ke_cache_publish(file, path, w->key, KE_SUFFIX_CUBIN, NULL) == KE_OK;
    ke_cache_work_end(work);
  }
  free(path);
  return kept;
}

static ke_status find_or_make(wanted *w, const ke_cuda_nvrtc *nvrtc, int arch,
                              const ke_compile_settings *s, char **image, size_t *size, ke_error *err)
{
  static int made;

  make_key(w, nvrtc, arch, s->version);
  *image = find_in(w, s->cache_dir, size);
  if (!*image) *image = find_in(w, s->fallback_dir, size);
  if (*image) return KE_OK;
  KE_TRY(compile_with(nvrtc, arch, w->source, w->header, image, size, err));
  ke_cache_count((ke_cache_counters){.compiles = 1});
  if (made++ % TRIM_EVERY == 0 && s->cache_dir) {
    char *path;
    if (ke_cache_open(s->cache_dir, false, &path, NULL) == KE_OK) {
      ke_cache_trim(path);
      free(path);
    }
  }
  if (!keep_in(w, s->cache_dir, *image, *size)) (void)keep_in(w, s->fallback_dir, *image, *size);
  return KE_OK;
}

ke_status ke_cuda_image(const ke_cuda_nvrtc *nvrtc, int arch, const char *source,
                        const ke_compile_settings *settings, char **image, size_t *size, ke_error *err)
{
  wanted w = {.source = source};
  ke_status st;

  *image = NULL;
  KE_TRY(read_headers(settings->include_dir, w.header, err));
  st = find_or_make(&w, nvrtc, arch, settings, image, size, err);
  free_headers(w.header);
  return st;
}
