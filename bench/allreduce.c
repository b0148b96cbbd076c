// SPDX-License-Identifier: BSD-3-Clause
// MPI_Allreduce of floats with MPI_SUM over all ranks; the size is in bytes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/harness.h"

static size_t capacity(const struct bench_run* run, size_t size) {
  (void)run;
  return size;
}

static void reduce(struct bench_run* run, size_t size) {
  MPI_Allreduce(run->send.data, run->receive.data, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  double total = 0;
  for (long i = -warmup; i < iterations; ++i) {
    double start = MPI_Wtime();
    reduce(run, size);
    const double taken = MPI_Wtime() - start;
    if (i >= 0) {
      total += taken;
      bench_sample(run, taken * 1e6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return total * 1e6 / (double)iterations;
}

// Small whole numbers: their sum over up to 65536 ranks is exact in a float, in any order.
static float element(int rank, size_t index, long iteration) {
  return (float)((index * 13 + (size_t)rank * 7 + (size_t)iteration * 5) % 251);
}

static bool check_sums(const struct bench_run* run, const float* got, size_t count, long iteration) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < run->ranks; ++rank) sum += element(rank, i, iteration);
    if (got[i] == sum) continue;
    fprintf(stderr, "rank %d: sum of %zu floats: element %zu is %g instead of %g\n", run->rank, count, i,
            (double)got[i], (double)sum);
    return false;
  }
  return true;
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  const size_t count = size / sizeof(float);
  float* values = malloc(size);
  if (!values) MPI_Abort(MPI_COMM_WORLD, 3);
  for (size_t i = 0; i < count; ++i) values[i] = element(run->rank, i, iteration);
  bench_buffer_write(&run->send, 0, values, size);
  bench_buffer_poison(&run->receive, 0, size, bench_seed(-1, run->rank, size, iteration, 0));
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  reduce(run, size);
  bench_buffer_read(&run->receive, 0, values, size);
  bool good = check_sums(run, values, count, iteration) && bench_buffer_check_guard(&run->receive, size);
  free(values);
  return good;
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "allreduce",
                                               .title = "Allreduce Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .shape = BENCH_COLLECTIVE,
                                               .defaults = {.min_size = 4,
                                                            .max_size = 1 << 20,
                                                            .iterations = 1000,
                                                            .warmup = 200,
                                                            .iterations_large = 100,
                                                            .warmup_large = 10,
                                                            .samples = true,
                                                            .element = sizeof(float)},
                                               .capacity = capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
