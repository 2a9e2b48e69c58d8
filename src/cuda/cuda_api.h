/* The functions of the CUDA driver and of NVRTC that we use, found at run time with dlopen: the package
 * is built without a toolkit, so what is needed of their headers is declared here.
 *
 * ONE ROW A FUNCTION: DRIVER(name, symbol, parameters), NVRTC(name, symbol, parameters); the symbol carries
 * the version of the interface. ke_cuda_load() fills the table once; nothing is opened before. */
#ifndef KE_CUDA_API_H
#define KE_CUDA_API_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- types of the driver ---- */
typedef int cu_result; /* 0: well */
typedef int cu_device;
typedef unsigned long long cu_address;
typedef struct cu_context_ *cu_context;
typedef struct cu_module_ *cu_module;
typedef struct cu_function_ *cu_function;
typedef struct cu_stream_ *cu_stream;
typedef struct cu_event_ *cu_event;

enum {
  CU_SUCCESS = 0,
  CU_OUT_OF_MEMORY = 2,
  CU_NO_DEVICE = 100,
  CU_NOT_READY = 600,
  /* attributes of devices */
  CU_MULTIPROCESSORS = 16,
  CU_MAJOR = 75,
  CU_MINOR = 76,
  CU_SINGLE_TO_DOUBLE = 87,
  CU_MOST_SHARED = 97, /* bytes of shared memory that a block can ask for */
  /* of functions */
  CU_REGISTERS = 4,
  CU_LOCAL_BYTES = 3,
  CU_DYNAMIC_SHARED = 8,
  CU_MEMORY_HOST = 1,
  CU_MEMORY_DEVICE = 2,
  CU_STREAM_NON_BLOCKING = 1
};

/* CUDA_MEMCPY2D */
typedef struct {
  size_t src_x, src_y;
  int src_type;
  const void *src_host;
  cu_address src_device;
  void *src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  int dst_type;
  void *dst_host;
  cu_address dst_device;
  void *dst_array;
  size_t dst_pitch;
  size_t width, height; /* width in bytes */
} cu_copy;

typedef struct nvrtc_program_ *nvrtc_program;

/* clang-format off */
#define KE_CUDA_DRIVER(DRIVER)                                                                       \
  DRIVER(init,              cuInit,                      (unsigned flags))                           \
  DRIVER(driver_version,    cuDriverGetVersion,          (int *version))                             \
  DRIVER(device_count,      cuDeviceGetCount,            (int *count))                               \
  DRIVER(device_get,        cuDeviceGet,                 (cu_device *device, int ordinal))           \
  DRIVER(device_name,       cuDeviceGetName,             (char *name, int size, cu_device device))   \
  DRIVER(device_attribute,  cuDeviceGetAttribute,        (int *value, int which, cu_device device))  \
  DRIVER(device_memory,     cuDeviceTotalMem_v2,         (size_t *bytes, cu_device device))          \
  DRIVER(context_retain,    cuDevicePrimaryCtxRetain,    (cu_context *context, cu_device device))    \
  DRIVER(context_push,      cuCtxPushCurrent_v2,         (cu_context context))                       \
  DRIVER(context_pop,       cuCtxPopCurrent_v2,          (cu_context *context))                      \
  DRIVER(memory_info,       cuMemGetInfo_v2,             (size_t *free, size_t *total))              \
  DRIVER(alloc,             cuMemAlloc_v2,               (cu_address *at, size_t bytes))             \
  DRIVER(free,              cuMemFree_v2,                (cu_address at))                            \
  DRIVER(host_alloc,        cuMemHostAlloc,              (void **at, size_t bytes, unsigned flags))  \
  DRIVER(host_free,         cuMemFreeHost,               (void *at))                                 \
  DRIVER(upload,            cuMemcpyHtoDAsync_v2,        (cu_address to, const void *from, size_t bytes, cu_stream stream)) \
  DRIVER(download,          cuMemcpyDtoHAsync_v2,        (void *to, cu_address from, size_t bytes, cu_stream stream))       \
  DRIVER(copy_2d,           cuMemcpy2DAsync_v2,          (const cu_copy *copy, cu_stream stream))    \
  DRIVER(fill,              cuMemsetD8Async,             (cu_address at, unsigned char byte, size_t n, cu_stream stream))   \
  DRIVER(stream_create,     cuStreamCreate,              (cu_stream *stream, unsigned flags))        \
  DRIVER(stream_destroy,    cuStreamDestroy_v2,          (cu_stream stream))                         \
  DRIVER(stream_wait,       cuStreamSynchronize,         (cu_stream stream))                         \
  DRIVER(event_create,      cuEventCreate,               (cu_event *event, unsigned flags))          \
  DRIVER(event_record,      cuEventRecord,               (cu_event event, cu_stream stream))         \
  DRIVER(event_query,       cuEventQuery,                (cu_event event))                           \
  DRIVER(event_wait,        cuEventSynchronize,          (cu_event event))                           \
  DRIVER(event_ms,          cuEventElapsedTime,          (float *ms, cu_event from, cu_event to))    \
  DRIVER(event_destroy,     cuEventDestroy_v2,           (cu_event event))                           \
  DRIVER(module_load,       cuModuleLoadData,            (cu_module *module, const void *image))     \
  DRIVER(module_unload,     cuModuleUnload,              (cu_module module))                         \
  DRIVER(module_function,   cuModuleGetFunction,         (cu_function *f, cu_module module, const char *name)) \
  DRIVER(function_attribute, cuFuncGetAttribute,         (int *value, int which, cu_function f))     \
  DRIVER(function_set,      cuFuncSetAttribute,          (cu_function f, int which, int value))      \
  DRIVER(occupancy,         cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, cu_function f, int threads, size_t shared)) \
  DRIVER(launch,            cuLaunchKernel,              (cu_function f, unsigned gx, unsigned gy, unsigned gz, \
                                                          unsigned bx, unsigned by, unsigned bz, unsigned shared, \
                                                          cu_stream stream, void **arguments, void **extra)) \
  DRIVER(error_name,        cuGetErrorName,              (cu_result error, const char **name))       \
  DRIVER(error_text,        cuGetErrorString,            (cu_result error, const char **text))

