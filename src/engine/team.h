/* Threads and polling of one run: jobs are handed out in order, whoever is free takes the next.
 *
 * Stands under run_cpu.c and knows nothing of plans. OpenMP where the compiler has it, else the
 * calling thread alone. Only the calling thread polls: between its jobs, inside long ones, and
 * while it waits for the others. What a job computes must depend on its number only, never on the
 * thread that runs it. */
#ifndef KE_TEAM_H
#define KE_TEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  int threads;
  bool (*poll)(void *data); /* true: stop; may be NULL */
  void *poll_data;
  atomic_bool stop;
  double worked;  /* calling thread: estimated ns since it looked at the clock */
  int64_t polled; /* when poll was called last, ns */
} ke_team;

/* `thread` is below the number of threads that ke_team_size gave; 0 is the caller's. */
typedef void (*ke_job)(void *data, int64_t number, int thread);

void ke_team_init(ke_team *team, int threads, bool (*poll)(void *), void *poll_data);

/* Threads for `jobs` jobs that need `ns` nanoseconds together, by estimate: at least 1. */
int ke_team_size(const ke_team *team, int64_t jobs, double ns);

/* Run jobs 0 .. jobs-1 with at most `threads` threads, each job about `job_ns` long. */
void ke_team_run(ke_team *team, int threads, int64_t jobs, double job_ns, ke_job job, void *data);

/* To be called inside jobs after each `ns` of estimated work; polls now and then. True: leave. */
bool ke_team_tick(ke_team *team, int thread, double ns);

/* The poll has said stop. */
bool ke_team_stopped(ke_team *team);

#endif
