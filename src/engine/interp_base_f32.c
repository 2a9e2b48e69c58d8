/* The interpreter's primitives in single precision, with no instructions beyond the compiler's
 * default. */
#define KE_REAL_BYTES 4
#define KI_ISA base
#include "interp.h"

#include "interp_body.h"
