// SPDX-License-Identifier: BSD-3-Clause
// A job that is stuck in many ways at once. Argument "calls": each pair of ranks (rank 0 and 1 of a
// communicator named after the case) is stuck in one call: rank 0 makes it, rank 1 computes, unless the case
// says otherwise. Other arguments: the whole job is stuck in one way.
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Comm comm;
static char name[MPI_MAX_OBJECT_NAME];
static int rank, out[8], in[64];
static char large[1 << 22];

static void compute(void) {
  for (;;) pause();
}

static void poll_forever(MPI_Request* request, int probes) {
  for (int flag = 0; !flag; usleep(100))
    if (probes)
      MPI_Iprobe(1, 3, comm, &flag, MPI_STATUS_IGNORE);
    else
      MPI_Test(request, &flag, MPI_STATUS_IGNORE);
}

static void* receive(void* tag) {
  MPI_Recv(in, 1, MPI_INT, 1, (int)(long)tag, comm, MPI_STATUS_IGNORE);
  return NULL;
}

static int is(const char* other) { return strcmp(name, other) == 0; }

// Calls in which rank 0 is stuck because rank 1 makes none.
static void point_to_point(void) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Message message;
  int index;
  if (is("MPI_Recv")) MPI_Recv(in, 2, MPI_INT, 1, 77, comm, MPI_STATUS_IGNORE);
  if (is("MPI_Recv_any")) MPI_Recv(in, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
  if (is("MPI_Send")) MPI_Send(large, sizeof large, MPI_CHAR, 1, 5, comm);
  if (is("MPI_Ssend")) MPI_Ssend(out, 1, MPI_INT, 1, 6, comm);
  if (is("MPI_Sendrecv")) MPI_Sendrecv(out, 1, MPI_INT, 1, 7, in, 1, MPI_INT, 1, 8, comm, MPI_STATUS_IGNORE);
  if (is("MPI_Probe")) MPI_Probe(1, 9, comm, MPI_STATUS_IGNORE);
  if (is("MPI_Mprobe")) MPI_Mprobe(MPI_ANY_SOURCE, 10, comm, &message, MPI_STATUS_IGNORE);
  if (is("MPI_Iprobe")) poll_forever(NULL, 1);
  MPI_Irecv(in, 1, MPI_INT, 1, 3, comm, &requests[0]);
  MPI_Irecv(in + 1, 1, MPI_INT, 1, 4, comm, &requests[1]);
  if (is("MPI_Wait")) MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  if (is("MPI_Waitall")) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  if (is("MPI_Waitany")) MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  if (is("MPI_Test")) poll_forever(&requests[0], 0);
}

static void collective(void) {
  static const int ones[] = {1, 1}, offsets[] = {0, 1};
  MPI_Request request;
  if (is("MPI_Barrier")) MPI_Barrier(comm);
  if (is("MPI_Reduce")) MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, 0, comm);
  if (is("MPI_Allreduce")) MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, comm);
  if (is("MPI_Gather")) MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, 0, comm);
  if (is("MPI_Gatherv")) MPI_Gatherv(out, 1, MPI_INT, in, ones, offsets, MPI_INT, 0, comm);
  if (is("MPI_Allgather")) MPI_Allgather(out, 1, MPI_INT, in, 1, MPI_INT, comm);
  if (is("MPI_Allgatherv")) MPI_Allgatherv(out, 1, MPI_INT, in, ones, offsets, MPI_INT, comm);
  if (is("MPI_Alltoall")) MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
  if (is("MPI_Alltoallv")) MPI_Alltoallv(out, ones, offsets, MPI_INT, in, ones, offsets, MPI_INT, comm);
  if (is("MPI_Reduce_scatter_block")) MPI_Reduce_scatter_block(out, in, 1, MPI_INT, MPI_SUM, comm);
  if (is("MPI_Bcast")) MPI_Bcast(in, 1, MPI_INT, 1, comm);
  if (is("MPI_Scatter")) MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, 1, comm);
  if (is("MPI_Comm_split")) MPI_Comm_split(comm, 0, 0, &comm);
  if (is("nonblocking")) {
    MPI_Iallreduce(out, in, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

// Cases in which both ranks make calls.
static void both(void) {
  if (is("receives")) MPI_Recv(in, 1, MPI_INT, !rank, 1, comm, MPI_STATUS_IGNORE);
  if (is("sends")) MPI_Ssend(out, 1, MPI_INT, !rank, 1, comm);
  if (is("tags")) {
    if (rank == 0) MPI_Ssend(out, 1, MPI_INT, 1, 5, comm);
    MPI_Recv(in, 1, MPI_INT, 0, 6, comm, MPI_STATUS_IGNORE);
  }
  if (is("collectives")) {
    if (rank == 0) MPI_Bcast(in, 1, MPI_INT, 1, comm);
    MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, 1, comm);
  }
  if (is("roots")) MPI_Bcast(in, 1, MPI_INT, !rank, comm);
  if (is("mixed")) {
    if (rank == 0) MPI_Barrier(comm);
    MPI_Recv(in, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
  }
}

static const char* const cases[] = {
    "MPI_Recv",
    "MPI_Recv_any",
    "MPI_Send",
    "MPI_Ssend",
    "MPI_Sendrecv",
    "MPI_Probe",
    "MPI_Mprobe",
    "MPI_Iprobe",
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Test",
    "MPI_Barrier",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Allgather",
    "MPI_Allgatherv",
    "MPI_Alltoall",
    "MPI_Alltoallv",
    "MPI_Reduce_scatter_block",
    "MPI_Bcast",
    "MPI_Scatter",
    "MPI_Comm_split",
    "nonblocking",
    "receives",
    "sends",
    "tags",
    "collectives",
    "mixed",
    "roots",
    "new",
};

static void stick_in_call(int world_rank) {
  const int index = world_rank / 2;
  MPI_Comm_split(MPI_COMM_WORLD, index, world_rank, &comm);
  strcpy(name, cases[index]);
  MPI_Comm_rank(comm, &rank);
  if (!is("new"))  // collectives of a new communicator use messages, later ones shared memory
    for (int i = 0; i < 20; ++i) MPI_Barrier(comm);
  MPI_Comm_set_name(comm, name);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) {
    printf("%d\n", (int)getpid());
    fflush(stdout);
  }
  if (is("new") && rank == 0) MPI_Barrier(comm);
  both();
  if (rank == 0) {
    point_to_point();
    collective();
  }
  compute();
}

// Ranks 0 and 1 lock each other's memory, rank 2 waits for rank 4's shared lock on itself, ranks 3 to 5 are
// in epochs of post-start-complete-wait.
static void stick_in_window(int world_rank) {
  MPI_Win win, other;
  MPI_Group all, one;
  void* memory;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &other);
  if (world_rank < 2) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, world_rank, 0, win);
  if (world_rank == 4) MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank < 2) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - world_rank, 0, win);
  if (world_rank == 2) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
  const int peer = world_rank == 3 ? 5 : 4;
  MPI_Group_incl(all, 1, &peer, &one);
  if (world_rank == 3) MPI_Win_start(one, 0, other);
  if (world_rank == 5) {
    MPI_Win_post(one, 0, other);
    MPI_Win_wait(other);
  }
}

