/* Memory that is freed all at once: trees, plans and programs live in an arena. */
#ifndef KE_ARENA_H
#define KE_ARENA_H

#include <stddef.h>

typedef struct ke_arena ke_arena;

ke_arena *ke_arena_new(void); /* NULL: no memory */
void ke_arena_free(ke_arena *arena); /* NULL is fine */
/* `size` zeroed bytes, aligned for any type; NULL: no memory. */
void *ke_arena_alloc(ke_arena *arena, size_t size);
void *ke_arena_copy(ke_arena *arena, const void *from, size_t size);

#endif
