// SPDX-License-Identifier: BSD-3-Clause
// The progress thread: operations end while a rank computes outside of MPI, which it does not with `off`.
// usage: progress_thread overlap | off | life. Rank 1 computes, the others wait for it.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers.h"
#include "../live_objects.h"
#include "expect.h"

#define EXPECT(condition) EXPECT_EQ((condition) != 0, 1)

enum { kBytes = 4 << 20, kInts = 64 << 10, kLatePost_us = 30000 };
static const double kComputation = 0.6, kLimit = 0.4;  // seconds

static int rank, size;
static char *in, *out;

// Starts the operation and ends it. Rank 1 computes in between; returns how long the others waited.
typedef MPI_Request (*Start)(void);

static double wait_of_peer(Start start) {
  MPI_Request request;
  CALL(MPI_Barrier(MPI_COMM_WORLD));
  if (rank != 1) usleep(kLatePost_us);  // rank 1 has started, and computes
  const double begin = MPI_Wtime();
  request = start();
  if (rank == 1) compute(kComputation);
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  return rank == 1 ? 0 : MPI_Wtime() - begin;
}

static MPI_Request send_to_computing(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  memset(out, 'a', kBytes);
  if (rank == 0) CALL(MPI_Isend(out, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request));
  if (rank == 1) CALL(MPI_Irecv(in, kBytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request));
  return request;
}

static MPI_Request receive_from_computing(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  memset(out, 'b', kBytes);
  if (rank == 1) CALL(MPI_Isend(out, kBytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request));
  if (rank == 0) CALL(MPI_Irecv(in, kBytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
  return request;
}

static MPI_Request allreduce(void) {
  MPI_Request request;
  for (int i = 0; i < kInts; ++i) ((int*)out)[i] = i + rank;
  CALL(MPI_Iallreduce(out, in, kInts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
  return request;
}

static void overlap(void) {
  double waited = wait_of_peer(send_to_computing);
  EXPECT(waited < kLimit);
  if (rank == 1) EXPECT(in[0] == 'a' && in[kBytes - 1] == 'a');
  waited = wait_of_peer(receive_from_computing);
  EXPECT(waited < kLimit);
  if (rank == 0) EXPECT(in[0] == 'b' && in[kBytes - 1] == 'b');
  waited = wait_of_peer(allreduce);
  EXPECT(waited < kLimit);
  for (int i = 0; i < kInts; ++i) EXPECT(((int*)in)[i] == size * i + size * (size - 1) / 2);
}

// Returns the number of progress threads; `cpu`: seconds of CPU time that the last one has used.
static int progress_threads(double* cpu) {
  int found = 0;
  DIR* const tasks = opendir("/proc/self/task");
  EXPECT(tasks != NULL);
  for (const struct dirent* task; (task = readdir(tasks)) != NULL;) {
    char path[600], name[32] = "";
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE* file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(name, sizeof name, file) == NULL) name[0] = 0;
    fclose(file);
    if (strcmp(name, "weft-progress\n") != 0) continue;
    ++found;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
    file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%llu", &ns) == 1 && cpu != NULL) *cpu = 1e-9 * (double)ns;
    if (file != NULL) fclose(file);
  }
  closedir(tasks);
  return found;
}

// A part of a core that the thread uses while the program sleeps.
static double share_of_core(void) {
  const useconds_t kMicroseconds = 200000;
  double before = 0, after = 0;
  progress_threads(&before);
  usleep(kMicroseconds);
  progress_threads(&after);
  return (after - before) / (1e-6 * kMicroseconds);
}

static void exchange(MPI_Comm comm) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  CALL(
      MPI_Sendrecv(out, kBytes, MPI_CHAR, next, 3, in, kBytes, MPI_CHAR, before, 3, comm, MPI_STATUS_IGNORE));
}

static void with_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    ends_with_live_objects = 1;
    exit(finalized ? 0 : 1);
  }
  exchange(MPI_COMM_WORLD);
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(progress_threads(NULL) == 1);
}

static atomic_int stop;
static void* compute_until_stopped(void* unused) {
  while (!atomic_load(&stop)) continue;
  return unused;
}

static void session(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  EXPECT(progress_threads(NULL) == 0);
  CALL(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  EXPECT(progress_threads(NULL) == 1);
  CALL(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
  CALL(MPI_Comm_create_from_group(group, "progress", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  exchange(comm);
  CALL(MPI_Group_free(&group));
  CALL(MPI_Comm_free(&comm));
  CALL(MPI_Session_finalize(&session));
  EXPECT(progress_threads(NULL) == 0);
}

// Ends with MPI_Finalize, while messages and threads are under way.
static void life(void) {
  MPI_Request never, request;
  int cancelled = 0;
  MPI_Status status;
  pthread_t thread;
  EXPECT(progress_threads(NULL) == 1);
  exchange(MPI_COMM_WORLD);
  EXPECT(share_of_core() < 0.05);
  CALL(MPI_Irecv(in, 1, MPI_CHAR, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &never));
  EXPECT(share_of_core() < 0.2);
  with_child();
  CALL(MPI_Cancel(&never));
  CALL(MPI_Wait(&never, &status));
  CALL(MPI_Test_cancelled(&status, &cancelled));
  EXPECT(cancelled);
  EXPECT(pthread_create(&thread, NULL, compute_until_stopped, NULL) == 0);
  CALL(MPI_Iallreduce(MPI_IN_PLACE, in, kInts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CALL(MPI_Isend(out, 100, MPI_CHAR, rank, 4, MPI_COMM_WORLD, &request));
  CALL(MPI_Recv(in, 100, MPI_CHAR, rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CALL(MPI_Request_free(&request));
  CALL(MPI_Finalize());
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  for (int i = 0; i < 3; ++i) session();
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  in = malloc(kBytes);
  out = calloc(kBytes, 1);
  int level = -1;
  CALL(MPI_Init(&argc, &argv));
  CALL(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CALL(MPI_Comm_size(MPI_COMM_WORLD, &size));
  CALL(MPI_Query_thread(&level));
  EXPECT(level == MPI_THREAD_SINGLE);
  if (strcmp(argv[1], "life") == 0) {
    life();
  } else if (strcmp(argv[1], "overlap") == 0) {
    overlap();
    CALL(MPI_Finalize());
  } else {
    EXPECT(progress_threads(NULL) == 0);
    const double waited = wait_of_peer(send_to_computing);
    if (rank == 0) EXPECT(waited > kLimit);
    CALL(MPI_Finalize());
  }
  free(in);
  free(out);
  return failures != 0;
}
