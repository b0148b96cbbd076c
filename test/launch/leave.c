/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes end one by one while their sessions are open. usage: leave HOW; HOW: what rank 0 does. The others
   go on, and need each other. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weft.h>

enum { MESSAGES = 20000, LATE_US = 500000, LONG_SECONDS = 60, UNREAD = 200, UNREAD_BYTES = 4096 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void expect(int good, const char* what, int line) {
  if (good) return;
  printf("line %d: %s\n", line, what);
  exit(9);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static int is(const char* how, const char* name) { return strcmp(how, name) == 0; }

static int class_of(int code) {
  int error_class;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/* The communicator of all processes, by a session that stays open. */
static MPI_Comm open_job(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  EXPECT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
  EXPECT(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
  EXPECT(MPI_Comm_create_from_group(group, "leave", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
  MPI_Group_free(&group);
  return comm;
}

static void send_many(MPI_Comm comm) {
  for (int i = 0; i < MESSAGES; ++i) EXPECT(MPI_Send(&i, 1, MPI_INT, 1, 0, comm) == MPI_SUCCESS);
}

static void receive_many(MPI_Comm comm) {
  usleep(LATE_US);
  for (int i = 0, got; i < MESSAGES; ++i)
    EXPECT(MPI_Recv(&got, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS && got == i);
}

/* The receiver has had no message of rank 0 before, and comes when that has ended. */
static void send_first(MPI_Comm comm, int rank, int last) {
  static char bytes[UNREAD_BYTES];
  if (rank == last) sleep(1);
  for (int i = 0; i < UNREAD; ++i) {
    memset(bytes, rank == 0 ? i : -1, UNREAD_BYTES);
    if (rank == 0) EXPECT(MPI_Send(bytes, UNREAD_BYTES, MPI_BYTE, last, i, comm) == MPI_SUCCESS);
    if (rank != last) continue;
    EXPECT(MPI_Recv(bytes, UNREAD_BYTES, MPI_BYTE, 0, i, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    EXPECT(bytes[0] == (char)i && bytes[UNREAD_BYTES - 1] == (char)i);
  }
}

/* An operation that needs rank 0 fails soon, and names its process. */
static void need_rank_0(MPI_Comm comm, int rank, const char* operation) {
  int number, length, code;
  char text[500];
  MPI_Comm copy;
  const double begin = now();
  if (is(operation, "receive"))
    code = MPI_Recv(&number, 1, MPI_INT, 0, UNREAD, comm, MPI_STATUS_IGNORE);
  else if (is(operation, "dup"))
    code = MPI_Comm_dup(comm, &copy);
  else
    code = MPI_Allreduce(&rank, &number, 1, MPI_INT, MPI_SUM, comm);
  EXPECT(class_of(code) == MPIX_ERR_PROC_FAILED);
  EXPECT(now() - begin < 1.9); /* other jobs have 2 s to be ended by their launcher */
  MPIX_Last_error_message(text, sizeof text, &length);
  EXPECT(strstr(text, "process 0") != NULL);
}

/* The others make a communicator, and wait for its first member while they find rank 0 ended. */
static void regroup(MPI_Comm comm, int rank) {
  const int ended = 0;
  MPI_Group all, others;
  MPI_Comm made;
  MPI_Comm_group(comm, &all);
  MPI_Group_excl(all, 1, &ended, &others);
  if (rank == 1) sleep(2);
  EXPECT(MPI_Comm_create_from_group(others, "others", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made) ==
         MPI_SUCCESS);
  EXPECT(MPI_Barrier(made) == MPI_SUCCESS);
  MPI_Group_free(&all);
  MPI_Group_free(&others);
}

static void end_rank_0(const char* how, MPI_Comm comm, int size) {
  if (is(how, "sent")) send_many(comm);
  if (is(how, "first")) send_first(comm, 0, size - 1);
  if (is(how, "status")) exit(3);
  if (is(how, "immediate")) _exit(0);
  if (is(how, "child") && fork() == 0) exit(0); /* does not leave in place of its parent */
  if (is(how, "child")) wait(NULL);
  if (is(how, "child") || is(how, "signal")) raise(SIGKILL);
  exit(0);
}

/* What the others do that concerns rank 0. */
static void outlive_rank_0(const char* how, MPI_Comm comm, int rank, int size) {
  if (is(how, "status") || is(how, "signal") || is(how, "child"))
    sleep(LONG_SECONDS); /* the launcher ends it */
  if (is(how, "sent") && rank == 1) receive_many(comm);
  if (is(how, "first")) send_first(comm, rank, size - 1);
  if (is(how, "needed")) need_rank_0(comm, rank, rank == 1 ? "receive" : "allreduce");
  if (is(how, "awaited")) need_rank_0(comm, rank, "receive");
  if (is(how, "reduced")) need_rank_0(comm, rank, "allreduce");
  if (is(how, "copied")) need_rank_0(comm, rank, "dup");
  if (is(how, "regrouped")) regroup(comm, rank);
}

int main(int argc, char** argv) {
  int rank, size, sum;
  const char* how = argc > 1 ? argv[1] : "leave";
  if (is(how, "init")) MPI_Init(&argc, &argv);
  MPI_Comm comm = open_job();
  if (!is(how, "forbidden")) {
    EXPECT(class_of(MPIX_Job_allow_exit(-1)) == MPI_ERR_ARG);
    EXPECT(MPIX_Job_allow_exit(is(how, "first") || is(how, "sent") ? 30 : 0) == MPI_SUCCESS);
  }
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (!is(how, "first") && !is(how, "awaited")) { /* else some ranks have had no message of rank 0 */
    EXPECT(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    EXPECT(sum == size * (size - 1) / 2);
  }
  if (is(how, "last")) { /* operations that rank 0 has completed complete */
    for (int i = 0; i < 20; ++i) EXPECT(MPI_Barrier(comm) == MPI_SUCCESS);
    printf("rank %d goes on\n", rank);
    exit(0);
  }
  if (rank == 0) end_rank_0(how, comm, size);
  outlive_rank_0(how, comm, rank, size);
  /* The others go on, and need each other. */
  usleep(LATE_US);
  if (rank == 1) EXPECT(MPI_Send(&rank, 1, MPI_INT, size - 1, 1, comm) == MPI_SUCCESS);
  if (rank == size - 1) EXPECT(MPI_Recv(&sum, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  if (!is(how, "forbidden")) EXPECT(MPIX_Job_allow_exit(30) == MPI_SUCCESS);
  printf("rank %d goes on\n", rank);
  return 0;
}
