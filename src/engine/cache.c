/* Finished kernels on disk: keys, folders, sealed objects, publishing by rename, upkeep.
 *
 * It knows nothing of compilers or kernels: fetch_cc.c asks for a place, makes the object there and
 * has it published. All that touches the file system here is POSIX. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* ST_NOEXEC, O_NOFOLLOW */
#endif
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

#define WORK_PREFIX "keops-tmp-"

enum {
  WORK_STALE_SECONDS = 3600, /* no compiler runs that long */
  TREE_DEPTH = 6,
  PROBE_BYTES = 1 << 20
};

static int64_t size_limit = 500 * (int64_t)1000000;

const char *ke_errno_text(int number)
{
  switch (number) {
  case ENOSPC: return "no space left on device";
#ifdef EDQUOT
  case EDQUOT: return "disk quota exceeded";
#endif
  case EROFS: return "the file system is read-only";
  case EACCES:
  case EPERM: return "permission denied";
  case ENOENT: return "no such file or directory";
  case ENOTDIR: return "a part of the path is not a directory";
  case EMFILE:
  case ENFILE: return "too many open files";
  case ENOMEM: return "not enough memory";
  default: return strerror(number);
  }
}

/* ---- text and keys ---- */

/* a, b and c in one malloc'd text */
static char *join(const char *a, const char *b, const char *c)
{
  size_t na = strlen(a), nb = strlen(b), nc = strlen(c);
  char *text = malloc(na + nb + nc + 1);

  if (!text) return NULL;
  memcpy(text, a, na);
  memcpy(text + na, b, nb);
  memcpy(text + na + nb, c, nc + 1);
  return text;
}

static void store_le64(unsigned char to[8], uint64_t x)
{
  for (int k = 0; k < 8; k++) to[k] = (unsigned char)(x >> 8 * k);
}

static void add_length(ke_key *key, uint64_t length)
{
  unsigned char bytes[8];

  store_le64(bytes, length);
  ke_sha256_add(&key->sum, bytes, sizeof bytes);
}

void ke_key_init(ke_key *key)
{
  ke_sha256_init(&key->sum);
}

void ke_key_add(ke_key *key, const char *name, const void *value, size_t length)
{
  size_t n = strlen(name);

  add_length(key, n); /* lengths go before, so no two lists of ingredients run together alike */
  ke_sha256_add(&key->sum, name, n);
  add_length(key, length);
  ke_sha256_add(&key->sum, value, length);
}

void ke_key_add_text(ke_key *key, const char *name, const char *value)
{
  if (value)
    ke_key_add(key, name, value, strlen(value) + 1);
  else
    ke_key_add(key, name, "", 0);
}

void ke_key_end(ke_key *key, char text[KE_KEY_TEXT])
{
  unsigned char digest[KE_SHA256_BYTES];

  ke_sha256_end(&key->sum, digest);
  ke_sha256_hex(digest, text);
}

/* ---- small files ---- */

static ke_status fail_io(ke_error *err, const char *what, const char *path, int number)
{
  return ke_fail(err, KE_ERR_IO, -1, "%s '%s': %s", what, path, ke_errno_text(number));
}

/* Writes all of it; errno tells why not. */
static bool write_all(int fd, const void *bytes, size_t n)
{
  const char *p = bytes;

  while (n) {
    ssize_t w = write(fd, p, n);
    if (w < 0 && errno == EINTR) continue;
    if (w < 0) return false;
    p += w;
    n -= (size_t)w;
  }
  return true;
}

/* Reads up to n bytes, fewer only at the end of the file; -1 with errno. */
static ssize_t read_all(int fd, void *bytes, size_t n)
{
  size_t have = 0;

  while (have < n) {
    ssize_t r = read(fd, (char *)bytes + have, n - have);
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) return -1;
    if (r == 0) break;
    have += (size_t)r;
  }
  return (ssize_t)have;
}

/* Writes to an open file and closes it; some file systems tell only then that they are full. */
static bool write_close(int fd, const void *bytes, size_t n)
{
  bool ok = write_all(fd, bytes, n);
  int number = errno;

  if (close(fd) != 0 && ok && errno != EINTR) return false;
  errno = number;
  return ok;
}

int ke_file_write(const char *file, const void *bytes, size_t n)
{
  int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

  return fd >= 0 && write_close(fd, bytes, n) ? 0 : errno;
}

