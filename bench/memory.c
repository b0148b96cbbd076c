// SPDX-License-Identifier: BSD-3-Clause
// Latency by memory kind, on 2 ranks with a GPU each, for Weft or any MPI library:
//   host     8 bytes from the stack, static data and the heap: before CUDA is used, with a context, and with
//            mpi_assert_memory_alloc_kinds=system
//   kinds    4 MiB between GPU buffers of cuMemAlloc, the default pool and cuMemMap, every byte checked once
//   extra    GPU memory used afterwards in addition to the buffers
// Usage: memory [-s] [-j FILE]     -s: short, for a trial; -j: JSON output
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device.h"
#include "common/samples.h"

enum {
  SMALL = 8,
  LARGE = 4 << 20,
  GRANULARITY = 2 << 20,
  ROUNDS = 15,
  KINDS = 3,
  HOSTS = 3,
  TAG = 1,
  PINNED = 1
};

struct location {
  int type, id;
};
struct properties {  // CUmemAllocationProp
  int type, handle_types;
  struct location location;
  void* win32;
  unsigned char flags[8];
};
struct access {  // CUmemAccessDesc
  struct location location;
  int flags;
};

static struct {
  int (*pool_alloc)(uint64_t*, size_t, void*);
  int (*pool_free)(uint64_t, void*);
  int (*synchronize)(void*);
  int (*reserve)(uint64_t*, size_t, size_t, uint64_t, unsigned long long);
  int (*unreserve)(uint64_t, size_t);
  int (*create)(unsigned long long*, size_t, const struct properties*, unsigned long long);
  int (*map)(uint64_t, size_t, size_t, unsigned long long, unsigned long long);
  int (*unmap)(uint64_t, size_t);
  int (*release)(unsigned long long);
  int (*set_access)(uint64_t, size_t, const struct access*, size_t);
  int (*info)(size_t*, size_t*);
} cuda;

static const char* const host_names[HOSTS] = {"stack", "static", "heap"};
static const char* const kind_names[KINDS] = {"plain", "pool", "mapped"};
static char static_data[2][SMALL];
static int rank, peer;

