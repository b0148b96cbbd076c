// SPDX-License-Identifier: BSD-3-Clause
// Programs in unusual conditions: fork, exhausted requests, signals, early exit. Run by robustness.py.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;

static void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void exchange(void) {
  enum { kNumbers = 50000 };
  static int sent[kNumbers], got[kNumbers];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kNumbers; ++i) sent[i] = i + rank;
    MPI_Sendrecv(sent, kNumbers, MPI_INT, (rank + 1) % size, 0, got, kNumbers, MPI_INT,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kNumbers; ++i)
      if (got[i] != i + (rank + size - 1) % size) fail("wrong data");
    MPI_Allreduce(sent, got, kNumbers, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kNumbers; ++i)
      if (got[i] != size * i + size * (size - 1) / 2) fail("wrong sum");
  }
}

// One child calls MPI_Finalized and MPI_Finalize as exit handlers do (mpi4py, destructors); the other child
// calls MPI_Barrier, which is an error.
static void fork_children(void) {
  int status = 0;
  const pid_t finalizing_child = fork();
  if (finalizing_child == 0) {
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Finalize();
    _exit(initialized && finalized ? 0 : 9);
  }
  if (waitpid(finalizing_child, &status, 0) != finalizing_child || status != 0)
    fail("MPI is not finalized in a child");
  const pid_t calling_child = fork();
  if (calling_child == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0);
  }
  if (waitpid(calling_child, &status, 0) != calling_child || !WIFEXITED(status) ||
      WEXITSTATUS(status) != MPI_ERR_OTHER)
    fail("MPI_Barrier in a child did not abort");
  exchange();
}

// MPI_Isend returns MPI_ERR_NO_MEM when requests are exhausted.
static void exhaust_requests(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int number = 0, code = MPI_SUCCESS, class = 0;
  MPI_Request request;
  while (code == MPI_SUCCESS)
    code = MPI_Isend(&number, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
  MPI_Error_class(code, &class);
  if (class != MPI_ERR_NO_MEM) fail("wrong error class, expected MPI_ERR_NO_MEM");
}

// A send that fails with MPI_ERR_NO_MEM sends no message. Standard sends of small messages take no memory. At
// most 64 messages are pending, so that messages need no memory.
static void exhaust_sends(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int number = 0, got = 0, end = -1;
  if (rank == 0) {
    char* reserve = malloc(16 << 20);
    if (reserve == NULL) fail("malloc failed at start");
    memset(reserve, 1, 16 << 20);
    int code = MPI_SUCCESS, class = 0;
    MPI_Request request;
    for (; code == MPI_SUCCESS; number += code == MPI_SUCCESS) {
      code = MPI_Issend(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
      if (code == MPI_SUCCESS && number % 64 == 63)
        MPI_Recv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(reserve);
    MPI_Error_class(code, &class);
    if (class != MPI_ERR_NO_MEM) fail("wrong error class, expected MPI_ERR_NO_MEM");
    MPI_Send(&end, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Send(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    return;
  }
  for (;; ++number) {
    MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got == end) break;
    if (number % 64 == 63) MPI_Send(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  }
  MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (got != number) fail("a failed MPI_Issend sent its message");
}

static void on_timer(int signal) { (void)signal; }

// A sampling timer as in profilers, without SA_RESTART.
static void start_timer(void) {
  struct sigaction action = {0};
  action.sa_handler = on_timer;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval interval = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &interval, NULL);
}

static void on_timeout(int signal) {
  (void)signal;
  static const char text[] = "still waiting\n";
  (void)!write(STDOUT_FILENO, text, sizeof text - 1);
  _exit(5);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "exchange";
  if (strcmp(what, "timer") == 0) start_timer();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "exchange") == 0 || strcmp(what, "timer") == 0) exchange();
  if (strcmp(what, "children") == 0) fork_children();
  if (strcmp(what, "requests") == 0) exhaust_requests();
  if (strcmp(what, "sends") == 0) exhaust_sends();
  if (strcmp(what, "early") == 0 && rank == 0) {  // other ranks exit without the barrier
    signal(SIGALRM, on_timeout);
    alarm(1);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("the barrier completed without the other ranks");
  }
  MPI_Finalize();
  return 0;
}
