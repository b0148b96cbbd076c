// SPDX-License-Identifier: BSD-3-Clause
// The smallest job, timed by the program that starts it. -I initialises by a session.
// Usage: hello [-I] [--json FILE]
#include <stdio.h>

#include "common/report.h"

int main(int argc, char** argv) {
  const struct bench_start_options options = bench_start_parse(argc, argv);
  const char* json = options.json;
  int rank = 0, ranks = 0, status = 0;
  bench_start(options.session, MPI_THREAD_SINGLE, &argc, &argv);
  MPI_Comm_rank(bench_comm, &rank);
  MPI_Comm_size(bench_comm, &ranks);
  if (options.error) {
    if (rank == 0) fprintf(stderr, "hello: %s\n", options.error);
    status = 2;
  } else if (rank == 0) {
    printf("# Weft MPI Hello World Test\nThis is a test with %d processes\n", ranks);
    if (json) status = bench_report_start_up(json, "hello", ranks, "") ? 0 : 1;
  }
  bench_finish();
  return status;
}
