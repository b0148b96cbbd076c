// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into a program by programs.py: adds up the time that a rank spends inside of MPI calls. Works
// with each MPI library: handles are passed on as they are, and the functions are those of the library that
// the program has loaded. At MPI_Finalize each rank appends one line of JSON to the file that BENCH_PHASES
// names: the seconds of MPI_Init, from its end to MPI_Finalize, and inside of MPI calls in between. Calls of
// one thread at a time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double init_s, begin_s, inside_s;
static long calls;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/// Returns a function of the MPI library of the program. The libraries for programs of Open MPI and of MPICH
/// may have that of the standard ABI below them.
static void find(const char* name, void* function) {
  static const char* const libraries[] = {"libmpi.so.40", "libmpi.so.12", "libmpi_abi.so.1"};
  void* symbol = NULL;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !symbol; ++i) {
    void* library = dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD);
    if (library) symbol = dlsym(library, name);
  }
  if (!symbol) {
    fprintf(stderr, "bench: no MPI library has %s\n", name);
    exit(3);
  }
  memcpy(function, &symbol, sizeof symbol);
}

#define WRAP(name, parameters, arguments)  \
  int MPI_##name parameters {              \
    static int(*call) parameters;          \
    const double start = now();            \
    if (!call) find("PMPI_" #name, &call); \
    const int result = call arguments;     \
    inside_s += now() - start;             \
    ++calls;                               \
    return result;                         \
  }

/// A function and its twin with counts of type MPI_Count. `parameters`: a macro of the type of counts.
#define WRAP_BOTH(name, parameters, arguments) \
  WRAP(name, parameters(int), arguments)       \
  WRAP(name##_c, parameters(MPI_Count), arguments)

#define MESSAGE(qualifier, Count) \
  qualifier void *buffer, Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm
#define SEND(Count) (MESSAGE(const, Count))
#define START_SEND(Count) (MESSAGE(const, Count), MPI_Request * request)
#define START_RECV(Count) (MESSAGE(, Count), MPI_Request * request)
#define RECV(Count) (MESSAGE(, Count), MPI_Status * status)
#define SENDRECV(Count)                                                                           \
  (const void* from, Count count, MPI_Datatype type, int peer, int tag, void* to, Count to_count, \
   MPI_Datatype to_type, int source, int to_tag, MPI_Comm comm, MPI_Status* status)
#define BCAST(Count) (void* buffer, Count count, MPI_Datatype type, int root, MPI_Comm comm)
#define REDUCED(Count) const void *from, void *to, Count count, MPI_Datatype type, MPI_Op op
#define REDUCE(Count) (REDUCED(Count), int root, MPI_Comm comm)
#define ALLREDUCE(Count) (REDUCED(Count), MPI_Comm comm)
#define IALLREDUCE(Count) (REDUCED(Count), MPI_Comm comm, MPI_Request * request)
#define BLOCKS(Count) \
  const void *from, Count count, MPI_Datatype type, void *to, Count to_count, MPI_Datatype to_type
#define ROOTED(Count) (BLOCKS(Count), int root, MPI_Comm comm)
#define ROOTLESS(Count) (BLOCKS(Count), MPI_Comm comm)

WRAP_BOTH(Send, SEND, (buffer, count, type, peer, tag, comm))
WRAP_BOTH(Ssend, SEND, (buffer, count, type, peer, tag, comm))
WRAP_BOTH(Isend, START_SEND, (buffer, count, type, peer, tag, comm, request))
WRAP_BOTH(Irecv, START_RECV, (buffer, count, type, peer, tag, comm, request))
WRAP_BOTH(Recv, RECV, (buffer, count, type, peer, tag, comm, status))
WRAP_BOTH(Send_init, START_SEND, (buffer, count, type, peer, tag, comm, request))
WRAP_BOTH(Recv_init, START_RECV, (buffer, count, type, peer, tag, comm, request))
WRAP_BOTH(Sendrecv, SENDRECV,
          (from, count, type, peer, tag, to, to_count, to_type, source, to_tag, comm, status))
WRAP_BOTH(Bcast, BCAST, (buffer, count, type, root, comm))
WRAP_BOTH(Reduce, REDUCE, (from, to, count, type, op, root, comm))
WRAP_BOTH(Allreduce, ALLREDUCE, (from, to, count, type, op, comm))
WRAP_BOTH(Iallreduce, IALLREDUCE, (from, to, count, type, op, comm, request))
WRAP_BOTH(Gather, ROOTED, (from, count, type, to, to_count, to_type, root, comm))
WRAP_BOTH(Scatter, ROOTED, (from, count, type, to, to_count, to_type, root, comm))
WRAP_BOTH(Allgather, ROOTLESS, (from, count, type, to, to_count, to_type, comm))
WRAP_BOTH(Alltoall, ROOTLESS, (from, count, type, to, to_count, to_type, comm))
WRAP(Alltoallv,
     (const void* from, const int counts[], const int at[], MPI_Datatype type, void* to,
      const int to_counts[], const int to_at[], MPI_Datatype to_type, MPI_Comm comm),
     (from, counts, at, type, to, to_counts, to_at, to_type, comm))
WRAP(Gatherv,
     (const void* from, int count, MPI_Datatype type, void* to, const int to_counts[], const int to_at[],
      MPI_Datatype to_type, int root, MPI_Comm comm),
     (from, count, type, to, to_counts, to_at, to_type, root, comm))
WRAP(Allgatherv,
     (const void* from, int count, MPI_Datatype type, void* to, const int to_counts[], const int to_at[],
      MPI_Datatype to_type, MPI_Comm comm),
     (from, count, type, to, to_counts, to_at, to_type, comm))
WRAP(Start, (MPI_Request * request), (request))
WRAP(Startall, (int count, MPI_Request requests[]), (count, requests))
WRAP(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
WRAP(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, statuses))
WRAP(Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status),
     (count, requests, index, status))
