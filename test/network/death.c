// SPDX-License-Identifier: BSD-3-Clause
// The last rank dies, on another host: what rank 0 has under way with it ends with MPI_ERR_PROC_ABORTED
// within five seconds, and so do operations that begin later; the others go on. usage: death
// receive|any|send|fresh
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kLarge = 32 << 20 };
static const double kLimit = 5.0;

/// All its connections and listeners go; it lives on, deaf and dumb.
static void leave_the_network(void) {
  for (int fd = 3; fd < 1024; ++fd) {
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    if (getsockname(fd, (struct sockaddr*)&name, &length) != 0) continue;
    if (name.ss_family == AF_INET || name.ss_family == AF_INET6) shutdown(fd, SHUT_RDWR);
  }
  for (;;) pause();
}

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
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  fflush(stdout);
}

/// What rank 0 waits for when the last rank dies.
static void wait_for_the_end(const char* way, int last, char* data) {
  int number = 0, code;
  const double begin = MPI_Wtime();
  if (strcmp(way, "send") == 0)
    code = MPI_Ssend(data, kLarge, MPI_CHAR, last, 1, MPI_COMM_WORLD);
  else if (strcmp(way, "probe") == 0)
    code = MPI_Probe(last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
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
    if (strcmp(argv[1], "cable") != 0) leave_the_network();
    for (;;) pause();  // somebody pulls the cable
  }
  if (rank == 0) {
    char* data = calloc(kLarge, 1);
    wait_for_the_end(argv[1], last, data);
    free(data);
    if (strcmp(argv[1], "cable") == 0) pause();  // the whole host is gone, and the launcher's half on it
    number = 42;
    for (int other = 1; other < last; ++other)  // the last one is a neighbour of the one that is gone
      if (MPI_Send(&number, 1, MPI_INT, other, 3, MPI_COMM_WORLD) != MPI_SUCCESS) number = 2;
    for (int other = 1; other < last; ++other)
      if (MPI_Recv(&number, 1, MPI_INT, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        number = 3;
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, number);
  }
  MPI_Recv(&number, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(&number, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
  for (;;) pause();
}
