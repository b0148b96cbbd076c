/* SPDX-License-Identifier: BSD-3-Clause */
/* Jacobi iteration that survives the death of any process at any time. The processes share the rows of a
   grid. Each `interval` iterations a process saves its rows, and sends a copy to the next process. When a
   process dies, the others revoke the communicator, shrink it, and share the rows anew from the last complete
   copies; if a process and its successor die between two copies, they begin again. Results are the same bit
   by bit, whatever dies.

   usage: mpiexec --continue-on-failure -n 4 jacobi [ROWS COLUMNS ITERATIONS INTERVAL]
   mpicc -O2 jacobi.c -o jacobi, with any MPI that has ULFM. */
/* Open MPI's mpi-ext.h needs mpi.h before it. */
/* clang-format off */
#include <mpi.h>
#include <mpi-ext.h>
/* clang-format on */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kHaloTag = 1, kCopyTag, kRowsTag, kMaxProcesses = 4096 };

/* Rows [first_row(i), first_row(i + 1)) of a copy belong to its i-th member. */
typedef struct {
  int iteration;              /* -1: none */
  int members[kMaxProcesses]; /* ranks in MPI_COMM_WORLD */
  int count;
  double* rows[2]; /* of this process; of the member before it */
} Copy;

static int rows = 512, columns = 256, iterations = 2000, interval = 20;
static int self;            /* rank in MPI_COMM_WORLD */
static Copy copies[2];      /* the last complete one, and the one before or in progress */
static double *grid, *next; /* own rows with a row above and below */

static int first_row(int member, int count) { return (int)((int64_t)rows * member / count); }
static size_t row_bytes(int n) { return (size_t)n * (size_t)columns * sizeof(double); }

static void* allocate(size_t bytes) {
  void* const memory = malloc(bytes == 0 ? 1 : bytes);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memory;
}

/* The value of a point at the start: the upper edge is hot. */
static double initial(int row, int column) { return row == 0 ? 1.0 + (double)column / columns : 0.0; }

static int position(const Copy* copy, int process) {
  for (int i = 0; i < copy->count; ++i)
    if (copy->members[i] == process) return i;
  return -1;
}

/* Ranks in MPI_COMM_WORLD of the processes of a communicator. */
static void members_of(MPI_Comm comm, int* members, int* count) {
  MPI_Group group, world;
  MPI_Comm_size(comm, count);
  int* const ranks = allocate(sizeof(int) * (size_t)*count);
  for (int i = 0; i < *count; ++i) ranks[i] = i;
  MPI_Comm_group(comm, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_translate_ranks(group, *count, ranks, world, members);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  free(ranks);
}

#define TRY(call)                           \
  do {                                      \
    const int code_ = (call);               \
    if (code_ != MPI_SUCCESS) return code_; \
  } while (0)

/* Saves the rows of all processes. The older copy is overwritten; the other one stays complete. */
static int save(MPI_Comm comm, int iteration) {
  Copy* const copy = copies[0].iteration <= copies[1].iteration ? &copies[0] : &copies[1];
  int rank;
  copy->iteration = -1;
  MPI_Comm_rank(comm, &rank);
  members_of(comm, copy->members, &copy->count);
  const int n = copy->count, before = (rank + n - 1) % n;
  const int own = first_row(rank + 1, n) - first_row(rank, n),
            others = first_row(before + 1, n) - first_row(before, n);
  for (int i = 0; i < 2; ++i) free(copy->rows[i]);
  copy->rows[0] = allocate(row_bytes(own));
  copy->rows[1] = allocate(row_bytes(others));
  memcpy(copy->rows[0], grid + columns, row_bytes(own));
  TRY(MPI_Sendrecv(copy->rows[0], own * columns, MPI_DOUBLE, (rank + 1) % n, kCopyTag, copy->rows[1],
                   others * columns, MPI_DOUBLE, before, kCopyTag, comm, MPI_STATUS_IGNORE));
  copy->iteration = iteration;
  return MPI_SUCCESS;
}

/* Takes up the work on a new communicator: the rows come from the last copy that all have, or from the
 * beginning. */
static int restore(MPI_Comm comm, int* iteration) {
  int rank, size, members[kMaxProcesses];
  MPI_Comm_rank(comm, &rank);
  members_of(comm, members, &size);
  int newest = copies[0].iteration > copies[1].iteration ? copies[0].iteration : copies[1].iteration;
  TRY(MPI_Allreduce(MPI_IN_PLACE, &newest, 1, MPI_INT, MPI_MIN, comm));
  const Copy* copy = NULL;
  for (int i = 0; i < 2; ++i)
    if (newest >= 0 && copies[i].iteration == newest) copy = &copies[i];
  const int first = first_row(rank, size), end = first_row(rank + 1, size);
  free(grid);
  free(next);
  grid = allocate(row_bytes(end - first + 2));
  next = allocate(row_bytes(end - first + 2));
  for (int row = first - 1; row <= end; ++row)
    for (int column = 0; column < columns; ++column)
      grid[(size_t)(row - first + 1) * (size_t)columns + (size_t)column] = initial(row, column);
  memcpy(next, grid, row_bytes(end - first + 2));

  /* The ranks that hold the rows of each member of the copy: itself, or the one after it. */
  int holder[kMaxProcesses], complete = copy != NULL;
  for (int i = 0; complete && i < copy->count; ++i) {
    holder[i] = -1;
    for (int r = 0; r < size; ++r)
      if (members[r] == copy->members[i] ||
          (holder[i] < 0 && members[r] == copy->members[(i + 1) % copy->count]))
        holder[i] = r;
    complete = holder[i] >= 0;
  }
  TRY(MPI_Allreduce(MPI_IN_PLACE, &complete, 1, MPI_INT, MPI_MIN, comm));
  *iteration = complete ? newest : 0;
  if (!complete) return MPI_SUCCESS;
  MPI_Request* const requests = allocate(sizeof(MPI_Request) * (size_t)(size + copy->count));
  int pending = 0, code = MPI_SUCCESS;
  for (int i = 0; i < copy->count; ++i) {
    const int from = first_row(i, copy->count), to = first_row(i + 1, copy->count);
    const int begin = from > first ? from : first, stop = to < end ? to : end;
    if (begin < stop && code == MPI_SUCCESS)
      code = MPI_Irecv(grid + (size_t)(begin - first + 1) * (size_t)columns, (stop - begin) * columns,
                       MPI_DOUBLE, holder[i], kRowsTag + i, comm, &requests[pending++]);
    if (holder[i] != rank) continue;
    const double* const held = copy->rows[copy->members[i] == self ? 0 : 1];
    for (int r = 0; r < size && code == MPI_SUCCESS; ++r) {
      const int b = first_row(r, size) > from ? first_row(r, size) : from;
      const int s = first_row(r + 1, size) < to ? first_row(r + 1, size) : to;
      if (b < s)
        code = MPI_Send(held + (size_t)(b - from) * (size_t)columns, (s - b) * columns, MPI_DOUBLE, r,
                        kRowsTag + i, comm);
    }
  }
  const int received = MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
  free(requests);
  memcpy(next, grid, row_bytes(end - first + 2));
  return code != MPI_SUCCESS ? code : received;
}

static int iterate(MPI_Comm comm) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int first = first_row(rank, size), n = first_row(rank + 1, size) - first;
  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  double* const last = grid + (size_t)n * (size_t)columns;
  TRY(MPI_Sendrecv(grid + columns, columns, MPI_DOUBLE, above, kHaloTag, last + columns, columns, MPI_DOUBLE,
                   below, kHaloTag, comm, MPI_STATUS_IGNORE));
  TRY(MPI_Sendrecv(last, columns, MPI_DOUBLE, below, kHaloTag, grid, columns, MPI_DOUBLE, above, kHaloTag,
                   comm, MPI_STATUS_IGNORE));
  for (int i = 1; i <= n; ++i) {
    const int row = first + i - 1;
    if (row == 0 || row == rows - 1) continue; /* the edges are fixed */
    const double *up = grid + (size_t)(i - 1) * (size_t)columns, *here = up + columns, *down = here + columns;
    double* const out = next + (size_t)i * (size_t)columns;
    for (int j = 1; j < columns - 1; ++j) out[j] = 0.25 * (up[j] + down[j] + here[j - 1] + here[j + 1]);
  }
  double* const swap = grid;
  grid = next;
  next = swap;
  return MPI_SUCCESS;
}

