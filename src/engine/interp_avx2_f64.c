/* The interpreter's primitives in double precision for AVX2 and FMA. */
#include "interp.h"

#if KI_HAVE_X86
#define KE_REAL_BYTES 8
#include "interp_avx2.h"
#endif
