/* The key of a compiled kernel; the rest of fetch_cc.c is in backend.h. */
#ifndef KE_FETCH_CC_H
#define KE_FETCH_CC_H

#include "backend.h"
#include "cache.h"

/* SHA-256, in hex, over package version, prelude, source, compiler, flags and CPU. */
ke_status ke_cc_key(const char *source, const ke_compile_settings *settings, char key[KE_KEY_TEXT],
                    ke_error *err) KE_MUST_USE;

#endif