/* Iterates to the end; returns the first error of an MPI call. */
static int work(MPI_Comm comm, int* iteration) {
  TRY(restore(comm, iteration));
  TRY(save(comm, *iteration));
  while (*iteration < iterations) {
    TRY(iterate(comm));
    if (++*iteration % interval == 0) TRY(save(comm, *iteration));
  }
  return MPI_SUCCESS;
}

/* A checksum of the bits of all points; the sum does not depend on who has which rows. */
static int checksum(MPI_Comm comm, uint64_t* sum) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int first = first_row(rank, size), end = first_row(rank + 1, size);
  *sum = 0;
  for (int row = first; row < end; ++row)
    for (int column = 0; column < columns; ++column) {
      uint64_t bits;
      memcpy(&bits, &grid[(size_t)(row - first + 1) * (size_t)columns + (size_t)column], sizeof bits);
      bits = (bits ^ (uint64_t)row << 20 ^ (uint64_t)column) * 0x9e3779b97f4a7c15u;
      *sum += bits ^ bits >> 31;
    }
  return MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_UINT64_T, MPI_SUM, comm);
}

int main(int argc, char** argv) {
  int* const numbers[] = {&rows, &columns, &iterations, &interval};
  for (int i = 1; i < argc && i <= 4; ++i) *numbers[i - 1] = atoi(argv[i]);
  int count, rank, iteration = 0, deaths = 0;
  uint64_t sum = 0;
  MPI_Comm comm;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  if (count > kMaxProcesses || rows < count || interval < 1) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  copies[0].iteration = copies[1].iteration = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (;;) {
    int good = work(comm, &iteration) == MPI_SUCCESS && checksum(comm, &sum) == MPI_SUCCESS;
    if (!good) MPIX_Comm_revoke(comm); /* others may wait for processes that have given up */
    if (MPIX_Comm_agree(comm, &good) == MPI_SUCCESS && good) break;
    MPI_Comm survivors;
    MPIX_Comm_shrink(comm, &survivors);
    MPI_Comm_free(&comm);
    comm = survivors;
    MPI_Comm_size(comm, &rank);
    deaths = count - rank;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) printf("%d processes have died; the others go on\n", deaths), fflush(stdout);
  }
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) printf("checksum %016llx after %d iterations\n", (unsigned long long)sum, iteration);
  MPI_Finalize();
  return 0;
}
