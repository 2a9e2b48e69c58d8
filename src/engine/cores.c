/* Processors of this process, asked of the system; the default number of threads. Not in the pipeline. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "cores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>

static int affinity_cores(void)
{
  cpu_set_t set; /* up to 1024 processors; the call fails where there are more */

  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/* Whole processors a quota of `quota` microseconds in each `period` stands for; 0: no limit. */
static int quota_cores(double quota, double period)
{
  double cores;

  if (!(quota > 0) || !(period > 0)) return 0;
  cores = quota / period;
  return cores >= 1e6 ? 0 : (int)cores + (cores > (int)cores);
}

static double read_number(const char *path)
{
  FILE *f = fopen(path, "r");
  double value = -1;

  if (!f) return -1;
  if (fscanf(f, "%lf", &value) != 1) value = -1;
  fclose(f);
  return value;
}

/* A container sees its own group at the root of the mount. */
static int cgroup_cores(void)
{
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
  double quota = -1, period = -1;

  if (f) { /* version 2: "max 100000" or "200000 100000" */
    if (fscanf(f, "%lf %lf", &quota, &period) != 2) quota = period = -1;
    fclose(f);
  } else {
    quota = read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  return quota_cores(quota, period);
}
#else
static int affinity_cores(void)
{
  return 0;
}

static int cgroup_cores(void)
{
  return 0;
}
#endif

int ke_cores(void)
{
  int cores = affinity_cores(), limit = cgroup_cores();
  long online;

  if (cores < 1) {
    online = sysconf(_SC_NPROCESSORS_ONLN);
    cores = online > 0 && online < 1000000 ? (int)online : 1;
  }
  return limit > 0 && limit < cores ? limit : cores;
}
