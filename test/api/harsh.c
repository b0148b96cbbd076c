// SPDX-License-Identifier: BSD-3-Clause
// What programs do to MPI and should not, or may: harsh.py runs it.
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

static void talk(void) {
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

// A child asks whether MPI is over, as what ends MPI at exit does (mpi4py, destructors); another one calls
// MPI.
static void with_children(void) {
  int status = 0;
  const pid_t polite = fork();
  if (polite == 0) {
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Finalize();
    _exit(initialized && finalized ? 0 : 9);
  }
  if (waitpid(polite, &status, 0) != polite || status != 0) fail("MPI is not over in a child");
  const pid_t rude = fork();
  if (rude == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0);
  }
  if (waitpid(rude, &status, 0) != rude || !WIFEXITED(status) || WEXITSTATUS(status) != MPI_ERR_OTHER)
    fail("a child may call MPI");
  talk();
}

// A program that never completes its requests is told when there is no room for more.
static void leave_requests(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int number = 0, code = MPI_SUCCESS, class = 0;
  MPI_Request request;
  while (code == MPI_SUCCESS)
    code = MPI_Isend(&number, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
  MPI_Error_class(code, &class);
  if (class != MPI_ERR_NO_MEM) fail("not the class of no memory");
}

// Nor do messages leave whose requests there is no room for. Few are under way at a time, which need no
// memory.
static void leave_sends(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int number = 0, got = 0, end = -1;
  if (rank == 0) {
    char* reserve = malloc(16 << 20);
    if (reserve == NULL) fail("no memory to begin with");
    memset(reserve, 1, 16 << 20);
    int code = MPI_SUCCESS, class = 0;
    MPI_Request request;
    for (; code == MPI_SUCCESS; number += code == MPI_SUCCESS) {
      code = MPI_Isend(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
      if (code == MPI_SUCCESS && number % 64 == 63)
        MPI_Recv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(reserve);
    MPI_Error_class(code, &class);
    if (class != MPI_ERR_NO_MEM) fail("not the class of no memory");
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
  if (got != number) fail("a message left whose request was refused");
}

static void tick(int signal) { (void)signal; }

// As profilers do; without SA_RESTART.
static void start_timer(void) {
  struct sigaction action = {0};
  action.sa_handler = tick;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, NULL);
}

static void give_up(int signal) {
  (void)signal;
  static const char text[] = "still waiting\n";
  (void)!write(STDOUT_FILENO, text, sizeof text - 1);
  _exit(5);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "talk";
  if (strcmp(what, "timer") == 0) start_timer();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "talk") == 0 || strcmp(what, "timer") == 0) talk();
  if (strcmp(what, "children") == 0) with_children();
  if (strcmp(what, "requests") == 0) leave_requests();
  if (strcmp(what, "sends") == 0) leave_sends();
  if (strcmp(what, "early") == 0 && rank == 0) {  // the others end without it
    signal(SIGALRM, give_up);
    alarm(1);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("a barrier without the others");
  }
  MPI_Finalize();
  return 0;
}
