/* Patterns in pair programs that GPUs have a better way for.
 *
 * What tensor cores can do (sm_80 and later, single precision):
 *
 *   PRODUCTS   the first fold, an inner product or a squared distance of many components: for a block of
 *              rows and a tile of items as one matrix product (keops_cuda_products.h)
 *   WIDE       one sum of many components p * b[k], p a scalar of the pair: the matrix of p times that of b
 *              (keops_cuda_wide.h)
 *
 * Numbers are split in two of 11 bits, of whose four products three are made: as good as float. */
#ifndef KE_TENSOR_CUDA_H
#define KE_TENSOR_CUDA_H

#include "plan.h"

typedef enum { KE_TENSOR_NONE, KE_TENSOR_PRODUCTS, KE_TENSOR_WIDE } ke_tensor_kind;

typedef struct {
  ke_tensor_kind kind;
  int32_t n;         /* components */
  int32_t kept, red; /* the first of them; WIDE: red alone */
  /* PRODUCTS */
  int32_t fold;  /* its instruction */
  bool square;   /* a squared distance, made of norms and products: exact enough only as what ... */
  int32_t scale; /* ... is raised to once 2 is, times this component of once[] */
  /* WIDE */
  ke_place factor; /* p */
} ke_tensor;

ke_tensor ke_tensor_match(const ke_pass *pass);

/* 2 to the power of once[scale] times a squared distance whose components, and whose scale, serve nothing else:
 * where the scale is below 0, its root can go into the components. PRODUCTS, or NONE; any number of
 * components. */
ke_tensor ke_scale_match(const ke_pass *pass);

#endif
