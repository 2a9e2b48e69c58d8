/* The interpreter's primitives in double precision, with no instructions beyond the compiler's
 * default. */
#define KE_REAL_BYTES 8
#define KI_ISA base
#include "interp.h"

#include "interp_body.h"
