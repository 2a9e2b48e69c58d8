/* Squared distances and inner products of many components: found in a pair program, so that tensor cores can
 * make them (keops_cuda_dots.h).
 *
 * Products of bfloat16 terms are added in single precision, and a squared distance is |x|^2 + |y|^2 - 2 x.y:
 * the error of the value grows with the largest |x||y|. So only programs are taken of which it is known what
 * such an error does: the value is an exponent times a factor that rows and items do not change, or it is an
 * inner product that only is multiplied and summed. The run then asks, with the lengths that the data have,
 * how many terms do (ke_dots_terms). */
#ifndef KE_DOTS_CUDA_H
#define KE_DOTS_CUDA_H

#include "plan.h"

#include <stdbool.h>

typedef struct {
  int32_t at;        /* instruction of pair.code: the fold */
  int32_t n;         /* components */
  int32_t kept, red; /* the first of them */
  bool distance;     /* else an inner product */
  ke_place factor;   /* of the exponent, a CONST or ONCE; CONST 0: there is no exponent */
} ke_dots;

enum { KE_DOTS_LEAST = 17, KE_DOTS_ROWS = 128, KE_DOTS_TILE = 128 };

/* Is there one, of at least KE_DOTS_LEAST components, and is its error understood? */
bool ke_dots_find(const ke_pass *pass, ke_dots *out);

/* Terms for squared lengths of rows and items up to these, 2 or 3, that keep errors below `accuracy` of the
 * exponentials (of the products of lengths); 0: none do. `once` is the pass's, in single precision. */
int ke_dots_terms(const ke_dots *dots, double kept, double red, const float *once, double accuracy);

/* The pass with the value as KE_AT_PAIR, for the emitter: items keep what else they have, and their squared
 * length last if it is a distance. Free with ke_dots_pass_free(). */
ke_status ke_dots_pass(const ke_pass *pass, const ke_dots *dots, ke_pass *out, ke_error *err) KE_MUST_USE;
void ke_dots_pass_free(ke_pass *pass);
/* Steps of 16 components that are multiplied, in pairs. */
int ke_dots_steps(const ke_dots *dots);
/* Components that such an item has. */
int32_t ke_dots_rest(const ke_pass *pass, const ke_dots *dots);

#endif
