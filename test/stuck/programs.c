// SPDX-License-Identifier: BSD-3-Clause
// Programs that get stuck, by the name of the case; run.py says what `weft hang` must find. programs.py has
// the same cases for mpi4py. usage: programs single|multiple|helper|pair CASE
//   multiple: with MPI_THREAD_MULTIPLE; helper: a second thread has called MPI and sleeps; pair: a second
//   thread of each rank is stuck, too.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char* name;
static int rank, size, peer;
static MPI_Comm world, halo;
static int in[64], out[64];
static char large[1 << 22];

static int is(const char* other) { return strcmp(name, other) == 0; }
static void receive(int source, int tag) { MPI_Recv(in, 2, MPI_INT, source, tag, world, MPI_STATUS_IGNORE); }
static void send(int dest, int tag) { MPI_Send(out, 1, MPI_INT, dest, tag, world); }
static void ssend(int dest, int tag) { MPI_Ssend(out, 1, MPI_INT, dest, tag, world); }

static void messages(void) {
  if (is("recv_recv")) receive(peer, 1);
  if (is("ssend_ssend")) ssend(peer, 1);
  if (is("large_sends")) MPI_Send(large, sizeof large, MPI_CHAR, peer, 1, world);
  if (is("tags")) rank == 0 ? receive(1, 1) : send(0, 2);
  if (is("tags_ssend")) rank == 0 ? ssend(1, 5) : receive(0, 6);
  if (is("communicators") && rank == 0) receive(1, 1);
  if (is("communicators") && rank == 1) MPI_Send(out, 1, MPI_INT, 0, 1, halo);
  if (is("source")) {
    if (rank == 0) receive(2, 1);
    if (rank == 1) send(0, 1);
  }
  if (is("any_source")) receive(MPI_ANY_SOURCE, 1);
  if (is("any_source_tags")) rank == 0 ? receive(MPI_ANY_SOURCE, 1) : send(0, 2);
  if (is("chain")) receive((rank + 1) % size, 1);
  if (is("self")) {
    if (rank == 0) receive(0, 9);
  }
  if (is("sendrecv"))
    MPI_Sendrecv(out, 1, MPI_INT, peer, rank, in, 1, MPI_INT, peer, rank, world, MPI_STATUS_IGNORE);
  if (is("send_into_barrier")) {
    if (rank == 0) ssend(1, 3);
    MPI_Barrier(world);
  }
}

static void requests(void) {
  MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Message message;
  int flag = 0;
  if (is("probe")) rank == 0 ? (void)MPI_Probe(1, 3, world, MPI_STATUS_IGNORE) : send(0, 4);
  if (is("mprobe")) {
    if (rank == 0) MPI_Mprobe(1, 3, world, &message, MPI_STATUS_IGNORE);
    if (rank == 1) send(0, 4);
  }
  if (is("wait") || is("waitall")) {
    if (rank == 1) send(0, 8);
    if (rank == 0) {
      MPI_Irecv(in, 1, MPI_INT, 1, 8, world, &request[0]);
      MPI_Irecv(in + 1, 1, MPI_INT, 1, 9, world, &request[1]);
      if (is("wait")) MPI_Wait(&request[1], MPI_STATUS_IGNORE);
      MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    }
  }
  if (is("wait_send")) {
    if (rank == 0) {
      MPI_Isend(large, sizeof large, MPI_CHAR, 1, 2, world, &request[0]);
      MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    }
    MPI_Barrier(world);
  }
  if (is("persistent") && rank == 0) {
    MPI_Recv_init(in, 1, MPI_INT, 1, 7, world, &request[0]);
    MPI_Start(&request[0]);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
  }
  if (is("test_loop")) {
    if (rank == 1) receive(0, 5);
    MPI_Irecv(in, 1, MPI_INT, 1, 4, world, &request[0]);
    while (!flag) MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE);
  }
  if (is("iprobe_loop")) {
    if (rank == 1) send(0, 2);
    while (rank == 0 && !flag) MPI_Iprobe(1, 1, world, &flag, MPI_STATUS_IGNORE);
  }
}

static void collectives(void) {
  MPI_Request request;
  if (is("bcast_reduce")) {
    if (rank == 0) MPI_Bcast(in, 1, MPI_INT, 1, halo);
    if (rank == 1) MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, 1, halo);
  }
  if (is("roots")) MPI_Bcast(in, 1, MPI_INT, 1 - rank, halo);
  if (is("order")) {
    if (rank == 0) MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, 0, halo);
    MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, 1, halo);
    MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, 0, halo);
  }
  if (is("barrier_recv")) rank == 0 ? (void)MPI_Barrier(world) : receive(0, 1);
  if (is("two_communicators")) MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, rank == 0 ? halo : world);
  if (is("nonblocking")) {
    if (rank == 1) receive(0, 1);
    MPI_Iallreduce(out, in, 1, MPI_INT, MPI_SUM, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (is("split")) {
    if (rank == 1) receive(0, 1);
    MPI_Comm_split(world, 0, 0, &halo);
  }
  if (is("missing_rank")) {
    if (rank == 1) pause();
    MPI_Barrier(world);
  }
  if (is("alltoall_recv")) {
    if (rank == 2) receive(0, 6);
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, world);
  }
}

static void windows(void) {
  MPI_Win win;
  MPI_Group all, one;
  void* memory;
  if (strncmp(name, "window", 6) != 0) return;
  MPI_Win_allocate(8, 1, MPI_INFO_NULL, world, &memory, &win);
  if (is("window_locks")) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, win);
  }
  if (is("window_fence")) {
    if (rank == 1) receive(0, 1);
    MPI_Win_fence(0, win);
  }
  if (is("window_start")) {
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &peer, &one);
    MPI_Win_start(one, 0, win);
  }
}

static void* second(void* mode) {
  int unused;
  MPI_Comm_rank(MPI_COMM_WORLD, &unused);
  if (strcmp(mode, "pair") == 0) MPI_Recv(&unused, 1, MPI_INT, peer, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (;;) pause();
  return NULL;
}

int main(int argc, char** argv) {
  const char* const mode = argv[1];
  const int threads = strcmp(mode, "single") != 0;
  int provided;
  pthread_t thread;
  (void)argc;
  name = argv[2];
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  world = MPI_COMM_WORLD;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  peer = (rank + 1) % size;
  MPI_Comm_dup(world, &halo);
  MPI_Comm_set_name(halo, "halo");
  for (int i = 0; i < 20; ++i) MPI_Barrier(halo);
  if (strcmp(mode, "helper") == 0 || strcmp(mode, "pair") == 0)
    pthread_create(&thread, NULL, second, (void*)mode);
  MPI_Barrier(world);
  if (rank == 0) {
    printf("%d\n", (int)getpid());
    fflush(stdout);
  }
  messages();
  requests();
  collectives();
  windows();
  return MPI_Finalize();
}
