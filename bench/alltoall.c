// SPDX-License-Identifier: BSD-3-Clause
// MPI_Alltoall over all ranks; the size is that of one block.
#include <mpi.h>

#include "common/harness.h"

static size_t capacity(const struct bench_run* run, size_t size) { return size * (size_t)run->ranks; }

static void exchange(struct bench_run* run, size_t size) {
  MPI_Alltoall(run->send.data, (int)size, MPI_CHAR, run->receive.data, (int)size, MPI_CHAR, MPI_COMM_WORLD);
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  double total = 0;
  for (long i = -warmup; i < iterations; ++i) {
    double start = MPI_Wtime();
    exchange(run, size);
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
  for (int peer = 0; peer < run->ranks; ++peer) {
    const size_t offset = (size_t)peer * size;
    bench_buffer_fill(&run->send, offset, size, bench_seed(run->rank, peer, size, iteration, 0));
    bench_buffer_poison(&run->receive, offset, size, bench_seed(peer, run->rank, size, iteration, 0));
  }
  bench_buffer_guard(&run->receive, capacity(run, size));
  MPI_Barrier(MPI_COMM_WORLD);
  exchange(run, size);
  bool good = true;
  for (int peer = 0; good && peer < run->ranks; ++peer)
    good = bench_buffer_check(&run->receive, (size_t)peer * size, size,
                              bench_seed(peer, run->rank, size, iteration, 0));
  return good && bench_buffer_check_guard(&run->receive, capacity(run, size));
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "alltoall",
                                               .title = "All-to-All Personalized Exchange Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .shape = BENCH_COLLECTIVE,
                                               .defaults = {.min_size = 1,
                                                            .max_size = 1 << 20,
                                                            .iterations = 1000,
                                                            .warmup = 200,
                                                            .iterations_large = 100,
                                                            .warmup_large = 10,
                                                            .samples = true,
                                                            .element = 1},
                                               .capacity = capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
