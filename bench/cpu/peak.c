/* What the core can do, measured in the run: its clock, and fused multiply-adds a nanosecond.
 *
 * Compiled with -O2 -march=native -ffp-contract=fast -DBYTES=<of a vector>. The clock comes from a chain of
 * additions of integers, one a cycle; the rate from as many independent sums as hide the latency. */
#include <time.h>

typedef float floats __attribute__((vector_size(BYTES)));
enum { SUMS = 12, ROUNDS = 4000000 };

static double now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double clock_ghz(void)
{
  unsigned long a = 1;
  const double start = now();

  for (long k = 0; k < ROUNDS; k++) {
#pragma GCC unroll 16
    for (int u = 0; u < 16; u++) __asm__ volatile("add %0, %0" : "+r"(a));
  }
  return 16. * ROUNDS / (now() - start) * 1e-9;
}

static double vectors_a_ns(void)
{
  floats sum[SUMS];
  floats x = {0.5f}, y = {0.25f};
  double start;

#pragma GCC unroll 16
  for (int s = 0; s < SUMS; s++) sum[s] = x;
  __asm__ volatile("" : "+v"(x), "+v"(y));
  start = now();
  for (long k = 0; k < ROUNDS; k++) {
#pragma GCC unroll 16
    for (int s = 0; s < SUMS; s++) {
      sum[s] = sum[s] * x + y;
      __asm__ volatile("" : "+v"(sum[s]));
    }
  }
  return (double)SUMS * ROUNDS / (now() - start) * 1e-9;
}

static double most(double (*measure)(void))
{
  double best = 0;

  for (int k = 0; k < 7; k++) {
    const double x = measure();
    if (x > best) best = x;
  }
  return best;
}

/* For .C(): the clock in GHz, and fused multiply-adds of whole vectors a nanosecond and core. */
void peak(double *ghz, double *rate)
{
  *ghz = most(clock_ghz);
  *rate = most(vectors_a_ns);
}
