// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong between two ranks by partitioned communication: half the round trip of starting both requests,
// marking each partition ready, and waiting.
#include <stdio.h>

#include "common/pingpong.h"

enum { TAG = 1 };

// Needs MPI 4; Open MPI 5 has partitioned communication but reports MPI 3.1.
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

struct pair {
  MPI_Request send, receive;
  int parts;
};

static struct pair create(const struct bench_run* run) {
  struct pair pair = {.parts = run->options.partitions};
  const MPI_Count count = run->message.count;
  const MPI_Datatype type = run->message.type;
  MPI_Psend_init(run->send.data, pair.parts, count, type, run->peer, TAG, bench_comm, MPI_INFO_NULL,
                 &pair.send);
  MPI_Precv_init(run->receive.data, pair.parts, count, type, run->peer, TAG, bench_comm, MPI_INFO_NULL,
                 &pair.receive);
  return pair;
}

static void destroy(struct pair* pair) {
  MPI_Request_free(&pair->send);
  MPI_Request_free(&pair->receive);
}

static void complete_send(struct pair* pair) {
  MPI_Start(&pair->send);
  for (int part = 0; part < pair->parts; ++part) MPI_Pready(part, pair->send);
  MPI_Wait(&pair->send, MPI_STATUS_IGNORE);
}

static void complete_receive(struct pair* pair) {
  MPI_Start(&pair->receive);
  MPI_Wait(&pair->receive, MPI_STATUS_IGNORE);
}

static void exchange(struct bench_run* run, size_t size, void* state) {
  (void)size;
  struct pair* pair = state;
  if (run->sender) {
    complete_send(pair);
    complete_receive(pair);
  } else {
    complete_receive(pair);
    complete_send(pair);
  }
}

#else

struct pair {
  int unused;
};

static struct pair create(const struct bench_run* run) {
  if (run->rank == 0)
    fprintf(stderr, "partitioned_latency: this MPI library has no partitioned communication\n");
  MPI_Abort(bench_comm, 3);
  return (struct pair){0};
}
static void destroy(struct pair* pair) { (void)pair; }
static void exchange(struct bench_run* run, size_t size, void* state) { (void)run, (void)size, (void)state; }

#endif

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  struct pair pair = create(run);
  const double time = bench_pingpong_measure_by(exchange, &pair, run, size, iterations, warmup);
  destroy(&pair);
  return time;
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  struct pair pair = create(run);
  const bool good = bench_pingpong_validate_by(exchange, &pair, run, size, iteration);
  destroy(&pair);
  return good;
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "partitioned_latency",
                                               .title = "Partitioned Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .defaults = {BENCH_PINGPONG_DEFAULTS, .partitions = 4},
                                               .capacity = bench_pingpong_capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
