/* A source in, its loaded function out: from the table of loaded kernels, from disk, or made now.
 *
 *   key -> table? -> cache_dir/<key>.so? -> fallback_dir/<key>.so? -> compile, load, publish
 *
 * A cache problem never stops a run while there is another place: what is damaged is made again, a
 * place that cannot be written or loaded from is left for the next one, which is said once. The
 * engine's one piece of global state is here, behind one lock. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fetch_cc.h"

#include "compile_cc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

enum {
  BUCKETS = 256,
  MOST_COMPILERS = 8,  /* remembered at a time */
  MOST_PLACES = 32,    /* left places that are remembered */
  TRIM_EVERY = 32,     /* objects made between two looks at the size of the cache */
  PRELUDE_FILES = 7
};

typedef struct loaded {
  struct loaded *next;
  char key[KE_KEY_TEXT];
  ke_kernel_fn fn;
} loaded;

/* A compiler is known by what was asked for and the PATH it was looked up on. */
typedef struct {
  char *wanted, *path_variable;
  ke_cc *cc;
} known_compiler;

typedef struct {
  char *include_dir;
  struct timespec changed[PRELUDE_FILES];
  off_t size[PRELUDE_FILES];
  char digest[KE_SHA256_HEX];
} known_prelude;

/* A folder that was left for another one. */
typedef struct {
  char *dir;
  bool unloadable; /* nothing can be loaded from it: not asked again */
} left_place;

