// SPDX-License-Identifier: BSD-3-Clause
// Mistakes for weft check. usage: check nothing|leak|collective|race
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long address;

static void* driver(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW);
  void* function = library != NULL ? dlsym(library, name) : NULL;
  if (function == NULL) fprintf(stderr, "no %s\n", name), exit(3);
  return function;
}
#define CALL(name, types, ...)                                     \
  do {                                                             \
    int(*function) types = (int(*) types)driver(#name);            \
    const int code = function(__VA_ARGS__);                        \
    if (code != 0) fprintf(stderr, #name ": %d\n", code), exit(3); \
  } while (0)

static unsigned* flag;  // pinned: 1 ends the kernel that waits

static void* release(void* unused) {
  usleep(100000);
  __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
  return unused;
}

/// Queues a kernel that takes 100 ms, then a kernel that fills 100 doubles at `to`.
static void queue(void* stream, address to, address from) {
  static void *module, *spin, *copy;
  pthread_t thread;
  if (module == NULL) {
    CALL(cuModuleLoadData, (void**, const void*), &module, "an image of the emulator");
    CALL(cuModuleGetFunction, (void**, void*, const char*), &spin, module, "emucuda_spin");
    CALL(cuModuleGetFunction, (void**, void*, const char*), &copy, module, "weft_bench_copy");
    CALL(cuMemHostAlloc, (void**, size_t, unsigned), (void**)&flag, 4, 0);
  }
  __atomic_store_n(flag, 0u, __ATOMIC_RELEASE);
  address word = (address)flag;
  unsigned one = 1;
  unsigned long long stride = 1, count = 100;
  void *waiting[] = {&word, &one}, *copied[] = {&to, &stride, &from, &stride, &count};
  pthread_create(&thread, NULL, release, NULL);
  pthread_detach(thread);
#define LAUNCH(kernel, parameters)                                                                           \
  CALL(cuLaunchKernel,                                                                                       \
       (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**), \
       kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)
  LAUNCH(spin, waiting);
  LAUNCH(copy, copied);
}

static void race(int rank) {
  void *context, *stream;
  address field, source;
  CALL(cuDevicePrimaryCtxRetain, (void**, int), &context, 0);
  CALL(cuCtxSetCurrent, (void*), context);
  CALL(cuStreamCreate, (void**, unsigned), &stream, 1);
  CALL(cuMemAlloc_v2, (address*, size_t), &field, 800);
  CALL(cuMemAlloc_v2, (address*, size_t), &source, 800);
  CALL(cuMemsetD8_v2, (address, unsigned char, size_t), field, 1, 800);
  CALL(cuMemsetD8_v2, (address, unsigned char, size_t), source, 2, 800);
  queue(stream, source, source);  // loads the kernels
  CALL(cuCtxSynchronize, (void));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 0; round < 3; ++round) {
    CALL(cuMemsetD8_v2, (address, unsigned char, size_t), field, 1, 800);
    CALL(cuCtxSynchronize, (void));
    if (rank == 0) queue(stream, field, source);
    if (rank == 0) MPI_Send((void*)field, 100, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv((void*)field, 100, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  CALL(cuCtxSynchronize, (void));
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "nothing";
  int rank, size, value = 0;
  MPI_Request request;
  if (strcmp(what, "race") == 0) CALL(cuInit, (unsigned), 0);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(what, "leak") == 0) {
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 4, MPI_COMM_WORLD, &request);
    MPI_Recv(&value, 1, MPI_INT, (rank + size - 1) % size, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (strcmp(what, "collective") == 0) MPI_Bcast(&value, rank + 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (strcmp(what, "race") == 0) race(rank);
  printf("end of rank %d\n", rank);
  MPI_Finalize();
  return strcmp(what, "status") == 0 ? 5 : 0;
}
