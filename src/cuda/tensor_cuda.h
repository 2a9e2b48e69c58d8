/* Patterns in pair programs that GPUs have a better way for; inner products have theirs in dots_cuda.h.
 *
 *   WIDE       one sum of many components p * b[k], p a scalar of the pair: the matrix of p times that of b,
 *              by tensor cores (sm_80 and later, single precision; keops_cuda_wide.h). Numbers are split in
 *              two of 11 bits, of whose four products three are made: as good as float
 *   SCALED     2 to the power of a scale times a squared distance: the scale's root goes into the components */
#ifndef KE_TENSOR_CUDA_H
#define KE_TENSOR_CUDA_H

#include "plan.h"

typedef enum { KE_TENSOR_NONE, KE_TENSOR_WIDE, KE_TENSOR_SCALED } ke_tensor_kind;

typedef struct {
  ke_tensor_kind kind;
  int32_t n;         /* components */
  int32_t kept, red; /* the first of them; WIDE: red alone */
  int32_t scale;     /* SCALED: the component of once[] */
  ke_place factor;   /* WIDE: p */
} ke_tensor;

ke_tensor ke_tensor_match(const ke_pass *pass);

/* 2 to the power of once[scale] times a squared distance whose components, and whose scale, serve nothing else:
 * where the scale is below 0, its root can go into the components. SCALED, or NONE. */
ke_tensor ke_scale_match(const ke_pass *pass);

#endif
