// SPDX-License-Identifier: BSD-3-Clause
// A large message arrives while its sender makes no MPI calls: its RTS carries a UCX rendezvous.
// Over UCX's shared memory, which uses process_vm_readv; status 77 if the system forbids it.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kBytes = 4 << 20 };
static const useconds_t kSenderSleepUs = 1500000;  ///< sender makes no MPI calls

struct RemoteAddress {
  int64_t process, address;
};

static int readable(const struct RemoteAddress* remote) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void*)(intptr_t)remote->address, 1};
  return process_vm_readv((pid_t)remote->process, &here, 1, &there, 1, 0) == 1;
}

int main(int argc, char** argv) {
  int rank, possible = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *out = malloc(kBytes), *in = calloc(kBytes, 1);
  memset(out, 'a' + rank, kBytes);
  struct RemoteAddress mine = {getpid(), (intptr_t)out}, theirs;
  MPI_Sendrecv(&mine, 2, MPI_INT64_T, 1 - rank, 0, &theirs, 2, MPI_INT64_T, 1 - rank, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  if (rank == 1) possible = readable(&theirs);
  MPI_Bcast(&possible, 1, MPI_INT, 1, MPI_COMM_WORLD);
  if (!possible) {
    if (rank == 1) puts("skipped: needs permission for process_vm_readv");
    MPI_Finalize();
    return 77;
  }
  // The first rendezvous of a connection needs progress of the sender.
  MPI_Sendrecv(out, kBytes, MPI_CHAR, 1 - rank, 0, in, kBytes, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  int failed = 0;
  if (rank == 0) {
    MPI_Request request;
    MPI_Isend(out, kBytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
    usleep(kSenderSleepUs);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    memset(in, 0, kBytes);
    MPI_Recv(in, kBytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double took = MPI_Wtime() - begin;
    for (int i = 0; i < kBytes; ++i) failed |= in[i] != 'a';
    if (failed) puts("FAILED: wrong data");
    if (took * 1e6 > kSenderSleepUs * 2 / 3) {
      printf("FAILED: %.2f s, the receive waited for the sender\n", took);
      failed = 1;
    }
  }
  free(out);
  free(in);
  MPI_Finalize();
  return failed;
}
