/* The C emitter with sizes of the caller's choice; backend.h has ke_emit_c, which chooses itself.
 */
#ifndef KE_EMIT_C_H
#define KE_EMIT_C_H

#include "shape.h"

/* As ke_emit_c. For measuring shapes, and for testing those that the choice seldom takes. */
ke_status ke_emit_c_tiled(const ke_pass *pass, const ke_tiling *tiling, ke_shape *shape,
                          char **source, ke_error *err) KE_MUST_USE;

#endif
