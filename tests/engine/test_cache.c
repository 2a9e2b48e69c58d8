/* Tests of the road from a source to a loaded kernel: sha256.c, cache.c, compile_cc.c, fetch_cc.c.
 *
 * What another session would see is tested in another process: the program starts itself with the
 * argument "fetch" and reads the counters that the child prints. */
#define _GNU_SOURCE
#include "check.h"

#include "backend.h"
#include "cache.h"
#include "fetch_cc.h"
#include "sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <sys/mount.h>
#endif

static char root[512];    /* everything happens in here */
static char include[600]; /* a tiny prelude */
static const char *self;

/* ---- small tools ---- */

/* root/name, in one of a few buffers */
static const char *at(const char *name)
{
  static char buffer[8][900];
  static int next;
  char *text = buffer[next++ % 8];

  snprintf(text, sizeof buffer[0], "%s/%s", root, name);
  return text;
}

static void put(const char *file, const char *text, mode_t mode)
{
  FILE *out = fopen(file, "w");

  if (!out || fputs(text, out) < 0 || fclose(out) != 0 || chmod(file, mode) != 0) {
    perror(file);
    exit(2);
  }
}

static const char *script(const char *name, const char *body)
{
  char text[2000];

  snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
  put(at(name), text, 0755);
  return at(name);
}