ke_status ke_file_read(const char *file, size_t most, char **bytes, size_t *n, ke_error *err)
{
  struct stat st;
  ssize_t got = -1;
  int number = 0;
  int fd = open(file, O_RDONLY | O_CLOEXEC);

  *bytes = NULL;
  *n = 0;
  if (fd < 0 || fstat(fd, &st) != 0) {
    number = errno;
    if (fd >= 0) close(fd);
    return fail_io(err, "could not read", file, number);
  }
  if ((uint64_t)st.st_size < most) most = (size_t)st.st_size;
  *bytes = malloc(most + 1);
  if (*bytes) got = read_all(fd, *bytes, most);
  number = errno;
  close(fd);
  if (!*bytes) return ke_fail_memory(err);
  if (got < 0) {
    free(*bytes);
    *bytes = NULL;
    return fail_io(err, "could not read", file, number);
  }
  (*bytes)[got] = '\0';
  *n = (size_t)got;
  return KE_OK;
}

/* ---- folders ---- */

/* Make `dir` and what is missing above it, for nobody but us. */
static bool make_folders(const char *dir)
{
  char *path = join(dir, "", "");
  bool ok = path != NULL;

  for (char *p = path; ok && *p; p++) {
    if (*p != '/' || p == path || p[-1] == '/') continue;
    *p = '\0';
    ok = mkdir(path, 0700) == 0 || errno == EEXIST || errno == EROFS || errno == EACCES;
    *p = '/'; /* a parent may be there and not be ours to write: the last mkdir decides */
  }
  if (ok) ok = mkdir(path, 0700) == 0 || errno == EEXIST;
  free(path);
  return ok;
}

ke_status ke_cache_open(const char *dir, bool create, char **path, ke_error *err)
{
  struct stat st;

  *path = NULL;
  if (!dir || !*dir)
    return ke_fail(err, KE_ERR_IO, -1, "the folder for compiled kernels has no name");
  if (create && !make_folders(dir)) return fail_io(err, "could not create", dir, errno);
  *path = realpath(dir, NULL);
  if (!*path || stat(*path, &st) != 0) {
    int number = errno;
    free(*path);
    *path = NULL;
    return fail_io(err, "could not open", dir, number);
  }
  if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
    return KE_OK;
  free(*path);
  *path = NULL;
  if (!S_ISDIR(st.st_mode)) return fail_io(err, "could not write to", dir, ENOTDIR);
  return ke_fail(err, KE_ERR_IO, -1, "could not trust '%s': %s", dir,
                 st.st_uid != geteuid() ? "it belongs to another user"
                                        : "other users may write to it");
}

bool ke_cache_noexec(const char *path)
{
#ifdef ST_NOEXEC
  struct statvfs fs;

  return statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC);
#else
  (void)path;
  return false;
#endif
}

ke_status ke_cache_work_dir(const char *path, char **work, ke_error *err)
{
  *work = join(path, "/", WORK_PREFIX "XXXXXX");
  if (!*work) return ke_fail_memory(err);
  if (mkdtemp(*work)) return KE_OK; /* 0700 */
  free(*work);
  *work = NULL;
  return fail_io(err, "could not write to", path, errno);
}

/* Remove `name` in folder `at`, whatever it is. */
static void remove_tree(int at, const char *name, int depth)
{
  struct dirent *entry;
  DIR *folder;
  int fd;

  if (unlinkat(at, name, 0) == 0 || depth == 0) return;
  fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  folder = fdopendir(fd);
  if (!folder) {
    close(fd);
    return;
  }
  while ((entry = readdir(folder)) != NULL)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      remove_tree(fd, entry->d_name, depth - 1);
  closedir(folder);
  unlinkat(at, name, AT_REMOVEDIR);
}

void ke_cache_work_end(char *work)
{
  if (!work) return;
  remove_tree(AT_FDCWD, work, TREE_DEPTH);
  free(work);
}

ke_status ke_cache_fail_write(const char *work, int number, ke_error *err)
{
  const char *slash = strrchr(work, '/');
  char *path = join(work, "", "");
  ke_status st;

  if (!path) return ke_fail_memory(err);
  if (slash) path[slash - work] = '\0'; /* the folder that users know, and not the one inside it */
  st = fail_io(err, "could not write to", path, number);
  free(path);
  return st;
}

