// SPDX-License-Identifier: BSD-3-Clause
// The smallest job: how long it takes is measured by who starts it. Usage: hello [--json FILE]
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "common/report.h"

int main(int argc, char** argv) {
  int rank = 0, ranks = 0, status = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* json = argc == 3 && strcmp(argv[1], "--json") == 0 ? argv[2] : NULL;
  if (argc != 1 && !json) {
    if (rank == 0) fprintf(stderr, "usage: hello [--json FILE]\n");
    status = 2;
  } else if (rank == 0) {
    printf("# Weft MPI Hello World Test\nThis is a test with %d processes\n", ranks);
    if (json) status = bench_report_start_up(json, "hello", ranks, "") ? 0 : 1;
  }
  MPI_Finalize();
  return status;
}
