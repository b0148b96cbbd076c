// SPDX-License-Identifier: BSD-3-Clause
// Reductions of MPI_CHAR, an extension: the results are those of a C char. Compared with a loop over the
// ranks.
#include <stdlib.h>

#include "../core/expect.h"

enum { kCount = 37, kLarge = 100000 };

static int rank, size;

static char value(int of, int i) { return (char)(of * 31 + i * 7 - 50); }

static char combine(MPI_Op op, char a, char b) {
  if (op == MPI_SUM) return (char)(a + b);
  if (op == MPI_PROD) return (char)(a * b);
  if (op == MPI_MIN) return a < b ? a : b;
  if (op == MPI_MAX) return a > b ? a : b;
  if (op == MPI_BAND) return (char)(a & b);
  if (op == MPI_BXOR) return (char)(a ^ b);
  if (op == MPI_LXOR) return (char)(!a != !b);
  return (char)(a || b);
}

static char expected(MPI_Op op, int last, int i) {
  char result = value(0, i);
  for (int r = 1; r <= last; ++r) result = combine(op, result, value(r, i));
  return result;
}

static void check(const char* what, MPI_Op op, const char* got, int last, int count) {
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += got[i] != expected(op, last, i);
  if (wrong != 0) fail(what, __LINE__, "number of wrong elements", wrong, 0);
}

static void all_calls(MPI_Op op, MPI_Datatype type, int count) {
  char *in = malloc((size_t)count), *out = malloc((size_t)count);
  MPI_Request request;
  for (int i = 0; i < count; ++i) in[i] = value(rank, i);
  CALL(MPI_Allreduce(in, out, count, type, op, MPI_COMM_WORLD));
  check("MPI_Allreduce", op, out, size - 1, count);
  CALL(MPI_Iallreduce(in, out, count, type, op, MPI_COMM_WORLD, &request));
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  check("MPI_Iallreduce", op, out, size - 1, count);
  CALL(MPI_Reduce(in, out, count, type, op, size - 1, MPI_COMM_WORLD));
  if (rank == size - 1) check("MPI_Reduce", op, out, size - 1, count);
  CALL(MPI_Scan(in, out, count, type, op, MPI_COMM_WORLD));
  check("MPI_Scan", op, out, rank, count);
  for (int i = 0; i < count; ++i) out[i] = value(1, i), in[i] = value(0, i);
  CALL(MPI_Reduce_local(in, out, count, type, op));
  check("MPI_Reduce_local", op, out, 1, count);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BXOR, MPI_LXOR, MPI_LOR};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) all_calls(ops[i], MPI_CHAR, kCount);
  all_calls(MPI_SUM, MPI_CHAR, kLarge);
  all_calls(MPI_MAX, MPI_CHARACTER, kCount);
  MPI_Finalize();
  return failures != 0;
}