ke_status ke_cache_probe(const char *work, ke_error *err)
{
  char *file = join(work, "/", "probe");
  char *bytes = malloc(PROBE_BYTES);
  ke_status st = file && bytes ? KE_OK : ke_fail_memory(err);

  if (st == KE_OK) {
    uint32_t x = 1; /* not zeros: a compressing file system would take those for nothing */
    for (int k = 0; k < PROBE_BYTES; k++) bytes[k] = (char)((x = x * 1664525u + 1013904223u) >> 24);
    int number = ke_file_write(file, bytes, PROBE_BYTES);
    if (number) st = ke_cache_fail_write(work, number, err);
    unlink(file);
  }
  free(bytes);
  free(file);
  return st;
}

/* ---- objects ---- */

/* The seal: mark, length of the content, SHA-256 of key and content. */
static const char seal_mark[8] = {'K', 'E', 'O', 'P', 'S', 'O', 'B', '1'};

enum { SEAL_BYTES = 8 + 8 + KE_SHA256_BYTES };

static void make_seal(const char *key, const void *content, size_t n,
                      unsigned char seal[SEAL_BYTES])
{
  ke_key sum;

  ke_key_init(&sum);
  ke_key_add_text(&sum, "key", key);
  ke_key_add(&sum, "content", content, n);
  memcpy(seal, seal_mark, sizeof seal_mark);
  store_le64(seal + 8, n);
  ke_sha256_end(&sum.sum, seal + 16);
}

char *ke_cache_object_path(const char *path, const char *key, const char *suffix)
{
  char *name = join("/", key, suffix);
  char *file = name ? join(path, name, "") : NULL;

  free(name);
  return file;
}

/* Is the open file one that nobody else could have written, sealed and whole? */
static bool whole(int fd, const char *key)
{
  unsigned char seal[SEAL_BYTES];
  struct stat st;
  char *bytes;
  size_t n;
  bool ok;

  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
      (st.st_mode & (S_IWGRP | S_IWOTH)) || st.st_size <= SEAL_BYTES || st.st_size > INT_MAX)
    return false;
  n = (size_t)st.st_size;
  bytes = malloc(n);
  if (!bytes) return false;
  ok = read_all(fd, bytes, n) == (ssize_t)n &&
       memcmp(bytes + n - SEAL_BYTES, seal_mark, sizeof seal_mark) == 0;
  if (ok) {
    make_seal(key, bytes, n - SEAL_BYTES, seal);
    ok = memcmp(bytes + n - SEAL_BYTES, seal, SEAL_BYTES) == 0;
  }
  free(bytes);
  return ok;
}

ke_cache_state ke_cache_check(const char *file, const char *key)
{
  /* NONBLOCK: a pipe put there must not hold us up */
  int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  bool ok;

  if (fd < 0) return errno == ENOENT || errno == ENOTDIR ? KE_CACHE_ABSENT : KE_CACHE_BAD;
  ok = whole(fd, key);
  if (ok) (void)!futimens(fd, NULL); /* used now; on a read-only place it stays as it is */
  close(fd);
  return ok ? KE_CACHE_WHOLE : KE_CACHE_BAD;
}

char *ke_cache_content(const char *file, const char *key, size_t *n, ke_cache_state *is)
{
  char *bytes;

  *is = ke_cache_check(file, key);
  if (*is != KE_CACHE_WHOLE) return NULL;
  if (ke_file_read(file, INT_MAX, &bytes, n, NULL) != KE_OK) return NULL;
  if (*n <= SEAL_BYTES) { /* another process took it away just now */
    free(bytes);
    *is = KE_CACHE_ABSENT;
    return NULL;
  }
  *n -= SEAL_BYTES;
  return bytes;
}

ke_status ke_cache_seal(const char *file, const char *path, const char *key, ke_error *err)
{
  unsigned char seal[SEAL_BYTES];
  char *bytes;
  size_t n;
  int fd;

  KE_TRY(ke_file_read(file, INT_MAX, &bytes, &n, err));
  make_seal(key, bytes, n, seal);
  free(bytes);
  fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0 && write_close(fd, seal, sizeof seal) && chmod(file, 0700) == 0) return KE_OK;
  return fail_io(err, "could not write to", path, errno);
}

ke_status ke_cache_publish(const char *file, const char *path, const char *key, const char *suffix,
                           ke_error *err)
{
  char *target = ke_cache_object_path(path, key, suffix);
  ke_status st = KE_OK;

  if (!target) return ke_fail_memory(err);
  if (rename(file, target) != 0) {
    (void)!rmdir(target); /* an empty folder in its place is nobody's loss */
    if (rename(file, target) != 0) st = fail_io(err, "could not write", target, errno);
  }
  free(target);
  return st;
}

/* ---- upkeep ---- */

