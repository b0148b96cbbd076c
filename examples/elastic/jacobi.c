/* SPDX-License-Identifier: BSD-3-Clause */
/* Jacobi iteration that survives the death of any process at any time. The processes share the rows of a
   grid. Each `interval` iterations a process saves its rows, and sends a copy to the next process. When a
   process dies, the others revoke the communicator, shrink it, start new processes in place of the dead ones
   if told so, and share the rows anew from the last complete copies; if a process and its successor die
   between two copies, they begin again. Results are the same bit by bit, whatever dies.

   usage: mpiexec --continue-on-failure -n 4 jacobi [ROWS COLUMNS ITERATIONS INTERVAL [shrink|respawn [KIND]]]
   KIND: of the memory of the copies, cuda:device for instance.
   mpicc -O2 jacobi.c -o jacobi, with any MPI that has ULFM. */
/* Open MPI's mpi-ext.h needs mpi.h before it. */
/* clang-format off */
#include <mpi.h>
#include <mpi-ext.h>
/* clang-format on */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kHaloTag = 1, kCopyTag, kRowsTag, kMaxProcesses = 4096 };

/* Rows [first_row(i), first_row(i + 1)) of a copy belong to its i-th member. */
typedef struct {
  int64_t stamp; /* larger for later copies, the same in all processes; -1: none */
  int iteration, count;
  int members[kMaxProcesses];
  double* rows[2]; /* of this process; of the member before it */
} Copy;

static int rows = 512, columns = 256, iterations = 2000, interval = 20;
static int self = -1;      /* number of this process, never used again; -1: not known yet */
static int processes;      /* in the beginning */
static int64_t generation; /* of the communicator */
static MPI_Info copy_memory = MPI_INFO_NULL;
static Copy copies[2];      /* the last complete one, and the one before or in progress */
static double *grid, *next; /* own rows with a row above and below */

static int first_row(int member, int count) { return (int)((int64_t)rows * member / count); }
static size_t row_bytes(int n) { return (size_t)n * (size_t)columns * sizeof(double); }

static void* allocate(size_t bytes) {
  void* const memory = malloc(bytes == 0 ? 1 : bytes);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memory;
}

/* Makes the first GPU current, in which memory for copies is allocated. */
static void use_gpu(void) {
  const char* const name = getenv("WEFT_CUDA_DRIVER"); /* a simulated one */
  void* const driver = dlopen(name != NULL ? name : "libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned), (*retain)(void**, int), (*set_current)(void*);
  void* context = NULL;
  if (driver != NULL) {
    *(void**)&init = dlsym(driver, "cuInit");
    *(void**)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void**)&set_current = dlsym(driver, "cuCtxSetCurrent");
    if (init(0) == 0 && retain(&context, 0) == 0 && set_current(context) == 0) return;
  }
  fprintf(stderr, "no GPU can be used\n");
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Ends the job at an error that is not the failure of a process. */
static int survivable(int code) {
  int class;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Error_class(code, &class);
  if (class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED) return code;
  MPI_Error_string(code, text, &(int){0});
  fprintf(stderr, "%s\n", text);
  MPI_Abort(MPI_COMM_WORLD, 4);
  return code;
}

/* The value of a point at the start: the upper edge is hot. */
static double initial(int row, int column) { return row == 0 ? 1.0 + (double)column / columns : 0.0; }

#define TRY(call)                           \
  do {                                      \
    const int code_ = (call);               \
    if (code_ != MPI_SUCCESS) return code_; \
  } while (0)

/* Saves the rows of all processes. The older copy is overwritten; the other one stays complete. */
static int save(MPI_Comm comm, int iteration) {
  Copy* const copy = copies[0].stamp <= copies[1].stamp ? &copies[0] : &copies[1];
  int rank;
  copy->stamp = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &copy->count);
  TRY(MPI_Allgather(&self, 1, MPI_INT, copy->members, 1, MPI_INT, comm));
  const int n = copy->count, before = (rank + n - 1) % n;
  const int own = first_row(rank + 1, n) - first_row(rank, n),
            others = first_row(before + 1, n) - first_row(before, n);
  for (int i = 0; i < 2; ++i) {
    if (copy->rows[i] != NULL) MPI_Free_mem(copy->rows[i]);
    copy->rows[i] = NULL;
    TRY(MPI_Alloc_mem((MPI_Aint)row_bytes(i == 0 ? own : others), copy_memory, &copy->rows[i]));
  }
  TRY(MPI_Sendrecv(grid + columns, own * columns, MPI_DOUBLE, 0, kCopyTag, copy->rows[0], own * columns,
                   MPI_DOUBLE, 0, kCopyTag, MPI_COMM_SELF, MPI_STATUS_IGNORE));
  TRY(MPI_Sendrecv(copy->rows[0], own * columns, MPI_DOUBLE, (rank + 1) % n, kCopyTag, copy->rows[1],
                   others * columns, MPI_DOUBLE, before, kCopyTag, comm, MPI_STATUS_IGNORE));
  copy->iteration = iteration;
  copy->stamp = generation * ((int64_t)iterations + 1) + iteration;
  return MPI_SUCCESS;
}

