// SPDX-License-Identifier: BSD-3-Clause
// One rank has no scratch memory: the call completes on all ranks, with an error where the result is
// incomplete, and the next call succeeds. A malloc that wraps the C library's fails on request.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 18, REFUSED = 200 << 10 };
extern void* __libc_malloc(size_t);
static volatile int refusing, refused;

__attribute__((visibility("default"))) void* malloc(size_t size) {
  if (refusing && size >= REFUSED) return ++refused, (void*)NULL;
  return __libc_malloc(size);
}

static int rank, size, failures;
static int *in, *out;
static MPI_Datatype strided;
static MPI_Op sum;

static void add(void* theirs, void* mine, int* n, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *n; ++i) ((int*)mine)[i] += ((int*)theirs)[i];
}

enum { REDUCE, ALLREDUCE, BCAST, KINDS };

static int call(int kind, int root, MPI_Op op) {
  switch (kind) {
    case REDUCE:
      return MPI_Reduce(in, out, N, MPI_INT, op, root, MPI_COMM_WORLD);
    case ALLREDUCE:
      return MPI_Allreduce(in, out, N, MPI_INT, op, MPI_COMM_WORLD);
    default:
      return MPI_Bcast(rank == root ? in : out, 1, strided, root, MPI_COMM_WORLD);
  }
}

static int right(int kind, int root) {
  if ((kind == REDUCE && rank != root) || (kind == BCAST && rank == root)) return 1;
  for (int i = 0; i < N; i += kind == BCAST ? 2 : 1) {
    int want = 0;
    for (int r = 0; r < size; ++r)
      if (kind != BCAST || r == root) want += i % 1000 + r;
    if (out[i] != want) return 0;
  }
  return 1;
}

static void check(int good, const char* what, int kind, int victim, int root) {
  if (good) return;
  ++failures;
  fprintf(stderr, "rank %d: %s (collective %d, root %d, without memory: %d)\n", rank, what, kind, root,
          victim);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Type_vector(N / 2, 1, 2, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  MPI_Op_create(add, 0, &sum);  // noncommutative: needs more scratch
  in = malloc(2 * N * sizeof *in);
  out = malloc(2 * N * sizeof *out);
  for (int i = 0; i < 2 * N; ++i) in[i] = i % 1000 + rank;
  int seen = 0;
  for (int kind = 0; kind < KINDS; ++kind)
    for (int root = 0; root < size; root += size - 1)
      for (int victim = 0; victim < size; ++victim)
        for (int own = 0; own < 2; ++own) {
          const MPI_Op op = own ? sum : MPI_SUM;
          memset(out, 0, N * sizeof *out);
          MPI_Barrier(MPI_COMM_WORLD);
          refused = 0;
          refusing = rank == victim;
          const int error = call(kind, root, op);
          refusing = 0;
          int failed = error != MPI_SUCCESS, any;
          if (!failed) check(right(kind, root), "no error, and a wrong result", kind, victim, root);
          if (rank == victim && failed)
            check(refused != 0, "an error without a failed allocation", kind, victim, root);
          MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
          seen += any;
          check(call(kind, root, op) == MPI_SUCCESS && right(kind, root), "wrong afterwards", kind, victim,
                root);
        }
  if (seen == 0) check(0, "no call has failed: nothing is tested", 0, 0, 0);
  MPI_Op_free(&sum);
  MPI_Type_free(&strided);
  free(in);
  free(out);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