/* Prints the pid of rank 0, and rank 1 dies. */
static void lose_rank(int rank) {
  if (rank == 0) printf("%d\n", (int)getpid()), fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) raise(SIGKILL);
  MPI_Recv(in, 1, MPI_INT, rank == 0 ? 2 : 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Prints the own pid and that of the first of two spawned processes, which wait for each other. */
static void stick_with_spawned(char* program) {
  char* arguments[] = {"spawned", NULL};
  MPI_Comm children;
  int pid;
  MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
  MPI_Recv(&pid, 1, MPI_INT, 0, 1, children, MPI_STATUS_IGNORE);
  printf("%d\n%d\n", (int)getpid(), pid), fflush(stdout);
  MPI_Recv(in, 1, MPI_INT, 1, 6, children, MPI_STATUS_IGNORE);
}

static void stick_as_spawned(int rank) {
  MPI_Comm parents;
  const int pid = (int)getpid();
  MPI_Comm_get_parent(&parents);
  if (rank == 0) MPI_Send(&pid, 1, MPI_INT, 0, 1, parents);
  MPI_Recv(in, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  int provided, world_rank;
  const char* const mode = argc > 1 ? argv[1] : "";
  const char* const launched_as = getenv("PMI_RANK");
  if (strcmp(mode, "init") == 0 && launched_as != NULL && atoi(launched_as) == 1) compute();
  MPI_Init_thread(&argc, &argv, strcmp(mode, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                  &provided);
  if (strcmp(mode, "early") == 0) {
    printf("%d\n", (int)getpid());
    fflush(stdout);
    compute();
  }
  if (strcmp(mode, "count") == 0) return printf("%d\n", (int)(sizeof cases / sizeof *cases)), MPI_Finalize();
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  if (strcmp(mode, "calls") == 0) stick_in_call(world_rank);
  if (strcmp(mode, "window") == 0) stick_in_window(world_rank);
  if (strcmp(mode, "dead") == 0) lose_rank(world_rank);
  if (strcmp(mode, "spawn") == 0) stick_with_spawned(argv[0]);
  if (strcmp(mode, "spawned") == 0) stick_as_spawned(world_rank);
  if (strcmp(mode, "ring") == 0) {
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Recv(in, 1, MPI_INT, (world_rank + 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (strcmp(mode, "barrier") == 0 && world_rank != 1) MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(mode, "finalize") == 0 && world_rank == 1) compute();
  if (strcmp(mode, "threads") == 0 && world_rank == 0) {
    pthread_t thread;
    comm = MPI_COMM_WORLD;
    pthread_create(&thread, NULL, receive, (void*)11L);
    receive((void*)12L);
  }
  if (strcmp(mode, "alone") == 0) {
    printf("%d\n", (int)getpid());
    fflush(stdout);
    MPI_Recv(in, 1, MPI_INT, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  }
  if (strcmp(mode, "finalize") != 0) compute();
  return MPI_Finalize();
}
