// SPDX-License-Identifier: BSD-3-Clause
// Fake NCCL over PMPI, for bench/nccl.c on the emulated driver: the same entry points; ignores streams. At
// the end rank 0 prints the numbers of calls on stderr.
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char bytes[128];
} unique_id;

enum { MOST = 8192, MAGIC = 0x4e43434c };

static MPI_Request requests[MOST];
static int posted, depth, messages, collectives, windows;

static MPI_Datatype type_of(int type) { return type == 0 ? MPI_CHAR : MPI_FLOAT; }

static void* driver(const char* name) {
  void* library = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW);
  void* symbol = library ? dlsym(library, name) : NULL;
  if (!symbol) abort();
  return symbol;
}

const char* ncclGetErrorString(int code) { return code ? "a made-up failure" : "no error"; }

int ncclGetUniqueId(unique_id* id) {
  memset(id, 0, sizeof *id);
  id->bytes[127] = 42;
  return 0;
}

int ncclCommInitRank(void** comm, int ranks, unique_id id, int rank) {
  int size, mine;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  PMPI_Comm_rank(MPI_COMM_WORLD, &mine);
  *comm = (void*)(uintptr_t)MAGIC;
  return id.bytes[127] == 42 && size == ranks && mine == rank ? 0 : 1;
}

static int bad(void* comm, void* stream) { return comm != (void*)(uintptr_t)MAGIC || stream == NULL; }

int ncclSend(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  if (bad(comm, stream) || posted == MOST) return 1;
  ++messages;
  if (depth == 0) return PMPI_Send(from, (int)count, type_of(type), peer, 9, MPI_COMM_WORLD);
  return PMPI_Isend(from, (int)count, type_of(type), peer, 9, MPI_COMM_WORLD, &requests[posted++]);
}

int ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  if (bad(comm, stream) || posted == MOST) return 1;
  if (depth == 0) return PMPI_Recv(to, (int)count, type_of(type), peer, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return PMPI_Irecv(to, (int)count, type_of(type), peer, 9, MPI_COMM_WORLD, &requests[posted++]);
}

int ncclGroupStart(void) { return ++depth > 1; }

int ncclGroupEnd(void) {
  const int count = posted;
  posted = 0;
  --depth;
  return PMPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  if (bad(comm, stream) || op != 0) return 1;
  ++collectives;
  return PMPI_Allreduce(from, to, (int)count, type_of(type), MPI_SUM, MPI_COMM_WORLD);
}

int ncclAllGather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  if (bad(comm, stream)) return 1;
  ++collectives;
  return PMPI_Allgather(from, (int)count, type_of(type), to, (int)count, type_of(type), MPI_COMM_WORLD);
}

int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* comm, void* stream) {
  if (bad(comm, stream) || from != to) return 1;
  ++collectives;
  return PMPI_Bcast(to, (int)count, type_of(type), root, MPI_COMM_WORLD);
}

int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  if (bad(comm, stream) || op != 0) return 1;
  ++collectives;
  return PMPI_Reduce_scatter_block(from, to, (int)count, type_of(type), MPI_SUM, MPI_COMM_WORLD);
}

int ncclMemAlloc(void** pointer, size_t bytes) {
  return ((int (*)(void**, size_t))driver("cuMemAlloc_v2"))(pointer, bytes);
}

int ncclMemFree(void* pointer) { return ((int (*)(void*))driver("cuMemFree_v2"))(pointer); }

int ncclCommWindowRegister(void* comm, void* pointer, size_t bytes, void** window, int flags) {
  *window = pointer;
  ++windows;
  return comm != (void*)(uintptr_t)MAGIC || bytes == 0 || flags != 1 || PMPI_Barrier(MPI_COMM_WORLD);
}

int ncclCommWindowDeregister(void* comm, void* window) { return comm != (void*)(uintptr_t)MAGIC || !window; }

int ncclCommDestroy(void* comm) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    fprintf(stderr, "fake NCCL: %d sends, %d collectives, %d windows\n", messages, collectives, windows);
  return comm != (void*)(uintptr_t)MAGIC;
}