#define KE_CUDA_NVRTC(NVRTC)                                                                         \
  NVRTC(version,      nvrtcVersion,              (int *major, int *minor))                           \
  NVRTC(arch_count,   nvrtcGetNumSupportedArchs, (int *count))                                       \
  NVRTC(archs,        nvrtcGetSupportedArchs,    (int *arch))                                        \
  NVRTC(create,       nvrtcCreateProgram,        (nvrtc_program *p, const char *source, const char *name, int nheaders, \
                                                  const char *const *headers, const char *const *names)) \
  NVRTC(destroy,      nvrtcDestroyProgram,       (nvrtc_program *p))                                 \
  NVRTC(compile,      nvrtcCompileProgram,       (nvrtc_program p, int noptions, const char *const *options)) \
  NVRTC(log_size,     nvrtcGetProgramLogSize,    (nvrtc_program p, size_t *size))                    \
  NVRTC(log,          nvrtcGetProgramLog,        (nvrtc_program p, char *text))                      \
  NVRTC(cubin_size,   nvrtcGetCUBINSize,         (nvrtc_program p, size_t *size))                    \
  NVRTC(cubin,        nvrtcGetCUBIN,             (nvrtc_program p, char *bytes))                     \
  NVRTC(ptx_size,     nvrtcGetPTXSize,           (nvrtc_program p, size_t *size))                    \
  NVRTC(ptx,          nvrtcGetPTX,               (nvrtc_program p, char *bytes))
/* clang-format on */

#define KE_CUDA_MEMBER(name, symbol, parameters) int(*name) parameters;
typedef struct {
  KE_CUDA_DRIVER(KE_CUDA_MEMBER)
} ke_cuda_driver;
typedef struct {
  KE_CUDA_NVRTC(KE_CUDA_MEMBER)
  char path[512]; /* the file it came from */
  int major, minor;
} ke_cuda_nvrtc;
#undef KE_CUDA_MEMBER

/* Open libcuda, once; the table stays. KE_ERR_DEVICE says what was searched. */
ke_status ke_cuda_driver_open(const ke_cuda_driver **out, ke_error *err) KE_MUST_USE;
/* Open NVRTC, once for each `newest`: the newest major version that is not above it (0: any). `hint`: a
 * folder of CUDA (may be NULL or ""). KE_ERR_DEVICE says what was searched. */
ke_status ke_cuda_nvrtc_open(const char *hint, int newest, const ke_cuda_nvrtc **out,
                             ke_error *err) KE_MUST_USE;

#endif
