// SPDX-License-Identifier: BSD-3-Clause
// The collectives, each a program of its own, by the word in BENCH_NAME: allreduce and bcast by the size of
// the vector, alltoall, allgather and reduce_scatter by the size of one block. Reductions are MPI_SUM of
// floats.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness.h"

struct collective {
  struct bench_program program;
  bool blocks_in, blocks_out;  ///< a buffer holds a block for each rank
  void (*call)(struct bench_run* run, size_t size);
  bool (*validate)(struct bench_run* run, size_t size, long iteration);
};
static const struct collective* chosen(void);

static void call_allreduce(struct bench_run* run, size_t size) {
  MPI_Allreduce(run->send.data, run->receive.data, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}
// Made for one size at a time, as the sizes come.
static void call_allreduce_init(struct bench_run* run, size_t size) {
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
}
static void call_iallreduce(struct bench_run* run, size_t size) {
  MPI_Request request;
  MPI_Iallreduce(run->send.data, run->receive.data, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM,
                 MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void call_reduce_scatter(struct bench_run* run, size_t size) {
  MPI_Reduce_scatter_block(run->send.data, run->receive.data, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD);
}
static void call_alltoall(struct bench_run* run, size_t size) {
  MPI_Alltoall(run->send.data, (int)size, MPI_CHAR, run->receive.data, (int)size, MPI_CHAR, MPI_COMM_WORLD);
}
static void call_allgather(struct bench_run* run, size_t size) {
  MPI_Allgather(run->send.data, (int)size, MPI_CHAR, run->receive.data, (int)size, MPI_CHAR, MPI_COMM_WORLD);
}
static void call_bcast(struct bench_run* run, size_t size) {
  MPI_Bcast(run->receive.data, (int)size, MPI_CHAR, 0, MPI_COMM_WORLD);
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
  if (!values) MPI_Abort(MPI_COMM_WORLD, 3);
  for (size_t i = 0; i < count; ++i) values[i] = element(run->rank, i, iteration);
  bench_buffer_write(&run->send, 0, values, bytes);
  bench_buffer_poison(&run->receive, 0, size, bench_seed(-1, run->rank, size, iteration, 0));
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  chosen()->call(run, size);
  bench_buffer_read(&run->receive, 0, values, size);
  bool good = check_sums(run, values, ranks == 1 ? 0 : (size_t)run->rank * own, own, iteration) &&
              bench_buffer_check_guard(&run->receive, size);
  free(values);
  return good;
}

/// Which rank's block j of the receive buffer is, and which of its blocks.
static uint64_t block_seed(const struct bench_run* run, int peer, bool outgoing, size_t size,
                           long iteration) {
  const int from = outgoing ? run->rank : peer, to = outgoing ? peer : run->rank;
  return bench_seed(from, chosen()->blocks_in ? to : 0, size, iteration, 0);
}

static bool validate_blocks(struct bench_run* run, size_t size, long iteration) {
  const int out = chosen()->blocks_in ? run->ranks : 1;
  for (int peer = 0; peer < out; ++peer)
    bench_buffer_fill(&run->send, (size_t)peer * size, size, block_seed(run, peer, true, size, iteration));
  for (int peer = 0; peer < run->ranks; ++peer)
    bench_buffer_poison(&run->receive, (size_t)peer * size, size,
                        block_seed(run, peer, false, size, iteration));
  const size_t all = (size_t)run->ranks * size;
  bench_buffer_guard(&run->receive, all);
  MPI_Barrier(MPI_COMM_WORLD);
  chosen()->call(run, size);
  bool good = true;
  for (int peer = 0; good && peer < run->ranks; ++peer)
    good = bench_buffer_check(&run->receive, (size_t)peer * size, size,
                              block_seed(run, peer, false, size, iteration));
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
  chosen()->call(run, size);
  return bench_buffer_check(&run->receive, 0, size, seed) && bench_buffer_check_guard(&run->receive, size);
}

// --- the programs ---

static size_t capacity(const struct bench_run* run, size_t size) {
  return chosen()->blocks_in || chosen()->blocks_out ? size * (size_t)run->ranks : size;
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  double total = 0;
  for (long i = -warmup; i < iterations; ++i) {
    double start = MPI_Wtime();
    chosen()->call(run, size);
    const double taken = MPI_Wtime() - start;
    if (i >= 0) {
      total += taken;
      bench_sample(run, taken * 1e6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return total * 1e6 / (double)iterations;
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  return chosen()->validate(run, size, iteration);
}

#define PROGRAM(word, words, grain)                                                                \
  {                                                                                                \
    .name = word, .title = words " Latency Test", .column = "Latency (us)", .field = "latency_us", \
    .shape = BENCH_COLLECTIVE, .capacity = capacity, .measure = measure, .validate = validate,     \
    .defaults = {.min_size = grain,                                                                \
                 .max_size = 1 << 20,                                                              \
                 .iterations = 1000,                                                               \
                 .warmup = 200,                                                                    \
                 .iterations_large = 100,                                                          \
                 .warmup_large = 10,                                                               \
                 .samples = true,                                                                  \
                 .element = grain},                                                                \
  }

static const struct collective kCollectives[] = {
    {PROGRAM("allreduce", "Allreduce", sizeof(float)), false, false, call_allreduce, validate_sums},
    {PROGRAM("iallreduce", "Nonblocking Allreduce", sizeof(float)), false, false, call_iallreduce,
     validate_sums},
    {PROGRAM("allreduce_init", "Persistent Allreduce", sizeof(float)), false, false, call_allreduce_init,
     validate_sums},
    {PROGRAM("reduce_scatter", "Reduce-Scatter", sizeof(float)), true, false, call_reduce_scatter,
     validate_sums},
    {PROGRAM("alltoall", "All-to-All Personalized Exchange", 1), true, true, call_alltoall, validate_blocks},
    {PROGRAM("allgather", "Allgather", 1), false, true, call_allgather, validate_blocks},
    {PROGRAM("bcast", "Broadcast", 1), false, false, call_bcast, validate_bcast},
};

static const struct collective* chosen(void) {
  static const struct collective* found;
  for (size_t i = 0; !found; ++i)
    if (strcmp(kCollectives[i].program.name, BENCH_NAME) == 0) found = &kCollectives[i];
  return found;
}

int main(int argc, char** argv) { return bench_main(&chosen()->program, argc, argv); }
