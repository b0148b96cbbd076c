// SPDX-License-Identifier: BSD-3-Clause
// Jobs for weft top. `top steps RANK`: each step ends with a collective and a ring exchange, and RANK sleeps
// 100 ms in it. `top chain RANK`: a pipeline in which each rank waits for the one before. `top traffic`:
// known messages, then a sleep. `top known`: the same by MPI_Send and MPI_Recv, without sleep. `top abort`:
// MPI_Abort. `top spawn STEPS`: spawns as many ranks, and all exchange a message and a sum in each step, of
// which rank 1 of the spawned job delays each by 50 ms if they are more than 100.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMessages = 500, kBytes = 100, kLarge = 1 << 20, kLargeMessages = 20, kCollectives = 300 };

static void sleep_ms(int ms) {
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&pause, NULL);
}

static void spawn(char** argv, int size, int steps) {
  MPI_Comm parent, other, both;
  int rank, all, value;
  char text[kBytes] = {0};
  MPI_Comm_get_parent(&parent);
  other = parent;
  if (parent == MPI_COMM_NULL)
    MPI_Comm_spawn(argv[0], argv + 1, size, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(other, parent != MPI_COMM_NULL, &both);
  MPI_Comm_rank(both, &rank);
  MPI_Comm_size(both, &all);
  if (rank == 0) printf("all\n"), fflush(stdout);
  for (int i = 0; i < steps; ++i) {
    if (rank == size + 1 && steps > 100) sleep_ms(50);
    value = 1;
    MPI_Send(text, kBytes, MPI_BYTE, (rank + 1) % all, 7, both);
    MPI_Recv(text, kBytes, MPI_BYTE, (rank + all - 1) % all, 7, both, MPI_STATUS_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, both);
    if (value != all) MPI_Abort(both, 1);
  }
  MPI_Comm_free(&both);
  MPI_Comm_disconnect(&other);
}

int main(int argc, char** argv) {
  int rank, size;
  static char out[kLarge], in[kLarge];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const int slow = argc > 2 ? atoi(argv[2]) : -1;
  if (rank == 0) printf("ready\n"), fflush(stdout);
  if (strcmp(argv[1], "traffic") == 0) {
    for (int i = 0; i < kMessages; ++i)
      MPI_Sendrecv(out, kBytes, MPI_BYTE, next, 1, in, kBytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    for (int i = 0; i < kLargeMessages; ++i)
      MPI_Sendrecv(out, kLarge, MPI_BYTE, next, 1, in, kLarge, MPI_BYTE, previous, 1, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    for (int i = 0; i < kCollectives; ++i)
      MPI_Allreduce(MPI_IN_PLACE, out, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("done\n"), fflush(stdout);
    sleep_ms(60000);
  } else if (strcmp(argv[1], "known") == 0) {
    for (int i = 0; i < kMessages + kLargeMessages; ++i) {
      const int bytes = i < kMessages ? kBytes : kLarge;
      if (rank % 2 == 0) MPI_Send(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank % 2 == 1) MPI_Send(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
    }
    for (int i = 0; i < kCollectives; ++i)
      MPI_Allreduce(MPI_IN_PLACE, out, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(argv[1], "spawn") == 0) {
    spawn(argv, size, slow);
  } else if (strcmp(argv[1], "abort") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 3);
    sleep_ms(60000);
  } else if (strcmp(argv[1], "steps") == 0) {
    for (;;) {
      if (rank == slow) sleep_ms(100);
      MPI_Sendrecv(out, kBytes, MPI_BYTE, next, 1, in, kBytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      MPI_Allreduce(MPI_IN_PLACE, out, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
  } else {
    for (;;) {
      if (rank != 0) MPI_Recv(in, kBytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank == slow) sleep_ms(100);
      if (rank != size - 1) MPI_Ssend(out, kBytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
    }
  }
  MPI_Finalize();
  return 0;
}
