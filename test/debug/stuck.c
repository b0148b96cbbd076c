// SPDX-License-Identifier: BSD-3-Clause
// A job for debuggers: rank 0 has communicators, requests and unexpected messages, and waits for ever in
// MPI_Recv; the others sleep. The communicator "halo" has the reverse order of ranks. `stuck short`: ends at
// once; `stuck crash`: by SIGSEGV; `stuck blocking`: rank 0 waits in MPI_Send; `stuck early`: waits before
// MPI_Init.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank, size, value = 0;
  static char large[1 << 20];
  MPI_Comm halo;
  MPI_Request posted, sent, none = MPI_REQUEST_NULL;
  MPI_Datatype type = MPI_INT;
  if (argc > 1 && strcmp(argv[1], "early") == 0) {
    printf("ready %d\n", (int)getpid()), fflush(stdout);
    sleep(300);
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "short") == 0) return MPI_Finalize();
  if (argc > 1 && strcmp(argv[1], "crash") == 0) *(volatile int*)NULL = rank;
  if (argc > 1 && strcmp(argv[1], "blocking") == 0) {
    if (rank == 0) {
      printf("ready %d\n", (int)getpid()), fflush(stdout);
      MPI_Send(large, sizeof large, MPI_BYTE, 1, 44, MPI_COMM_WORLD);
    }
    sleep(300);
  }
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &halo);
  MPI_Comm_set_name(halo, "halo");
  const int peer = size - 2;  // of rank 0, which is the last one in halo
  if (rank == 1) {
    MPI_Send(&value, 1, MPI_INT, size - 1, 88, halo);
    MPI_Send(&value, 1, MPI_INT, size - 1, 99, halo);
  }
  if (rank == 0) {
    MPI_Recv(&value, 1, MPI_INT, peer, 99, halo, MPI_STATUS_IGNORE);  // so the message of tag 88 has arrived
    MPI_Irecv(&value, 1, type, peer, 77, halo, &posted);
    MPI_Isend(large, sizeof large, MPI_BYTE, peer, 55, halo, &sent);
    printf("ready %d\n", (int)getpid()), fflush(stdout);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 66, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  sleep(300);
  (void)none;
  return MPI_Finalize();
}
