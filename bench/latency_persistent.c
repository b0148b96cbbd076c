// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong between two ranks by persistent requests: half the round trip of starting and waiting for both.
#include "common/pingpong.h"

enum { TAG = 1 };

struct pair {
  MPI_Request send, receive;
};

static struct pair create(const struct bench_run* run) {
  const struct bench_message message = run->message;
  struct pair pair;
  MPI_Send_init(run->send.data, message.count, message.type, run->peer, TAG, bench_comm, &pair.send);
  MPI_Recv_init(run->receive.data, message.count, message.type, run->peer, TAG, bench_comm, &pair.receive);
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

static void exchange(struct bench_run* run, size_t size, void* state) {
  (void)size;
  struct pair* pair = state;
  if (run->sender) {
    complete(&pair->send);
    complete(&pair->receive);
  } else {
    complete(&pair->receive);
    complete(&pair->send);
  }
}

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
  static const struct bench_program program = {.name = "latency_persistent",
                                               .title = "Persistent Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .defaults = {BENCH_PINGPONG_DEFAULTS},
                                               .capacity = bench_pingpong_capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