WRAP(Waitsome, (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]),
     (count, requests, done, indices, statuses))
WRAP(Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status))
WRAP(Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[]),
     (count, requests, flag, statuses))
WRAP(Probe, (int peer, int tag, MPI_Comm comm, MPI_Status* status), (peer, tag, comm, status))
WRAP(Iprobe, (int peer, int tag, MPI_Comm comm, int* flag, MPI_Status* status),
     (peer, tag, comm, flag, status))
WRAP(Barrier, (MPI_Comm comm), (comm))
WRAP(Win_create, (void* base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* win),
     (base, bytes, unit, info, comm, win))
WRAP(Win_free, (MPI_Win * win), (win))
WRAP(Win_fence, (int flags, MPI_Win win), (flags, win))
WRAP(Win_post, (MPI_Group group, int flags, MPI_Win win), (group, flags, win))
WRAP(Win_start, (MPI_Group group, int flags, MPI_Win win), (group, flags, win))
WRAP(Win_complete, (MPI_Win win), (win))
WRAP(Win_wait, (MPI_Win win), (win))
WRAP(Win_flush, (int peer, MPI_Win win), (peer, win))
WRAP(Put,
     (const void* from, int count, MPI_Datatype type, int peer, MPI_Aint at, int to_count,
      MPI_Datatype to_type, MPI_Win win),
     (from, count, type, peer, at, to_count, to_type, win))
WRAP(Get,
     (void* to, int count, MPI_Datatype type, int peer, MPI_Aint at, int from_count, MPI_Datatype from_type,
      MPI_Win win),
     (to, count, type, peer, at, from_count, from_type, win))
WRAP(Comm_dup, (MPI_Comm comm, MPI_Comm* other), (comm, other))
WRAP(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* other), (comm, color, key, other))
WRAP(Comm_free, (MPI_Comm * comm), (comm))

static int initialise(int result, double start) {
  begin_s = now();
  init_s = begin_s - start;
  return result;
}

int MPI_Init(int* argc, char*** argv) {
  int (*call)(int*, char***);
  find("PMPI_Init", &call);
  const double start = now();
  return initialise(call(argc, argv), start);
}

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  int (*call)(int*, char***, int, int*);
  find("PMPI_Init_thread", &call);
  const double start = now();
  return initialise(call(argc, argv, wanted, provided), start);
}

/// One write for a line: lines of several ranks do not mix.
static void append(const char* path, const char* line) {
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
  const ssize_t length = (ssize_t)strlen(line);
  if (file < 0 || write(file, line, (size_t)length) != length) perror(path);
  if (file >= 0) close(file);
}

int MPI_Finalize(void) {
  const char* path = getenv("BENCH_PHASES");
  char line[256];
  int (*call)(void);
  snprintf(line, sizeof line, "{\"init_s\": %.6f, \"total_s\": %.6f, \"in_mpi_s\": %.6f, \"calls\": %ld}\n",
           init_s, now() - begin_s, inside_s, calls);
  if (path) append(path, line);
  find("PMPI_Finalize", &call);
  return call();
}
