/* Devices, and what a run borrows of one: a *worker*, with a stream, events and buffers that are kept from
 * call to call. CUDA is started by the first ke_cuda_worker(); R uses all this from one thread only. */
#ifndef KE_CUDA_DEVICE_H
#define KE_CUDA_DEVICE_H

#include "cuda_api.h"

enum { KE_CUDA_DEVICES = 16, KE_CUDA_STAGES = 2, KE_CUDA_IN_FLIGHT = 2 };

typedef struct {
  int number; /* CUDA's, from 0 */
  cu_device id;
  cu_context context; /* NULL: not started */
  int arch;           /* 90: compute capability 9.0 */
  int processors;
  int double_ratio; /* single over double speed */
  size_t memory;
  int most_shared; /* bytes of shared memory that a block can ask for */
  char name[128];
} ke_cuda_device;

typedef struct {
  cu_address at;
  size_t size;
} ke_cuda_buffer;

typedef struct {
  ke_cuda_device *device;
  int nth; /* of those of its device */
  cu_stream stream;
  ke_cuda_buffer kept, red, once, state, fresh, partial, ranges;
  ke_cuda_buffer kept_terms, red_terms, norms, rest, largest; /* for tensor cores */
  char *stage[KE_CUDA_STAGES]; /* pinned, `stage_bytes` each */
  size_t stage_bytes;
  cu_event staged[KE_CUDA_STAGES];      /* the copy from or to a stage is done */
  cu_event launched[KE_CUDA_IN_FLIGHT]; /* so is a launch */
  cu_event begin, end;                  /* with times: from the first launch of a run to the last */
} ke_cuda_worker;

/* The driver with at least one device; no context is made. KE_ERR_DEVICE says what is missing, also in a
 * process forked from one that had started CUDA. */
ke_status ke_cuda_start(const ke_cuda_driver **driver, int *devices, ke_error *err) KE_MUST_USE;
/* What is known of a device without starting it. */
ke_status ke_cuda_describe(int number, ke_cuda_device *out, ke_error *err) KE_MUST_USE;
/* The nth worker of a device, made now or known. */
ke_status ke_cuda_worker_of(int number, int nth, ke_cuda_worker **out, ke_error *err) KE_MUST_USE;
/* Free bytes of a started device, and those that its workers hold. */
ke_status ke_cuda_memory(ke_cuda_worker *worker, size_t *free_bytes, size_t *held,
                         ke_error *err) KE_MUST_USE;
/* Free all buffers of all workers. Nothing may be running. */
void ke_cuda_release(void);

/* Make it the thread's device, and back. */
ke_status ke_cuda_enter(const ke_cuda_worker *worker, ke_error *err) KE_MUST_USE;
void ke_cuda_leave(void);

/* Within: at least so many bytes; contents are lost when it grows. */
ke_status ke_cuda_reserve(ke_cuda_worker *worker, ke_cuda_buffer *buffer, size_t bytes,
                          ke_error *err) KE_MUST_USE;
ke_status ke_cuda_reserve_stages(ke_cuda_worker *worker, size_t bytes, ke_error *err) KE_MUST_USE;

/* KE_ERR_DEVICE with the driver's own words; KE_OK for CU_SUCCESS. */
ke_status ke_cuda_check(cu_result result, const char *what, ke_error *err) KE_MUST_USE;
#define CU_TRY(call, what) KE_TRY(ke_cuda_check((call), (what), err))

#endif
