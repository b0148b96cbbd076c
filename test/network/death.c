// SPDX-License-Identifier: BSD-3-Clause
// The last rank, on another host, dies: the outstanding operations of rank 0 with that rank fail with
// MPI_ERR_PROC_ABORTED within five seconds, later operations too; the other ranks continue. usage: death
// receive|any|send|after_rendezvous|first_contact|probe|traffic|link_down [closed]; "after_rendezvous": a
// send after large messages; "closed": the connections of the last rank close, the process survives.
// Otherwise it is killed: start each rank by survive_kill.sh, which hides the death from the launcher.
#include <mpi.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { kLarge = 32 << 20, kPiece = 1 << 20, kWindow = 4 };
static const double kLimit = 5.0;
static const useconds_t kLifetimeUs = 500000;  ///< lifetime of the last rank, microseconds

/// Shuts down all sockets; the process stays alive.
static void shut_down_sockets(void) {
  for (int fd = 3; fd < 1024; ++fd) {
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    if (getsockname(fd, (struct sockaddr*)&name, &length) != 0) continue;
    if (name.ss_family == AF_INET || name.ss_family == AF_INET6) shutdown(fd, SHUT_RDWR);
  }
  for (;;) pause();
}

static void die(int signal_number) {
  (void)signal_number;
  kill(getpid(), SIGKILL);
}

/// Dies in the middle of an operation.
static void die_after_delay(void) {
  const struct itimerval life = {.it_value = {.tv_usec = (suseconds_t)kLifetimeUs}};
  signal(SIGALRM, die);
  setitimer(ITIMER_REAL, &life, NULL);
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

/// Exchanges large messages until an error.
static int exchange_for_ever(int with, char* data, double* last_success) {
  for (;;) {
    MPI_Request requests[2 * kWindow];
    int failure = MPI_SUCCESS;
    for (int i = 0; i < kWindow; ++i) {
      MPI_Irecv(data + i * kPiece, kPiece, MPI_CHAR, with, 5, MPI_COMM_WORLD, &requests[i]);
      MPI_Isend(data + (kWindow + i) * kPiece, kPiece, MPI_CHAR, with, 5, MPI_COMM_WORLD,
                &requests[kWindow + i]);
    }
    for (int i = 0; i < 2 * kWindow; ++i) {
      const int code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) failure = code;
    }
    if (failure != MPI_SUCCESS) return failure;
    *last_success = MPI_Wtime();
  }
}

/// Operation of rank 0 that is outstanding when the last rank dies.
static void wait_for_loss(const char* operation, int last, char* data) {
  int number = 0, code;
  double begin = MPI_Wtime();
  if (strcmp(operation, "traffic") == 0)
    code = exchange_for_ever(last, data, &begin);
  else if (strcmp(operation, "send") == 0 || strcmp(operation, "after_rendezvous") == 0)
    code = MPI_Ssend(data, kLarge, MPI_CHAR, last, 1, MPI_COMM_WORLD);
  else if (strcmp(operation, "probe") == 0)
    code = MPI_Probe(last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else if (strcmp(operation, "any") == 0)
    code = MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    code = MPI_Recv(&number, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect_loss(operation, code, begin);
  expect_loss("later send", MPI_Send(&number, 1, MPI_INT, last, 2, MPI_COMM_WORLD), MPI_Wtime());
  expect_loss("later receive", MPI_Recv(&number, 1, MPI_INT, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_Wtime());
}

int main(int argc, char** argv) {
  int rank, size, number = 0, other = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2) return MPI_Finalize();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int last = size - 1;
  const int first_contact =
      strcmp(argv[1], "first_contact") == 0;  // no earlier communication with the last rank
  if (!first_contact && (rank == 0 || rank == last))
    MPI_Sendrecv(&number, 1, MPI_INT, last - rank, 0, &other, 1, MPI_INT, last - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  if (strcmp(argv[1], "after_rendezvous") == 0 && (rank == 0 || rank == last)) {
    char *out = calloc(kPiece, 1), *in = calloc(kPiece, 1);
    MPI_Sendrecv(out, kPiece, MPI_CHAR, last - rank, 0, in, kPiece, MPI_CHAR, last - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    free(out);
    free(in);
  }
  if (rank == last) {
    double never;
    if (strcmp(argv[1], "link_down") != 0 && argc < 3) die_after_delay();
    if (strcmp(argv[1], "traffic") == 0) exchange_for_ever(0, calloc(kLarge, 1), &never);
    usleep(kLifetimeUs);
    if (argc > 2) shut_down_sockets();
    for (;;) pause();
  }
  if (rank == 0) {
    char* data = calloc(kLarge, 1);
    puts("waiting");
    fflush(stdout);
    wait_for_loss(argv[1], last, data);
    free(data);
    if (strcmp(argv[1], "link_down") == 0)
      pause();  // the host is unreachable, including the launcher's proxy on it
    number = 42;
    for (other = 1; other < last; ++other)  // ranks on the host of the dead rank included
      if (MPI_Send(&number, 1, MPI_INT, other, 3, MPI_COMM_WORLD) != MPI_SUCCESS) number = 2;
    for (other = 1; other < last; ++other)
      if (MPI_Recv(&number, 1, MPI_INT, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        number = 3;
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, number);
  }
  MPI_Recv(&number, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(&number, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
  MPI_Recv(&number, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // until the job is aborted
  return 1;
}
