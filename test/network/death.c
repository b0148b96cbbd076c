// SPDX-License-Identifier: BSD-3-Clause
// The last rank dies, on another host: what rank 0 has under way with it ends with MPI_ERR_PROC_ABORTED
// within five seconds, and so do operations that begin later; the others go on. usage: death
// receive|any|send|acquainted|fresh|probe|traffic|cable [closed]; "acquainted": a send after large messages;
// "closed": its connections end, the process does not. Else it is killed: start each rank by outlive.sh,
// which hides that from the launcher.
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
static const useconds_t kLife = 500000;  ///< of the last rank, microseconds

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

static void die(int signal_number) {
  (void)signal_number;
  kill(getpid(), SIGKILL);
}

/// Dies in the middle of whatever it does.
static void die_later(void) {
  const struct itimerval life = {.it_value = {.tv_usec = (suseconds_t)kLife}};
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

/// Large messages both ways, without end but an error's.
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

/// What rank 0 waits for when the last rank dies.
static void wait_for_the_end(const char* way, int last, char* data) {
  int number = 0, code;
  double begin = MPI_Wtime();
  if (strcmp(way, "traffic") == 0)
    code = exchange_for_ever(last, data, &begin);
  else if (strcmp(way, "send") == 0 || strcmp(way, "acquainted") == 0)
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
  int rank, size, number = 0, other = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2) return MPI_Finalize();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int last = size - 1;
  const int fresh = strcmp(argv[1], "fresh") == 0;  // rank 0 has never heard of the last rank
  if (!fresh && (rank == 0 || rank == last))
    MPI_Sendrecv(&number, 1, MPI_INT, last - rank, 0, &other, 1, MPI_INT, last - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  if (strcmp(argv[1], "acquainted") == 0 && (rank == 0 || rank == last)) {
    char *out = calloc(kPiece, 1), *in = calloc(kPiece, 1);
    MPI_Sendrecv(out, kPiece, MPI_CHAR, last - rank, 0, in, kPiece, MPI_CHAR, last - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    free(out);
    free(in);
  }
  if (rank == last) {
    double never;
    if (strcmp(argv[1], "cable") != 0 && argc < 3) die_later();
    if (strcmp(argv[1], "traffic") == 0) exchange_for_ever(0, calloc(kLarge, 1), &never);
    usleep(kLife);
    if (argc > 2) leave_the_network();
    for (;;) pause();
  }
  if (rank == 0) {
    char* data = calloc(kLarge, 1);
    puts("waiting");
    fflush(stdout);
    wait_for_the_end(argv[1], last, data);
    free(data);
    if (strcmp(argv[1], "cable") == 0) pause();  // the whole host is gone, and the launcher's half on it
    number = 42;
    for (other = 1; other < last; ++other)  // the last one is a neighbour of the one that is gone
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
