// SPDX-License-Identifier: BSD-3-Clause
// The last rank dies, on another host: what rank 0 has under way with it ends with MPI_ERR_PROC_ABORTED
// within five seconds, and so do operations that begin later; the others go on. usage: death
// receive|any|send|fresh
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLarge = 32 << 20 };
static const double kLimit = 5.0;

static int class_of(int code) {
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  return class;
}

static void expect_loss(const char* what, int code, double begin) {
  const double took = MPI_Wtime() - begin;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  printf("%s: %s after %.2f s\n", what, class_of(code) == MPI_ERR_PROC_ABORTED ? "lost" : text, took);
  if (class_of(code) != MPI_ERR_PROC_ABORTED || took > kLimit) {
    printf("FAILED %s\n", what);
    fflush(stdout);
    _exit(1);
  }
}

/// What rank 0 waits for when the last rank dies.
static void wait_for_the_end(const char* way, int last, char* data) {
  int number = 0, code;
  const double begin = MPI_Wtime();
  if (strcmp(way, "send") == 0)
    code = MPI_Ssend(data, kLarge, MPI_CHAR, last, 1, MPI_COMM_WORLD);
  else if (strcmp(way, "any") == 0)
    code = MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    code = MPI_Recv(&number, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect_loss(way, code, begin);
  expect_loss("later send", MPI_Send(&number, 1, MPI_INT, last, 2, MPI_COMM_WORLD), MPI_Wtime());
  expect_loss("later receive", MPI_Recv(&number, 1, MPI_INT, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_Wtime());
}

int main(int argc, char** argv) {
  int rank, size, number = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2) return MPI_Finalize();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int last = size - 1;
  const int fresh = strcmp(argv[1], "fresh") == 0;  // rank 0 has never heard of the last rank
  if (!fresh && rank == 0) MPI_Recv(&number, 1, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!fresh && rank == last) MPI_Send(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (rank == last) {
    sleep(1);
    raise(SIGKILL);
  }
  if (rank == 0) {
    char* data = calloc(kLarge, 1);
    wait_for_the_end(argv[1], last, data);
    free(data);
    number = 42;
    const int code =
        MPI_Send(&number, 1, MPI_INT, last - 1, 3, MPI_COMM_WORLD);  // the last rank's neighbour lives
    printf("%s\n", code == MPI_SUCCESS ? "others go on" : "FAILED to send to another");
  } else if (rank == last - 1) {
    MPI_Recv(&number, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("%s\n", number == 42 ? "received" : "FAILED to receive");
  }
  fflush(stdout);
  if (rank == 0) sleep(1);
  _exit(0);  // MPI_Finalize would wait for the dead
}
