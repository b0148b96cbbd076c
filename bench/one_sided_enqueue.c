// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations in a GPU stream between two ranks, on windows in GPU memory: microseconds per
// operation, issued by rank 0. Back to back and in a replayed CUDA graph: put + flush, get + flush,
// accumulate of floats + flush, and a notified put answered by another. Alone: put or accumulate + flush,
// then the host waits for the stream. Beside them: a plain copy to the same memory. Weft only (weft.h).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#include "common/device.h"
#include "stream/stream.h"

enum { PUT, GET, ACCUMULATE, NOTIFY, MODES, LONE_PUT = MODES, LONE_ACCUMULATE, COPY, LONE_COPY };

static struct bench_stream opened;
static MPI_Win win;
static int rank, failures;
static char *memory, *origin, *target;  // target: the memory of rank 1, as mapped here

static void put(size_t size) {
  bench_stream_check(MPIX_Put_enqueue(origin, (int)size, MPI_CHAR, 1, 0, (int)size, MPI_CHAR, win),
                     "MPIX_Put_enqueue");
}

static void operate(int mode, size_t size) {
  const int count = (int)size, floats = (int)(size / sizeof(float));
  if (mode == NOTIFY) {
    for (int turn = 0; turn < 2; ++turn)
      if (rank == turn)
        bench_stream_check(
            MPIX_Put_notify_enqueue(origin, count, MPI_CHAR, 1 - rank, 0, count, MPI_CHAR, win, 0),
            "MPIX_Put_notify_enqueue");
      else
        bench_stream_check(MPIX_Win_wait_notify_enqueue(win, 0, 1), "MPIX_Win_wait_notify_enqueue");
    return;
  }
  if (rank != 0) return;
  if (mode == COPY || mode == LONE_COPY) {
    bench_stream_copy(&opened, target, origin, size);
    if (mode == LONE_COPY) bench_stream_synchronize(&opened);
    return;
  }
  if (mode == PUT || mode == LONE_PUT) put(size);
  if (mode == GET)
    bench_stream_check(MPIX_Get_enqueue(origin, count, MPI_CHAR, 1, 0, count, MPI_CHAR, win),
                       "MPIX_Get_enqueue");
  if (mode == ACCUMULATE || mode == LONE_ACCUMULATE)
    bench_stream_check(
        MPIX_Accumulate_enqueue(origin, floats, MPI_FLOAT, 1, 0, floats, MPI_FLOAT, MPI_SUM, win),
        "MPIX_Accumulate_enqueue");
  bench_stream_check(MPIX_Win_flush_enqueue(1, win), "MPIX_Win_flush_enqueue");
  if (mode == LONE_PUT || mode == LONE_ACCUMULATE) bench_stream_synchronize(&opened);
}

static void fill(char* at, float value, size_t size) {
  char error[256];
  float* host = malloc(size);
  for (size_t i = 0; i < size / sizeof(float); ++i) host[i] = value;
  if (!bench_device_write(at, host, size, error, sizeof error)) bench_stream_check(1, error);
  free(host);
}

static void expect(const char* at, float value, size_t size) {
  char error[256];
  float* host = malloc(size);
  if (!bench_device_read(host, at, size, error, sizeof error)) bench_stream_check(1, error);
  for (size_t i = 0; i < size / sizeof(float); ++i)
    if (host[i] != value) {
      ++failures;
      break;
    }
  free(host);
}

// One operation of each kind between barriers, with the result compared.
static void validate(size_t size) {
  const float results[MODES][2] = {{3, 0}, {5, 5}, {8, 3}, {3, 5}};  // at the target, at the origin
  for (int mode = 0; mode < MODES; ++mode) {
    fill(memory, 5, size);
    fill(origin, rank == 0 ? 3 : 5, size);
    MPI_Barrier(MPI_COMM_WORLD);
    operate(mode, size);
    bench_stream_synchronize(&opened);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) expect(memory, results[mode][0], size);
    if (rank == 0 && mode == GET) expect(origin, results[mode][1], size);
    if (rank == 0 && mode == NOTIFY) expect(memory, results[mode][1], size);
  }
}

int main(int argc, char** argv) {
  const size_t largest = argc > 1 ? (size_t)atol(argv[1]) : 4 << 20;
  const int most = argc > 2 ? atoi(argv[2]) : 2000;
  struct bench_device_info info;
  char error[256];
  int ranks;
  if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
    fprintf(stderr, "one_sided_enqueue: %s\n", error);
    return 3;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) {
    fprintf(stderr, "one_sided_enqueue: needs 2 ranks\n");
    return 2;
  }
  opened = bench_stream_open();
  memory = bench_device_allocate(BENCH_DEVICE_PLAIN, largest, error, sizeof error);
  origin = bench_device_allocate(BENCH_DEVICE_PLAIN, largest, error, sizeof error);
  bench_stream_check(memory == NULL || origin == NULL, "cuMemAlloc");
  bench_stream_check(MPI_Win_create(memory, (MPI_Aint)largest, 1, MPI_INFO_NULL, opened.comm, &win),
                     "MPI_Win_create");
  bench_stream_check(MPIX_Win_create_notify(win, 1), "MPIX_Win_create_notify");
  MPI_Aint bytes = 0;
  int unit = 0;
  bench_stream_check(MPI_Win_shared_query(win, 1, &bytes, &unit, &target), "MPI_Win_shared_query");
  bench_stream_check(bytes != (MPI_Aint)largest, "MPI_Win_shared_query of mapped GPU memory");
  MPI_Win_lock_all(0, win);
  if (rank == 0)
    printf(
        "# Weft MPI One-sided operations in a stream, us each (%s)\n"
        "# %8s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n",
        info.name, "size", "copy", "copy lone", "put lone", "acc lone", "put", "get", "acc", "notify",
        "graph put", "graph get", "graph acc", "graph ntf");
  for (size_t size = 8; size <= largest; size *= size < 4096 ? 8 : 4) {
    validate(size);
    const int iterations = size <= 65536 ? most : most / 10 + 1;
    double time[2 * MODES];
    const double lone = bench_stream_measure(&opened, operate, LONE_PUT, size, iterations);
    const double lone_accumulate = bench_stream_measure(&opened, operate, LONE_ACCUMULATE, size, iterations);
    const double copy = bench_stream_measure(&opened, operate, COPY, size, iterations);
    const double lone_copy = bench_stream_measure(&opened, operate, LONE_COPY, size, iterations);
    for (int mode = 0; mode < MODES; ++mode) {
      const double turns = mode == NOTIFY ? 2 : 1;
      time[mode] = bench_stream_measure(&opened, operate, mode, size, iterations) / turns;
      time[MODES + mode] = 0;
      if (rank == 0 || mode == NOTIFY)
        time[MODES + mode] = bench_stream_measure_graph(&opened, operate, mode, size, iterations) / turns;
      else
        MPI_Barrier(MPI_COMM_WORLD);  // of the measurement on rank 0
    }
    if (rank == 0)
      printf("%10zu %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n", size, copy,
             lone_copy, lone, lone_accumulate, time[0], time[1], time[2], time[3], time[4], time[5], time[6],
             time[7]);
  }
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  bench_device_free(BENCH_DEVICE_PLAIN, memory);
  bench_device_free(BENCH_DEVICE_PLAIN, origin);
  bench_stream_close(&opened);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all != 0) printf("# %d operations gave wrong data\n", all);
  MPI_Finalize();
  bench_device_close();
  return all != 0;
}
