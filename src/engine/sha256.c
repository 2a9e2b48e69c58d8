/* SHA-256 as in FIPS 180-4: 64-byte blocks, eight words of state. */
#include "sha256.h"

#include <string.h>

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
  return x >> n | x << (32 - n);
}

static uint32_t load_be(const unsigned char *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be(unsigned char *p, uint32_t x)
{
  p[0] = (unsigned char)(x >> 24);
  p[1] = (unsigned char)(x >> 16);
  p[2] = (unsigned char)(x >> 8);
  p[3] = (unsigned char)x;
}

static void add_block(uint32_t h[8], const unsigned char *block)
{
  uint32_t w[64], v[8];

  for (int t = 0; t < 16; t++) w[t] = load_be(block + 4 * t);
  for (int t = 16; t < 64; t++) {
    uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
    uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  memcpy(v, h, sizeof v);
  for (int t = 0; t < 64; t++) {
    uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
    uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t t1 = v[7] + s1 + choose + round_constant[t] + w[t];
    uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += t1;
    v[0] = t1 + s0 + majority;
  }
  for (int k = 0; k < 8; k++) h[k] += v[k];
}

void ke_sha256_init(ke_sha256 *s)
{
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  memset(s, 0, sizeof *s);
  memcpy(s->h, start, sizeof start);
}

void ke_sha256_add(ke_sha256 *s, const void *data, size_t n)
{
  const unsigned char *p = data;
  size_t used = (size_t)(s->bytes % sizeof s->tail);

  if (!n) return;
  s->bytes += n;
  if (used) {
    size_t take = sizeof s->tail - used < n ? sizeof s->tail - used : n;
    memcpy(s->tail + used, p, take);
    if (used + take < sizeof s->tail) return;
    add_block(s->h, s->tail);
    p += take;
    n -= take;
  }
  for (; n >= sizeof s->tail; p += sizeof s->tail, n -= sizeof s->tail) add_block(s->h, p);
  if (n) memcpy(s->tail, p, n);
}

void ke_sha256_end(ke_sha256 *s, unsigned char digest[KE_SHA256_BYTES])
{
  static const unsigned char pad[64] = {0x80};
  uint64_t bits = s->bytes * 8;
  size_t used = (size_t)(s->bytes % 64);
  unsigned char length[8];

  store_be(length, (uint32_t)(bits >> 32));
  store_be(length + 4, (uint32_t)bits);
  ke_sha256_add(s, pad, used < 56 ? 56 - used : 120 - used);
  ke_sha256_add(s, length, sizeof length);
  for (int k = 0; k < 8; k++) store_be(digest + 4 * k, s->h[k]);
}

void ke_sha256_hex(const unsigned char digest[KE_SHA256_BYTES], char hex[KE_SHA256_HEX])
{
  static const char digit[] = "0123456789abcdef";

  for (int k = 0; k < KE_SHA256_BYTES; k++) {
    hex[2 * k] = digit[digest[k] >> 4];
    hex[2 * k + 1] = digit[digest[k] & 15];
  }
  hex[2 * KE_SHA256_BYTES] = '\0';
}
