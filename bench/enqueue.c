// SPDX-License-Identifier: BSD-3-Clause
// Enqueued operations in a GPU stream, back to back: microseconds per operation. Between two ranks: a send on
// one side and a receive on the other; both on each side; both on each side, nonblocking. With the argument
// "collectives", among any number of ranks: all-reduce of floats, all-to-all, broadcast. Each also in a
// replayed CUDA graph. Weft only (weft.h).
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#include "common/device.h"
#include "stream/stream.h"

enum { TAG = 1, MODES = 3 };

static struct bench_stream opened;
static int rank, ranks, failures;
static bool collectives;
static char *out, *in;

// Enqueues one operation of `size` bytes.
static void collective(int mode, size_t size) {
  if (mode == 0)
    bench_stream_check(
        MPIX_Allreduce_enqueue(out, in, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM, opened.comm),
        "MPIX_Allreduce_enqueue");
  else if (mode == 1)
    bench_stream_check(MPIX_Alltoall_enqueue(out, (int)size, MPI_CHAR, in, (int)size, MPI_CHAR, opened.comm),
                       "MPIX_Alltoall_enqueue");
  else
    bench_stream_check(MPIX_Bcast_enqueue(in, (int)size, MPI_CHAR, 0, opened.comm), "MPIX_Bcast_enqueue");
}

static void exchange(int mode, size_t size) {
  if (collectives) {
    collective(mode, size);
    return;
  }
  const int peer = 1 - rank, count = (int)size;
  if (mode == 0 || mode == 1) {
    for (int turn = 0; turn <= mode; ++turn)
      if (rank == turn)
        bench_stream_check(MPIX_Send_enqueue(out, count, MPI_CHAR, peer, TAG, opened.comm),
                           "MPIX_Send_enqueue");
      else
        bench_stream_check(MPIX_Recv_enqueue(in, count, MPI_CHAR, peer, TAG, opened.comm, MPI_STATUS_IGNORE),
                           "MPIX_Recv_enqueue");
    return;
  }
  MPI_Request requests[2];
  bench_stream_check(MPIX_Irecv_enqueue(in, count, MPI_CHAR, peer, TAG, opened.comm, &requests[0]),
                     "MPIX_Irecv_enqueue");
  bench_stream_check(MPIX_Isend_enqueue(out, count, MPI_CHAR, peer, TAG, opened.comm, &requests[1]),
                     "MPIX_Isend_enqueue");
  bench_stream_check(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), "MPIX_Waitall_enqueue");
}

// Checks the first and last value of a collective's result: small floats, or blocks of equal bytes.
static bool correct(int mode, size_t size, const char* got) {
  if (mode == 0) {
    float first, last;
    memcpy(&first, got, sizeof first);
    memcpy(&last, got + size - sizeof last, sizeof last);
    return first == (float)(ranks * (ranks + 1) / 2) && last == first;
  }
  if (mode == 2) return got[0] == 1 && got[size - 1] == 1;
  for (int from = 0; from < ranks; ++from)
    if (got[(size_t)from * size] != from + 1 || got[(size_t)(from + 1) * size - 1] != from + 1) return false;
  return true;
}

static void validate_collectives(size_t size) {
  char error[256];
  const size_t all = size * (size_t)ranks;
  char* host = malloc(all);
  for (int mode = 0; mode < MODES; ++mode) {
    memset(host, rank + 1, all);
    const float value = (float)(rank + 1);
    for (size_t at = 0; mode == 0 && at < size; at += sizeof value) memcpy(host + at, &value, sizeof value);
    if (!bench_device_write(mode == 2 ? in : out, host, all, error, sizeof error))
      bench_stream_check(1, error);
    MPI_Barrier(MPI_COMM_WORLD);
    collective(mode, size);
    bench_stream_synchronize(&opened);
    if (!bench_device_read(host, in, all, error, sizeof error)) bench_stream_check(1, error);
    if (!correct(mode, size, host)) ++failures;
  }
  free(host);
}

// Checks that the received data are the sent data, for each mode.
static void validate(size_t size) {
  char error[256];
  char* host = malloc(size);
  for (int mode = 0; mode < MODES; ++mode) {
    memset(host, rank == 0 ? 17 + mode : 91 + mode, size);
    if (!bench_device_write(out, host, size, error, sizeof error)) bench_stream_check(1, error);
    memset(host, 0, size);
    if (!bench_device_write(in, host, size, error, sizeof error)) bench_stream_check(1, error);
    MPI_Barrier(MPI_COMM_WORLD);
    exchange(mode, size);
    bench_stream_synchronize(&opened);
    if (!bench_device_read(host, in, size, error, sizeof error)) bench_stream_check(1, error);
    const char wanted = (char)(rank == 0 ? (mode == 0 ? 0 : 91 + mode) : 17 + mode);
    for (size_t i = 0; i < size; ++i)
      if (host[i] != wanted) {
        ++failures;
        break;
      }
  }
  free(host);
}

int main(int argc, char** argv) {
  const size_t largest = argc > 1 ? (size_t)atol(argv[1]) : 4 << 20;
  const int most = argc > 2 ? atoi(argv[2]) : 2000;
  struct bench_device_info info;
  char error[256];
  if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
    fprintf(stderr, "enqueue: %s\n", error);
    return 3;
  }
  collectives = argc > 3 && strcmp(argv[3], "collectives") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 && !collectives) {
    fprintf(stderr, "enqueue: needs 2 ranks\n");
    return 2;
  }
  opened = bench_stream_open();
  const size_t capacity = collectives ? largest * (size_t)ranks : largest;
  out = bench_device_allocate(BENCH_DEVICE_PLAIN, capacity, error, sizeof error);
  in = bench_device_allocate(BENCH_DEVICE_PLAIN, capacity, error, sizeof error);
  bench_stream_check(out == NULL || in == NULL, "cuMemAlloc");
  if (rank == 0)
    printf("# Weft MPI Enqueued %s, us each (%s)\n# %8s %10s %10s %10s %10s %10s %10s\n",
           collectives ? "collectives" : "send and receive", info.name, "size",
           collectives ? "allreduce" : "one way", collectives ? "alltoall" : "both",
           collectives ? "bcast" : "nonblock.", collectives ? "graph ar" : "graph 1w",
           collectives ? "graph a2a" : "graph both", collectives ? "graph bc" : "graph nb.");
  for (size_t size = 8; size <= largest; size *= size < 4096 ? 8 : 4) {
    if (collectives)
      validate_collectives(size);
    else
      validate(size);
    const int iterations = size <= 65536 ? most : most / 10 + 1;
    double time[2 * MODES];
    for (int mode = 0; mode < MODES; ++mode) {
      time[mode] = bench_stream_measure(&opened, exchange, mode, size, iterations);
      time[MODES + mode] = bench_stream_measure_graph(&opened, exchange, mode, size, iterations);
    }
    if (rank == 0)
      printf("%10zu %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f\n", size, time[0], time[1], time[2], time[3],
             time[4], time[5]);
  }
  bench_device_free(BENCH_DEVICE_PLAIN, out);
  bench_device_free(BENCH_DEVICE_PLAIN, in);
  bench_stream_close(&opened);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all != 0) printf("# %d exchanges received wrong data\n", all);
  MPI_Finalize();
  bench_device_close();
  return all != 0;
}
