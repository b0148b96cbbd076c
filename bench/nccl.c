// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into a benchmark: executes messages and collectives of MPI_CHAR and MPI_FLOAT by NCCL and
// synchronises the stream, like MPI's blocking calls. All other calls use MPI, so programs, clocks and
// validation are the same as for Weft.
//   BENCH_NCCL           the library (libnccl.so.2)
//   BENCH_NCCL_WINDOWS   1: buffers are allocated by NCCL and registered as symmetric windows
// Pairs use MPI_COMM_WORLD only. One thread. A failure ends the job.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The used parts of the binary interfaces of NCCL and the driver.
enum { INT8 = 0, FLOAT32 = 7, SUM = 0, SYMMETRIC = 1, NON_BLOCKING = 1, MAX_QUEUED = 4096, MAX_BUFFERS = 16 };
typedef void* comm_t;
typedef void* stream_t;
typedef struct {
  char bytes[128];
} unique_id;

static struct {
  int (*get_id)(unique_id*);
  int (*init)(comm_t*, int, unique_id, int);
  int (*send)(const void*, size_t, int, int, comm_t, stream_t);
  int (*recv)(void*, size_t, int, int, comm_t, stream_t);
  int (*group_start)(void);
  int (*group_end)(void);
  int (*all_reduce)(const void*, void*, size_t, int, int, comm_t, stream_t);
  int (*all_gather)(const void*, void*, size_t, int, comm_t, stream_t);
  int (*broadcast)(const void*, void*, size_t, int, int, comm_t, stream_t);
  int (*reduce_scatter)(const void*, void*, size_t, int, int, comm_t, stream_t);
  int (*destroy)(comm_t);
  int (*allocate)(void**, size_t);
  int (*release)(void*);
  int (*register_window)(comm_t, void*, size_t, void**, int);
  int (*deregister_window)(comm_t, void*);
  const char* (*error_string)(int);
  int (*stream_create)(stream_t*, unsigned);
  int (*stream_synchronize)(stream_t);
} api;

static comm_t comm;
static stream_t stream;

static struct message {
  void* buffer;
  size_t bytes;
  int peer, send;
} queue[MAX_QUEUED];
static int queued;

static struct {
  void* pointer;
  size_t bytes;
  void* window;
} buffers[MAX_BUFFERS];
static int buffer_count;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "bench with NCCL: %s: %s\n", what, why ? why : "failed");
  exit(3);
}

static void check(int result, const char* call) {
  if (result != 0) fail(call, api.error_string ? api.error_string(result) : NULL);
}

static void check_cuda(int result, const char* call) {
  char text[32];
  snprintf(text, sizeof text, "CUDA error %d", result);
  if (result != 0) fail(call, text);
}

static void find(void* library, const char* name, void* function) {
  void* symbol = dlsym(library, name);
  if (!symbol) fail(name, "the library does not have it");
  memcpy(function, &symbol, sizeof symbol);
}

static void* open_library(const char* variable, const char* fallback) {
  const char* name = getenv(variable);
  void* library = dlopen(name && *name ? name : fallback, RTLD_NOW);
  if (!library) fail(fallback, dlerror());
  return library;
}

static int windows(void) {
  const char* value = getenv("BENCH_NCCL_WINDOWS");
  return value && strcmp(value, "1") == 0;
}

static void load(void) {
  if (api.init) return;
  void* nccl = open_library("BENCH_NCCL", "libnccl.so.2");
  find(nccl, "ncclGetErrorString", &api.error_string);
  find(nccl, "ncclGetUniqueId", &api.get_id);
  find(nccl, "ncclSend", &api.send);
  find(nccl, "ncclRecv", &api.recv);
  find(nccl, "ncclGroupStart", &api.group_start);
  find(nccl, "ncclGroupEnd", &api.group_end);
  find(nccl, "ncclAllReduce", &api.all_reduce);
  find(nccl, "ncclAllGather", &api.all_gather);
  find(nccl, "ncclBroadcast", &api.broadcast);
  find(nccl, "ncclReduceScatter", &api.reduce_scatter);
  find(nccl, "ncclCommDestroy", &api.destroy);
  if (windows()) {
    find(nccl, "ncclMemAlloc", &api.allocate);
    find(nccl, "ncclMemFree", &api.release);
    find(nccl, "ncclCommWindowRegister", &api.register_window);
    find(nccl, "ncclCommWindowDeregister", &api.deregister_window);
  }
  find(nccl, "ncclCommInitRank", &api.init);
  void* driver = open_library("WEFT_CUDA_DRIVER", "libcuda.so.1");
  find(driver, "cuStreamCreate", &api.stream_create);
  find(driver, "cuStreamSynchronize", &api.stream_synchronize);
}

static void start(void) {
  if (comm) return;
  int rank, ranks;
  unique_id id;
  load();
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) check(api.get_id(&id), "ncclGetUniqueId");
  PMPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  check_cuda(api.stream_create(&stream, NON_BLOCKING), "cuStreamCreate");
  check(api.init(&comm, ranks, id, rank), "ncclCommInitRank");
}

// Registration is collective: all ranks allocate the same buffers in the same order.
static void register_buffers(void) {
  for (int i = 0; i < buffer_count; ++i)
    if (!buffers[i].window)
      check(api.register_window(comm, buffers[i].pointer, buffers[i].bytes, &buffers[i].window, SYMMETRIC),
            "ncclCommWindowRegister");
}

static void begin(void) {
  start();
  if (buffer_count) register_buffers();
}

