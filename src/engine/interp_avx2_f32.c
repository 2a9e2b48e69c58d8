/* The interpreter's primitives in single precision for AVX2 and FMA. */
#include "interp.h"

#if KI_HAVE_X86
#define KE_REAL_BYTES 4
#include "interp_avx2.h"
#endif
