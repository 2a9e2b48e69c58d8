/* ONE ROW A REDUCTION, as the engine carries it out; names of formulas that share one: reduction_name.c.
 *
 * REDUCTION(kind, states, results, start, merge, finish)
 *     kind      KE_RED_<kind> of plan.h; its state is described there
 *     states    doubles of one row's state, from `width`, the components reduced, and `k`
 *     results   columns of the finished one
 *     start     the state of no items
 *     merge     state of some items, and that of later items, made one state
 *     finish    the state as columns of a result
 *
 * start, merge and finish are functions of reduction.c. Include with the macro defined. */

/* clang-format off */
REDUCTION(SUM,    width,         width,         start_sum,    merge_sum,    finish_as_is)
REDUCTION(KAHAN,  2 * width,     width,         start_kahan,  merge_kahan,  finish_kahan)
REDUCTION(MIN,    2 * width,     2 * width,     start_min,    merge_min,    finish_as_is)
REDUCTION(MAX,    2 * width,     2 * width,     start_max,    merge_max,    finish_as_is)
REDUCTION(SUMEXP, 1 + width,     1 + width,     start_sumexp, merge_sumexp, finish_as_is)
REDUCTION(KMIN,   2 * k * width, 2 * k * width, start_kmin,   merge_kmin,   finish_kmin)
/* clang-format on */

#undef REDUCTION
