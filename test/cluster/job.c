// SPDX-License-Identifier: BSD-3-Clause
// A job on several hosts, under any launcher: every pair of ranks exchanges a small and a large message, then
// an allreduce; rank 0 prints MPIX_Describe_paths. With the argument `stuck` each rank then receives from the
// next.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { kLarge = 300000 };

static void fail(const char* what) {
  fprintf(stderr, "wrong: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void exchange(int to, int from, int rank, int bytes) {
  char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
  memset(out, 'a' + rank, (size_t)bytes);
  MPI_Sendrecv(out, bytes, MPI_CHAR, to, 1, in, bytes, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < bytes; ++i)
    if (in[i] != 'a' + from) fail("a message");
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  int rank, size, sum = 0, length;
  static char paths[1 << 16];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int distance = 1; distance < size; ++distance) {
    exchange((rank + distance) % size, (rank - distance + size) % size, rank, 8);
    exchange((rank + distance) % size, (rank - distance + size) % size, rank, kLarge);
  }
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum != size * (size - 1) / 2) fail("the sum");
  if (argc > 1) MPI_Recv(&sum, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) {
    if (MPIX_Describe_paths(paths, sizeof paths, &length) != MPI_SUCCESS) fail("the description of paths");
    printf("%ssum\t%d\n", paths, sum);
  }
  MPI_Finalize();
  return 0;
}