static bool is_object_name(const char *name)
{
  size_t hex = KE_KEY_TEXT - 1;

  return strspn(name, "0123456789abcdef") == hex &&
         (strcmp(name + hex, KE_SUFFIX_LIBRARY) == 0 || strcmp(name + hex, KE_SUFFIX_CUBIN) == 0);
}

static bool is_work_name(const char *name)
{
  size_t prefix = strlen(WORK_PREFIX);

  return strncmp(name, WORK_PREFIX, prefix) == 0 && strlen(name) == prefix + 6;
}

typedef struct {
  char name[KE_KEY_TEXT + sizeof KE_SUFFIX_CUBIN - 1];
  struct timespec used;
  int64_t bytes;
} object;

typedef struct {
  object *list;
  size_t n, size;
  int64_t bytes;
} listing;

static void list_add(listing *all, const char *name, const struct stat *st)
{
  object *o;

  if (all->n == all->size) {
    size_t size = all->size ? 2 * all->size : 64;
    object *list = realloc(all->list, size * sizeof *list);
    if (!list) return; /* a shorter list only delays the upkeep */
    all->list = list;
    all->size = size;
  }
  o = &all->list[all->n++];
  memcpy(o->name, name, sizeof o->name); /* is_object_name() saw its length */
  o->used = st->st_mtim;
  o->bytes = st->st_size;
  all->bytes += o->bytes;
}

/* Our finished objects in an open folder; work folders of dead processes go, if `sweep`. */
static void list_objects(DIR *folder, bool sweep, listing *all)
{
  struct dirent *entry;
  struct stat st;
  int fd = dirfd(folder);

  while ((entry = readdir(folder)) != NULL) {
    const char *name = entry->d_name;
    bool is_object = is_object_name(name);
    if (!is_object && !(sweep && is_work_name(name))) continue;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_uid != geteuid()) continue;
    if (is_object && S_ISREG(st.st_mode)) list_add(all, name, &st);
    if (!is_object && S_ISDIR(st.st_mode) && time(NULL) - st.st_mtime > WORK_STALE_SECONDS)
      remove_tree(fd, name, TREE_DEPTH);
  }
}

void ke_cache_dir_stat(const char *dir, int64_t *files, int64_t *bytes)
{
  listing all = {0};
  DIR *folder = dir ? opendir(dir) : NULL;

  if (folder) {
    list_objects(folder, false, &all);
    closedir(folder);
  }
  *files = (int64_t)all.n;
  *bytes = all.bytes;
  free(all.list);
}

ke_status ke_cache_clear(const char *dir, double older_than, int64_t *removed, ke_error *err)
{
  listing all = {0};
  DIR *folder = dir ? opendir(dir) : NULL;
  double now = (double)time(NULL);
  int number = 0;

  *removed = 0;
  if (!folder) return !dir || errno == ENOENT ? KE_OK : fail_io(err, "could not open", dir, errno);
  list_objects(folder, true, &all);
  for (size_t k = 0; k < all.n; k++) {
    if (older_than > 0 && now - (double)all.list[k].used.tv_sec < older_than) continue;
    if (unlinkat(dirfd(folder), all.list[k].name, 0) == 0)
      ++*removed;
    else if (errno != ENOENT) /* another process was quicker */
      number = errno;
  }
  closedir(folder);
  free(all.list);
  return number ? fail_io(err, "could not remove files in", dir, number) : KE_OK;
}

void ke_cache_set_limit(int64_t bytes)
{
  size_limit = bytes;
}

static int older(const void *a, const void *b)
{
  const struct timespec *s = &((const object *)a)->used, *t = &((const object *)b)->used;

  if (s->tv_sec != t->tv_sec) return s->tv_sec < t->tv_sec ? -1 : 1;
  return (s->tv_nsec > t->tv_nsec) - (s->tv_nsec < t->tv_nsec);
}

void ke_cache_trim(const char *path)
{
  listing all = {0};
  DIR *folder = opendir(path);

  if (!folder) return;
  list_objects(folder, true, &all);
  if (size_limit > 0 && all.bytes > size_limit) {
    qsort(all.list, all.n, sizeof *all.list, older);
    /* a tenth below, so that the next object does not come here again */
    for (size_t k = 0; k < all.n && all.bytes > size_limit / 10 * 9; k++)
      if (unlinkat(dirfd(folder), all.list[k].name, 0) == 0) all.bytes -= all.list[k].bytes;
  }
  closedir(folder);
  free(all.list);
}
