// SPDX-License-Identifier: BSD-3-Clause
// The collectives, each a program of its own, by the word in BENCH_NAME: allreduce, reduce and bcast by the
// size of the vector, the others by the size of one block. Reductions are MPI_SUM of floats, the root is rank
// 0. With an i in front: the nonblocking form, and how much of it computation can hide.
#define _POSIX_C_SOURCE 200112L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/harness.h"

struct collective {
  const char* name;
  const char* words;
  size_t element;              ///< bytes; 0: no data at all
  bool blocks_in, blocks_out;  ///< a buffer holds a block for each rank
  bool root_in, root_out;      ///< only the root's buffer matters
  /// Blocking when `request` is null.
  void (*call)(struct bench_run* run, size_t size, MPI_Request* request);
  bool (*validate)(struct bench_run* run, size_t size, long iteration);
};
static const struct collective* chosen(void);
static bool nonblocking(void) { return strcmp(BENCH_NAME, chosen()->name) != 0; }

static void check_memory(const void* pointer) {
  if (!pointer) MPI_Abort(MPI_COMM_WORLD, 3);
}

/// For the forms with a vector of counts: equal blocks, one after the other.
static void fill_counts(const struct bench_run* run, size_t size, int** counts, int** offsets) {
  static int *kept, room;
  if (room < run->ranks) {
    room = run->ranks;
    kept = realloc(kept, 2 * (size_t)room * sizeof *kept);
    check_memory(kept);
  }
  for (int i = 0; i < run->ranks; ++i) {
    kept[i] = (int)size;
    kept[run->ranks + i] = i * (int)size;
  }
  *counts = kept;
  *offsets = kept + run->ranks;
}