/* Entries of a folder; -1: there is none. */
static int count_entries(const char *dir)
{
  DIR *d = opendir(dir);
  int n = -2;

  if (!d) return -1;
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

/* Path of the only object in a folder. */
static const char *only_object(const char *dir)
{
  static char path[1400];
  DIR *d = opendir(dir);
  struct dirent *e;

  path[0] = '\0';
  while (d && (e = readdir(d)) != NULL)
    if (strstr(e->d_name, ".so")) snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
  if (d) closedir(d);
  return path;
}

/* A kernel that writes `value` into its state. */
static const char *kernel(int value)
{
  static char text[4][200];
  char *s = text[value & 3];

  snprintf(s, sizeof text[0],
           "#include \"keops_task.h\"\n"
           "void ke_kernel_run(const ke_task *t)\n{\n  t->state[0] = %d;\n}\n",
           value);
  return s;
}

static double value_of(ke_kernel_fn fn)
{
  double state = -1;
  ke_task task = {.nrows = 1, .i0 = 0, .i1 = 1, .state = &state};

  if (fn) fn(&task);
  return state;
}

static ke_compile_settings settings_for(const char *cache)
{
  return (ke_compile_settings){.include_dir = include, .cache_dir = cache, .version = "0.1"};
}

/* What one session made of one fetch. */
typedef struct {
  int exit_status; /* -1: killed */
  int status;      /* ke_status */
  double value;
  long long memory, disk, compiles, rejected;
  char note[1024];
} session;

static int child_main(char **arg)
{
  ke_compile_settings s = settings_for(*arg[2] ? arg[2] : NULL);
  char note[1024] = "";
  ke_error err = {.pos = -1};
  ke_kernel_fn fn;
  ke_cache_counters c;
  ke_status st;

  s.fallback_dir = *arg[3] ? arg[3] : NULL;
  s.include_dir = arg[4];
  s.compiler = *arg[5] ? arg[5] : NULL;
  st = ke_cc_fetch(kernel(atoi(arg[6])), &s, &fn, note, sizeof note, &err);
  c = ke_cache_counts();
  printf("%d %g %lld %lld %lld %lld %s\n", (int)st, value_of(fn), (long long)c.hits_memory,
         (long long)c.hits_disk, (long long)c.compiles, (long long)c.rejected,
         st == KE_OK ? note : err.message);
  ke_error_clear(&err);
  return 0;
}

static pid_t start_session(int *out, const char *cache, const char *fallback, const char *compiler,
                           int value)
{
  char number[16];
  int end[2];
  pid_t pid;

  snprintf(number, sizeof number, "%d", value);
  fflush(stdout);
  if (pipe(end) != 0) exit(2);
  pid = fork();
  if (pid == 0) {
    dup2(end[1], 1);
    close(end[0]);
    close(end[1]);
    execl(self, self, "fetch", cache, fallback ? fallback : "", include, compiler ? compiler : "",
          number, (char *)NULL);
    _exit(127);
  }
  close(end[1]);
  *out = end[0];
  return pid;
}

static session end_session(pid_t pid, int out)
{
  session s = {.status = -1};
  FILE *in = fdopen(out, "r");
  int status;

  if (fscanf(in, "%d %lf %lld %lld %lld %lld", &s.status, &s.value, &s.memory, &s.disk, &s.compiles,
             &s.rejected) != 6 ||
      !fgets(s.note, sizeof s.note, in))
    s.status = -1;
  fclose(in);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  s.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return s;
}

static session in_session(const char *cache, const char *fallback, int value)
{
  int out;
  pid_t pid = start_session(&out, cache, fallback, NULL, value);

  return end_session(pid, out);
}

/* ---- tests ---- */

static void hash_text(const char *text, size_t n, size_t step, char hex[KE_SHA256_HEX])
{
  unsigned char digest[KE_SHA256_BYTES];
  ke_sha256 s;

  ke_sha256_init(&s);
  for (size_t k = 0; k < n; k += step) ke_sha256_add(&s, text + k, n - k < step ? n - k : step);
  ke_sha256_end(&s, digest);
  ke_sha256_hex(digest, hex);
}

static void test_sha256(void)
{
  /* the examples of FIPS 180-2, and a million of 'a' */
  static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  char hex[KE_SHA256_HEX], *million = malloc(1000000);

  memset(million, 'a', 1000000);
  hash_text("", 0, 1, hex);
  CHECK(!strcmp(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
  for (size_t step = 1; step < 4; step++) {
    hash_text("abc", 3, step, hex);
    CHECK(!strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    hash_text(two, strlen(two), 17 * step, hex);
    CHECK(!strcmp(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
    hash_text(million, 1000000, 61 * step, hex);
    CHECK(!strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
  }
  free(million);
}

static void key_of_two(const char *n1, const char *v1, const char *n2, const char *v2,
                       char text[KE_KEY_TEXT])
{
  ke_key key;

  ke_key_init(&key);
  ke_key_add(&key, n1, v1, strlen(v1));
  ke_key_add(&key, n2, v2, strlen(v2));
  ke_key_end(&key, text);
}

static void test_key_text(void)
{
  char a[KE_KEY_TEXT], b[KE_KEY_TEXT];

  key_of_two("x", "ab", "y", "c", a);
  key_of_two("x", "ab", "y", "c", b);
  CHECK(!strcmp(a, b));
  key_of_two("x", "a", "y", "bc", b);
  CHECK(strcmp(a, b));
  key_of_two("xa", "b", "y", "c", b);
  CHECK(strcmp(a, b));
  key_of_two("y", "c", "x", "ab", b);
  CHECK(strcmp(a, b));
}

static void make_prelude(const char *dir, const char *comment)
{
  static const char *const empty[] = {"special", "digamma", "orders", "least", "sum"};
  char file[1000], text[400];

  mkdir(dir, 0700);
  snprintf(file, sizeof file, "%s/keops_kernel.h", dir);
  snprintf(text, sizeof text, "/* %s */\n", comment);
  put(file, text, 0600);
  for (size_t k = 0; k < sizeof empty / sizeof *empty; k++) {
    snprintf(file, sizeof file, "%s/keops_%s.h", dir, empty[k]);
    put(file, "", 0600);
  }
  snprintf(file, sizeof file, "%s/keops_task.h", dir);
  put(file,
      "typedef struct { long long nrows, i0, i1; const void *once, *kept, *red; double *state;\n"
      "  void *scratch; } ke_task;\n",
      0600);
}

/* The key with these settings; "" and a failed check where there is none. */
static const char *key_for(const char *source, const ke_compile_settings *s)
{
  static char text[4][KE_KEY_TEXT];
  static int next;
  char *key = text[next++ % 4];
  ke_error err = {.pos = -1};

  key[0] = '\0';
  CHECK_MSG(ke_cc_key(source, s, key, &err) == KE_OK, "%s", err.message);
  return key;
}

static void set_path(const char *path, const char *more)
{
  char text[4000];

  snprintf(text, sizeof text, "%s%s", path, more);
  setenv("PATH", text, 1);
}

static void test_key_ingredients(void)
{
  ke_compile_settings s = settings_for(at("key-cache")), t = s;
  struct timeval times[2] = {{1000, 0}, {1000, 0}};
  char *path = strdup(getenv("PATH")), base[KE_KEY_TEXT], with[KE_KEY_TEXT];
  char *cc1, *cc2;

  snprintf(base, sizeof base, "%s", key_for(kernel(1), &s));
  CHECK(strlen(base) == 64);
  CHECK(!strcmp(base, key_for(kernel(1), &s)));
  CHECK(strcmp(base, key_for(kernel(2), &s)));
  t.version = "0.2";
  CHECK(strcmp(base, key_for(kernel(1), &t)));
  t = s;
  t.cache_dir = at("another");
  t.fallback_dir = at("yet another");
  CHECK(!strcmp(base, key_for(kernel(1), &t))); /* where it is kept is no part of it */

  t = s;
  t.include_dir = at("include2");
  make_prelude(t.include_dir, "tiny");
  CHECK(!strcmp(base, key_for(kernel(1), &t))); /* what the prelude says, not where it lies */
  make_prelude(t.include_dir, "other");
  CHECK(strcmp(base, key_for(kernel(1), &t)));

  setenv("KEOPS_ISA", "base", 1);
  snprintf(with, sizeof with, "%s", key_for(kernel(1), &s));
  CHECK(strcmp(base, with));
#if defined(__x86_64__)
  setenv("KEOPS_ISA", "avx2", 1);
  if (ke_cpu_isa() == KE_ISA_AVX2) CHECK(strcmp(with, key_for(kernel(1), &s)));
  CHECK(strcmp(base, key_for(kernel(1), &s)));
#endif
  unsetenv("KEOPS_ISA");

  t = s;
  t.compiler = cc1 = strdup(script("cc1", "exec cc \"$@\""));
  snprintf(with, sizeof with, "%s", key_for(kernel(1), &t));
  CHECK(strcmp(base, with));
  t.compiler = cc2 = strdup(script("cc2", "exec cc \"$@\""));
  CHECK(strcmp(with, key_for(kernel(1), &t))); /* another path */
  t.compiler = cc1;
  CHECK(!strcmp(with, key_for(kernel(1), &t)));
  set_path(path, ":/nowhere"); /* a changed PATH has compilers looked at again */
  CHECK(!strcmp(with, key_for(kernel(1), &t)));
  CHECK(!strcmp(base, key_for(kernel(1), &s)));
  CHECK(utimes(cc1, times) == 0);
  set_path(path, ":/nowhere2");
  CHECK(strcmp(with, key_for(kernel(1), &t))); /* another time */
  set_path(path, "");
  free(path);
  free(cc1);
  free(cc2);
}

/* Fetch here; a failure is a failed check. */
static double fetch_value(int value, const ke_compile_settings *s, char *note, size_t size)
{
  ke_error err = {.pos = -1};
  ke_kernel_fn fn;
  bool ok = ke_cc_fetch(kernel(value), s, &fn, note, size, &err) == KE_OK;

  CHECK_MSG(ok, "%s\n%s", err.message, err.log ? err.log : "");
  CHECK(ok || !fn);
  CHECK(err.log == NULL || !ok);
  ke_error_clear(&err);
  return value_of(fn);
}

static void test_warm(void)
{
  ke_compile_settings s = settings_for(at("warm/a/b")); /* none of it exists */
  ke_cache_counters before = ke_cache_counts(), after;
  char note[200] = "";
  struct stat st;
  session other;

  CHECK(fetch_value(7, &s, note, sizeof note) == 7);
  after = ke_cache_counts();
  CHECK(after.compiles - before.compiles == 1);
  CHECK(after.hits_memory == before.hits_memory && after.hits_disk == before.hits_disk);
  CHECK(fetch_value(7, &s, NULL, 0) == 7);
  after = ke_cache_counts();
  CHECK(after.compiles - before.compiles == 1);
  CHECK(after.hits_memory - before.hits_memory == 1);
  CHECK(after.rejected == before.rejected);
  CHECK(note[0] == '\0');
  CHECK(count_entries(s.cache_dir) == 1);
  CHECK(stat(s.cache_dir, &st) == 0 && (st.st_mode & 0777) == 0700);
  CHECK(stat(at("warm/a"), &st) == 0 && (st.st_mode & 0777) == 0700);
  CHECK(stat(only_object(s.cache_dir), &st) == 0 && (st.st_mode & 0077) == 0);

  other = in_session(s.cache_dir, NULL, 7);
  CHECK(other.status == KE_OK && other.value == 7);
  CHECK(other.disk == 1 && other.compiles == 0 && other.rejected == 0);
  other = in_session(s.cache_dir, NULL, 8);
  CHECK(other.value == 8 && other.disk == 0 && other.compiles == 1);
  CHECK(count_entries(s.cache_dir) == 2);
}

static long file_size(const char *file)
{
  struct stat st;

  return stat(file, &st) == 0 ? (long)st.st_size : -1;
}

static void flip_byte(const char *file, long place)
{
  FILE *f = fopen(file, "r+");
  int c;

  if (!f) exit(2);
  fseek(f, place, SEEK_SET);
  c = fgetc(f);
  fseek(f, place, SEEK_SET);
  fputc(c ^ 1, f);
  fclose(f);
}

/* The object was damaged: the next session compiles again, the one after it finds a whole one. */
static void check_healed(const char *dir, const char *what)
{
  session s = in_session(dir, NULL, 3);

  CHECK_MSG(s.status == KE_OK && s.value == 3, "%s", what);
  CHECK_MSG(s.rejected == 1 && s.compiles == 1 && s.disk == 0, "%s", what);
  CHECK_MSG(strlen(s.note) < 3, "%s: %s", what, s.note);
  s = in_session(dir, NULL, 3);
  CHECK_MSG(s.value == 3 && s.rejected == 0 && s.compiles == 0 && s.disk == 1, "%s", what);
  CHECK_MSG(count_entries(dir) == 1, "%s", what);
}

static void test_corrupt(void)
{
  char dir[700], file[1400], stolen[1500];
  session s;

  snprintf(dir, sizeof dir, "%s", at("corrupt"));
  s = in_session(dir, NULL, 3);
  CHECK(s.compiles == 1);
  snprintf(file, sizeof file, "%s", only_object(dir));
  CHECK(file_size(file) > 1000);

  CHECK(truncate(file, file_size(file) / 2) == 0);
  check_healed(dir, "cut in half");
  CHECK(truncate(file, file_size(file) - 1) == 0);
  check_healed(dir, "one byte short");
  CHECK(truncate(file, 0) == 0);
  check_healed(dir, "empty");
  put(file, "not an object at all, and shorter than a seal\n", 0600);
  check_healed(dir, "text");
  for (int k = 0; k < 3; k++) {
    flip_byte(file, k == 0 ? 20 : k == 1 ? file_size(file) / 2 : file_size(file) - 3);
    check_healed(dir, "a flipped bit");
  }
  CHECK(truncate(file, file_size(file) + 100) == 0);
  check_healed(dir, "bytes behind");
  CHECK(chmod(file, 0666) == 0);
  check_healed(dir, "anybody may write");
  CHECK(unlink(file) == 0 && mkdir(file, 0700) == 0);
  check_healed(dir, "an empty folder in its place");
  CHECK(unlink(file) == 0 && mkfifo(file, 0600) == 0);
  check_healed(dir, "a pipe in its place");

  snprintf(stolen, sizeof stolen, "%s", at("stolen.so"));
  CHECK(rename(file, stolen) == 0 && symlink(stolen, file) == 0);
  check_healed(dir, "a link in its place");

  /* another kernel's object under this name: whole, but foreign */
  s = in_session(at("corrupt2"), NULL, 4);
  CHECK(s.compiles == 1 && rename(only_object(at("corrupt2")), file) == 0);
  check_healed(dir, "another kernel's object");

  /* a folder with something in it is not ours to remove: works, and compiles each time */
  CHECK(unlink(file) == 0 && mkdir(file, 0700) == 0);
  snprintf(stolen, sizeof stolen, "%s/precious", file);
  put(stolen, "x", 0600);
  for (int k = 0; k < 2; k++) {
    s = in_session(dir, NULL, 3);
    CHECK(s.status == KE_OK && s.value == 3 && s.rejected == 1 && s.compiles == 1);
  }
  CHECK(file_size(stolen) == 1 && count_entries(dir) == 1);
}

/* A place that cannot be used: the fallback serves and the note names both; else KE_ERR_IO. */
static void check_left(const char *dir, const char *reason)
{
  char fallback[700], name[64];
  static int number;
  session s;

  snprintf(name, sizeof name, "fallback-%d", number++);
  snprintf(fallback, sizeof fallback, "%s", at(name));
  s = in_session(dir, fallback, 5);
  CHECK_MSG(s.status == KE_OK && s.value == 5 && s.compiles == 1, "%s: %s", dir, s.note);
  CHECK_MSG(strstr(s.note, dir) && strstr(s.note, fallback), "%s", s.note);
  CHECK_MSG(strstr(s.note, reason) != NULL, "%s: want '%s'", s.note, reason);
  CHECK(count_entries(fallback) == 1);
  s = in_session(dir, fallback, 5); /* found where it was put */
  CHECK(s.status == KE_OK && s.value == 5 && s.disk == 1 && s.compiles == 0);
  s = in_session(dir, NULL, 5);
  CHECK_MSG(s.status == KE_ERR_IO && s.value == -1, "%d", s.status);
  CHECK_MSG(strstr(s.note, dir) && strstr(s.note, reason), "%s", s.note);
}

static void test_unusable_places(void)
{
  char dir[700], note[2048];
  ke_compile_settings s = settings_for(dir);

  put(at("file"), "x", 0600);
  check_left(at("file"), "not a directory");
  check_left(at("file/below"), "could not create");
  snprintf(dir, sizeof dir, "%s", at("open-to-all"));
  CHECK(mkdir(dir, 0700) == 0 && chmod(dir, 0777) == 0);
  check_left(dir, "other users may write");
  CHECK(count_entries(dir) == 0);
  if (geteuid() == 0) {
    snprintf(dir, sizeof dir, "%s", at("foreign"));
    CHECK(mkdir(dir, 0755) == 0 && chown(dir, 12345, 12345) == 0);
    check_left(dir, "another user");
  } else {
    snprintf(dir, sizeof dir, "%s", at("read-only"));
    CHECK(mkdir(dir, 0500) == 0);
    check_left(dir, "permission denied");
  }

  /* said once a process, and not again for the next kernel */
  s.fallback_dir = at("fallback-once");
  note[0] = '\0';
  CHECK(fetch_value(51, &s, note, sizeof note) == 51);
  CHECK(strstr(note, dir) != NULL);
  note[0] = '\0';
  CHECK(fetch_value(52, &s, note, sizeof note) == 52);
  CHECK(note[0] == '\0');
}

/* Mounts of our own, in a mount namespace of our own, gone with the process. */
static void test_mounts(void)
{
#ifdef __linux__
  char dir[700], file[800], bytes[4096];
  session s;
  FILE *f;

  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    printf("skipped: full disk, noexec and read-only mounts (no right to mount)\n");
    return;
  }
  snprintf(dir, sizeof dir, "%s", at("full"));
  CHECK(mkdir(dir, 0700) == 0 && mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700") == 0);
  snprintf(file, sizeof file, "%s/filler", dir);
  memset(bytes, 'x', sizeof bytes);
  f = fopen(file, "w");
  while (f && fwrite(bytes, 1, sizeof bytes, f) == sizeof bytes && fflush(f) == 0) {}
  if (f) fclose(f);
  check_left(dir, "could not write to");
  check_left(dir, "no space left on device");
  CHECK(count_entries(dir) == 1); /* the filler */
  /* room for the source, not for what the compiler makes: not the compiler's fault */
  CHECK(truncate(file, 256 * 1024 - 12 * 1024) == 0);
  check_left(dir, "no space left on device");
  CHECK(count_entries(dir) == 1);

  snprintf(dir, sizeof dir, "%s", at("noexec"));
  CHECK(mkdir(dir, 0700) == 0 && mount("tmpfs", dir, "tmpfs", MS_NOEXEC, "size=4m,mode=0700") == 0);
  check_left(dir, "noexec");
  CHECK(count_entries(dir) == 0);

  snprintf(dir, sizeof dir, "%s", at("ro"));
  CHECK(mkdir(dir, 0700) == 0 && mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700") == 0);
  s = in_session(dir, NULL, 6);
  CHECK(s.compiles == 1);
  CHECK(mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=4m,mode=0700") == 0);
  check_left(dir, "read-only");
  s = in_session(dir, NULL, 6); /* what is there can still be used */
  CHECK(s.status == KE_OK && s.value == 6 && s.disk == 1 && s.compiles == 0);
#else
  printf("skipped: full disk, noexec and read-only mounts (not Linux)\n");
#endif
}

static void test_processes(int n)
{
  char dir[700], name[64];
  long long compiles = 0, disk = 0;
  int out[8];
  pid_t pid[8];
  session s;

  snprintf(name, sizeof name, "together-%d", n);
  snprintf(dir, sizeof dir, "%s", at(name));
  for (int k = 0; k < n; k++) pid[k] = start_session(&out[k], dir, NULL, NULL, 11);
  for (int k = 0; k < n; k++) {
    s = end_session(pid[k], out[k]);
    CHECK_MSG(s.exit_status == 0 && s.status == KE_OK && s.value == 11, "%s", s.note);
    CHECK(s.rejected == 0);
    compiles += s.compiles;
    disk += s.disk;
  }
  CHECK(compiles + disk == n && compiles >= 1);
  CHECK(count_entries(dir) == 1);
  CHECK(file_size(only_object(dir)) > 1000);
}

/* Killed in the middle: what it left harms nobody and goes when it is old. */
static void test_killed_process(void)
{
  struct timeval old[2] = {{1000000, 0}, {1000000, 0}};
  char dir[700], work[1400] = "", slow[700];
  int64_t removed, files, bytes;
  ke_error err = {.pos = -1};
  struct dirent *e;
  session s;
  DIR *d;
  pid_t pid;
  int out;

  snprintf(dir, sizeof dir, "%s", at("killed"));
  snprintf(slow, sizeof slow, "%s", script("slow", "sleep 1; exec cc \"$@\""));
  pid = start_session(&out, dir, NULL, slow, 12);
  for (int k = 0; k < 1000 && count_entries(dir) < 1; k++) usleep(10000);
  kill(pid, SIGKILL);
  s = end_session(pid, out);
  CHECK(s.exit_status == -1);
  CHECK(count_entries(dir) == 1); /* its work folder */
  s = in_session(dir, NULL, 12);
  CHECK(s.value == 12 && s.compiles == 1 && s.rejected == 0);
  CHECK(count_entries(dir) == 2);
  usleep(1500000); /* the orphaned compiler may still write there */

  d = opendir(dir);
  while (d && (e = readdir(d)) != NULL)
    if (!strncmp(e->d_name, "keops-tmp-", 10)) snprintf(work, sizeof work, "%s/%s", dir, e->d_name);
  if (d) closedir(d);
  CHECK(work[0] != '\0');
  ke_cache_dir_stat(dir, &files, &bytes);
  CHECK(files == 1 && bytes == file_size(only_object(dir)));
  CHECK(ke_cache_clear(dir, 3600, &removed, &err) == KE_OK && removed == 0);
  CHECK(count_entries(dir) == 2); /* it may be at work: young */
  CHECK(utimes(work, old) == 0);
  CHECK(ke_cache_clear(dir, 3600, &removed, &err) == KE_OK && removed == 0);
  CHECK(count_entries(dir) == 1);
}

static bool printable(const char *text)
{
  for (; *text; text++)
    if (!((*text >= ' ' && *text < 0x7f) || *text == '\n' || *text == '\t')) return false;
  return true;
}

/* The compiler fails: KE_ERR_COMPILE, a sentence, a log, and nothing left behind. */
static void check_broken(const char *compiler, const char *source, const char *words,
                         const char *output)
{
  ke_compile_settings s = settings_for(at("broken-cache"));
  ke_error err = {.pos = -1};
  ke_kernel_fn fn;
  ke_status st;

  s.compiler = compiler;
  st = ke_cc_fetch(source, &s, &fn, NULL, 0, &err);
  CHECK_MSG(st == KE_ERR_COMPILE && err.status == st && !fn, "%d %s", st, err.message);
  CHECK_MSG(strstr(err.message, words) != NULL, "%s: want '%s'", err.message, words);
  CHECK_MSG(strchr(err.message, '\n') == NULL, "%s", err.message);
  CHECK(count_entries(s.cache_dir) <= 0);
  if (output) {
    CHECK(err.log != NULL);
    if (err.log) {
      CHECK(strstr(err.log, "kernel.c") && strstr(err.log, "-ffp-contract=fast"));
      CHECK_MSG(strstr(err.log, output) != NULL, "%s", err.log);
      CHECK(strstr(err.log, "source:\n   1 | ") || strstr(err.log, "source:\n 500 | "));
      CHECK(printable(err.log));
    }
  }
  ke_error_clear(&err);
}

static void test_broken_compilers(void)
{
  char long_source[20000] = "", *p = long_source, *path;

  check_broken(script("b1", "exit 1"), kernel(1), "exit status 1", "output:\nsource:");
  check_broken(script("b2", "printf 'a\\001\\000\\377\\303(b\\n'; echo oops >&2; exit 3"),
               kernel(1), "exit status 3", "a???" "?(b\noops\n");
  check_broken(script("b3", "kill -9 $$"), kernel(1), "signal 9", "output:");
  check_broken(script("b4", "exit 0"), kernel(1), "without making", "output:");
  check_broken(script("b5", "while [ \"$1\" != -o ]; do shift; done; echo junk > \"$2\""),
               kernel(1), "could not load", NULL);
  check_broken(script("b6", "head -c 1000000 /dev/zero | tr '\\0' x; exit 1"), kernel(1),
               "exit status 1", "xxxx");
  put(at("b7"), "\177ELF but not really", 0755);
  check_broken(at("b7"), kernel(1), "could not be started", "output:");
  put(at("b8"), "#!/bin/sh\n", 0644);
  check_broken(at("b8"), kernel(1), "was not found", NULL); /* may not be run */
  check_broken("no-such-compiler-anywhere", kernel(1), "'no-such-compiler-anywhere' was not found",
               NULL);
  check_broken("'", kernel(1), "not found", NULL);

  check_broken(NULL, "int ke_kernel_run(void) { return undeclared; }\n", "undeclared",
               "kernel.c:1");
  check_broken(NULL, "int other;\n", "could not load", NULL); /* no ke_kernel_run in it */
  check_broken(NULL, "void missing(void);\nvoid ke_kernel_run(void) { missing(); }\n", "missing",
               NULL);
  for (int k = 1; k < 800; k++) p += sprintf(p, k == 600 ? "#error here\n" : "int a%d;\n", k);
  check_broken(NULL, long_source, "#error here", " 600 | #error here\n");

  path = strdup(getenv("PATH"));
  setenv("PATH", "", 1);
  check_broken(NULL, kernel(1), "no C compiler was found: searched", NULL);
  check_broken(NULL, kernel(1), "cc, gcc, clang", NULL);
  unsetenv("PATH");
  check_broken(NULL, kernel(1), "install one", NULL);
  set_path(path, "");
  free(path);
}

static void check_works(const char *compiler, int value)
{
  ke_compile_settings s = settings_for(at("works"));

  s.compiler = compiler;
  CHECK(fetch_value(value, &s, NULL, 0) == value);
}

static void test_compiler_commands(void)
{
  ke_compile_settings s = settings_for(NULL);
  char *path = strdup(getenv("PATH")), *cc, *found, command[1000];
  ke_error err = {.pos = -1};

  CHECK(ke_cc_find(&s, &cc, &err) == KE_OK && cc[0] == '/');
  check_works(cc, 21);
  setenv("PATH", "", 1); /* its assembler is beside it */
  check_works(cc, 22);
  set_path(path, "");
  check_works("env KEOPS_X='a b' cc", 23);
  check_works("cc  \"-DUNUSED=a b\" -O1", 24);
  mkdir(at("my tools (x)"), 0700);
  CHECK(symlink(cc, at("my tools (x)/cc")) == 0);
  check_works(at("my tools (x)/cc"), 25);
  snprintf(command, sizeof command, "'%s' -O1", at("my tools (x)/cc"));
  check_works(command, 26);
  s.compiler = command;
  CHECK(ke_cc_find(&s, &found, &err) == KE_OK && !strcmp(found, at("my tools (x)/cc")));
  free(found);
  /* compilers that do not know the flag for this machine */
  check_works(script("no-native",
                     "for a; do case $a in *=native) echo \"error: unknown target CPU 'native' in "
                     "$a\" >&2; exit 1;; esac; done; exec cc \"$@\""),
              27);
  /* and a fault that only mentions it stays a fault */
  check_broken(script("march", "echo 'error: march into the sea'; exit 1"), kernel(1),
               "into the sea", "march into the sea");
  free(cc);
  free(path);
}

static void test_odd_paths(void)
{
  char dir[700], odd_include[700];
  ke_compile_settings s = settings_for(dir);

  snprintf(dir, sizeof dir, "%s", at("c a/\303\251'q \"$HOME\" `x`;\\"));
  snprintf(odd_include, sizeof odd_include, "%s", at("in c'l (u) de"));
  make_prelude(odd_include, "odd");
  s.include_dir = odd_include;
  setenv("TMPDIR", at("t m p"), 1); /* not even there */
  CHECK(fetch_value(31, &s, NULL, 0) == 31);
  CHECK(count_entries(dir) == 1);
  unsetenv("TMPDIR");
  CHECK(chdir(root) == 0);
  s.cache_dir = "-relative";
  CHECK(fetch_value(32, &s, NULL, 0) == 32);
  CHECK(count_entries(at("-relative")) == 1);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
  (void)number;
  alarms++;
}

static void on_child(int number)
{
  int saved = errno;

  (void)number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {}
  errno = saved;
}

static void test_signals(void)
{
  struct sigaction act = {.sa_handler = on_alarm}; /* no SA_RESTART */
  struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  ke_compile_settings s = settings_for(at("signals"));

  sigaction(SIGALRM, &act, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  CHECK(fetch_value(41, &s, NULL, 0) == 41);
  setitimer(ITIMER_REAL, &never, NULL);
  CHECK(alarms > 0);

  signal(SIGCHLD, SIG_IGN);
  CHECK(fetch_value(42, &s, NULL, 0) == 42);
  signal(SIGCHLD, on_child); /* takes every child's status before we can */
  CHECK(fetch_value(43, &s, NULL, 0) == 43);
  check_broken(script("b9", "echo lost; exit 1"), kernel(1), "C compiler", "lost");
  signal(SIGCHLD, SIG_DFL);

  /* the user's Ctrl-C reaches the compiler too */
  ke_error err = {.pos = -1};
  ke_kernel_fn fn;
  s.compiler = script("b10", "kill -INT $$; sleep 1");
  CHECK(ke_cc_fetch(kernel(1), &s, &fn, NULL, 0, &err) == KE_ERR_INTERRUPT);
  ke_error_clear(&err);
}

static void *fetch_thread(void *data)
{
  return value_of(NULL) == -1 && fetch_value(45, data, NULL, 0) == 45 ? data : NULL;
}

/* A child forked while another thread compiles and holds the lock. */
static void test_fork(void)
{
  ke_compile_settings s = settings_for(at("fork")), slow = s;
  pthread_t thread;
  void *result = NULL;
  int status = -1;
  pid_t pid;

  CHECK(fetch_value(44, &s, NULL, 0) == 44);
  slow.compiler = script("slow2", "sleep 0.3; exec cc \"$@\"");
  if (pthread_create(&thread, NULL, fetch_thread, &slow) != 0) exit(2);
  usleep(100000);
  fflush(stdout);
  pid = fork();
  if (pid == 0) {
    alarm(30);
    signal(SIGALRM, SIG_DFL);
    check_failed = 0;
    CHECK(fetch_value(44, &s, NULL, 0) == 44); /* from the table */
    CHECK(fetch_value(46, &s, NULL, 0) == 46); /* a new one */
    CHECK(ke_cache_counts().compiles > 0);
    fflush(stdout);
    _exit(check_failed ? 1 : 0);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  pthread_join(thread, &result);
  CHECK(result == &slow);
  CHECK(fetch_value(46, &s, NULL, 0) == 46); /* the child's, from disk */
}

static void test_upkeep(void)
{
  static const char other[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.so";
  struct timeval times[2];
  char dir[700], file[1400], name[1400];
  int64_t files, bytes, removed;
  ke_error err = {.pos = -1};
  session s;

  snprintf(dir, sizeof dir, "%s", at("upkeep"));
  ke_cache_dir_stat(dir, &files, &bytes);
  CHECK(files == 0 && bytes == 0);
  CHECK(ke_cache_clear(dir, 0, &removed, &err) == KE_OK && removed == 0);

  s = in_session(dir, NULL, 61);
  snprintf(file, sizeof file, "%s", only_object(dir));
  memset(times, 0, sizeof times);
  times[0].tv_sec = times[1].tv_sec = time(NULL) - 5000;
  CHECK(utimes(file, times) == 0);
  s = in_session(dir, NULL, 62);
  CHECK(s.compiles == 1);
  snprintf(name, sizeof name, "%s/notes.so", dir);
  put(name, "the user's", 0600);
  snprintf(name, sizeof name, "%s/%s", dir, other); /* one letter short */
  put(name, "the user's", 0600);
  ke_cache_dir_stat(dir, &files, &bytes);
  CHECK(files == 2 && bytes > 2 * 1000);
  CHECK(ke_cache_clear(dir, 6000, &removed, &err) == KE_OK && removed == 0);
  CHECK(ke_cache_clear(dir, 4000, &removed, &err) == KE_OK && removed == 1);
  CHECK(file_size(file) == -1 && count_entries(dir) == 3);

  /* a hit counts as use */
  s = in_session(dir, NULL, 61);
  CHECK(s.compiles == 1 && utimes(file, times) == 0);
  s = in_session(dir, NULL, 61);
  CHECK(s.disk == 1);
  CHECK(ke_cache_clear(dir, 4000, &removed, &err) == KE_OK && removed == 0);

  /* over the limit the least recently used go, and nothing else */
  CHECK(utimes(file, times) == 0);
  ke_cache_dir_stat(dir, &files, &bytes);
  ke_cache_trim(dir);
  CHECK(count_entries(dir) == 4);
  ke_cache_set_limit(bytes - 1);
  ke_cache_trim(dir);
  ke_cache_set_limit(500 * (int64_t)1000000);
  CHECK(file_size(file) == -1 && count_entries(dir) == 3);
  CHECK(ke_cache_clear(dir, 0, &removed, &err) == KE_OK && removed == 1);
  CHECK(count_entries(dir) == 2 && file_size(name) == 10);
}

int main(int argc, char **argv)
{
  const char *tmp = getenv("TMPDIR");
  char link[512], command[2500];
  ssize_t n;

  if (argc > 6 && !strcmp(argv[1], "fetch")) return child_main(argv);
  n = readlink("/proc/self/exe", link, sizeof link - 1);
  if (n > 0) link[n] = '\0';
  self = n > 0 ? link : argv[0];
  snprintf(root, sizeof root, "%s/keops-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(root)) return 2;
  unsetenv("KEOPS_ISA");
  snprintf(include, sizeof include, "%s/include", root);
  make_prelude(include, "tiny");

  test_sha256();
  test_key_text();
  test_key_ingredients();
  test_warm();
  test_corrupt();
  test_unusable_places();
  test_processes(2);
  test_processes(8);
  test_killed_process();
  test_broken_compilers();
  test_compiler_commands();
  test_odd_paths();
  test_signals();
  test_fork();
  test_upkeep();
  test_mounts();
  if (chdir("/") != 0) return 2;
  snprintf(command, sizeof command, "umount '%s'/full '%s'/noexec '%s'/ro 2>/dev/null; rm -rf '%s'",
           root, root, root, root);
  if (system(command) != 0) printf("could not remove %s\n", root);
  return check_end();
}
