/* Finished kernels on disk: names, checks, publishing, trimming. What is in the files is the
 * compilers' business (fetch_cc.c); here they are bytes with a key.
 *
 * A cache folder holds
 *   <key>.so, <key>.cubin   finished objects; <key> is the SHA-256 of everything that went into them.
 *                  At the end of each stands a seal: its length and a checksum over key and content
 *   keops-tmp-*    folders in which one process makes one object, gone when it is done
 * An object appears under its name by rename, whole or not at all, so no locks are needed:
 * processes that make the same one replace each other's work with an equal file. */
#ifndef KE_CACHE_H
#define KE_CACHE_H

#include "error.h"
#include "sha256.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- keys ---- */
typedef struct {
  ke_sha256 sum;
} ke_key;

enum { KE_KEY_TEXT = KE_SHA256_HEX };

void ke_key_init(ke_key *key);
void ke_key_add(ke_key *key, const char *name, const void *value, size_t length);
void ke_key_add_text(ke_key *key, const char *name, const char *value); /* NULL is not "" */
void ke_key_end(ke_key *key, char text[KE_KEY_TEXT]);

/* ---- folders ---- */
/* Absolute path of a cache folder that is ours alone to write (malloc'd); `create` makes it, 0700.
 * KE_ERR_IO: it is not there, cannot be made, or others may write to it; the message says which. */
ke_status ke_cache_open(const char *dir, bool create, char **path, ke_error *err) KE_MUST_USE;
/* Can nothing be loaded from it, by the way it is mounted? */
bool ke_cache_noexec(const char *path);
/* A fresh folder of our own in an opened one (malloc'd path). KE_ERR_IO says why it cannot be. */
ke_status ke_cache_work_dir(const char *path, char **work, ke_error *err) KE_MUST_USE;
/* Remove it with what is in it, and free the path. NULL is fine. */
void ke_cache_work_end(char *work);

/* ---- objects ---- */
typedef enum {
  KE_CACHE_ABSENT,
  KE_CACHE_WHOLE, /* sealed under this key, and not damaged since */
  KE_CACHE_BAD    /* something else is in its place */
} ke_cache_state;

#define KE_SUFFIX_LIBRARY ".so"
#define KE_SUFFIX_CUBIN ".cubin"
/* malloc'd; NULL: no memory */
char *ke_cache_object_path(const char *path, const char *key, const char *suffix);
/* Checks a file; a whole one counts as used now. */
ke_cache_state ke_cache_check(const char *file, const char *key);
/* Content of a whole object, without its seal (malloc'd); NULL: there is none, `is` says why. */
char *ke_cache_content(const char *file, const char *key, size_t *n, ke_cache_state *is);
/* Append the seal to a file in a work folder of `path`; it becomes ours alone to write. */
ke_status ke_cache_seal(const char *file, const char *path, const char *key,
                        ke_error *err) KE_MUST_USE;
/* Move a sealed file from a work folder of `path` under its name, over whatever is there. */
ke_status ke_cache_publish(const char *file, const char *path, const char *key,
                           const char *suffix, ke_error *err) KE_MUST_USE;

/* ---- small files ---- */
int ke_file_write(const char *file, const void *bytes, size_t n) KE_MUST_USE; /* 0 or errno */
/* The first `most` bytes, a zero behind them (malloc'd). */
ke_status ke_file_read(const char *file, size_t most, char **bytes, size_t *n,
                       ke_error *err) KE_MUST_USE;
/* A write in `work` ended with errno `number`: KE_ERR_IO, naming the cache folder. */
ke_status ke_cache_fail_write(const char *work, int number, ke_error *err);
/* Does `work` take a megabyte more? KE_ERR_IO says why not. */
ke_status ke_cache_probe(const char *work, ke_error *err) KE_MUST_USE;

/* ---- upkeep ---- */
/* Finished objects in a folder, and their bytes; no folder: none. */
void ke_cache_dir_stat(const char *dir, int64_t *files, int64_t *bytes);
/* Remove our objects not used for `older_than` seconds (0: all), and work folders left by processes
 * that died; nothing else. KE_ERR_IO: some could not be removed. */
ke_status ke_cache_clear(const char *dir, double older_than, int64_t *removed,
                         ke_error *err) KE_MUST_USE;
/* Bytes a folder may hold before the least recently used objects go; 0: no limit. At first 500 MB.
 */
void ke_cache_set_limit(int64_t bytes);
void ke_cache_trim(const char *path);

/* "no space left on device", ...: words of our own for the common ones */
const char *ke_errno_text(int number);

#endif
