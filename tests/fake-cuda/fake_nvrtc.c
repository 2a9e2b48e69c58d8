/* A libnvrtc that compiles kernels for the CPU with g++, for tests of everything around them where there is
 * no GPU. An image is the length of a shared library (8 bytes) and the library. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  char dir[64];
  char *image;
  size_t size;
  char log[4096];
} program;

int nvrtcVersion(int *major, int *minor) { *major = 13, *minor = 99; return 0; /* not a real one: its images must not meet in a cache */ }
int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int *arch) { *arch = 90; return 0; }

static int put(const char *dir, const char *name, const char *text, const char *more)
{
  char file[256];
  FILE *f;

  snprintf(file, sizeof file, "%s/%s", dir, name);
  f = fopen(file, "w");
  if (!f) return 1;
  fputs(text, f);
  fputs(more, f);
  return fclose(f);
}

int nvrtcCreateProgram(program **out, const char *source, const char *name, int n,
                       const char *const *headers, const char *const *names)
{
  program *p = calloc(1, sizeof *p);

  (void)name;
  strcpy(p->dir, "/tmp/fake-cuda-XXXXXX");
  if (!mkdtemp(p->dir)) return 1;
  for (int k = 0; k < n; k++)
    if (put(p->dir, names[k], headers[k], "")) return 1;
  *out = p;
  return put(p->dir, "kernel.cpp", "#include \"fake_kernel.h\"\n#include \"kernel.cu\"\n",
             "extern \"C\" void fake_ke_pairs(void **a)\n"
             "{ ke_pairs(*(const ke_cuda_task *)a[0], *(const ke_once *)a[1]); }\n"
             "extern \"C\" void fake_ke_merge(void **a) { ke_merge(*(const ke_cuda_task *)a[0]); }\n"
             "#if KE_DOTS\n"
             "extern \"C\" void fake_ke_norms(void **a) { ke_norms(*(const ke_cuda_split *)a[0]); }\n"
             "extern \"C\" void fake_ke_split(void **a) { ke_split(*(const ke_cuda_split *)a[0]); }\n"
             "#endif\n") ||
         put(p->dir, "kernel.cu", source, "");
}

int nvrtcDestroyProgram(program **p)
{
  char command[128];

  snprintf(command, sizeof command, "rm -rf %s", (*p)->dir);
  (void)!system(command);
  free((*p)->image);
  free(*p);
  *p = NULL;
  return 0;
}

int nvrtcCompileProgram(program *p, int n, const char *const *options)
{
  char command[1024], file[128];
  FILE *f;
  long size;

  (void)n, (void)options;
  snprintf(command, sizeof command,
           "cd %s && g++ -std=c++17 -O1 -w -fPIC -shared -fno-math-errno -I'%s' kernel.cpp -o kernel.so 2>log", p->dir,
           getenv("FAKE_CUDA"));
  if (system(command) != 0) {
    snprintf(file, sizeof file, "%s/log", p->dir);
    f = fopen(file, "r");
    if (f) {
      (void)!fread(p->log, 1, sizeof p->log - 1, f);
      fclose(f);
    }
    return 6;
  }
  snprintf(file, sizeof file, "%s/kernel.so", p->dir);
  f = fopen(file, "rb");
  if (!f) return 6;
  fseek(f, 0, SEEK_END);
  size = ftell(f);
  rewind(f);
  p->size = (size_t)size + 8;
  p->image = malloc(p->size);
  memcpy(p->image, &(uint64_t){(uint64_t)size}, 8);
  (void)!fread(p->image + 8, 1, (size_t)size, f);
  return fclose(f);
}

int nvrtcGetProgramLogSize(program *p, size_t *n) { *n = strlen(p->log) + 1; return 0; }
int nvrtcGetProgramLog(program *p, char *text) { strcpy(text, p->log); return 0; }
int nvrtcGetCUBINSize(program *p, size_t *n) { *n = p->size; return 0; }
int nvrtcGetCUBIN(program *p, char *bytes) { memcpy(bytes, p->image, p->size); return 0; }
int nvrtcGetPTXSize(program *p, size_t *n) { (void)p; *n = 0; return 1; }
int nvrtcGetPTX(program *p, char *bytes) { (void)p, (void)bytes; return 1; }
