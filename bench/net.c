// SPDX-License-Identifier: BSD-3-Clause
// Two ranks over a network: latency of small messages and bandwidth of large ones, as one line of JSON.
// usage: net SECONDS [POINT...]; a point: latency_BYTES (us, half a round trip) or bandwidth_BYTES (MB/s,
// windows of 16)
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWindow = 16, kTag = 1 };

static int rank;
static char *out, *in;

static void ping_pong(int bytes, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    if (rank == 0) {
      MPI_Send(out, bytes, MPI_CHAR, 1, kTag, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_CHAR, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, bytes, MPI_CHAR, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, bytes, MPI_CHAR, 0, kTag, MPI_COMM_WORLD);
    }
  }
}

static void windows(int bytes, int rounds) {
  MPI_Request requests[kWindow];
  for (int i = 0; i < rounds; ++i) {
    for (int k = 0; k < kWindow; ++k) {
      if (rank == 0)
        MPI_Isend(out, bytes, MPI_CHAR, 1, kTag, MPI_COMM_WORLD, &requests[k]);
      else
        MPI_Irecv(in + (size_t)k * (size_t)bytes, bytes, MPI_CHAR, 0, kTag, MPI_COMM_WORLD, &requests[k]);
    }
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
      MPI_Recv(NULL, 0, MPI_CHAR, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
      MPI_Send(NULL, 0, MPI_CHAR, 0, kTag, MPI_COMM_WORLD);
  }
}

/// Returns the seconds of one round, measured for about `seconds` after a warm-up.
static double time_of(void (*run)(int, int), int bytes, double seconds) {
  int rounds = 4;
  double took = 0;
  for (int warm = 1;; warm = 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    run(bytes, rounds);
    took = MPI_Wtime() - begin;
    MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (!warm && took > seconds / 2) return took / rounds;
    const double more = took > 0 ? seconds / took : 2;
    rounds = more < 1 ? rounds : (int)(rounds * (more > 20 ? 20 : more)) + 1;
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double seconds = argc > 1 ? atof(argv[1]) : 0.1;
  const size_t capacity = (size_t)kWindow << 22;
  out = malloc(capacity);
  in = malloc(capacity);
  memset(out, 1, capacity);
  memset(in, 0, capacity);
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = 0;
  if (rank == 0) printf("{\"library\": \"%s\"", version);
  for (int i = 2; i < argc; ++i) {
    const char* size = strchr(argv[i], '_');
    const int bytes = size != NULL ? atoi(size + 1) : 0;
    if (bytes > 1 << 22) continue;
    double figure = 0;
    if (strncmp(argv[i], "latency", 7) == 0)
      figure = time_of(ping_pong, bytes, seconds) * 1e6 / 2;
    else
      figure = (double)kWindow * bytes / time_of(windows, bytes, seconds) / 1e6;
    if (rank == 0) printf(", \"%s\": %.4f", argv[i], figure);
  }
  if (rank == 0) printf("}\n");
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
