// SPDX-License-Identifier: BSD-3-Clause
#define _POSIX_C_SOURCE 200112L
#include "common/samples.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/harness.h"

enum { CLOCK_READINGS = 501 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

double bench_percentile(double* values, int count, double percent) {
  qsort(values, (size_t)count, sizeof *values, compare);
  const int at = (int)(percent / 100 * count);
  return values[at < count ? at : count - 1];
}

double bench_clock_cost(void) {
  static double cost = -1;
  if (cost >= 0) return cost;
  enum { BUNCH = 20 };  // the resolution of the clock can be coarser than one reading
  double takes[CLOCK_READINGS];
  for (int i = 0; i < CLOCK_READINGS; ++i) {
    const double start = now();
    for (int j = 1; j < BUNCH; ++j) now();
    takes[i] = (now() - start) / BUNCH;
  }
  return cost = bench_percentile(takes, CLOCK_READINGS, 50);
}

static void* allocate(size_t count) {
  void* memory = malloc(count * sizeof(double));
  if (memory) return memory;
  fprintf(stderr, "no memory for %zu samples: use fewer iterations (-i)\n", count);
  MPI_Abort(bench_comm, 3);
  return NULL;
}

void bench_samples_begin(struct bench_run* run, long iterations) {
  struct bench_samples* samples = &run->samples;
  if (run->options.percentile_count == 0) return;
  samples->count = 0;
  if (samples->capacity >= iterations) return;
  free(samples->us);
  samples->us = allocate((size_t)iterations);
  samples->capacity = iterations;
}

void bench_lap_start(struct bench_run* run) {
  if (run->samples.us) run->samples.last = now();
}

void bench_lap(struct bench_run* run, double parts) {
  if (!run->samples.us) return;
  const double time = now();
  bench_sample(run, (time - run->samples.last) / parts);
  run->samples.last = time;
}

void bench_sample(struct bench_run* run, double us) {
  struct bench_samples* samples = &run->samples;
  if (samples->us && samples->count < samples->capacity) samples->us[samples->count++] = us;
}

// Returns the samples that count, on rank 0; stores their number in `*count`.
static double* collect(struct bench_run* run, size_t* count) {
  const int mine = (int)run->samples.count;
  const int senders = run->program->shape == BENCH_PAIRS ? run->ranks / 2 : 1;
  double* all = run->rank == 0 ? allocate((size_t)mine * (size_t)senders) : NULL;
  *count = (size_t)mine * (size_t)senders;
  if (run->program->shape == BENCH_COLLECTIVE) {
    MPI_Reduce(run->samples.us, all, mine, MPI_DOUBLE, MPI_MAX, 0, bench_comm);
  } else {
    MPI_Comm half;
    MPI_Comm_split(bench_comm, run->sender ? 0 : MPI_UNDEFINED, run->rank, &half);
    if (half == MPI_COMM_NULL) return all;
    MPI_Gather(run->samples.us, mine, MPI_DOUBLE, all, mine, MPI_DOUBLE, 0, half);
    MPI_Comm_free(&half);
  }
  return all;
}

void bench_samples_end(struct bench_run* run, double* percentiles) {
  const int wanted = run->options.percentile_count;
  if (wanted == 0) return;
  size_t count;
  double* all = collect(run, &count);
  if (!all) return;
  qsort(all, count, sizeof *all, compare);
  for (int i = 0; i < wanted; ++i) {
    const double place = run->options.percentiles[i] / 100 * (double)count;  // one-based index, rounded up
    const size_t below = (size_t)place;
    percentiles[i] = all[(double)below < place || below == 0 ? below : below - 1];
  }
  free(all);
}

void bench_samples_free(struct bench_run* run) {
  free(run->samples.us);
  run->samples = (struct bench_samples){0};
}