static void call_allreduce(struct bench_run* run, size_t size, MPI_Request* request) {
  const int count = (int)(size / sizeof(float));
  if (request)
    MPI_Iallreduce(run->send.data, run->receive.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request);
  else
    MPI_Allreduce(run->send.data, run->receive.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void call_reduce(struct bench_run* run, size_t size, MPI_Request* request) {
  const int count = (int)(size / sizeof(float));
  if (request)
    MPI_Ireduce(run->send.data, run->receive.data, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD, request);
  else
    MPI_Reduce(run->send.data, run->receive.data, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void call_reduce_scatter(struct bench_run* run, size_t size, MPI_Request* request) {
  const int count = (int)(size / sizeof(float));
  if (request)
    MPI_Ireduce_scatter_block(run->send.data, run->receive.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                              request);
  else
    MPI_Reduce_scatter_block(run->send.data, run->receive.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void call_alltoall(struct bench_run* run, size_t size, MPI_Request* request) {
  const int bytes = (int)size;
  if (request)
    MPI_Ialltoall(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, MPI_COMM_WORLD,
                  request);
  else
    MPI_Alltoall(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static void call_alltoallv(struct bench_run* run, size_t size, MPI_Request* request) {
  int *counts, *offsets;
  fill_counts(run, size, &counts, &offsets);
  if (request)
    MPI_Ialltoallv(run->send.data, counts, offsets, MPI_CHAR, run->receive.data, counts, offsets, MPI_CHAR,
                   MPI_COMM_WORLD, request);
  else
    MPI_Alltoallv(run->send.data, counts, offsets, MPI_CHAR, run->receive.data, counts, offsets, MPI_CHAR,
                  MPI_COMM_WORLD);
}

static void call_allgather(struct bench_run* run, size_t size, MPI_Request* request) {
  const int bytes = (int)size;
  if (request)
    MPI_Iallgather(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, MPI_COMM_WORLD,
                   request);
  else
    MPI_Allgather(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static void call_allgatherv(struct bench_run* run, size_t size, MPI_Request* request) {
  int *counts, *offsets;
  fill_counts(run, size, &counts, &offsets);
  if (request)
    MPI_Iallgatherv(run->send.data, (int)size, MPI_CHAR, run->receive.data, counts, offsets, MPI_CHAR,
                    MPI_COMM_WORLD, request);
  else
    MPI_Allgatherv(run->send.data, (int)size, MPI_CHAR, run->receive.data, counts, offsets, MPI_CHAR,
                   MPI_COMM_WORLD);
}

static void call_gather(struct bench_run* run, size_t size, MPI_Request* request) {
  const int bytes = (int)size;
  if (request)
    MPI_Igather(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, 0, MPI_COMM_WORLD,
                request);
  else
    MPI_Gather(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void call_gatherv(struct bench_run* run, size_t size, MPI_Request* request) {
  int *counts, *offsets;
  fill_counts(run, size, &counts, &offsets);
  if (request)
    MPI_Igatherv(run->send.data, (int)size, MPI_CHAR, run->receive.data, counts, offsets, MPI_CHAR, 0,
                 MPI_COMM_WORLD, request);
  else
    MPI_Gatherv(run->send.data, (int)size, MPI_CHAR, run->receive.data, counts, offsets, MPI_CHAR, 0,
                MPI_COMM_WORLD);
}

static void call_scatter(struct bench_run* run, size_t size, MPI_Request* request) {
  const int bytes = (int)size;
  if (request)
    MPI_Iscatter(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, 0, MPI_COMM_WORLD,
                 request);
  else
    MPI_Scatter(run->send.data, bytes, MPI_CHAR, run->receive.data, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void call_scatterv(struct bench_run* run, size_t size, MPI_Request* request) {
  int *counts, *offsets;
  fill_counts(run, size, &counts, &offsets);
  if (request)
    MPI_Iscatterv(run->send.data, counts, offsets, MPI_CHAR, run->receive.data, (int)size, MPI_CHAR, 0,
                  MPI_COMM_WORLD, request);
  else
    MPI_Scatterv(run->send.data, counts, offsets, MPI_CHAR, run->receive.data, (int)size, MPI_CHAR, 0,
                 MPI_COMM_WORLD);
}

static void call_bcast(struct bench_run* run, size_t size, MPI_Request* request) {
  if (request)
    MPI_Ibcast(run->receive.data, (int)size, MPI_CHAR, 0, MPI_COMM_WORLD, request);
  else
    MPI_Bcast(run->receive.data, (int)size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void call_barrier(struct bench_run* run, size_t size, MPI_Request* request) {
  (void)run, (void)size;
  if (request)
    MPI_Ibarrier(MPI_COMM_WORLD, request);
  else
    MPI_Barrier(MPI_COMM_WORLD);
}

/// Made for one size at a time, as the sizes come.
static void call_allreduce_init(struct bench_run* run, size_t size, MPI_Request* unused) {
  (void)unused;
#if MPI_VERSION < 4
  (void)run, (void)size;
  fprintf(stderr, "allreduce_init: this MPI library has no persistent collectives\n");
  MPI_Abort(MPI_COMM_WORLD, 3);
#else
  static MPI_Request request = MPI_REQUEST_NULL;
  static size_t made_for;
  static const void* made_with;
  if (made_for != size || made_with != run->send.data) {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    MPI_Allreduce_init(run->send.data, run->receive.data, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    made_for = size;
    made_with = run->send.data;
  }
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
}

/// The collective, done; its nonblocking form, if that is what is measured.
static void call_once(struct bench_run* run, size_t size) {
  MPI_Request request;
  chosen()->call(run, size, nonblocking() ? &request : NULL);
  if (nonblocking()) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// --- validation ---

// Small whole numbers: their sum over up to 65536 ranks is exact in a float, in any order.
static float element(int rank, size_t index, long iteration) {
  return (float)((index * 13 + (size_t)rank * 7 + (size_t)iteration * 5) % 251);
}

static bool check_sums(const struct bench_run* run, const float* got, size_t first, size_t count,
                       long iteration) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < run->ranks; ++rank) sum += element(rank, first + i, iteration);
    if (got[i] == sum) continue;
    fprintf(stderr, "rank %d: sum of %zu floats: element %zu is %g instead of %g\n", run->rank, count, i,
            (double)got[i], (double)sum);
    return false;
  }
  return true;
}

static bool validate_sums(struct bench_run* run, size_t size, long iteration) {
  const size_t ranks = chosen()->blocks_in ? (size_t)run->ranks : 1, bytes = ranks * size;
  const size_t count = bytes / sizeof(float), own = size / sizeof(float);
  float* values = malloc(bytes);
  check_memory(values);
  for (size_t i = 0; i < count; ++i) values[i] = element(run->rank, i, iteration);
  bench_buffer_write(&run->send, 0, values, bytes);
  bench_buffer_poison(&run->receive, 0, size, bench_seed(-1, run->rank, size, iteration, 0));
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  call_once(run, size);
  bench_buffer_read(&run->receive, 0, values, size);
  if (chosen()->root_out && run->rank != 0) return free(values), true;
  bool good = check_sums(run, values, ranks == 1 ? 0 : (size_t)run->rank * own, own, iteration) &&
              bench_buffer_check_guard(&run->receive, size);
  free(values);
  return good;
}

/// Which bytes go from one rank to another.
static uint64_t block_seed(int from, int to, size_t size, long iteration) {
  return bench_seed(from, chosen()->blocks_in ? to : 0, size, iteration, 0);
}

static bool validate_blocks(struct bench_run* run, size_t size, long iteration) {
  const struct collective* c = chosen();
  const int out = c->blocks_in ? run->ranks : 1, in = c->blocks_out ? run->ranks : 1, self = run->rank;
  for (int i = 0; i < out && (!c->root_in || self == 0); ++i)
    bench_buffer_fill(&run->send, (size_t)i * size, size, block_seed(self, i, size, iteration));
  for (int i = 0; i < in; ++i)  // without blocks the one that comes is the root's: its rank is 0, too
    bench_buffer_poison(&run->receive, (size_t)i * size, size, block_seed(i, self, size, iteration));
  const size_t all = (size_t)in * size;
  bench_buffer_guard(&run->receive, all);
  MPI_Barrier(MPI_COMM_WORLD);
  call_once(run, size);
  if (c->root_out && self != 0) return true;
  bool good = true;
  for (int i = 0; good && i < in; ++i)
    good = bench_buffer_check(&run->receive, (size_t)i * size, size, block_seed(i, self, size, iteration));
  return good && bench_buffer_check_guard(&run->receive, all);
}

static bool validate_bcast(struct bench_run* run, size_t size, long iteration) {
  const uint64_t seed = bench_seed(0, 0, size, iteration, 0);
  if (run->rank == 0)
    bench_buffer_fill(&run->receive, 0, size, seed);
  else
    bench_buffer_poison(&run->receive, 0, size, seed);
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  call_once(run, size);
  return bench_buffer_check(&run->receive, 0, size, seed) && bench_buffer_check_guard(&run->receive, size);
}

/// Nobody leaves a barrier before the last has come; seen by the clock that the processes of one host share.
static bool validate_barrier(struct bench_run* run, size_t size, long iteration) {
  struct timespec time = {0, (run->rank * 7 + iteration) % 5 * 200000};
  double came, left, last = 0, first = 0;
  MPI_Comm host;
  int near = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &near);
  MPI_Comm_free(&host);
  nanosleep(&time, NULL);
  clock_gettime(CLOCK_MONOTONIC, &time);
  came = (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
  call_once(run, size);
  clock_gettime(CLOCK_MONOTONIC, &time);
  left = (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
  MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  return near != run->ranks || first >= last;
}

// --- the programs ---

static size_t capacity(const struct bench_run* run, size_t size) {
  return chosen()->blocks_in || chosen()->blocks_out ? size * (size_t)run->ranks : size;
}

static double measure_blocking(struct bench_run* run, size_t size, long iterations, long warmup) {
  double total = 0;
  for (long i = -warmup; i < iterations; ++i) {
    double start = MPI_Wtime();
    chosen()->call(run, size, NULL);
    const double taken = MPI_Wtime() - start;
    if (i >= 0) {
      total += taken;
      bench_sample(run, taken * 1e6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return total * 1e6 / (double)iterations;
}

/// Works for about `seconds`; returns how long it took.
static double compute(double seconds) {
  static volatile double sink = 1;
  const double start = MPI_Wtime();
  double now = start;
  while (now - start < seconds) {
    for (int i = 0; i < 50; ++i) sink = sink * 1.000001 + 1e-9;
    now = MPI_Wtime();
  }
  return now - start;
}

/// Started, something computed, waited for. Seconds altogether; `computed` gets those of the computation.
static double one_hidden(struct bench_run* run, size_t size, double work, double* computed) {
  MPI_Request request;
  const double start = MPI_Wtime();
  chosen()->call(run, size, &request);
  *computed = work > 0 ? compute(work) : 0;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return MPI_Wtime() - start;
}

/// First without computation, then with as much as that took.
static double measure_nonblocking(struct bench_run* run, size_t size, long iterations, long warmup) {
  double totals[2] = {0, 0}, worked = 0;
  for (int hidden = 0; hidden < 2; ++hidden) {
    const double work = hidden ? totals[0] / (double)iterations : 0;
    for (long i = -warmup; i < iterations; ++i) {
      double computed;
      const double taken = one_hidden(run, size, work, &computed);
      if (i >= 0) {
        totals[hidden] += taken;
        worked += computed;
        if (hidden) bench_sample(run, taken * 1e6);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  run->pure_us = totals[0] * 1e6 / (double)iterations;
  run->compute_us = worked * 1e6 / (double)iterations;
  return totals[1] * 1e6 / (double)iterations;
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  return chosen()->validate(run, size, iteration);
}

static const struct collective kCollectives[] = {
    {"allreduce", "Allreduce", 4, false, false, false, false, call_allreduce, validate_sums},
    {"allreduce_init", "Persistent Allreduce", 4, false, false, false, false, call_allreduce_init,
     validate_sums},
    {"reduce", "Reduce", 4, false, false, false, true, call_reduce, validate_sums},
    {"reduce_scatter", "Reduce-Scatter", 4, true, false, false, false, call_reduce_scatter, validate_sums},
    {"alltoall", "All-to-All Personalized Exchange", 1, true, true, false, false, call_alltoall,
     validate_blocks},
    {"alltoallv", "All-to-Allv Personalized Exchange", 1, true, true, false, false, call_alltoallv,
     validate_blocks},
    {"allgather", "Allgather", 1, false, true, false, false, call_allgather, validate_blocks},
    {"allgatherv", "Allgatherv", 1, false, true, false, false, call_allgatherv, validate_blocks},
    {"gather", "Gather", 1, false, true, false, true, call_gather, validate_blocks},
    {"gatherv", "Gatherv", 1, false, true, false, true, call_gatherv, validate_blocks},
    {"scatter", "Scatter", 1, true, false, true, false, call_scatter, validate_blocks},
    {"scatterv", "Scatterv", 1, true, false, true, false, call_scatterv, validate_blocks},
    {"bcast", "Broadcast", 1, false, false, false, false, call_bcast, validate_bcast},
    {"barrier", "Barrier", 0, false, false, false, false, call_barrier, validate_barrier},
};

static const struct collective* chosen(void) {
  static const struct collective* found;
  const char* name = BENCH_NAME[0] == 'i' ? BENCH_NAME + 1 : BENCH_NAME;
  for (size_t i = 0; !found; ++i)
    if (strcmp(kCollectives[i].name, name) == 0) found = &kCollectives[i];
  return found;
}

int main(int argc, char** argv) {
  const struct collective* c = chosen();
  char title[96];
  snprintf(title, sizeof title, "%s%s Latency Test", nonblocking() ? "Non-blocking " : "", c->words);
  const struct bench_program program = {.name = BENCH_NAME,
                                        .title = title,
                                        .column = nonblocking() ? "Overall(us)" : "Latency (us)",
                                        .field = "latency_us",
                                        .shape = BENCH_COLLECTIVE,
                                        .overlap = nonblocking(),
                                        .defaults = {.min_size = c->element,
                                                     .max_size = c->element ? 1 << 20 : 0,
                                                     .iterations = 1000,
                                                     .warmup = 200,
                                                     .iterations_large = 100,
                                                     .warmup_large = 10,
                                                     .samples = true,
                                                     .element = c->element ? c->element : 1},
                                        .capacity = capacity,
                                        .measure = nonblocking() ? measure_nonblocking : measure_blocking,
                                        .validate = validate};
  return bench_main(&program, argc, argv);
}
