// SPDX-License-Identifier: BSD-3-Clause
// Host benchmarks for the comparison of libraries: one figure per point, as one line of JSON. Uses only MPI
// and C99, so that every library builds the same program. Usage: host SECONDS POINT... (about SECONDS per
// point).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 64, BATCHES = 5, LARGE = 64 << 10, POSTED = 100000, CALLS = 1000 };
enum { BLOCKS = 128 << 10, STRIDE = 8 };  // a vector of doubles: 1 MiB of data in 8 MiB
enum { TAG = 1, ACK = 2 };

static int rank, ranks;
static char *out, *in;
static double *strided, *packed;
static MPI_Datatype vector;

// The repeated operation of a point, with the size of the point.
typedef void (*step)(int size, long i);

static void latency(int size, long i) {
  (void)i;
  if (rank == 0) {
    MPI_Send(out, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    MPI_Recv(in, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(in, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(out, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
  }
}

static void window(int size, long i) {
  MPI_Request requests[WINDOW];
  (void)i;
  if (rank > 1) return;
  for (int n = 0; n < WINDOW; ++n)
    if (rank == 0)
      MPI_Isend(out, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[n]);
    else
      MPI_Irecv(in, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &requests[n]);
  MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
  if (rank == 0)
    MPI_Recv(in, 4, MPI_CHAR, 1, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Send(out, 4, MPI_CHAR, 0, ACK, MPI_COMM_WORLD);
}

static void barrier(int size, long i) {
  (void)size, (void)i;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(int size, long i) {
  (void)i;
  MPI_Bcast(out, size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

// The root changes, so each broadcast has to wait for the previous one.
static void bcast_turns(int size, long i) {
  MPI_Bcast(out, size, MPI_CHAR, (int)(i % ranks), MPI_COMM_WORLD);
}

static void reduce(int size, long i) {
  (void)i;
  MPI_Reduce(out, in, size / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void allreduce(int size, long i) {
  (void)i;
  MPI_Allreduce(out, in, size / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(int size, long i) {
  (void)i;
  MPI_Allgather(out, size, MPI_CHAR, in, size, MPI_CHAR, MPI_COMM_WORLD);
}

static void alltoall(int size, long i) {
  (void)i;
  MPI_Alltoall(out, size, MPI_CHAR, in, size, MPI_CHAR, MPI_COMM_WORLD);
}

static void pack_loop(int size, long i) {
  (void)size, (void)i;
  if (rank > 0) return;
  for (int n = 0; n < BLOCKS; ++n) packed[n] = strided[(size_t)n * STRIDE];
  __asm__ volatile("" ::: "memory");
}

static void unpack_loop(int size, long i) {
  (void)size, (void)i;
  if (rank > 0) return;
  for (int n = 0; n < BLOCKS; ++n) strided[(size_t)n * STRIDE] = packed[n];
  __asm__ volatile("" ::: "memory");
}

static void pack_vector(int size, long i) {
  int position = 0;
  (void)size, (void)i;
  if (rank == 0) MPI_Pack(strided, 1, vector, packed, BLOCKS * 8, &position, MPI_COMM_SELF);
}

static void unpack_vector(int size, long i) {
  int position = 0;
  (void)size, (void)i;
  if (rank == 0) MPI_Unpack(packed, BLOCKS * 8, &position, strided, 1, vector, MPI_COMM_SELF);
}

// Both ranks send and receive the vector in turn.
static void vector_pingpong(int size, long i) {
  (void)size, (void)i;
  if (rank > 1) return;
  if (rank == 0) {
    MPI_Send(strided, 1, vector, 1, TAG, MPI_COMM_WORLD);
    MPI_Recv(strided, 1, vector, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(strided, 1, vector, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(strided, 1, vector, 0, TAG, MPI_COMM_WORLD);
  }
}

static void hand_packed_pingpong(int size, long i) {
  (void)size, (void)i;
  if (rank > 1) return;
  for (int turn = 0; turn < 2; ++turn) {
    if (rank == turn) {
      for (int n = 0; n < BLOCKS; ++n) packed[n] = strided[(size_t)n * STRIDE];
      MPI_Send(packed, BLOCKS, MPI_DOUBLE, 1 - rank, TAG, MPI_COMM_WORLD);
    } else {
      MPI_Recv(packed, BLOCKS, MPI_DOUBLE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int n = 0; n < BLOCKS; ++n) strided[(size_t)n * STRIDE] = packed[n];
    }
  }
}

// Receives are matched in the reverse order of their posts; one step is the whole measurement.
static void reverse(int size, long i) {
  MPI_Request* requests = malloc(POSTED * sizeof *requests);
  int go = 0;
  (void)size, (void)i;
  if (!requests) MPI_Abort(MPI_COMM_WORLD, 3);
  if (rank == 1) {
    for (int n = 0; n < POSTED; ++n) MPI_Irecv(in, 8, MPI_CHAR, 0, ACK + n, MPI_COMM_WORLD, &requests[n]);
    MPI_Send(&go, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    MPI_Waitall(POSTED, requests, MPI_STATUSES_IGNORE);
  } else if (rank == 0) {
    MPI_Recv(&go, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int n = POSTED; n-- > 0;) MPI_Send(out, 8, MPI_CHAR, 1, ACK + n, MPI_COMM_WORLD);
  }
  free(requests);
}

// Minimum cost of a call: entry, thread support, one argument, exit.
static void short_calls(int size, long i) {
  int value;
  (void)size, (void)i;
  for (int n = 0; n < CALLS; ++n) MPI_Comm_rank(MPI_COMM_WORLD, &value);
}

// Windows of the current point, created before its first step and freed after its last.
enum flavor { NO_WINDOW, CREATE, ALLOCATE };
static MPI_Win window_of_point;

static void create_window(enum flavor flavor, MPI_Win* made) {
  void* memory;
  if (flavor == CREATE) MPI_Win_create(in, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, made);
  if (flavor == ALLOCATE) MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, made);
}

// A window created and freed; the size is its flavor.
static void window_life(int flavor, long i) {
  MPI_Win made;
  (void)i;
  create_window((enum flavor)flavor, &made);
  MPI_Win_free(&made);
}

static void fence(int size, long i) {
  (void)size, (void)i;
  MPI_Win_fence(0, window_of_point);
}

static void lock_unlock(int size, long i) {
  (void)size, (void)i;
  if (rank > 0) return;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window_of_point);
  MPI_Win_unlock(1, window_of_point);
}

enum unit { MICROSECONDS, MESSAGES_PER_SECOND, MB_PER_SECOND };

// `parts`: number of measured operations in a step.
static const struct point {
  const char* name;
  step run;
  int size;
  enum unit unit;
  double parts;
  int once;            // the step is too long to be repeated
  enum flavor flavor;  // of the window that the step uses
} points[] = {
    {"latency_8", latency, 8, MICROSECONDS, 2, 0},
    {"rate_8", window, 8, MESSAGES_PER_SECOND, WINDOW, 0},
    {"bandwidth_64k", window, LARGE, MB_PER_SECOND, WINDOW, 0},
    {"barrier", barrier, 0, MICROSECONDS, 1, 0},
    {"bcast_8", bcast, 8, MICROSECONDS, 1, 0},
    {"bcast_turns_8", bcast_turns, 8, MICROSECONDS, 1, 0},
    {"reduce_8", reduce, 8, MICROSECONDS, 1, 0},
    {"allreduce_8", allreduce, 8, MICROSECONDS, 1, 0},
    {"allgather_8", allgather, 8, MICROSECONDS, 1, 0},
    {"alltoall_8", alltoall, 8, MICROSECONDS, 1, 0},
    {"bcast_64k", bcast, LARGE, MICROSECONDS, 1, 0},
    {"bcast_turns_64k", bcast_turns, LARGE, MICROSECONDS, 1, 0},
    {"reduce_64k", reduce, LARGE, MICROSECONDS, 1, 0},
    {"allreduce_64k", allreduce, LARGE, MICROSECONDS, 1, 0},
    {"allgather_64k", allgather, LARGE, MICROSECONDS, 1, 0},
    {"alltoall_64k", alltoall, LARGE, MICROSECONDS, 1, 0},
    {"pack_loop", pack_loop, 0, MICROSECONDS, 1, 0},
    {"pack_vector", pack_vector, 0, MICROSECONDS, 1, 0},
    {"unpack_loop", unpack_loop, 0, MICROSECONDS, 1, 0},
    {"unpack_vector", unpack_vector, 0, MICROSECONDS, 1, 0},
    {"vector_send", vector_pingpong, 0, MICROSECONDS, 2, 0},
    {"hand_packed_send", hand_packed_pingpong, 0, MICROSECONDS, 2, 0},
    {"call", short_calls, 0, MICROSECONDS, CALLS, 0},
    {"window_create", window_life, CREATE, MICROSECONDS, 1, 0},
    {"window_allocate", window_life, ALLOCATE, MICROSECONDS, 1, 0},
    {"fence_create", fence, 0, MICROSECONDS, 1, 0, CREATE},
    {"fence_allocate", fence, 0, MICROSECONDS, 1, 0, ALLOCATE},
    {"lock_create", lock_unlock, 0, MICROSECONDS, 1, 0, CREATE},
    {"lock_allocate", lock_unlock, 0, MICROSECONDS, 1, 0, ALLOCATE},
    {"reverse_100k", reverse, 0, MICROSECONDS, 1, 1},
};

// Returns the seconds of `n` steps on the slowest rank; equal on all ranks.
static double timed(const struct point* point, long n) {
  double seconds, slowest;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (long i = 0; i < n; ++i) point->run(point->size, i);
  seconds = MPI_Wtime() - start;
  MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Returns the median over batches of steps; the warm-up determines the number of steps per batch.
static double measure(const struct point* point, double seconds) {
  double batches[BATCHES];
  long n = 1;
  if (point->once) return timed(point, 1);
  for (double took = timed(point, n); took < seconds / BATCHES / 2; took = timed(point, n)) {
    const double wanted = (double)n * seconds / BATCHES / (took > 1e-9 ? took : 1e-9);
    n = wanted < 8.0 * (double)n ? (long)wanted + 1 : 8 * n;
  }
  for (int i = 0; i < BATCHES; ++i) batches[i] = timed(point, n) / (double)n;
  qsort(batches, BATCHES, sizeof *batches, ascending);
  return batches[BATCHES / 2];
}

static double figure(const struct point* point, double seconds) {
  create_window(point->flavor, &window_of_point);
  const double one = measure(point, seconds) / point->parts;
  if (point->flavor) MPI_Win_free(&window_of_point);
  if (point->unit == MICROSECONDS) return one * 1e6;
  return point->unit == MESSAGES_PER_SECOND ? 1 / one : point->size / one / 1e6;
}

static const struct point* find(const char* name) {
  for (size_t i = 0; i < sizeof points / sizeof *points; ++i)
    if (strcmp(points[i].name, name) == 0) return &points[i];
  return NULL;
}

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (!memory) MPI_Abort(MPI_COMM_WORLD, 3);
  return memset(memory, 0, bytes);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, bad = argc < 2;
  const double start = now();
  MPI_Init(&argc, &argv);
  const double initialised = now() - start;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 2) {
    out = allocate((size_t)ranks * LARGE);
    in = allocate((size_t)ranks * LARGE);
    strided = allocate((size_t)BLOCKS * STRIDE * 8);
    packed = allocate(BLOCKS * 8);
    MPI_Type_vector(BLOCKS, 1, STRIDE, MPI_DOUBLE, &vector);
    MPI_Type_commit(&vector);
    MPI_Get_library_version(library, &length);
    if (strchr(library, '\n')) *strchr(library, '\n') = 0;
    if (rank == 0) printf("{\"library\": \"%.160s\"", library);
  }
  for (int i = 2; i < argc && !bad; ++i) {
    const struct point* point = find(argv[i]);
    bad = !point;
    if (bad) break;
    const double value = figure(point, atof(argv[1]));
    if (rank == 0) printf(", \"%s\": %.6g", point->name, value);
  }
  if (argc > 2) {
    if (rank == 0) printf("}\n");
    MPI_Type_free(&vector);
  }
  const double ending = now();
  MPI_Finalize();
  if (argc == 2)  // only initialisation and finalisation, on every rank
    printf("{\"init_ms\": %.6g, \"start_end_ms\": %.6g}\n", initialised * 1e3,
           (initialised + now() - ending) * 1e3);
  return bad ? 2 : 0;
}
