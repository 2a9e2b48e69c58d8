/* ONE ROW A REDUCTION.
 *
 * REDUCTION(kind, states, start, merge, finish)     how the engine carries it
 *     kind      KE_RED_<kind> of plan.h; its state is described there
 *     states    doubles of one row's state, from `width`, the components reduced
 *     start     the state of no items
 *     merge     state of some items, and that of later items, made one state
 *     finish    the state as columns of a result
 *
 * REDUCTION_NAME(name, kind, values, indices)       what formulas call it, as <name>_Reduction(...)
 *     values, indices    which of the two the result shows; indices come after the values
 *
 * start, merge and finish are functions of reduction.c. Include with the macros wanted defined; the
 * others default to nothing. */

#ifndef REDUCTION
#define REDUCTION(kind, states, start, merge, finish)
#endif
#ifndef REDUCTION_NAME
#define REDUCTION_NAME(name, kind, values, indices)
#endif

/* clang-format off */
REDUCTION(SUM,    width,     start_sum,    merge_sum,    finish_as_is)
REDUCTION(MIN,    2 * width, start_min,    merge_min,    finish_as_is)
REDUCTION(MAX,    2 * width, start_max,    merge_max,    finish_as_is)
REDUCTION(SUMEXP, 1 + width, start_sumexp, merge_sumexp, finish_as_is)

REDUCTION_NAME(Sum,        SUM,    true,  false)
REDUCTION_NAME(Min,        MIN,    true,  false)
REDUCTION_NAME(Max,        MAX,    true,  false)
REDUCTION_NAME(ArgMin,     MIN,    false, true)
REDUCTION_NAME(ArgMax,     MAX,    false, true)
REDUCTION_NAME(Min_ArgMin, MIN,    true,  true)
REDUCTION_NAME(Max_ArgMax, MAX,    true,  true)
REDUCTION_NAME(LogSumExp,  SUMEXP, true,  false)
/* clang-format on */

#undef REDUCTION
#undef REDUCTION_NAME
