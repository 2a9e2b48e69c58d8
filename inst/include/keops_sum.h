/* Compensated sums in double: what rounding takes off the sum is kept beside it. Shared by the engine,
 * its interpreter and each generated kernel; those of GPUs have their own word for `static inline`. */
#ifndef KEOPS_SUM_H
#define KEOPS_SUM_H

#ifndef KE_INLINE
#define KE_INLINE static inline
#endif

KE_INLINE void ke_sum_add(double *sum, double *rest, double x)
{
  const double s = *sum + x, part = s - *sum;

  *rest += (*sum - (s - part)) + (x - part);
  *sum = s;
}

/* Once the sum is Inf or NaN, what is kept beside it is NaN and means nothing. */
KE_INLINE double ke_sum_value(double sum, double rest)
{
  return sum - sum == 0 ? sum + rest : sum;
}

#endif