static int finish(int result, const char* call) {
  check(result, call);
  check_cuda(api.stream_synchronize(stream), "cuStreamSynchronize");
  return MPI_SUCCESS;
}

// Allocates device memory for the harness (bench/common/device.h); -1: use the driver.
int bench_allocate_device(void** pointer, size_t bytes) {
  if (!windows()) return -1;
  load();
  if (buffer_count == MAX_BUFFERS) fail("ncclMemAlloc", "too many buffers");
  check(api.allocate(pointer, bytes), "ncclMemAlloc");
  buffers[buffer_count].pointer = *pointer;
  buffers[buffer_count].window = NULL;
  buffers[buffer_count++].bytes = bytes;
  return 0;
}

int bench_free_device(void* pointer) {
  for (int i = 0; i < buffer_count; ++i) {
    if (buffers[i].pointer != pointer) continue;
    if (buffers[i].window) check(api.deregister_window(comm, buffers[i].window), "ncclCommWindowDeregister");
    for (--buffer_count; i < buffer_count; ++i) buffers[i] = buffers[i + 1];  // keeps the order
    check(api.release(pointer), "ncclMemFree");
    return 0;
  }
  return -1;
}

static int handled(MPI_Datatype type) { return type == MPI_CHAR || type == MPI_FLOAT; }
static int nccl_type(MPI_Datatype type) { return type == MPI_CHAR ? INT8 : FLOAT32; }
static size_t bytes_of(int count, MPI_Datatype type) {
  return (size_t)count * (type == MPI_CHAR ? 1 : sizeof(float));
}

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm world) {
  if (!handled(type)) return PMPI_Send(buffer, count, type, peer, tag, world);
  begin();
  return finish(api.send(buffer, bytes_of(count, type), INT8, peer, comm, stream), "ncclSend");
}

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm world,
             MPI_Status* status) {
  if (!handled(type)) return PMPI_Recv(buffer, count, type, peer, tag, world, status);
  begin();
  return finish(api.recv(buffer, bytes_of(count, type), INT8, peer, comm, stream), "ncclRecv");
}

// Queues a nonblocking message until MPI_Waitall, which issues all messages as one NCCL group.
static void enqueue(void* buffer, size_t bytes, int peer, int send, MPI_Request* request) {
  if (queued == MAX_QUEUED) fail("MPI_Isend", "the window is too large");
  queue[queued++] = (struct message){buffer, bytes, peer, send};
  *request = MPI_REQUEST_NULL;
}

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm world,
              MPI_Request* request) {
  if (!handled(type)) return PMPI_Isend(buffer, count, type, peer, tag, world, request);
  enqueue((void*)(uintptr_t)buffer, bytes_of(count, type), peer, 1, request);
  return MPI_SUCCESS;
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm world,
              MPI_Request* request) {
  if (!handled(type)) return PMPI_Irecv(buffer, count, type, peer, tag, world, request);
  enqueue(buffer, bytes_of(count, type), peer, 0, request);
  return MPI_SUCCESS;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  if (queued == 0) return PMPI_Waitall(count, requests, statuses);
  begin();
  check(api.group_start(), "ncclGroupStart");
  for (int i = 0; i < queued; ++i) {
    const struct message* m = &queue[i];
    check(m->send ? api.send(m->buffer, m->bytes, INT8, m->peer, comm, stream)
                  : api.recv(m->buffer, m->bytes, INT8, m->peer, comm, stream),
          m->send ? "ncclSend" : "ncclRecv");
  }
  queued = 0;
  return finish(api.group_end(), "ncclGroupEnd");
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm world) {
  if (!handled(type)) return PMPI_Allreduce(from, to, count, type, op, world);
  begin();
  return finish(api.all_reduce(from, to, (size_t)count, nccl_type(type), SUM, comm, stream), "ncclAllReduce");
}

int MPI_Allgather(const void* from, int count, MPI_Datatype type, void* to, int to_count,
                  MPI_Datatype to_type, MPI_Comm world) {
  if (!handled(type)) return PMPI_Allgather(from, count, type, to, to_count, to_type, world);
  begin();
  return finish(api.all_gather(from, to, (size_t)count, nccl_type(type), comm, stream), "ncclAllGather");
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm world) {
  if (!handled(type)) return PMPI_Bcast(buffer, count, type, root, world);
  begin();
  return finish(api.broadcast(buffer, buffer, (size_t)count, nccl_type(type), root, comm, stream),
                "ncclBroadcast");
}

int MPI_Reduce_scatter_block(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm world) {
  if (!handled(type)) return PMPI_Reduce_scatter_block(from, to, count, type, op, world);
  begin();
  return finish(api.reduce_scatter(from, to, (size_t)count, nccl_type(type), SUM, comm, stream),
                "ncclReduceScatter");
}

int MPI_Alltoall(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
                 MPI_Comm world) {
  if (!handled(type)) return PMPI_Alltoall(from, count, type, to, to_count, to_type, world);
  begin();
  int ranks;
  const size_t bytes = bytes_of(count, type);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(api.group_start(), "ncclGroupStart");
  for (int peer = 0; peer < ranks; ++peer) {
    check(api.send((const char*)from + (size_t)peer * bytes, bytes, INT8, peer, comm, stream), "ncclSend");
    check(api.recv((char*)to + (size_t)peer * bytes, bytes, INT8, peer, comm, stream), "ncclRecv");
  }
  return finish(api.group_end(), "ncclGroupEnd");
}

int MPI_Finalize(void) {
  if (comm) check(api.destroy(comm), "ncclCommDestroy");
  comm = NULL;
  return PMPI_Finalize();
}
