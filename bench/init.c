// SPDX-License-Identifier: BSD-3-Clause
// Start-up: how long MPI_Init takes on each rank. Usage: init [--json FILE]
#define _POSIX_C_SOURCE 200112L
#include <mpi.h>
#include <stdio.h>
#include <string.h>
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
  int rank = 0, ranks = 0, status = 0;
  const double start = now_ms();
  MPI_Init(&argc, &argv);
  const double mine = now_ms() - start;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double sum = 0, least = 0, most = 0;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  const char* json = argc == 3 && strcmp(argv[1], "--json") == 0 ? argv[2] : NULL;
  if (argc != 1 && !json) {
    if (rank == 0) fprintf(stderr, "usage: init [--json FILE]\n");
    status = 2;
  } else if (rank == 0) {
    printf("# Weft MPI Init Test\nnprocs: %d, min: %.2f ms, max: %.2f ms, avg: %.2f ms\n", ranks, least, most,
           sum / ranks);
    if (json) status = write_json(json, ranks, sum / ranks, least, most) ? 0 : 1;
  }
  MPI_Finalize();
  return status;
}
