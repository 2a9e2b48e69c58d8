/* The interpreter's primitives in double precision for AVX-512. */
#include "interp.h"

#if KI_HAVE_X86
#define KE_REAL_BYTES 8
#include "interp_avx512.h"
#endif
