// SPDX-License-Identifier: BSD-3-Clause
// One rank is killed: every wait of the others on it ends with an error within a second, messages among the
// others still arrive, and MPI_Finalize returns. usage: process_failure OPERATION VICTIM LIFETIME_US
// [fatal]. The victim takes part in collective operations until it dies, and in no other operation.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { kLarge = 1 << 20, kWarmUps = 20 };  ///< bytes; collectives before the victim's life ends
static const double kLimit = 1.0;          ///< seconds from the death, or from the last success, to the error

static char *in, *out;
static int rank, size, victim;

static void die(int signal_number) {
  (void)signal_number;
  kill(getpid(), SIGKILL);
}

/// Dies later, in the middle of whatever this process does.
static void die_after(long microseconds) {
  const struct itimerval life = {.it_value = {.tv_usec = microseconds}};
  signal(SIGALRM, die);
  setitimer(ITIMER_REAL, &life, NULL);
}

/// The suffix "_large" of an operation selects messages instead of shared memory.
static int collective(const char* what) {
  const int bytes = strstr(what, "_large") != NULL ? kLarge / 4 : 64;
  if (strncmp(what, "barrier", 7) == 0) return MPI_Barrier(MPI_COMM_WORLD);
  if (strncmp(what, "bcast", 5) == 0)
    return MPI_Bcast(in, bytes, MPI_CHAR, (victim + 1) % size, MPI_COMM_WORLD);
  if (strncmp(what, "allreduce", 9) == 0)
    return MPI_Allreduce(out, in, bytes / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (strncmp(what, "alltoall", 8) == 0)
    return MPI_Alltoall(out, bytes / 4, MPI_CHAR, in, bytes / 4, MPI_CHAR, MPI_COMM_WORLD);
  if (strncmp(what, "iallreduce", 10) == 0) {
    MPI_Request request;
    const int code = MPI_Iallreduce(out, in, bytes / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  fprintf(stderr, "unknown operation %s\n", what);
  exit(2);
}

static int point_to_point(const char* what) {
  if (strcmp(what, "send") == 0) return MPI_Send(out, kLarge, MPI_CHAR, victim, 1, MPI_COMM_WORLD);
  if (strcmp(what, "ssend") == 0) return MPI_Ssend(out, 1, MPI_CHAR, victim, 1, MPI_COMM_WORLD);
  if (strcmp(what, "receive") == 0)
    return MPI_Recv(in, kLarge, MPI_CHAR, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(what, "any_source") == 0)
    return MPI_Recv(in, kLarge, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(what, "probe") == 0) return MPI_Probe(victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(what, "test") == 0) {
    MPI_Request request;
    int done = 0, code = MPI_Irecv(in, kLarge, MPI_CHAR, victim, 1, MPI_COMM_WORLD, &request);
    while (code == MPI_SUCCESS && !done) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return code;
  }
  return -1;
}

/// Returns the error, and the time from the last success to it.
static int operate(const char* what, double* took) {
  double begin = MPI_Wtime();
  int code = point_to_point(what);
  while (code == -1 || code == MPI_SUCCESS) {
    begin = MPI_Wtime();
    code = collective(what);
  }
  *took = MPI_Wtime() - begin;
  return code;
}

/// Each survivor sends to the next one.
static int ring_of_survivors(void) {
  int next = (rank + 1) % size, before = (rank + size - 1) % size, number = -1;
  if (next == victim) next = (next + 1) % size;
  if (before == victim) before = (before + size - 1) % size;
  const int code = MPI_Sendrecv(&rank, 1, MPI_INT, next, 2, &number, 1, MPI_INT, before, 2, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE);
  return code == MPI_SUCCESS && number == before;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 4) return 2;
  victim = atoi(argv[2]);
  in = calloc(kLarge, 1);
  out = calloc(kLarge, 1);
  if (argc < 5) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < kWarmUps; ++i) MPI_Barrier(MPI_COMM_WORLD);
  const long lifetime = atol(argv[3]);
  double took;
  if (rank == victim) {
    die_after(lifetime);
    if (strstr("send ssend receive any_source probe test", argv[1]) != NULL)
      for (;;) pause();
    operate(argv[1], &took);
    return 1;
  }
  const int code = operate(argv[1], &took);
  int class = MPI_SUCCESS, length = 0;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Error_class(code, &class);
  MPI_Error_string(code, text, &length);
  const int good = class == MPI_ERR_PROC_ABORTED && took < kLimit + (double)lifetime * 1e-6;
  const int alive = ring_of_survivors();
  printf("%s rank %d: %s after %.3f s%s\n", good && alive ? "good" : "BAD", rank, text, took,
         alive ? "" : "; no message from the other survivors");
  fflush(stdout);
  return MPI_Finalize();
}
