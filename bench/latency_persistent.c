// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong between two ranks by persistent requests: half the round trip of starting and waiting for both.
#include <mpi.h>

#include "common/pingpong.h"

enum { TAG = 1 };

struct pair {
  MPI_Request send, receive;
};

static struct pair create(const struct bench_run* run, size_t size) {
  struct pair pair;
  MPI_Send_init(run->send.data, (int)size, MPI_CHAR, run->peer, TAG, MPI_COMM_WORLD, &pair.send);
  MPI_Recv_init(run->receive.data, (int)size, MPI_CHAR, run->peer, TAG, MPI_COMM_WORLD, &pair.receive);
  return pair;
}

static void destroy(struct pair* pair) {
  MPI_Request_free(&pair->send);
  MPI_Request_free(&pair->receive);
}

static void complete(MPI_Request* request) {
  MPI_Start(request);
  MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void exchange(const struct bench_run* run, struct pair* pair) {
  if (run->sender) {
    complete(&pair->send);
    complete(&pair->receive);
  } else {
    complete(&pair->receive);
    complete(&pair->send);
  }
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  struct pair pair = create(run, size);
  double start = 0;
  for (long i = -warmup; i < iterations; ++i) {
    if (i == 0) {
      start = MPI_Wtime();
      bench_lap_start(run);
    }
    exchange(run, &pair);
    if (i >= 0) bench_lap(run, 2);
  }
  const double time = (MPI_Wtime() - start) * 1e6 / (2.0 * (double)iterations);
  destroy(&pair);
  return time;
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  const int peer = run->peer;
  const uint64_t incoming = bench_seed(peer, run->rank, size, iteration, 0);
  struct pair pair = create(run, size);
  bench_buffer_fill(&run->send, 0, size, bench_seed(run->rank, peer, size, iteration, 0));
  bench_buffer_poison(&run->receive, 0, size, incoming);
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  exchange(run, &pair);
  destroy(&pair);
  return bench_buffer_check(&run->receive, 0, size, incoming) &&
         bench_buffer_check_guard(&run->receive, size);
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "latency_persistent",
                                               .title = "Persistent Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .defaults = {.min_size = 1,
                                                            .max_size = 4 << 20,
                                                            .iterations = 10000,
                                                            .warmup = 200,
                                                            .iterations_large = 1000,
                                                            .warmup_large = 10,
                                                            .samples = true,
                                                            .element = 1},
                                               .capacity = bench_pingpong_capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
