/* Source -> shared object by the system's C compiler.
 *
 * The compiler is started without a shell, so no path needs quoting; its temporary files, output and
 * result stay in the folder that the caller gives and removes. Between emit_c.c, which writes the
 * source, and fetch_cc.c, which loads the object. All system calls for processes are here. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "compile_cc.h"

#include "backend.h"
#include "strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define ON_X86 1
#else
#define ON_X86 0
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__APPLE__)
#include <crt_externs.h>
#define environ (*_NSGetEnviron())
#define st_mtim st_mtimespec
#else
extern char **environ;
#endif

enum {
  MOST_WORDS = 32,        /* of the user's compiler command */
  MOST_FLAGS = 32,        /* of ours */
  MOST_OUTPUT = 64 << 10, /* bytes of the compiler's output that a log keeps */
  MOST_LINES = 200        /* lines of source in a log */
};

struct ke_cc {
  char *word[MOST_WORDS + 1]; /* as the user gave them, NULL at the end */
  char *path;                 /* of word[0] */
  char *identity;             /* which files these words name, and which versions of them */
  int native;                 /* first flag of native_flags that it was not seen to refuse */
};

static const char *const common_flags[] = {
    "-shared", "-fPIC", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
    "-std=gnu11", "-w", NULL};

/* "For the machine it runs on", in the order to try; compilers differ by CPU. */
static const char *const native_flags[] = {
#if ON_X86
    "-march=native",
#else
    "-mcpu=native", "-march=native",
#endif
    NULL};

/* ---- finding ---- */