/* Numbers the processes that are new. */
static int number(MPI_Comm comm, int rank, int* members) {
  int64_t known[2] = {generation, self}; /* maxima */
  TRY(MPI_Allreduce(MPI_IN_PLACE, known, 2, MPI_INT64_T, MPI_MAX, comm));
  generation = known[0] + 1;
  if (self < 0) self = (int)known[1] + 1 + rank;
  return MPI_Allgather(&self, 1, MPI_INT, members, 1, MPI_INT, comm);
}

/* Finds the last copy that all processes with copies have; its stamp is -1 if there is none. `own` is null in
 * the other processes, to which its members are sent. */
static int find_copy(MPI_Comm comm, int rank, int size, Copy* found, const Copy** own) {
  int64_t newest = copies[0].stamp > copies[1].stamp ? copies[0].stamp : copies[1].stamp;
  if (newest < 0) newest = INT64_MAX;
  TRY(MPI_Allreduce(MPI_IN_PLACE, &newest, 1, MPI_INT64_T, MPI_MIN, comm));
  *own = NULL;
  for (int i = 0; i < 2; ++i)
    if (copies[i].stamp == newest) *own = &copies[i];
  int root = *own != NULL ? rank : size;
  TRY(MPI_Allreduce(MPI_IN_PLACE, &root, 1, MPI_INT, MPI_MIN, comm));
  found->stamp = -1;
  if (root == size) return MPI_SUCCESS;
  if (rank == root) *found = **own;
  int head[2] = {found->iteration, found->count};
  TRY(MPI_Bcast(head, 2, MPI_INT, root, comm));
  TRY(MPI_Bcast(found->members, head[1], MPI_INT, root, comm));
  found->stamp = newest, found->iteration = head[0], found->count = head[1];
  return MPI_SUCCESS;
}

/* Takes up the work on a new communicator: the rows come from the last copy that all have, or from the
 * beginning. */
