/* ONE ROW A REDUCTION, as the engine carries it out; names of formulas that share one: parse.c.
 *
 * REDUCTION(kind, states, start, merge, finish)
 *     kind      KE_RED_<kind> of plan.h; its state is described there
 *     states    doubles of one row's state, from `width`, the components reduced
 *     start     the state of no items
 *     merge     state of some items, and that of later items, made one state
 *     finish    the state as columns of a result
 *
 * start, merge and finish are functions of reduction.c. Include with the macro defined. */

/* clang-format off */
REDUCTION(SUM,    width,     start_sum,    merge_sum,    finish_as_is)
REDUCTION(MIN,    2 * width, start_min,    merge_min,    finish_as_is)
REDUCTION(MAX,    2 * width, start_max,    merge_max,    finish_as_is)
REDUCTION(SUMEXP, 1 + width, start_sumexp, merge_sumexp, finish_as_is)
/* clang-format on */

#undef REDUCTION
