/* CUDA source in, image for a device out: by NVRTC, or from the cache on disk. No device is needed. */
#ifndef KE_COMPILE_CUDA_H
#define KE_COMPILE_CUDA_H

#include "backend.h"
#include "cuda_api.h"

/* Compile for an architecture (90: compute capability 9.0), to a cubin, or to PTX for one that this NVRTC
 * does not know yet. A failure is KE_ERR_COMPILE with the log. *image: malloc'd. */
ke_status ke_cuda_compile(const ke_cuda_nvrtc *nvrtc, int arch, const char *source,
                          const char *include_dir, char **image, size_t *size,
                          ke_error *err) KE_MUST_USE;

/* The same, by way of the cache in settings->cache_dir and settings->fallback_dir. A cache that cannot be
 * used costs a compilation each session, no more. */
ke_status ke_cuda_image(const ke_cuda_nvrtc *nvrtc, int arch, const char *source,
                        const ke_compile_settings *settings, char **image, size_t *size,
                        ke_error *err) KE_MUST_USE;

#endif
