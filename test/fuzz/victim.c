// SPDX-License-Identifier: BSD-3-Clause
// Communicates for ever: messages and collectives of random sizes, on host or GPU memory, until the killer
// ends the job. usage: victim host|device
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMaxBytes = 256 * 1024, kReportInterval = 20 };

static void* call(const char* name) {
  static void* driver;
  const char* path = getenv("WEFT_CUDA_DRIVER");
  if (driver == NULL) driver = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW);
  void* found = driver != NULL ? dlsym(driver, name) : NULL;
  if (found != NULL) return found;
  fprintf(stderr, "victim: no %s\n", name);
  exit(77);
}

static void check(int code) {
  if (code == 0) return;
  fprintf(stderr, "victim: CUDA error %d\n", code);
  exit(77);
}

static char* device_memory(size_t bytes) {
  void* context = NULL;
  unsigned long long address = 0;
  check(((int (*)(unsigned))call("cuInit"))(0));
  check(((int (*)(void**, int))call("cuDevicePrimaryCtxRetain"))(&context, 0));
  check(((int (*)(void*))call("cuCtxSetCurrent"))(context));
  check(((int (*)(unsigned long long*, size_t))call("cuMemAlloc_v2"))(&address, bytes));
  return (char*)(uintptr_t)address;
}

int main(int argc, char** argv) {
  const int device = argc > 1 && strcmp(argv[1], "device") == 0;
  char* memory = device ? device_memory(4 * kMaxBytes) : malloc(4 * kMaxBytes);
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  unsigned random = 12345;  // the same on all ranks: sizes must match
  for (long round = 0;; ++round) {
    random = random * 1664525u + 1013904223u;
    const int bytes = (int)(((size_t)1 << (random >> 27) % 19) & ~(size_t)3);
    char* const second = memory + kMaxBytes;
    switch ((random >> 16) % 4) {
      case 0:
        MPI_Sendrecv(memory, bytes, MPI_BYTE, right, 1, second, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        break;
      case 1:
        MPI_Allreduce(memory, second, bytes / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case 2:
        MPI_Bcast(memory, bytes, MPI_BYTE, (int)(round % size), MPI_COMM_WORLD);
        break;
      default: {
        MPI_Request requests[2];
        MPI_Irecv(second, bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(memory, bytes, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      }
    }
    if (round == kReportInterval && rank == 0) {
      puts("running");
      fflush(stdout);
    }
  }
}
