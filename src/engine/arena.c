/* A list of blocks; each allocation moves a mark, freeing walks the list. */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384, ALIGN_BYTES = 16 };

typedef struct block {
  struct block *next;
  size_t used, size;
} block;

struct ke_arena {
  block *first;
};

/* Payload starts at a multiple of ALIGN_BYTES behind the header. */
#define HEADER_BYTES ((sizeof(block) + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES)

ke_arena *ke_arena_new(void)
{
  return calloc(1, sizeof(ke_arena));
}

void ke_arena_free(ke_arena *arena)
{
  block *b, *next;

  if (!arena) return;
  for (b = arena->first; b; b = next) {
    next = b->next;
    free(b);
  }
  free(arena);
}

void *ke_arena_alloc(ke_arena *arena, size_t size)
{
  block *b = arena->first;
  size_t payload;
  char *p;

  if (size > SIZE_MAX / 2) return NULL;
  size = (size + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  if (!b || b->size - b->used < size) {
    payload = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    b = calloc(1, HEADER_BYTES + payload);
    if (!b) return NULL;
    b->size = payload;
    if (payload > BLOCK_BYTES && arena->first) { /* keep filling the block in use */
      b->next = arena->first->next;
      arena->first->next = b;
    } else {
      b->next = arena->first;
      arena->first = b;
    }
  }
  p = (char *)b + HEADER_BYTES + b->used;
  b->used += size;
  return p;
}

void *ke_arena_copy(ke_arena *arena, const void *from, size_t size)
{
  void *to = ke_arena_alloc(arena, size ? size : 1);

  if (to && size) memcpy(to, from, size);
  return to;
}
