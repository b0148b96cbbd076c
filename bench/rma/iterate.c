// SPDX-License-Identifier: BSD-3-Clause
// The timed loop: epochs of each synchronisation around one operation, or around a window of operations.
#include "rma/rma.h"

static bool is_active(const struct bench_run* run) { return run->options.sync >= BENCH_PSCW; }

// Latencies of active synchronisation alternate between the ranks, so that each waits for the other.
static int turns(const struct bench_run* run) { return is_active(run) && !rma_chosen->bandwidth ? 2 : 1; }

bool rma_is_origin(const struct bench_run* run, int rank) {
  return rma_chosen->both_ways || rank < turns(run);
}

int rma_operations(const struct bench_run* run) {
  return (rma_chosen->bandwidth ? run->options.window : 1) * (rma_chosen->both_ways ? 2 : turns(run));
}

static void start_operations(const struct bench_run* run, const struct rma_window* window) {
  if (!rma_chosen->bandwidth) {
    rma_chosen->start(run, window, 0);
    return;
  }
  size_t slot = 0;
  for (int i = 0; i < run->options.window; ++i) {
    rma_chosen->start(run, window, slot * window->slot);
    slot = slot + 1 < window->slots ? slot + 1 : 0;
  }
}

static void general_active(const struct bench_run* run, const struct rma_window* window, bool origin,
                           bool target) {
  if (target) MPI_Win_post(window->peer, 0, window->win);
  if (origin) {
    MPI_Win_start(window->peer, 0, window->win);
    start_operations(run, window);
    MPI_Win_complete(window->win);
  }
  if (target) MPI_Win_wait(window->win);
}

static void iterate_once(const struct bench_run* run, const struct rma_window* window, int turn) {
  const bool origin = run->rank == turn || rma_chosen->both_ways;
  const bool target = run->rank != turn || rma_chosen->both_ways;
  if (run->options.sync == BENCH_PSCW) {
    general_active(run, window, origin, target);
  } else if (run->options.sync == BENCH_FENCE) {
    if (origin) start_operations(run, window);
    MPI_Win_fence(0, window->win);
  } else if (origin) {
    if (run->options.sync == BENCH_LOCK) MPI_Win_lock(MPI_LOCK_SHARED, run->peer, 0, window->win);
    if (run->options.sync == BENCH_LOCK_ALL) MPI_Win_lock_all(0, window->win);
    start_operations(run, window);
    if (run->options.sync == BENCH_LOCK) MPI_Win_unlock(run->peer, window->win);
    if (run->options.sync == BENCH_LOCK_ALL) MPI_Win_unlock_all(window->win);
    if (run->options.sync == BENCH_FLUSH) MPI_Win_flush(run->peer, window->win);
    if (run->options.sync == BENCH_FLUSH_LOCAL) MPI_Win_flush_local(run->peer, window->win);
  }
}

double rma_iterate(struct bench_run* run, const struct rma_window* window, long iterations, long warmup) {
  const bool flushes = run->options.sync == BENCH_FLUSH || run->options.sync == BENCH_FLUSH_LOCAL;
  const int count = turns(run);
  double start = 0;
  if (flushes) MPI_Win_lock_all(0, window->win);
  if (run->options.sync == BENCH_FENCE) MPI_Win_fence(0, window->win);
  for (long i = -warmup; i < iterations; ++i) {
    if (i == 0) {
      MPI_Barrier(bench_comm);
      start = MPI_Wtime();
      bench_lap_start(run);
    }
    for (int turn = 0; turn < count; ++turn) iterate_once(run, window, turn);
    if (i >= 0) bench_lap(run, count);
  }
  if (rma_chosen->both_ways) MPI_Barrier(bench_comm);  // the time of the slower direction
  const double seconds = MPI_Wtime() - start;
  if (flushes) MPI_Win_unlock_all(window->win);
  if (run->options.sync == BENCH_FENCE) MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win);
  MPI_Barrier(bench_comm);
  return seconds;
}