static int restore(MPI_Comm comm, int* iteration) {
  int rank, size, members[kMaxProcesses];
  static Copy found;
  const Copy* copy;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  TRY(number(comm, rank, members));
  TRY(find_copy(comm, rank, size, &found, &copy));
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
  int holder[kMaxProcesses], complete = found.stamp >= 0;
  for (int i = 0; complete && i < found.count; ++i) {
    holder[i] = -1;
    for (int r = 0; r < size; ++r)
      if (members[r] == found.members[i] ||
          (holder[i] < 0 && members[r] == found.members[(i + 1) % found.count]))
        holder[i] = r;
    complete = holder[i] >= 0 && (holder[i] != rank || copy != NULL);
  }
  TRY(MPI_Allreduce(MPI_IN_PLACE, &complete, 1, MPI_INT, MPI_MIN, comm));
  *iteration = complete ? found.iteration : 0;
  if (!complete) return MPI_SUCCESS;
  MPI_Request* const requests = allocate(sizeof(MPI_Request) * (size_t)(size + found.count));
  int pending = 0, code = MPI_SUCCESS;
  for (int i = 0; i < found.count; ++i) {
    const int from = first_row(i, found.count), to = first_row(i + 1, found.count);
    const int begin = from > first ? from : first, stop = to < end ? to : end;
    if (begin < stop && code == MPI_SUCCESS)
      code = MPI_Irecv(grid + (size_t)(begin - first + 1) * (size_t)columns, (stop - begin) * columns,
                       MPI_DOUBLE, holder[i], kRowsTag + i, comm, &requests[pending++]);
    if (holder[i] != rank) continue;
    const double* const held = copy->rows[found.members[i] == self ? 0 : 1];
    for (int r = 0; r < size && code == MPI_SUCCESS; ++r) {
      const int b = first_row(r, size) > from ? first_row(r, size) : from;
      const int s = first_row(r + 1, size) < to ? first_row(r + 1, size) : to;
      if (b < s)
        code = MPI_Send(held + (size_t)(b - from) * (size_t)columns, (s - b) * columns, MPI_DOUBLE, r,
                        kRowsTag + i, comm);
    }
  }
  int received = MPI_SUCCESS; /* MPI_Waitall would say MPI_ERR_IN_STATUS, whatever has failed */
  for (int i = 0; i < pending; ++i) {
    const int one = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    if (received == MPI_SUCCESS) received = one;
  }
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

/* Starts new processes until there are as many as in the beginning: `comm`, of the survivors, becomes that of
 * all. If a process dies meanwhile, `comm` stays, and the new processes end. */
static void respawn(MPI_Comm* comm, char* program, char** arguments) {
  int size, good;
  MPI_Comm children = MPI_COMM_NULL, merged = MPI_COMM_NULL;
  MPI_Comm_size(*comm, &size);
  good = MPI_Comm_spawn(program, arguments, processes - size, MPI_INFO_NULL, 0, *comm, &children,
                        MPI_ERRCODES_IGNORE) == MPI_SUCCESS;
  if (children != MPI_COMM_NULL) MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
  const int all = MPIX_Comm_agree(*comm, &good) == MPI_SUCCESS && good; /* or some have the new processes */
  if (all) good = MPI_Intercomm_merge(children, 0, &merged) == MPI_SUCCESS;
  if (!good && children != MPI_COMM_NULL) MPIX_Comm_revoke(children);
  if (all) good = MPIX_Comm_agree(children, &good) == MPI_SUCCESS && good;
  if (children != MPI_COMM_NULL) MPI_Comm_free(&children);
  if (good && all) {
    MPI_Comm_free(comm);
    *comm = merged;
  } else if (merged != MPI_COMM_NULL) {
    MPI_Comm_free(&merged);
  }
}

/* In a new process: returns the communicator of all, or MPI_COMM_NULL if a process has died meanwhile. */
static MPI_Comm join(MPI_Comm parents) {
  int good = 1;
  MPI_Comm merged = MPI_COMM_NULL;
  MPI_Comm_set_errhandler(parents, MPI_ERRORS_RETURN);
  if (MPI_Intercomm_merge(parents, 1, &merged) != MPI_SUCCESS) return MPI_COMM_NULL;
  if (MPIX_Comm_agree(parents, &good) == MPI_SUCCESS && good) return merged;
  MPI_Comm_free(&merged);
  return MPI_COMM_NULL;
}

int main(int argc, char** argv) {
  int* const numbers[] = {&rows, &columns, &iterations, &interval};
  for (int i = 1; i < argc && i <= 4; ++i) *numbers[i - 1] = atoi(argv[i]);
  const int replace = argc > 5 && strcmp(argv[5], "respawn") == 0;
  int rank, size, iteration = 0, deaths = 0;
  uint64_t sum = 0;
  MPI_Comm comm, parents;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  copies[0].stamp = copies[1].stamp = -1;
  if (argc > 6) {
    if (strncmp(argv[6], "cuda:", 5) == 0) use_gpu();
    MPI_Info_create(&copy_memory);
    MPI_Info_set(copy_memory, "mpi_memory_alloc_kinds", argv[6]);
  }
  MPI_Comm_get_parent(&parents);
  if (parents == MPI_COMM_NULL) {
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (replace && self == 0) printf("all processes have begun\n"), fflush(stdout);
  } else {
    comm = join(parents);
    if (comm == MPI_COMM_NULL) { /* the others try again */
      MPI_Finalize();
      return 0;
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  MPI_Comm_size(comm, &processes);
  if (processes > kMaxProcesses || rows < processes || interval < 1) MPI_Abort(MPI_COMM_WORLD, 2);
  for (;;) {
    int good =
        survivable(work(comm, &iteration)) == MPI_SUCCESS && survivable(checksum(comm, &sum)) == MPI_SUCCESS;
    if (!good) MPIX_Comm_revoke(comm); /* others may wait for processes that have given up */
    if (MPIX_Comm_agree(comm, &good) == MPI_SUCCESS && good) break;
    do {
      MPI_Comm survivors;
      MPI_Comm_size(comm, &size);
      MPIX_Comm_shrink(comm, &survivors);
      MPI_Comm_free(&comm);
      comm = survivors;
      MPI_Comm_size(comm, &rank);
      deaths += size - rank;
      MPI_Comm_rank(comm, &rank);
      if (rank == 0) printf("%d processes have died; the others go on\n", deaths), fflush(stdout);
      if (replace) respawn(&comm, argv[0], argv + 1);
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
      MPI_Comm_size(comm, &size);
    } while (replace && size < processes);
    if (replace && rank == 0) printf("%d processes are back\n", size), fflush(stdout);
  }
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) printf("checksum %016llx after %d iterations\n", (unsigned long long)sum, iteration);
  MPI_Finalize();
  return 0;
}