static bool is_program(const char *path)
{
  struct stat st;

  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Path of a program (malloc'd), as the shell would find it but never in the working folder;
 * NULL: none, or no memory. */
static char *find_program(const char *name)
{
  const char *path = getenv("PATH");
  ke_strbuf b = {0};

  if (strchr(name, '/')) {
    if (is_program(name)) ke_strbuf_add(&b, name);
    return b.text;
  }
  while (path && *path && *name) {
    size_t n = strcspn(path, ":");
    if (n) {
      b.len = 0;
      ke_strbuf_addn(&b, path, n);
      ke_strbuf_addf(&b, "/%s", name);
      if (!b.failed && is_program(b.text)) return b.text;
    }
    path += n + (path[n] == ':');
  }
  ke_strbuf_free(&b);
  return NULL;
}

/* Cut a command into words at blanks; quotes and backslashes as in a shell. False: too many, or no
 * memory. */
static bool split_words(const char *text, char *word[MOST_WORDS + 1])
{
  int n = 0;

  for (;;) {
    ke_strbuf b = {0};
    char quote = '\0';

    text += strspn(text, " \t\n");
    if (!*text) return true;
    if (n == MOST_WORDS) return false;
    ke_strbuf_addn(&b, "", 0);
    for (; *text && (quote || !strchr(" \t\n", *text)); text++) {
      if (*text == quote) {
        quote = '\0';
      } else if (!quote && (*text == '\'' || *text == '"')) {
        quote = *text;
      } else {
        if (*text == '\\' && quote != '\'' && text[1]) text++;
        ke_strbuf_addn(&b, text, 1);
      }
    }
    if (b.failed) {
      ke_strbuf_free(&b);
      return false;
    }
    word[n++] = b.text;
  }
}

/* Path, size and time of the file a word names, if it names one. */
static void add_identity(ke_strbuf *b, const char *path)
{
  char *real = realpath(path, NULL);
  struct stat st;

  if (real && stat(real, &st) == 0)
    ke_strbuf_addf(b, "%s\n%s\n%lld %lld.%09ld\n", path, real, (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec);
  free(real);
}

static ke_status identify(ke_cc *cc, ke_error *err)
{
  ke_strbuf b = {0};

  for (int k = 0; cc->word[k]; k++) {
    char *path = *cc->word[k] != '-' ? find_program(cc->word[k]) : NULL;
    ke_strbuf_addf(&b, "%s\n", cc->word[k]);
    if (path) add_identity(&b, path);
    free(path);
  }
  cc->identity = b.text;
  return b.failed ? ke_fail_memory(err) : KE_OK;
}

/* A compiler by this command, or NULL with KE_OK where there is no such program. */
static ke_status try_command(const char *command, ke_cc **out, ke_error *err)
{
  ke_cc *cc = calloc(1, sizeof *cc);
  ke_status st = KE_OK;

  *out = NULL;
  if (!cc) return ke_fail_memory(err);
  if (is_program(command) && strchr(command, '/')) { /* one path, blanks and all */
    cc->word[0] = strdup(command);
    if (!cc->word[0]) st = ke_fail_memory(err);
  } else if (!split_words(command, cc->word)) {
    st = ke_fail(err, KE_ERR_COMPILE, -1, "the compiler command has more than %d words",
                 MOST_WORDS);
  }
  if (st == KE_OK && cc->word[0]) cc->path = find_program(cc->word[0]);
  if (st == KE_OK && cc->path) st = identify(cc, err);
  if (st == KE_OK && cc->path)
    *out = cc;
  else
    ke_cc_close(cc);
  return st;
}

/* An earlier name is the same. */
static bool is_listed(const char *const *names, int k)
{
  for (int m = 0; m < k; m++)
    if (!strcmp(names[m], names[k])) return true;
  return false;
}

ke_status ke_cc_open(const char *wanted, ke_cc **out, ke_error *err)
{
  static const char *const names[] = {
#ifdef KE_CC_DEFAULT
      KE_CC_DEFAULT, /* what configure found when the package was built */
#endif
      "cc", "gcc", "clang", NULL};
  const char *path = getenv("PATH");
  ke_strbuf tried = {0};

  *out = NULL;
  if (wanted && *wanted) {
    KE_TRY(try_command(wanted, out, err));
    if (*out) return KE_OK;
    return ke_fail(err, KE_ERR_COMPILE, -1,
                   "the C compiler '%s' was not found; set options(keops.compiler=) to one that is "
                   "there, or to NULL to search",
                   wanted);
  }
  for (int k = 0; names[k]; k++) {
    if (is_listed(names, k)) continue;
    ke_status st = try_command(names[k], out, err);
    if (st != KE_OK || *out) {
      ke_strbuf_free(&tried);
      return st;
    }
    ke_strbuf_addf(&tried, "%s%s", k ? ", " : "", names[k]);
  }
  ke_fail(err, KE_ERR_COMPILE, -1,
          "no C compiler was found: searched %s %s; install one (Debian: gcc) or set "
          "options(keops.compiler=)",
          tried.text ? tried.text : "", path && *path ? "on the PATH" : "on an empty PATH");
  ke_strbuf_free(&tried);
  return KE_ERR_COMPILE;
}

void ke_cc_close(ke_cc *cc)
{
  if (!cc) return;
  for (int k = 0; cc->word[k]; k++) free(cc->word[k]);
  free(cc->path);
  free(cc->identity);
  free(cc);
}

const char *ke_cc_path(const ke_cc *cc)
{
  return cc->path;
}

ke_status ke_cc_find(const ke_compile_settings *settings, char **path, ke_error *err)
{
  ke_cc *cc;

  *path = NULL;
  KE_TRY(ke_cc_open(settings->compiler, &cc, err));
  *path = strdup(cc->path);
  ke_cc_close(cc);
  return *path ? KE_OK : ke_fail_memory(err);
}

/* ---- flags and target ---- */

/* Does the user hold the vector instructions down? Then flags name them instead of the machine. */
static bool isa_is_set(void)
{
  const char *isa = getenv("KEOPS_ISA");

  return isa && *isa;
}

/* Adds flags for the target, up to 8; returns the new number. */
static int add_target_flags(const ke_cc *cc, const char **flag, int n)
{
  static const char *const avx2[] = {"-mavx2", "-mfma", NULL};
  static const char *const avx512[] = {"-mavx512f",  "-mavx512dq", "-mavx512vl",
                                       "-mavx512bw", "-mavx2",     "-mfma", NULL};
  const char *const *list = NULL;

  if (!isa_is_set()) {
    if (native_flags[cc->native]) flag[n++] = native_flags[cc->native];
    return n;
  }
  if (ON_X86 && ke_cpu_isa() == KE_ISA_AVX2) list = avx2;
  if (ON_X86 && ke_cpu_isa() == KE_ISA_AVX512) list = avx512;
  for (int k = 0; list && list[k]; k++) flag[n++] = list[k];
  return n;
}

/* The CPU by what it can do and not by its name: the words of cpuid that hold feature bits. */
static void describe_cpu(ke_strbuf *b)
{
#if ON_X86
  static const struct {
    unsigned leaf, sub;
    bool eax, ebx; /* these hold names or numbers of the CPU in some leaves */
  } leaves[] = {{1, 0, false, false},
                {7, 0, false, true},
                {7, 1, true, true},
                {0xd, 1, true, false},
                {0x80000001u, 0, false, false}};
  unsigned a, bx, c, d;

  for (size_t k = 0; k < sizeof leaves / sizeof *leaves; k++) {
    if (!__get_cpuid_count(leaves[k].leaf, leaves[k].sub, &a, &bx, &c, &d)) continue;
    ke_strbuf_addf(b, "%x.%x: %x %x %x %x\n", leaves[k].leaf, leaves[k].sub, leaves[k].eax ? a : 0,
                   leaves[k].ebx ? bx : 0, c, d);
    if (leaves[k].leaf == 1 && (c >> 27 & 1)) { /* OSXSAVE: which registers the system keeps */
      __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
      ke_strbuf_addf(b, "xcr0: %x %x\n", a, d);
    }
  }
#elif defined(__linux__)
  ke_strbuf_addf(b, "hwcap: %lx %lx\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
  ke_strbuf_add(b, "cpu: not told\n");
#endif
}

static const char platform[] =
#if defined(__linux__)
    "linux "
#elif defined(__APPLE__)
    "macos "
#else
    "unix "
#endif
#if defined(__x86_64__)
    "x86_64";
#elif defined(__aarch64__)
    "aarch64";
#elif defined(__i386__)
    "i386";
#else
    "other";
#endif

ke_status ke_cc_add_to_key(const ke_cc *cc, ke_key *key, ke_error *err)
{
  ke_cc first = *cc;
  const char *flag[MOST_FLAGS];
  ke_strbuf flags = {0}, cpu = {0};
  bool failed;
  int n;

  first.native = 0; /* which of them it takes follows from the compiler */
  n = add_target_flags(&first, flag, 0);
  for (int k = 0; common_flags[k]; k++) ke_strbuf_addf(&flags, "%s\n", common_flags[k]);
  for (int k = 0; k < n; k++) ke_strbuf_addf(&flags, "%s\n", flag[k]);
  ke_strbuf_addf(&cpu, "%s %zu\n", platform, sizeof(void *));
  if (isa_is_set())
    ke_strbuf_addf(&cpu, "isa: %s\n", ke_isa_name(ke_cpu_isa()));
  else
    describe_cpu(&cpu);
  failed = flags.failed || cpu.failed;
  if (!failed) {
    ke_key_add_text(key, "compiler", cc->identity);
    ke_key_add_text(key, "flags", flags.text);
    ke_key_add_text(key, "cpu", cpu.text);
  }
  ke_strbuf_free(&flags);
  ke_strbuf_free(&cpu);
  return failed ? ke_fail_memory(err) : KE_OK;
}

/* ---- running ---- */

typedef struct {
  int start_error; /* errno: it did not even start */
  bool unknown;    /* somebody else took its status (a SIGCHLD handler that waits for all) */
  int code, signal;
} ended;

static bool replaced(const char *entry)
{
  return strncmp(entry, "TMPDIR=", 7) == 0 || strncmp(entry, "LC_ALL=", 7) == 0 ||
         strncmp(entry, "PATH=", 5) == 0;
}

/* Our environment, but: temporary files go to `work`, messages are English, and a compiler given by
 * its path finds its assembler beside it. `own` holds the entries made here, to be freed. */
static char **make_environment(const ke_cc *cc, const char *work, ke_strbuf own[2])
{
  const char *path = getenv("PATH");
  const char *slash = strrchr(cc->path, '/');
  size_t n = 0;
  char **env;

  while (environ && environ[n]) n++;
  env = malloc((n + 4) * sizeof *env);
  if (!env) return NULL;
  n = 0;
  for (char **e = environ; e && *e; e++)
    if (!replaced(*e)) env[n++] = *e;
  ke_strbuf_addf(&own[0], "TMPDIR=%s", work);
  ke_strbuf_addf(&own[1], "PATH=%s%s", path ? path : "", path && *path ? ":" : "");
  if (slash) ke_strbuf_addn(&own[1], cc->path, slash == cc->path ? 1 : (size_t)(slash - cc->path));
  env[n++] = own[0].text;
  env[n++] = own[1].text;
  env[n++] = (char *)"LC_ALL=C";
  env[n] = NULL;
  return env;
}

/* Start it with output into a file and nothing to read; errno or 0. */
static int start(const ke_cc *cc, char *const *argv, char *const *env, const char *output,
                 pid_t *pid)
{
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attr;
  sigset_t none, usual;
  int number;

  if ((number = posix_spawn_file_actions_init(&files)) != 0) return number;
  if ((number = posix_spawnattr_init(&attr)) != 0) {
    posix_spawn_file_actions_destroy(&files);
    return number;
  }
  sigemptyset(&none);
  sigemptyset(&usual);
  sigaddset(&usual, SIGCHLD);
  sigaddset(&usual, SIGPIPE);
  posix_spawnattr_setsigmask(&attr, &none);
  posix_spawnattr_setsigdefault(&attr, &usual);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  number = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  if (!number)
    number =
        posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!number) number = posix_spawn_file_actions_adddup2(&files, 1, 2);
  if (!number) number = posix_spawn(pid, cc->path, &files, &attr, argv, env);
  posix_spawnattr_destroy(&attr);
  posix_spawn_file_actions_destroy(&files);
  return number;
}

static ke_status run(const ke_cc *cc, char *const *argv, const char *work, const char *output,
                     ended *end, ke_error *err)
{
  ke_strbuf own[2] = {{0}, {0}};
  char **env = make_environment(cc, work, own);
  bool ok = env && !own[0].failed && !own[1].failed;
  int status = 0;
  pid_t pid, got;

  memset(end, 0, sizeof *end);
  if (ok) {
    end->start_error = start(cc, argv, env, output, &pid);
    if (!end->start_error) {
      do got = waitpid(pid, &status, 0);
      while (got < 0 && errno == EINTR);
      if (got < 0) end->unknown = true;
      else if (WIFSIGNALED(status)) end->signal = WTERMSIG(status);
      else end->code = WEXITSTATUS(status);
    }
  }
  ke_strbuf_free(&own[0]);
  ke_strbuf_free(&own[1]);
  free(env);
  return ok ? KE_OK : ke_fail_memory(err);
}

/* ---- the log of a failure ---- */

/* Bytes of the UTF-8 character at p, 0: it is none. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
  size_t n = 0;

  if (*p < 0x80) n = 1;
  else if (*p >= 0xc2 && *p < 0xe0) n = 2;
  else if (*p >= 0xe0 && *p < 0xf0) n = 3;
  else if (*p >= 0xf0 && *p < 0xf5) n = 4;
  if (n > left) return 0;
  for (size_t k = 1; k < n; k++)
    if ((p[k] & 0xc0) != 0x80) return 0;
  return n;
}

/* A compiler may print anything: what is no printable text becomes '?'. */
static void clean_text(char *text, size_t n)
{
  unsigned char *p = (unsigned char *)text;

  for (size_t k = 0, step; k < n; k += step) {
    bool control = (p[k] < ' ' && p[k] != '\n' && p[k] != '\t') || p[k] == 0x7f;
    step = utf8_length(p + k, n - k);
    if (step == 0 || control) {
      p[k] = '?';
      step = 1;
    }
  }
}

/* Messages name the source `kernel.c` and not its passing place. */
static void drop_folder(char *text, const char *work)
{
  size_t n = strlen(work);

  for (char *p = text; (p = strstr(p, work)) != NULL;)
    if (p[n] == '/')
      memmove(p, p + n + 1, strlen(p + n + 1) + 1);
    else
      p += n;
}

/* The line that tells most: the first with "error" in it, else the first that is not empty. */
static const char *telling_line(const char *output, int *length)
{
  const char *first = NULL;

  for (const char *p = output; *p;) {
    size_t n = strcspn(p, "\n");
    const char *hit = strstr(p, "error");
    *length = n < 200 ? (int)n : 200;
    if (hit && hit < p + n) return p;
    if (!first && n) first = p;
    p += n + (p[n] == '\n');
  }
  *length = first ? (int)strcspn(first, "\n") : 0;
  if (*length > 200) *length = 200;
  return first ? first : "";
}

static void add_quoted(ke_strbuf *b, const char *word)
{
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=+-:,";

  if (*word && strspn(word, plain) == strlen(word)) {
    ke_strbuf_add(b, word);
    return;
  }
  ke_strbuf_add(b, "'");
  for (; *word; word++) {
    if (*word == '\'')
      ke_strbuf_add(b, "'\\''");
    else
      ke_strbuf_addn(b, word, 1);
  }
  ke_strbuf_add(b, "'");
}

/* Source with line numbers, some 200 lines about the first one that the output names. */
static void add_numbered(ke_strbuf *b, const char *source, const char *output)
{
  const char *named = strstr(output, "kernel.c:");
  long fault = named ? strtol(named + strlen("kernel.c:"), NULL, 10) : 1;
  long first = fault > MOST_LINES / 2 ? fault - MOST_LINES / 2 : 1, line = 1;

  for (const char *p = source; *p; line++) {
    size_t n = strcspn(p, "\n");
    if (line >= first && line < first + MOST_LINES) {
      ke_strbuf_addf(b, "%4ld | ", line);
      ke_strbuf_addn(b, p, n);
      ke_strbuf_add(b, "\n");
    }
    p += n + (p[n] == '\n');
  }
  if (line - 1 >= first + MOST_LINES || first > 1)
    ke_strbuf_addf(b, "(lines %ld to %ld of %ld)\n", first,
                   line - 1 < first + MOST_LINES - 1 ? line - 1 : first + MOST_LINES - 1, line - 1);
}

static char *make_log(char *const *argv, const char *output, const char *source)
{
  ke_strbuf b = {0};

  ke_strbuf_add(&b, "command:\n");
  for (int k = 0; argv[k]; k++) {
    if (k) ke_strbuf_add(&b, " ");
    add_quoted(&b, argv[k]);
  }
  ke_strbuf_addf(&b, "\noutput:\n%s%s", output,
                 *output && output[strlen(output) - 1] != '\n' ? "\n" : "");
  ke_strbuf_add(&b, "source:\n");
  add_numbered(&b, source, output);
  if (b.failed) ke_strbuf_free(&b);
  return b.text;
}

/* What went wrong, in one sentence, and the log. */
static ke_status fail_compile(const ke_cc *cc, const ended *end, char *const *argv,
                              const char *output, const char *source, ke_error *err)
{
  int n;
  const char *line = telling_line(output, &n);
  char how[96];

  if (end->signal == SIGINT) return ke_fail(err, KE_ERR_INTERRUPT, -1, "stopped while compiling");
  if (end->start_error)
    snprintf(how, sizeof how, "could not be started (%s)", ke_errno_text(end->start_error));
  else if (end->signal)
    snprintf(how, sizeof how, "was stopped by signal %d", end->signal);
  else if (end->code)
    snprintf(how, sizeof how, "failed with exit status %d", end->code);
  else
    snprintf(how, sizeof how, "ended without making a shared object");
  ke_fail(err, KE_ERR_COMPILE, -1, "the C compiler '%s' %s%s%.*s", cc->path, how, n ? ": " : "", n,
          line);
  if (err) {
    free(err->log);
    err->log = make_log(argv, output, source);
  }
  return KE_ERR_COMPILE;
}

/* ---- compiling ---- */

typedef struct {
  char *source, *object, *output; /* paths in the work folder */
} files;

static bool name_files(const char *work, files *f)
{
  ke_strbuf b[3] = {{0}, {0}, {0}};

  ke_strbuf_addf(&b[0], "%s/kernel.c", work);
  ke_strbuf_addf(&b[1], "%s/kernel.so", work);
  ke_strbuf_addf(&b[2], "%s/output", work);
  *f = (files){b[0].text, b[1].text, b[2].text};
  return !b[0].failed && !b[1].failed && !b[2].failed;
}

static bool made(const ended *end, const char *object)
{
  struct stat st;

  return !end->start_error && !end->signal && !end->code && stat(object, &st) == 0 &&
         st.st_size > 0;
}

/* What the compiler printed, as printable text (malloc'd); NULL: no memory. */
static char *read_output(const files *f, const char *work)
{
  char *output;
  size_t length;

  if (ke_file_read(f->output, MOST_OUTPUT, &output, &length, NULL) != KE_OK) return calloc(1, 1);
  clean_text(output, length);
  drop_folder(output, work);
  return output;
}

/* One run of the compiler. *again: it refused the flag for this machine; worth a try without. */
static ke_status compile_once(ke_cc *cc, const char *source, const char *include_dir,
                              const char *work, const files *f, bool *again, ke_error *err)
{
  const char *argv[MOST_WORDS + MOST_FLAGS];
  ke_strbuf include = {0};
  char *output;
  ended end;
  ke_status st;
  int n = 0;

  *again = false;
  for (int k = 0; cc->word[k]; k++) argv[n++] = cc->word[k];
  for (int k = 0; common_flags[k]; k++) argv[n++] = common_flags[k];
  n = add_target_flags(cc, argv, n);
  ke_strbuf_addf(&include, "-I%s", include_dir ? include_dir : ".");
  argv[n++] = include.text;
  argv[n++] = "-o";
  argv[n++] = f->object;
  argv[n++] = f->source;
  argv[n++] = "-lm";
  argv[n] = NULL;
  st = include.failed ? ke_fail_memory(err)
                      : run(cc, (char *const *)argv, work, f->output, &end, err);
  if (st == KE_OK && !made(&end, f->object)) {
    output = read_output(f, work);
    if (output) {
      *again = end.code &&
               (strstr(output, "march") || strstr(output, "mcpu") || strstr(output, "native"));
      st = fail_compile(cc, &end, (char *const *)argv, output, source, err);
    } else {
      st = ke_fail_memory(err);
    }
    free(output);
  }
  ke_strbuf_free(&include);
  return st;
}

ke_status ke_cc_compile(ke_cc *cc, const char *source, const char *include_dir, const char *work,
                        char **object, ke_error *err)
{
  files f = {0};
  int native = cc->native, number;
  bool again;
  ke_status st;

  *object = NULL;
  if (!name_files(work, &f)) {
    st = ke_fail_memory(err);
    goto done;
  }
  number = ke_file_write(f.source, source, strlen(source));
  if (number) {
    st = ke_cache_fail_write(work, number, err);
    goto done;
  }
  for (;;) {
    st = compile_once(cc, source, include_dir, work, &f, &again, err);
    if (st != KE_ERR_COMPILE || !again || isa_is_set() || !native_flags[cc->native]) break;
    cc->native++;
  }
  if (st != KE_OK) {
    cc->native = native; /* it was not the flag */
  } else if (err) {
    ke_error_clear(err); /* of the refused flag */
  }
  if (st == KE_ERR_COMPILE) {
    /* a full disk looks like a broken compiler: do not blame the wrong one */
    ke_error full = {.pos = -1};
    if (ke_cache_probe(work, &full) == KE_ERR_IO) {
      if (err) ke_error_clear(err);
      st = ke_fail(err, KE_ERR_IO, -1, "%s", full.message);
    }
  }
  if (st == KE_OK) {
    *object = f.object;
    f.object = NULL;
  }
done:
  free(f.source);
  free(f.object);
  free(f.output);
  return st;
}