static void stop(const char* what) {
  fprintf(stderr, "memory: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int code, const char* call) {
  char text[128];
  if (code == 0) return;
  snprintf(text, sizeof text, "%s failed (CUDA error %d)", call, code);
  stop(text);
}

static void load_driver(void) {
  const struct bench_device_function table[] = {{"cuMemAllocAsync", &cuda.pool_alloc},
                                                {"cuMemFreeAsync", &cuda.pool_free},
                                                {"cuStreamSynchronize", &cuda.synchronize},
                                                {"cuMemAddressReserve", &cuda.reserve},
                                                {"cuMemAddressFree", &cuda.unreserve},
                                                {"cuMemCreate", &cuda.create},
                                                {"cuMemMap", &cuda.map},
                                                {"cuMemUnmap", &cuda.unmap},
                                                {"cuMemRelease", &cuda.release},
                                                {"cuMemSetAccess", &cuda.set_access},
                                                {"cuMemGetInfo_v2", &cuda.info}};
  char error[256];
  if (!bench_device_find(table, sizeof table / sizeof *table, error, sizeof error)) stop(error);
}

/// Returns the latency in us: the median of some rounds.
static double ping_pong(MPI_Comm comm, char* out, char* in, int bytes, int count) {
  double times[ROUNDS];
  for (int round = -1; round < ROUNDS; ++round) {  // the first round is a warm-up
    MPI_Barrier(comm);
    const double start = MPI_Wtime();
    for (int i = 0; i < count; ++i) {
      if (rank == 0) {
        MPI_Send(out, bytes, MPI_CHAR, peer, TAG, comm);
        MPI_Recv(in, bytes, MPI_CHAR, peer, TAG, comm, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(in, bytes, MPI_CHAR, peer, TAG, comm, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_CHAR, peer, TAG, comm);
      }
    }
    if (round >= 0) times[round] = (MPI_Wtime() - start) * 1e6 / (2.0 * count);
  }
  return bench_percentile(times, ROUNDS, 50);
}

static void measure_hosts(MPI_Comm comm, int count, double figures[HOSTS]) {
  char stack[2][SMALL] = {{0}};
  char* const heap = calloc(2, SMALL);
  if (!heap) stop("no memory");
  figures[0] = ping_pong(comm, stack[0], stack[1], SMALL, count);
  figures[1] = ping_pong(comm, static_data[0], static_data[1], SMALL, count);
  figures[2] = ping_pong(comm, heap, heap + SMALL, SMALL, count);
  free(heap);
}

/// Returns a duplicate of MPI_COMM_WORLD with the assertion that all buffers are system memory.
static MPI_Comm asserting_comm(void) {
  MPI_Comm comm;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "system");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  return comm;
}

static char* allocate(int kind, int device) {
  uint64_t address = 0;
  char error[256];
  if (kind == 0) {
    char* plain = bench_device_allocate(BENCH_DEVICE_PLAIN, LARGE, error, sizeof error);
    if (!plain) stop(error);
    return plain;
  }
  if (kind == 1) {
    check(cuda.pool_alloc(&address, LARGE, NULL), "cuMemAllocAsync");
    check(cuda.synchronize(NULL), "cuStreamSynchronize");
    return (char*)(uintptr_t)address;
  }
  const struct properties properties = {.type = PINNED, .handle_types = 1, .location = {1, device}};
  const struct access access = {{1, device}, 3};  // read and write
  check(cuda.reserve(&address, LARGE, 0, 0, 0), "cuMemAddressReserve");
  for (size_t at = 0; at < LARGE; at += GRANULARITY) {
    unsigned long long handle = 0;
    check(cuda.create(&handle, GRANULARITY, &properties, 0), "cuMemCreate");
    check(cuda.map(address + at, GRANULARITY, 0, handle, 0), "cuMemMap");
    check(cuda.release(handle), "cuMemRelease");
  }
  check(cuda.set_access(address, LARGE, &access, 1), "cuMemSetAccess");
  return (char*)(uintptr_t)address;
}

static void discard(int kind, char* pointer) {
  const uint64_t address = (uint64_t)(uintptr_t)pointer;
  if (kind == 0) {
    bench_device_free(BENCH_DEVICE_PLAIN, pointer);
  } else if (kind == 1) {
    check(cuda.pool_free(address, NULL), "cuMemFreeAsync");
  } else {
    check(cuda.unmap(address, LARGE), "cuMemUnmap");
    check(cuda.unreserve(address, LARGE), "cuMemAddressFree");
  }
}

/// Exchanges one message in each direction and checks every byte.
static void validate(char* out, char* in) {
  char error[256];
  char* host = malloc(LARGE);
  if (!host) stop("no memory");
  for (int i = 0; i < LARGE; ++i) host[i] = (char)(i * 7 + i / 251 + rank);
  if (!bench_device_write(out, host, LARGE, error, sizeof error)) stop(error);
  MPI_Sendrecv(out, LARGE, MPI_CHAR, peer, TAG, in, LARGE, MPI_CHAR, peer, TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  if (!bench_device_read(host, in, LARGE, error, sizeof error)) stop(error);
  for (int i = 0; i < LARGE; ++i)
    if (host[i] != (char)(i * 7 + i / 251 + peer)) stop("wrong data received");
  free(host);
}

/// Progresses for a while: both ranks must progress before freed memory is unmapped by the peer.
static void progress_unmapping(void) {
  const double until = MPI_Wtime() + 0.3;
  int found;
  do {
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  } while (MPI_Wtime() < until);
}

static void measure_kinds(int device, int count, double figures[KINDS]) {
  for (int kind = 0; kind < KINDS; ++kind) {
    char *out = allocate(kind, device), *in = allocate(kind, device);
    validate(out, in);
    figures[kind] = ping_pong(MPI_COMM_WORLD, out, in, LARGE, count);
    discard(kind, out);
    discard(kind, in);
  }
}

static double gpu_mib_used(void) {
  size_t available = 0, total = 0;
  check(cuda.info(&available, &total), "cuMemGetInfo");
  return (double)(total - available) / (1 << 20);
}

static void write_array(FILE* file, const char* name, const char* const* names, const double* figures,
                        int n) {
  fprintf(file, " \"%s\": {", name);
  for (int i = 0; i < n; ++i) fprintf(file, "%s\"%s\": %.3f", i ? ", " : "", names[i], figures[i]);
  fprintf(file, "},\n");
}

int main(int argc, char** argv) {
  const char* path = NULL;
  int few = 0, ranks = 0;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-s") == 0) {
      few = 1;
    } else if (strcmp(argv[i], "-j") == 0 && i + 1 < argc) {
      path = argv[++i];
    } else {
      fprintf(stderr, "usage: memory [-s] [-j FILE]\n");
      return 2;
    }
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) {
    if (rank == 0) fprintf(stderr, "memory: needs 2 ranks\n");
    MPI_Finalize();
    return 2;
  }
  peer = 1 - rank;
  const int messages = few ? 20 : 20000, moves = few ? 1 : 100;
  double before[HOSTS], with_cuda[HOSTS], with_assertion[HOSTS], kinds[KINDS];
  measure_hosts(MPI_COMM_WORLD, messages, before);

  struct bench_device_info info;
  char error[256];
  if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
    fprintf(stderr, "memory: rank %d: %s\n", rank, error);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  load_driver();
  measure_hosts(MPI_COMM_WORLD, messages, with_cuda);
  MPI_Comm comm = asserting_comm();
  measure_hosts(comm, messages, with_assertion);
  MPI_Comm_free(&comm);
  const double used = gpu_mib_used();
  measure_kinds(info.ordinal, moves, kinds);
  progress_unmapping();
  double extra = gpu_mib_used() - used;

  if (rank == 0) {
    printf("# Latency by memory kind (%s), us\n# %d bytes of the host, %10s %10s %10s\n", info.name, SMALL,
           "before", "CUDA on", "asserted");
    for (int i = 0; i < HOSTS; ++i)
      printf("%20s %10.3f %10.3f %10.3f\n", host_names[i], before[i], with_cuda[i], with_assertion[i]);
    printf("# %d bytes of the GPU\n", LARGE);
    for (int i = 0; i < KINDS; ++i) printf("%20s %10.2f\n", kind_names[i], kinds[i]);
    printf("# GPU memory in addition to buffers: %.1f MiB\n", extra);
  }
  if (rank == 0 && path) {
    FILE* file = fopen(path, "w");
    if (!file) stop("the result file cannot be written");
    fprintf(file, "{\"program\": \"memory\", \"device\": \"%s\",\n", info.name);
    write_array(file, "host_us", host_names, before, HOSTS);
    write_array(file, "host_with_cuda_us", host_names, with_cuda, HOSTS);
    write_array(file, "host_asserted_us", host_names, with_assertion, HOSTS);
    write_array(file, "kinds_us", kind_names, kinds, KINDS);
    fprintf(file, " \"extra_mib\": %.1f}\n", extra);
    if (fclose(file) != 0) stop("the result file cannot be written");
  }
  MPI_Finalize();
  bench_device_close();
  return 0;
}
