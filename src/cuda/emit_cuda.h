/* CUDA source of a pass's pair kernel: text only, no GPU and no NVRTC needed. */
#ifndef KE_EMIT_CUDA_H
#define KE_EMIT_CUDA_H

#include "error.h"
#include "shape_cuda.h"

/* Source that defines ke_pairs and ke_merge (keops_cuda_pairs.h); includes keops_cuda.h and that. Depends
 * on its arguments alone. KE_ERR_DEVICE: the pass holds something that GPUs are not taught yet. */
ke_status ke_emit_cuda(const ke_pass *pass, const ke_cuda_tiling *tiling, bool accurate, char **source,
                       ke_error *err) KE_MUST_USE; /* *source: malloc'd, the caller frees */

#endif
