/* Several names share one state: Min, ArgMin and Min_ArgMin show parts of the same. */
#include "reduction_name.h"

static const ke_reduction_name table[] = {
    {.name = "Sum", .kind = KE_RED_SUM, .part = KE_PART_VALUE},
    {.name = "Min", .kind = KE_RED_MIN, .part = KE_PART_VALUE},
    {.name = "Max", .kind = KE_RED_MAX, .part = KE_PART_VALUE},
    {.name = "ArgMin", .kind = KE_RED_MIN, .part = KE_PART_INDEX},
    {.name = "ArgMax", .kind = KE_RED_MAX, .part = KE_PART_INDEX},
    {.name = "Min_ArgMin", .kind = KE_RED_MIN, .part = KE_PART_VALUE, .then_index = true},
    {.name = "Max_ArgMax", .kind = KE_RED_MAX, .part = KE_PART_VALUE, .then_index = true},
    {.name = "KMin", .kind = KE_RED_KMIN, .part = KE_PART_VALUE, .counted = true},
    {.name = "ArgKMin", .kind = KE_RED_KMIN, .part = KE_PART_INDEX, .counted = true},
    {.name = "KMin_ArgKMin", .kind = KE_RED_KMIN, .part = KE_PART_VALUE, .then_index = true, .counted = true},
    {.name = "LogSumExp", .kind = KE_RED_SUMEXP, .part = KE_PART_VALUE, .weights = KE_WEIGHT_MAY},
    {.name = "LogSumExpWeight", .kind = KE_RED_SUMEXP, .part = KE_PART_VALUE, .weights = KE_WEIGHT_MUST},
    {.name = "SumSoftMaxWeight", .kind = KE_RED_SUMEXP, .part = KE_PART_RATIO, .weights = KE_WEIGHT_MUST},
    {.name = "SoftMax", .kind = KE_RED_SUMEXP, .part = KE_PART_RATIO, .weights = KE_WEIGHT_MUST},
    {.name = "Max_SumShiftExp", .kind = KE_RED_SUMEXP, .part = KE_PART_RAW},
    {.name = "Max_SumShiftExpWeight", .kind = KE_RED_SUMEXP, .part = KE_PART_RAW, .weights = KE_WEIGHT_MUST},
    {.name = "Zero", .kind = KE_RED_SUM, .part = KE_PART_VALUE, .zero = true},
};

int ke_reduction_names(const ke_reduction_name **names)
{
  *names = table;
  return (int)(sizeof table / sizeof *table);
}
