/* SHA-256 (FIPS 180-4), for cache keys and for the checksums of cached objects. */
#ifndef KE_SHA256_H
#define KE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint32_t h[8];
  uint64_t bytes;         /* taken so far */
  unsigned char tail[64]; /* the block that is not full yet */
} ke_sha256;

enum { KE_SHA256_BYTES = 32, KE_SHA256_HEX = 65 /* with the final zero */ };

void ke_sha256_init(ke_sha256 *s);
void ke_sha256_add(ke_sha256 *s, const void *data, size_t n);
void ke_sha256_end(ke_sha256 *s, unsigned char digest[KE_SHA256_BYTES]);
void ke_sha256_hex(const unsigned char digest[KE_SHA256_BYTES], char hex[KE_SHA256_HEX]);

#endif