static struct {
  pthread_mutex_t lock;
  bool fork_safe;
  loaded *bucket[BUCKETS]; /* never unloaded: kernels may be running */
  known_compiler compiler[MOST_COMPILERS];
  int ncompiler;
  known_prelude prelude;
  left_place place[MOST_PLACES];
  int nplace;
  ke_cache_counters count;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the lock, also over a fork ---- */

static void before_fork(void)
{
  pthread_mutex_lock(&state.lock);
}

static void after_fork(void)
{
  pthread_mutex_unlock(&state.lock);
}

static void lock_state(void)
{
  pthread_mutex_lock(&state.lock);
  if (!state.fork_safe) state.fork_safe = pthread_atfork(before_fork, after_fork, after_fork) == 0;
}

static void unlock_state(void)
{
  pthread_mutex_unlock(&state.lock);
}

/* ---- loaded kernels ---- */

static loaded **bucket_of(const char *key)
{
  unsigned h = 0;

  for (int k = 0; k < 4; k++) h = h * 31 + (unsigned char)key[k];
  return &state.bucket[h % BUCKETS];
}

static ke_kernel_fn table_find(const char *key)
{
  for (const loaded *l = *bucket_of(key); l; l = l->next)
    if (strcmp(l->key, key) == 0) return l->fn;
  return NULL;
}

/* Without memory for it the kernel is only not remembered. */
static void table_add(const char *key, ke_kernel_fn fn)
{
  loaded *l = calloc(1, sizeof *l);

  if (!l) return;
  memcpy(l->key, key, KE_KEY_TEXT);
  l->fn = fn;
  l->next = *bucket_of(key);
  *bucket_of(key) = l;
}

/* ke_kernel_run of a shared object; NULL: why says what the loader said. */
static ke_kernel_fn load(const char *file, char *why, size_t size)
{
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void *symbol = handle ? dlsym(handle, "ke_kernel_run") : NULL;
  ke_kernel_fn fn = NULL;
  const char *said;

  if (symbol) {
    memcpy(&fn, &symbol, sizeof fn); /* ISO C has no cast from object to function */
    return fn;
  }
  said = dlerror();
  snprintf(why, size, "%s", said ? said : "it has no ke_kernel_run");
  if (handle) dlclose(handle);
  return NULL;
}

/* ---- the key ---- */

static bool same_text(const char *a, const char *b)
{
  return a && b ? strcmp(a, b) == 0 : a == b;
}

/* NULL stays NULL. False: no memory. */
static bool copy_text(char **to, const char *from)
{
  *to = from ? strdup(from) : NULL;
  return !from || *to;
}

static void forget_compiler(known_compiler *c)
{
  free(c->wanted);
  free(c->path_variable);
  ke_cc_close(c->cc);
  *c = (known_compiler){0};
}

/* The compiler for these settings, asked for its identity once. It stays ours. */
static ke_status find_compiler(const char *wanted, ke_cc **cc, ke_error *err)
{
  const char *path = getenv("PATH");
  known_compiler *c, fresh = {0};
  ke_status st;

  *cc = NULL;
  for (int k = 0; k < MOST_COMPILERS; k++) {
    c = &state.compiler[k];
    if (c->cc && same_text(c->wanted, wanted) && same_text(c->path_variable, path)) {
      *cc = c->cc;
      return KE_OK;
    }
  }
  st = ke_cc_open(wanted, &fresh.cc, err);
  if (st == KE_OK && !(copy_text(&fresh.wanted, wanted) && copy_text(&fresh.path_variable, path)))
    st = ke_fail_memory(err);
  if (st != KE_OK) {
    forget_compiler(&fresh);
    return st;
  }
  c = &state.compiler[state.ncompiler++ % MOST_COMPILERS];
  forget_compiler(c);
  *c = fresh;
  *cc = c->cc;
  return KE_OK;
}

static ke_status read_prelude(const char *const file[PRELUDE_FILES], char digest[KE_SHA256_HEX],
                              ke_error *err)
{
  ke_key sum;

  ke_key_init(&sum);
  for (int k = 0; k < PRELUDE_FILES; k++) {
    char *bytes;
    size_t n;
    KE_TRY(ke_file_read(file[k], 1 << 24, &bytes, &n, err));
    ke_key_add(&sum, "prelude", bytes, n);
    free(bytes);
  }
  ke_key_end(&sum, digest);
  return KE_OK;
}

/* Digest of the headers that each kernel includes; read again when they changed. */
static ke_status prelude_digest(const char *include_dir, const char **digest, ke_error *err)
{
  static const char *const names[PRELUDE_FILES] = {"/keops_kernel.h", "/keops_special.h", "/keops_digamma.h", "/keops_orders.h",
                                                   "/keops_task.h", "/keops_least.h", "/keops_sum.h"};
  known_prelude *known = &state.prelude, now = {0};
  char *file[PRELUDE_FILES] = {NULL};
  struct stat info = {0};
  bool same = same_text(known->include_dir, include_dir);
  ke_status st = KE_OK;

  for (int k = 0; st == KE_OK && k < PRELUDE_FILES; k++) {
    size_t n = strlen(include_dir), m = strlen(names[k]);
    file[k] = malloc(n + m + 1);
    if (!file[k]) {
      st = ke_fail_memory(err);
      break;
    }
    memcpy(file[k], include_dir, n);
    memcpy(file[k] + n, names[k], m + 1);
    if (stat(file[k], &info) == 0) {
      now.changed[k] = info.st_mtim;
      now.size[k] = info.st_size;
    }
    same = same && now.size[k] == known->size[k] &&
           now.changed[k].tv_sec == known->changed[k].tv_sec &&
           now.changed[k].tv_nsec == known->changed[k].tv_nsec;
  }
  if (st == KE_OK && !same) {
    st = read_prelude((const char *const *)file, now.digest, err);
    if (st == KE_OK && !copy_text(&now.include_dir, include_dir)) st = ke_fail_memory(err);
    if (st == KE_OK) {
      free(known->include_dir);
      *known = now;
    }
  }
  for (int k = 0; k < PRELUDE_FILES; k++) free(file[k]);
  *digest = known->digest;
  return st;
}

static ke_status make_key(const char *source, const ke_compile_settings *settings, ke_cc **cc,
                          char text[KE_KEY_TEXT], ke_error *err)
{
  const char *prelude;
  ke_key key;

  if (!settings->include_dir)
    return ke_fail(err, KE_ERR_IO, -1, "the folder with keops_kernel.h is not set");
  KE_TRY(find_compiler(settings->compiler, cc, err));
  KE_TRY(prelude_digest(settings->include_dir, &prelude, err));
  ke_key_init(&key);
  ke_key_add_text(&key, "version", settings->version);
  ke_key_add_text(&key, "prelude", prelude);
  ke_key_add_text(&key, "source", source);
  KE_TRY(ke_cc_add_to_key(*cc, &key, err));
  ke_key_end(&key, text);
  return KE_OK;
}

ke_status ke_cc_key(const char *source, const ke_compile_settings *settings, char key[KE_KEY_TEXT],
                    ke_error *err)
{
  ke_status st;
  ke_cc *cc;

  lock_state();
  st = make_key(source, settings, &cc, key, err);
  unlock_state();
  return st;
}

/* ---- places ---- */

static left_place *find_left(const char *dir)
{
  for (int k = 0; k < state.nplace; k++)
    if (strcmp(state.place[k].dir, dir) == 0) return &state.place[k];
  return NULL;
}

/* True the first time a place is left; then it is to be said. */
static bool leave_place(const char *dir, bool unloadable)
{
  left_place *p = find_left(dir);

  if (p) {
    p->unloadable |= unloadable;
    return false;
  }
  if (state.nplace == MOST_PLACES) return true;
  p = &state.place[state.nplace];
  if (!copy_text(&p->dir, dir)) return true;
  p->unloadable = unloadable;
  state.nplace++;
  return true;
}

/* ---- one fetch ---- */

typedef struct {
  const char *source, *include_dir;
  const char *dir[2]; /* the places in their order; NULL: none */
  char key[KE_KEY_TEXT];
  ke_cc *cc;
  char why[2][sizeof((ke_error *)0)->message]; /* why a place cannot be used, "" if it can */
  bool unloadable[2];
} fetch;

/* A whole object in place p, loaded; NULL: there is none. */
static ke_kernel_fn from_disk(fetch *f, int p)
{
  ke_kernel_fn fn = NULL;
  ke_cache_state is;
  char *path, *file, why[256];

  if (ke_cache_open(f->dir[p], false, &path, NULL) != KE_OK) return NULL;
  file = ke_cache_object_path(path, f->key, KE_SUFFIX_LIBRARY);
  if (file && !ke_cache_noexec(path)) {
    is = ke_cache_check(file, f->key);
    if (is == KE_CACHE_WHOLE) fn = load(file, why, sizeof why);
    if (is != KE_CACHE_ABSENT && !fn) state.count.rejected++;
    if (fn) state.count.hits_disk++;
  }
  free(file);
  free(path);
  return fn;
}

/* Compile in a work folder of `path`, load, publish. */
static ke_status make_in(fetch *f, int p, const char *path, ke_kernel_fn *fn, ke_error *err)
{
  char *work, *object = NULL, said[256];
  ke_status st;

  KE_TRY(ke_cache_work_dir(path, &work, err));
  st = ke_cc_compile(f->cc, f->source, f->include_dir, work, &object, err);
  if (st == KE_OK) st = ke_cache_seal(object, path, f->key, err);
  if (st == KE_OK) {
    *fn = load(object, said, sizeof said);
    if (!*fn) {
      f->unloadable[p] = true;
      st = ke_fail(err, KE_ERR_IO, -1, "could not load a kernel made in '%s': %s", f->dir[p], said);
    }
  }
  if (st == KE_OK) {
    /* loaded, so it is of no matter here if it cannot stay */
    if (state.count.compiles++ % TRIM_EVERY == 0) ke_cache_trim(path);
    (void)!ke_cache_publish(object, path, f->key, KE_SUFFIX_LIBRARY, NULL);
  }
  ke_cache_work_end(work);
  free(object);
  return st;
}

/* Make the kernel in place p. KE_ERR_IO: not there, f->why says why. */
static ke_status make_at(fetch *f, int p, ke_kernel_fn *fn, ke_error *err)
{
  char *path = NULL;
  ke_error why = {.pos = -1};
  ke_status st = ke_cache_open(f->dir[p], true, &path, &why);

  if (st == KE_OK && ke_cache_noexec(path)) {
    f->unloadable[p] = true;
    st = ke_fail(&why, KE_ERR_IO, -1,
                 "could not load from '%s': programs may not run from there (noexec)", f->dir[p]);
  }
  if (st == KE_OK) st = make_in(f, p, path, fn, &why);
  free(path);
  if (st == KE_ERR_IO) {
    memcpy(f->why[p], why.message, sizeof f->why[p]);
    ke_error_clear(&why);
  } else if (st != KE_OK) {
    if (err)
      *err = why;
    else
      ke_error_clear(&why);
  }
  return st;
}

/* No place would do. Where the object could be made but not loaded, and no mount is to blame, the
 * compiler makes objects for another machine. */
static ke_status fail_places(const fetch *f, ke_error *err)
{
  const char *a = f->why[0], *b = f->why[1];
  bool made = f->unloadable[0] || f->unloadable[1];
  bool mounts = strstr(a, "noexec") || strstr(b, "noexec");

  if (!*a && !*b) return ke_fail(err, KE_ERR_IO, -1, "there is no folder for compiled kernels");
  return ke_fail(err, made && !mounts ? KE_ERR_COMPILE : KE_ERR_IO, -1, "%.480s%s%.480s", a,
                 *a && *b ? "; " : "", b);
}

static ke_status fetch_locked(fetch *f, ke_kernel_fn *fn, char *note, size_t note_size,
                              ke_error *err)
{
  for (int p = 0; p < 2; p++) {
    const left_place *left = f->dir[p] ? find_left(f->dir[p]) : NULL;
    if (left && left->unloadable) f->dir[p] = NULL;
    if (f->dir[p] && (*fn = from_disk(f, p)) != NULL) return KE_OK;
  }
  for (int p = 0; p < 2; p++) {
    ke_status st = f->dir[p] ? make_at(f, p, fn, err) : KE_ERR_IO;
    if (st == KE_ERR_IO) continue;
    if (st == KE_OK && *f->why[0] && leave_place(f->dir[0], f->unloadable[0]) && note)
      snprintf(note, note_size, "%s; compiled kernels go to '%s' instead", f->why[0], f->dir[1]);
    return st;
  }
  return fail_places(f, err);
}

ke_status ke_cc_fetch(const char *source, const ke_compile_settings *settings, ke_kernel_fn *fn,
                      char *note, size_t note_size, ke_error *err)
{
  fetch f = {.source = source,
             .include_dir = settings->include_dir,
             .dir = {settings->cache_dir, settings->fallback_dir}};
  ke_status st;

  *fn = NULL;
  if (same_text(f.dir[0], f.dir[1])) f.dir[1] = NULL;
  lock_state();
  st = make_key(source, settings, &f.cc, f.key, err);
  if (st == KE_OK) {
    *fn = table_find(f.key);
    if (*fn) {
      state.count.hits_memory++;
    } else {
      st = fetch_locked(&f, fn, note, note_size, err);
      if (st == KE_OK) table_add(f.key, *fn);
    }
  }
  unlock_state();
  return st;
}

ke_cache_counters ke_cache_counts(void)
{
  ke_cache_counters count;

  lock_state();
  count = state.count;
  unlock_state();
  return count;
}

void ke_cache_count(ke_cache_counters more)
{
  lock_state();
  state.count.hits_memory += more.hits_memory;
  state.count.hits_disk += more.hits_disk;
  state.count.compiles += more.compiles;
  state.count.rejected += more.rejected;
  unlock_state();
}
