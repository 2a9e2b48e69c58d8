/* Runs the pair program of a pass on GPUs: the runner behind ke_gpu.open (cuda_backend.c). */
#ifndef KE_RUN_CUDA_H
#define KE_RUN_CUDA_H

#include "backend.h"
#include "cuda_device.h"

typedef struct {
  ke_gpu_settings settings; /* texts are the caller's */
  ke_cuda_worker *worker[KE_CUDA_DEVICES];
  int nworker;
} ke_cuda_session;

/* For ke_pairs_runner.run; `session` is a ke_cuda_session. */
ke_status ke_cuda_run(void *session, const ke_pairs_job *job, ke_error *err);
double ke_cuda_run_ms(void); /* of the last run's kernels */

#endif
