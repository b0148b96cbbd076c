// SPDX-License-Identifier: BSD-3-Clause
// Time of MPI_Init on each rank; with -I, of a session and its communicator.
// Usage: init [-I] [--json FILE]
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <time.h>

#include "common/report.h"

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static bool write_json(const char* path, int ranks, double average, double least, double most) {
  char fields[128];
  snprintf(fields, sizeof fields, "\"init_ms\": %.4f, \"min_ms\": %.4f, \"max_ms\": %.4f", average, least,
           most);
  return bench_report_start_up(path, "init", ranks, fields);
}

int main(int argc, char** argv) {
  const struct bench_start_options options = bench_start_parse(argc, argv);
  const char* json = options.json;
  int rank = 0, ranks = 0, status = 0;
  const double start = now_ms();
  bench_start(options.session, MPI_THREAD_SINGLE, &argc, &argv);
  const double mine = now_ms() - start;
  MPI_Comm_rank(bench_comm, &rank);
  MPI_Comm_size(bench_comm, &ranks);
  double sum = 0, least = 0, most = 0;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, bench_comm);
  MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, bench_comm);
  MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, bench_comm);
  if (options.error) {
    if (rank == 0) fprintf(stderr, "init: %s\n", options.error);
    status = 2;
  } else if (rank == 0) {
    printf("# Weft MPI Init Test\nnprocs: %d, min: %.2f ms, max: %.2f ms, avg: %.2f ms\n", ranks, least, most,
           sum / ranks);
    if (json) status = write_json(json, ranks, sum / ranks, least, most) ? 0 : 1;
  }
  bench_finish();
  return status;
}
