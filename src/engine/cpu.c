/* Which vector instructions this CPU has and the system lets us use. */
#include "backend.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>

enum {
  SSE_AND_AVX = 0x6,     /* XCR0: the system saves xmm and ymm registers */
  AVX512_STATE = 0xe6    /* and the masks and zmm registers */
};

static uint32_t system_saves(void)
{
  uint32_t low, high;

  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static ke_isa detect_isa(void)
{
  const unsigned avx = bit_OSXSAVE | bit_AVX | bit_FMA;
  const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  unsigned a, b, c, d;
  uint32_t saved;

  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & avx) != avx) return KE_ISA_BASE;
  saved = system_saves();
  if ((saved & SSE_AND_AVX) != SSE_AND_AVX) return KE_ISA_BASE;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return KE_ISA_BASE;
  if ((b & avx512) != avx512 || (saved & AVX512_STATE) != AVX512_STATE) return KE_ISA_AVX2;
  return KE_ISA_AVX512;
}
#else
static ke_isa detect_isa(void)
{
  return KE_ISA_BASE;
}
#endif

const char *ke_isa_name(ke_isa isa)
{
  static const char *const name[] = {"base", "avx2", "avx512"};

  return name[isa];
}

ke_isa ke_cpu_isa(void)
{
  const char *limit = getenv("KEOPS_ISA");
  ke_isa isa = detect_isa();

  if (limit)
    for (ke_isa k = KE_ISA_BASE; k < isa; k++)
      if (!strcmp(limit, ke_isa_name(k))) return k;
  return isa;
}
