// SPDX-License-Identifier: BSD-3-Clause
// Sends messages of several sizes around a ring for a number of rounds; started and killed by thousand.py.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 20 };

int main(int argc, char** argv) {
  static unsigned char out[LARGEST], in[LARGEST];
  const int rounds = argc > 1 ? atoi(argv[1]) : 20;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int round = 0; round < rounds; ++round) {
    for (int length = 1; length <= LARGEST; length *= 32) {
      memset(out, rank + round, (size_t)length);
      MPI_Sendrecv(out, length, MPI_BYTE, next, round, in, length, MPI_BYTE, previous, round, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      if (in[0] != (unsigned char)(previous + round) || in[length - 1] != in[0]) {
        fprintf(stderr, "rank %d: wrong data in round %d, %d bytes\n", rank, round, length);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
    }
  }
  MPI_Finalize();
  return 0;
}
