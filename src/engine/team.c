/* One counter hands out jobs; one flag makes everybody leave. */
#include "team.h"

#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#define PARALLEL_NS 2e5   /* less work than this is not worth waking threads */
#define LOOK_NS 2e5       /* estimated work between looks at the clock; may be 50 times too low */
#define POLL_NS 15000000  /* between calls of poll */
#define LONG_JOB_NS 1e6   /* others' jobs this long are not waited for without polling */

static int64_t clock_ns(void)
{
  struct timespec t;

  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ke_team_init(ke_team *team, int threads, bool (*poll)(void *), void *poll_data)
{
  team->threads = threads > 1 ? threads : 1;
  team->poll = poll;
  team->poll_data = poll_data;
  team->worked = 0;
  team->polled = poll ? clock_ns() : 0;
  atomic_init(&team->stop, false);
}

bool ke_team_stopped(ke_team *team)
{
  return atomic_load_explicit(&team->stop, memory_order_relaxed);
}

/* Calling thread only. */
static void poll_if_due(ke_team *team)
{
  int64_t now = clock_ns();

  team->worked = 0;
  if (now - team->polled < POLL_NS) return;
  if (team->poll(team->poll_data)) atomic_store_explicit(&team->stop, true, memory_order_relaxed);
  team->polled = clock_ns();
}

bool ke_team_tick(ke_team *team, int thread, double ns)
{
  if (thread == 0 && team->poll) {
    team->worked += ns;
    if (team->worked >= LOOK_NS) poll_if_due(team);
  }
  return ke_team_stopped(team);
}

int ke_team_size(const ke_team *team, int64_t jobs, double ns)
{
#ifdef _OPENMP
  if (jobs > 1 && ns >= PARALLEL_NS) return jobs < team->threads ? (int)jobs : team->threads;
#else
  (void)team, (void)jobs, (void)ns;
#endif
  return 1;
}

static void run_alone(ke_team *team, int64_t jobs, ke_job job, void *data)
{
  for (int64_t k = 0; k < jobs && !ke_team_stopped(team); k++) job(data, k, 0);
}

#ifdef _OPENMP
typedef struct {
  _Alignas(64) _Atomic int64_t next; /* a line of its own: all threads write here */
  _Alignas(64) _Atomic int64_t done;
} counters;

static void take_jobs(ke_team *team, counters *count, int64_t jobs, ke_job job, void *data)
{
  int thread = omp_get_thread_num();
  int64_t k;

  while (!ke_team_stopped(team)) {
    k = atomic_fetch_add_explicit(&count->next, 1, memory_order_relaxed);
    if (k >= jobs) return;
    job(data, k, thread);
    atomic_fetch_add_explicit(&count->done, 1, memory_order_relaxed);
  }
}

/* The caller has nothing left to do, the others may have for long: poll until they are done. */
static void poll_while_others_work(ke_team *team, counters *count, int64_t jobs)
{
  struct timespec nap = {.tv_nsec = 20000};

  while (!ke_team_stopped(team) &&
         atomic_load_explicit(&count->done, memory_order_relaxed) < jobs) {
    nanosleep(&nap, NULL);
    if (nap.tv_nsec < 1000000) nap.tv_nsec += nap.tv_nsec / 4;
    poll_if_due(team);
  }
}

void ke_team_run(ke_team *team, int threads, int64_t jobs, double job_ns, ke_job job, void *data)
{
  counters count;

  if (threads <= 1) { /* no parallel region, not even one of one thread: it hangs after a fork */
    run_alone(team, jobs, job, data);
    return;
  }
  atomic_init(&count.next, 0);
  atomic_init(&count.done, 0);
#pragma omp parallel num_threads(threads)
  {
    take_jobs(team, &count, jobs, job, data);
    if (omp_get_thread_num() == 0 && team->poll && job_ns >= LONG_JOB_NS)
      poll_while_others_work(team, &count, jobs);
  }
}
#else
void ke_team_run(ke_team *team, int threads, int64_t jobs, double job_ns, ke_job job, void *data)
{
  (void)threads, (void)job_ns;
  run_alone(team, jobs, job, data);
}
#endif
