/* The GPU as the engine and the R border see it; CUDA's types stay behind it. */
#ifndef KE_CUDA_BACKEND_H
#define KE_CUDA_BACKEND_H

#include "backend.h"

/* For ke_call.gpu. Nothing is started before its functions are called. */
const ke_gpu *ke_cuda_backend(void);

/* What there is, for keops_info(). Looks for the driver, makes no context. */
typedef struct {
  int driver;      /* version of CUDA that the driver knows: 13000; 0: none */
  int nvrtc;       /* the same of NVRTC, 0: none */
  char nvrtc_path[512];
  char problem[1024]; /* why no GPU can be used, or "" */
  int devices;
} ke_cuda_info;
typedef struct {
  char name[128];
  int arch, processors;
  double memory; /* bytes */
} ke_cuda_device_info;

void ke_cuda_look(const char *hint, ke_cuda_info *out);
ke_status ke_cuda_look_at(int number, ke_cuda_device_info *out, ke_error *err) KE_MUST_USE;

/* Give back memory kept on devices and pinned on the host. */
void ke_cuda_free_pools(void);
/* Milliseconds that kernels took in the last run, by events of the device. */
double ke_cuda_last_ms(void);

/* CUDA source of the pair kernels of a plan as for so many rows; compiled where `arch` > 0, into the void,
 * with `nvrtc` the newest major version to take (0: any). *source: malloc'd. */
ke_status ke_cuda_source(const ke_plan *plan, int real_bytes, int64_t size_i, int64_t size_j,
                         char **source, ke_error *err) KE_MUST_USE;
ke_status ke_cuda_try(const ke_plan *plan, int real_bytes, int64_t size_i, int64_t size_j,
                      int arch, int nvrtc, const ke_gpu_settings *settings, double *bytes,
                      ke_error *err) KE_MUST_USE;

#endif
