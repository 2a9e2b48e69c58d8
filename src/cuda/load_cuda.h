/* The kernels of a pass for a device: from the pass's memo, from those loaded, from the cache, or made now. */
#ifndef KE_LOAD_CUDA_H
#define KE_LOAD_CUDA_H

#include "backend.h"
#include "cuda_device.h"
#include "shape_cuda.h"

typedef struct ke_cuda_kernel {
  struct ke_cuda_kernel *next; /* of the same pass */
  const ke_cuda_device *device;
  ke_cuda_tiling tiling;
  bool accurate;
  cu_function pairs, merge;
  cu_function norms, split; /* where tensor cores are used */
  int blocks; /* that the device holds at a time */
} ke_cuda_kernel;

/* For a tiling, within the worker's context. It lives in job->arena. */
ke_status ke_cuda_kernel_of(const ke_pairs_job *job, const ke_cuda_worker *worker,
                            const ke_cuda_tiling *tiling, const ke_gpu_settings *settings,
                            const ke_cuda_kernel **out, ke_error *err) KE_MUST_USE;

#endif
