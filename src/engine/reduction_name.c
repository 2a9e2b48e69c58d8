/* Several names share one state: Min, ArgMin and Min_ArgMin show parts of the same. */
#include "reduction_name.h"

static const ke_reduction_name table[] = {
    {"Sum", KE_RED_SUM, true, false},        {"Min", KE_RED_MIN, true, false},
    {"Max", KE_RED_MAX, true, false},        {"ArgMin", KE_RED_MIN, false, true},
    {"ArgMax", KE_RED_MAX, false, true},     {"Min_ArgMin", KE_RED_MIN, true, true},
    {"Max_ArgMax", KE_RED_MAX, true, true},  {"LogSumExp", KE_RED_SUMEXP, true, false},
};

int ke_reduction_names(const ke_reduction_name **names)
{
  *names = table;
  return (int)(sizeof table / sizeof *table);
}
