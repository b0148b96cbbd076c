// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives of common sizes do not allocate memory: counted by a malloc that wraps the C
// library's.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t);
static volatile long allocations;  // volatile: the compiler assumes that malloc does not write it

__attribute__((visibility("default"))) void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}

static int failures, rank;
// A rank that runs ahead may once enlarge the store of early messages: one of the rounds must be free of
// allocations, and all ranks run the same number of them.
#define COUNTED(call)                                                                              \
  do {                                                                                             \
    for (int warm = 0; warm < 20; ++warm) call;                                                    \
    long fewest = -1;                                                                              \
    for (int round = 0; round < 5; ++round) {                                                      \
      const long before = allocations;                                                             \
      for (int i = 0; i < 200; ++i) call;                                                          \
      const long counted = allocations - before;                                                   \
      if (fewest < 0 || counted < fewest) fewest = counted;                                        \
    }                                                                                              \
    if (fewest != 0) {                                                                             \
      ++failures;                                                                                  \
      fprintf(stderr, "rank %d: at least %ld allocations in 200 times %s\n", rank, fewest, #call); \
    }                                                                                              \
  } while (0)

int main(int argc, char** argv) {
  double in[64] = {0}, out[64] = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (allocations == 0) ++failures, fprintf(stderr, "the library's allocations are not counted\n");
  COUNTED(MPI_Barrier(MPI_COMM_WORLD));
  COUNTED(MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  COUNTED(MPI_Allreduce(in, out, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  COUNTED(MPI_Bcast(in, 64, MPI_DOUBLE, 0, MPI_COMM_WORLD));
  COUNTED(MPI_Allgather(in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, MPI_COMM_WORLD));
  COUNTED(MPI_Alltoall(in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, MPI_COMM_WORLD));
  COUNTED((MPI_Reduce(in, out, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD), MPI_Barrier(MPI_COMM_WORLD)));
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
