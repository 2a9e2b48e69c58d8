/* Several names share one state: Min, ArgMin and Min_ArgMin show parts of the same. */
#include "reduction_name.h"

static const ke_reduction_name table[] = {
    {.name = "Sum", .kind = KE_RED_SUM, .part = KE_PART_VALUE,
     .about = "sum of F"},
    {.name = "Min", .kind = KE_RED_MIN, .part = KE_PART_VALUE,
     .about = "least item of each component"},
    {.name = "Max", .kind = KE_RED_MAX, .part = KE_PART_VALUE,
     .about = "largest item of each component"},
    {.name = "ArgMin", .kind = KE_RED_MIN, .part = KE_PART_INDEX,
     .about = "number of the least item"},
    {.name = "ArgMax", .kind = KE_RED_MAX, .part = KE_PART_INDEX,
     .about = "number of the largest item"},
    {.name = "Min_ArgMin", .kind = KE_RED_MIN, .part = KE_PART_VALUE, .then_index = true,
     .about = "least item and its number"},
    {.name = "Max_ArgMax", .kind = KE_RED_MAX, .part = KE_PART_VALUE, .then_index = true,
     .about = "largest item and its number"},
    {.name = "KMin", .kind = KE_RED_KMIN, .part = KE_PART_VALUE, .counted = true,
     .about = "the K least items, least first"},
    {.name = "ArgKMin", .kind = KE_RED_KMIN, .part = KE_PART_INDEX, .counted = true,
     .about = "numbers of the K least items"},
    {.name = "KMin_ArgKMin", .kind = KE_RED_KMIN, .part = KE_PART_VALUE, .then_index = true, .counted = true,
     .about = "the K least items and their numbers"},
    {.name = "LogSumExp", .kind = KE_RED_SUMEXP, .part = KE_PART_VALUE, .weights = KE_WEIGHT_MAY,
     .about = "log of the sum of e^F, or of e^F G"},
    {.name = "LogSumExpWeight", .kind = KE_RED_SUMEXP, .part = KE_PART_VALUE, .weights = KE_WEIGHT_MUST,
     .about = "log of the sum of e^F G"},
    {.name = "SumSoftMaxWeight", .kind = KE_RED_SUMEXP, .part = KE_PART_RATIO, .weights = KE_WEIGHT_MUST,
     .about = "sum of e^F G over the sum of e^F"},
    {.name = "SoftMax", .kind = KE_RED_SUMEXP, .part = KE_PART_RATIO, .weights = KE_WEIGHT_MUST,
     .about = "another name of SumSoftMaxWeight"},
    {.name = "Max_SumShiftExp", .kind = KE_RED_SUMEXP, .part = KE_PART_RAW,
     .about = "m, the largest F, then the sum of e^(F - m)"},
    {.name = "Max_SumShiftExpWeight", .kind = KE_RED_SUMEXP, .part = KE_PART_RAW, .weights = KE_WEIGHT_MUST,
     .about = "m, the largest F, then the sum of e^(F - m) G"},
    {.name = "Zero", .kind = KE_RED_SUM, .part = KE_PART_VALUE, .zero = true,
     .about = "d zeros"},
};

int ke_reduction_names(const ke_reduction_name **names)
{
  *names = table;
  return (int)(sizeof table / sizeof *table);
}
