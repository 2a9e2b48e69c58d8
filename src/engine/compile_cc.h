/* The system's C compiler: find it, know it again, make a shared object of one source text. */
#ifndef KE_COMPILE_CC_H
#define KE_COMPILE_CC_H

#include "cache.h"
#include "error.h"

typedef struct ke_cc ke_cc;

/* `wanted`: program and leading words, or NULL to search. KE_ERR_COMPILE says what was searched. */
ke_status ke_cc_open(const char *wanted, ke_cc **out, ke_error *err) KE_MUST_USE;
void ke_cc_close(ke_cc *cc); /* NULL is fine */
const char *ke_cc_path(const ke_cc *cc);
/* All that decides what the compiler makes of a source: itself, its flags, this CPU. */
ke_status ke_cc_add_to_key(const ke_cc *cc, ke_key *key, ke_error *err) KE_MUST_USE;
/* Compile in folder `work`, which takes all files; `object` (malloc'd) is the path of the result.
 * KE_ERR_COMPILE with a log: the compiler failed. KE_ERR_IO: `work` could not be written.
 * KE_ERR_INTERRUPT: the user stopped it. */
ke_status ke_cc_compile(ke_cc *cc, const char *source, const char *include_dir, const char *work,
                        char **object, ke_error *err) KE_MUST_USE;

#endif
