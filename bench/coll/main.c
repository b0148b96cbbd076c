// SPDX-License-Identifier: BSD-3-Clause
// The collective benchmarks: `coll allreduce ...`, or a link named `allreduce`. Reductions are MPI_SUM of
// floats unless -T selects another type. The prefix i selects the nonblocking form, which also measures
// overlap with computation; the suffix _persistent selects requests created once per size.
#include <stdio.h>
#include <string.h>

#include "coll/collective.h"

static double measure_blocking(struct bench_run* run, size_t size, long iterations, long warmup) {
  double total = 0;
  coll_prepare(run, size);
  for (long i = -warmup; i < iterations; ++i) {
    const int root = coll_root(run, i);
    const double start = MPI_Wtime();
    coll_start(run, root, NULL);
    const double taken = MPI_Wtime() - start;
    if (i >= 0) {
      total += taken;
      bench_sample(run, taken * 1e6);
    }
    MPI_Barrier(bench_comm);
  }
  return total * 1e6 / (double)iterations;
}

static double measure_persistent(struct bench_run* run, size_t size, long iterations, long warmup) {
  double total = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  coll_prepare(run, size);
  coll_start(run, coll_root(run, 0), &request);
  for (long i = -warmup; i < iterations; ++i) {
    const double start = MPI_Wtime();
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const double taken = MPI_Wtime() - start;
    if (i >= 0) {
      total += taken;
      bench_sample(run, taken * 1e6);
    }
    MPI_Barrier(bench_comm);
  }
  MPI_Request_free(&request);
  return total * 1e6 / (double)iterations;
}

/// Computes for about `seconds`, split into one part per MPI_Test call. Returns the elapsed time including
/// the tests.
static double compute(double seconds, int tests, MPI_Request* request) {
  static volatile double sink = 1;
  const double start = MPI_Wtime();
  const int parts = tests > 0 ? tests : 1;
  double now = start;
  for (int part = 1; part <= parts; ++part) {
    const double end = start + seconds * part / parts;
    int done;
    do {
      for (int i = 0; i < 50; ++i) sink = sink * 1.000001 + 1e-9;
      now = MPI_Wtime();
    } while (now < end);
    if (tests > 0) MPI_Test(request, &done, MPI_STATUS_IGNORE);
  }
  return tests > 0 ? MPI_Wtime() - start : now - start;
}

/// Starts the call, computes, waits. Returns seconds in total; `computed` receives the seconds of
/// computation.
static double one_hidden(struct bench_run* run, int root, double work, double* computed) {
  MPI_Request request;
  const double start = MPI_Wtime();
  coll_start(run, root, &request);
  *computed = work > 0 ? compute(work, run->options.tests, &request) : 0;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return MPI_Wtime() - start;
}

/// First without computation, then with as much computation as the call took.
static double measure_nonblocking(struct bench_run* run, size_t size, long iterations, long warmup) {
  double totals[2] = {0, 0}, worked = 0;
  coll_prepare(run, size);
  for (int hidden = 0; hidden < 2; ++hidden) {
    const double work = hidden ? totals[0] / (double)iterations : 0;
    for (long i = -warmup; i < iterations; ++i) {
      double computed;
      const double taken = one_hidden(run, coll_root(run, i), work, &computed);
      if (i >= 0) {
        totals[hidden] += taken;
        worked += computed;
        if (hidden) bench_sample(run, taken * 1e6);
      }
      MPI_Barrier(bench_comm);
    }
  }
  run->pure_us = totals[0] * 1e6 / (double)iterations;
  run->compute_us = worked * 1e6 / (double)iterations;
  return totals[1] * 1e6 / (double)iterations;
}

/// The collective to measure: the program name, or else the first argument, which is removed.
static const char* chosen_name(int* argc, char*** argv) {
  const char* slash = strrchr((*argv)[0], '/');
  const char* own = slash ? slash + 1 : (*argv)[0];
  if (coll_choose(own)) return own;
  if (*argc < 2 || !coll_choose((*argv)[1])) return NULL;
  ++*argv;
  --*argc;
  return (*argv)[0];
}

int main(int argc, char** argv) {
  const char* name = chosen_name(&argc, &argv);
  if (!name) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
      coll_print_names();
      return 0;
    }
    fprintf(stderr, "usage: coll NAME [options], where coll --list prints the names\n");
    return 2;
  }
  static const char* const leads[] = {"", "Non-blocking ", "Persistent "};
  static double (*const measures[])(struct bench_run*, size_t, long, long) = {
      measure_blocking, measure_nonblocking, measure_persistent};
  const struct collective* c = coll_chosen.collective;
  const bool overlap = coll_chosen.form == NONBLOCKING;
  char title[96];
  snprintf(title, sizeof title, "%s%s Latency Test", leads[coll_chosen.form], c->words);
  const struct bench_program program = {.name = name,
                                        .title = title,
                                        .column = overlap ? "Overall(us)" : "Latency (us)",
                                        .field = "latency_us",
                                        .shape = BENCH_COLLECTIVE,
                                        .overlap = overlap,
                                        .defaults = {.min_size = c->data == BENCH_NOTHING   ? 0
                                                                 : c->data == BENCH_REDUCED ? sizeof(float)
                                                                                            : 1,
                                                     .max_size = c->data == BENCH_NOTHING ? 0 : 1 << 20,
                                                     .iterations = 1000,
                                                     .warmup = 200,
                                                     .iterations_large = 100,
                                                     .warmup_large = 10,
                                                     .samples = true,
                                                     .data = c->data,
                                                     .tests = overlap,
                                                     .root = coll_has_root(),
                                                     .neighbors = c->neighbors,
                                                     .in_place = coll_has_in_place()},
                                        .capacity = coll_capacity,
                                        .measure = measures[coll_chosen.form],
                                        .validate = c->validate};
  return bench_main(&program, argc, argv);
}
