// SPDX-License-Identifier: BSD-3-Clause
#include "common/window.h"

#include <mpi.h>
#include <stdlib.h>

enum { TAG = 1, ACK_TAG = 2, ACK_BYTES = 4, SLOT_BYTES = 64 << 20 };

// Returns the number of messages of a window that have a buffer of their own in a validation.
static int slots(const struct bench_run* run) {
  const size_t extent = run->message.extent;
  size_t fit = extent ? SLOT_BYTES / extent : SLOT_BYTES;
  if (fit < 1) fit = 1;
  return fit < (size_t)run->options.window ? (int)fit : run->options.window;
}

size_t bench_window_capacity(const struct bench_run* run, size_t size) {
  const size_t extent = bench_extent(run, size);
  size_t bytes = extent < ACK_BYTES ? ACK_BYTES : extent;
  if (run->options.validate) {  // the largest over all sizes up to this size
    size_t most = (size_t)run->options.window * extent;
    if (most > SLOT_BYTES) most = SLOT_BYTES;
    if (most > bytes) bytes = most;
  }
  return bytes;
}

static bool receives(const struct bench_run* run, enum bench_direction direction) {
  return !run->sender || direction == BENCH_BOTH_WAYS;
}
static bool sends(const struct bench_run* run, enum bench_direction direction) {
  return run->sender || direction == BENCH_BOTH_WAYS;
}

// Sends or receives one window: `stride` is the distance between two messages in bytes (0: one buffer).
static void window(struct bench_run* run, int count, size_t stride, enum bench_direction direction,
                   MPI_Request* requests) {
  const int peer = run->peer, length = run->message.count;
  const MPI_Datatype type = run->message.type;
  int posted = 0;
  for (int i = 0; receives(run, direction) && i < count; ++i)
    MPI_Irecv(run->receive.data + (size_t)i * stride, length, type, peer, TAG, bench_comm,
              &requests[posted++]);
  for (int i = 0; sends(run, direction) && i < count; ++i)
    MPI_Isend(run->send.data + (size_t)i * stride, length, type, peer, TAG, bench_comm, &requests[posted++]);
  MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
}

// Keeps the sender at most one window ahead of the receiver.
static void acknowledge(struct bench_run* run) {
  if (run->sender) {
    MPI_Recv(run->receive.data, ACK_BYTES, MPI_CHAR, run->peer, ACK_TAG, bench_comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Send(run->send.data, ACK_BYTES, MPI_CHAR, run->peer, ACK_TAG, bench_comm);
  }
}

static MPI_Request* allocate_requests(int window) {
  MPI_Request* requests = malloc(2 * (size_t)window * sizeof *requests);
  if (!requests) MPI_Abort(bench_comm, 3);
  return requests;
}

static int create_requests(struct bench_run* run, int count, size_t stride, enum bench_direction direction,
                           MPI_Request* requests) {
  const int peer = run->peer, length = run->message.count;
  const MPI_Datatype type = run->message.type;
  int made = 0;
  for (int i = 0; receives(run, direction) && i < count; ++i)
    MPI_Recv_init(run->receive.data + (size_t)i * stride, length, type, peer, TAG, bench_comm,
                  &requests[made++]);
  for (int i = 0; sends(run, direction) && i < count; ++i)
    MPI_Send_init(run->send.data + (size_t)i * stride, length, type, peer, TAG, bench_comm,
                  &requests[made++]);
  return made;
}

double bench_window_persistent(struct bench_run* run, size_t size, long iterations, long warmup,
                               enum bench_direction direction) {
  const int count = run->options.window;
  MPI_Request* requests = allocate_requests(count);
  const int made = create_requests(run, count, 0, direction, requests);
  double start = 0;
  for (long i = -warmup; i < iterations; ++i) {
    if (i == 0) start = MPI_Wtime();
    MPI_Startall(made, requests);
    MPI_Waitall(made, requests, MPI_STATUSES_IGNORE);
    acknowledge(run);
  }
  const double seconds = MPI_Wtime() - start;
  for (int i = 0; i < made; ++i) MPI_Request_free(&requests[i]);
  free(requests);
  return (double)iterations * count * (direction == BENCH_BOTH_WAYS ? 2 : 1) * (double)size / 1e6 / seconds;
}

double bench_window_rate(struct bench_run* run, long iterations, long warmup,
                         enum bench_direction direction) {
  const int count = run->options.window;
  MPI_Request* requests = allocate_requests(count);
  double start = 0;
  for (long i = -warmup; i < iterations; ++i) {
    if (i == 0) {
      if (run->ranks > 2) MPI_Barrier(bench_comm);  // the pairs compete from the first window on
      start = MPI_Wtime();
    }
    window(run, count, 0, direction, requests);
    acknowledge(run);
  }
  double seconds = MPI_Wtime() - start;
  free(requests);
  return (double)iterations * count * (direction == BENCH_BOTH_WAYS ? 2 : 1) / seconds;
}

double bench_window_measure(struct bench_run* run, size_t size, long iterations, long warmup,
                            enum bench_direction direction) {
  return bench_window_rate(run, iterations, warmup, direction) * (double)size / 1e6;
}

static void prepare(struct bench_run* run, size_t size, int count, long iteration) {
  const int peer = run->peer;
  const size_t extent = run->message.extent;
  for (int i = 0; i < count; ++i) {
    bench_message_fill(run, &run->send, (size_t)i * extent, bench_seed(run->rank, peer, size, iteration, i));
    bench_message_poison(run, &run->receive, (size_t)i * extent,
                         bench_seed(peer, run->rank, size, iteration, i));
  }
  bench_buffer_guard(&run->receive, extent * (size_t)count);
  MPI_Barrier(bench_comm);
}

static bool check(struct bench_run* run, size_t size, int count, long iteration,
                  enum bench_direction direction) {
  const size_t extent = run->message.extent;
  bool good = true;
  for (int i = 0; receives(run, direction) && good && i < count; ++i)
    good = bench_message_check(run, &run->receive, (size_t)i * extent,
                               bench_seed(run->peer, run->rank, size, iteration, i));
  return good && bench_buffer_check_guard(&run->receive, extent * (size_t)count);
}

bool bench_window_validate(struct bench_run* run, size_t size, long iteration,
                           enum bench_direction direction) {
  const int count = slots(run);
  MPI_Request* requests = allocate_requests(count);
  prepare(run, size, count, iteration);
  window(run, count, run->message.extent, direction, requests);
  free(requests);
  return check(run, size, count, iteration, direction);
}

bool bench_window_persistent_validate(struct bench_run* run, size_t size, long iteration,
                                      enum bench_direction direction) {
  const int count = slots(run);
  MPI_Request* requests = allocate_requests(count);
  prepare(run, size, count, iteration);
  const int made = create_requests(run, count, run->message.extent, direction, requests);
  MPI_Startall(made, requests);
  MPI_Waitall(made, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < made; ++i) MPI_Request_free(&requests[i]);
  free(requests);
  return check(run, size, count, iteration, direction);
}
