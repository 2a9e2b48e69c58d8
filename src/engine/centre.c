/* A centre common to kept and reduced components that meet in differences only (ke_center of plan.h): it is
 * taken from both before they become float. */
#include "driver.h"

#include <math.h>

enum {
  SAMPLE = 64,           /* items from start, middle and end that settle the centre, ... */
  SAMPLE_VALUES = 100000 /* but not many more numbers than this */
};

/* The lower median of x[n], n >= 1, by quickselect: x is put in another order. A median and not a
 * mean, for one value far out would draw the mean away from all others and cost them their digits.
 */
static double median(double *x, int n)
{
  int want = (n - 1) / 2, low = 0, high = n - 1;

  while (low < high) {
    double pivot = x[(low + high) / 2];
    int i = low, j = high;

    while (i <= j) {
      while (x[i] < pivot) i++;
      while (x[j] > pivot) j--;
      if (i <= j) {
        double t = x[i];
        x[i++] = x[j];
        x[j--] = t;
      }
    }
    if (want <= j)
      high = j;
    else if (want >= i)
      low = i;
    else
      break;
  }
  return x[want];
}

/* Median of the finite ones among x[n]; 0 if there is none. x is overwritten. */
static double finite_median(double *x, int n)
{
  int m = 0;

  for (int k = 0; k < n; k++)
    if (isfinite(x[k])) x[m++] = x[k];
  return m ? median(x, m) : 0;
}

/* Items of the sample from each of start, middle and end: fewer where they are wide. */
static int sample_third(const ke_row_code *red, int64_t nred)
{
  int64_t n = SAMPLE_VALUES / (3 * ((int64_t)red->width + 1));

  n = n < 5 ? 5 : n > SAMPLE ? SAMPLE : n;
  return (int)ke_min(n, ke_parts(nred, 3));
}

/* Evaluate the red program there: sample[width][3 * third]. */
static void take_sample(const ke_driver *d, const ke_row_code *red, int64_t nred, int third,
                        double *sample, void *scratch)
{
  const int64_t starts[3] = {0, (nred - third) / 2, nred - third};

  for (int k = 0; k < 3; k++)
    ke_row_code_run(d, red, starts[k], third, sample + (int64_t)k * third, 3 * third,
                    scratch);
}

/* Components that matter through differences only lose a common centre before they become float. */
ke_status ke_find_centre(ke_driver *d, const ke_pass *pass, const ke_row_code *red, int64_t nred,
                         double **kept_shift, double **red_shift, ke_error *err)
{
  size_t nshift = ke_bytes((int64_t)pass->kept_width + pass->red_width, 1, sizeof(double));
  int third = sample_third(red, nred);
  double *sample;

  *kept_shift = ke_arena_alloc(d->arena, nshift + 1);
  if (!*kept_shift) return ke_fail_memory(err);
  *red_shift = *kept_shift + pass->kept_width;
  if (pass->ncenter == 0) return KE_OK;

  KE_TRY(ke_reserve(&d->pool,
                    red->scratch + ke_bytes(pass->red_width, 3 * third, sizeof(double)), err));
  sample = (double *)(d->pool.at + red->scratch);
  take_sample(d, red, nred, third, sample, d->pool.at);
  for (int32_t e = 0; e < pass->ncenter; e++) {
    const ke_center *center = &pass->center[e];

    for (int32_t k = 0; k < center->width; k++) {
      double c = finite_median(sample + (int64_t)(center->red + k) * 3 * third, 3 * third);
      (*kept_shift)[center->kept + k] = c;
      (*red_shift)[center->red + k] = c;
    }
  }
  ke_team_tick(&d->team, 0, 3 * third * (red->ns + 4 * pass->red_width));
  return ke_check_stop(d, err);
}

