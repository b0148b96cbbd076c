// SPDX-License-Identifier: BSD-3-Clause
// WEFT_CHECK=on: ranks that make different collective calls, or pass different arguments, all get an error
// that names both. The last rank makes the mistake.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size, failures;

static void expect(int line, int code, int class, const char* text) {
  char message[MPI_MAX_ERROR_STRING] = "";
  int length, actual;
  MPI_Error_class(code, &actual);
  MPI_Error_string(code, message, &length);
  if (actual == class && strstr(message, text) != NULL) return;
  fprintf(stderr, "%s:%d: rank %d: class %d instead of %d: %s\n", __FILE__, line, rank, actual, class,
          message);
  ++failures;
}
#define EXPECT(call, class, text) expect(__LINE__, call, class, text)

int main(int argc, char** argv) {
  int in[16] = {0}, out[16] = {0};
  float real[16] = {0};
  char roots[80];
  MPI_Datatype pair;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int wrong = rank == size - 1;
  const MPI_Comm world = MPI_COMM_WORLD;

  snprintf(roots, sizeof roots, "the roots differ: rank 0 passes 0, rank %d passes %d", size - 1, size - 1);
  EXPECT(MPI_Bcast(out, 4, MPI_INT, wrong ? rank : 0, world), MPI_ERR_ROOT, roots);
  EXPECT(MPI_Reduce(in, out, 4, MPI_INT, MPI_SUM, wrong ? rank : 0, world), MPI_ERR_ROOT, roots);
  EXPECT(MPI_Bcast(out, wrong ? 8 : 4, MPI_INT, 0, world), MPI_ERR_TRUNCATE, "rank 0 passes 16 bytes");
  EXPECT(MPI_Allreduce(in, out, wrong ? 3 : 4, MPI_INT, MPI_SUM, world), MPI_ERR_TRUNCATE, "passes 12 bytes");
  EXPECT(MPI_Allgather(in, wrong ? 2 : 1, MPI_INT, out, wrong ? 2 : 1, MPI_INT, world), MPI_ERR_TRUNCATE,
         "the sizes differ");
  EXPECT(MPI_Allreduce(in, out, 4, MPI_INT, wrong ? MPI_MAX : MPI_SUM, world), MPI_ERR_OP,
         "rank 0 passes MPI_SUM");
  EXPECT(MPI_Allreduce(wrong ? (void*)real : in, out, 4, wrong ? MPI_FLOAT : MPI_INT, MPI_SUM, world),
         MPI_ERR_TYPE, "rank 0 passes MPI_INT");
  EXPECT(wrong ? MPI_Barrier(world) : MPI_Bcast(out, 1, MPI_INT, 0, world), MPI_ERR_ARG,
         "rank 0 calls MPI_Bcast");

  // Equal signatures, and arguments that may differ.
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  int counts[16], offsets[16], sum = rank;
  for (int i = 0; i < size; ++i) counts[i] = 1, offsets[i] = i;
  if (MPI_Bcast(out, wrong ? 2 : 4, wrong ? pair : MPI_INT, 0, world) != MPI_SUCCESS) ++failures;
  if (MPI_Gatherv(&rank, 1, MPI_INT, out, counts, offsets, MPI_INT, 0, world) != MPI_SUCCESS) ++failures;
  if (rank == 0)
    for (int i = 0; i < size; ++i) failures += out[i] != i;
  if (MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, world) != MPI_SUCCESS) ++failures;
  failures += sum != size * (size - 1) / 2;
  MPI_Type_free(&pair);
  MPI_Finalize();
  return failures != 0;
}
