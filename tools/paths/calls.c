// SPDX-License-Identifier: BSD-3-Clause
// Repeats one MPI call until nothing is set up any more, then makes it once inside measured_call().
// usage: mpiexec -n 2 calls host_send | host_receive | device_send | device_receive | device_allreduce
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kWarmup = 300 };

static int rank;
static int device;    // buffers in GPU memory
static int receiver;  // rank 1 makes the measured call
static int bytes;
static void *in, *out;

static void* allocate(size_t size) {
  if (!device) return malloc(size);
  const char* driver = getenv("WEFT_CUDA_DRIVER");
  void* library = dlopen(driver ? driver : "libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = dlsym(library, "cuInit");
  int (*get)(int*, int) = dlsym(library, "cuDeviceGet");
  int (*retain)(void**, int) = dlsym(library, "cuDevicePrimaryCtxRetain");
  int (*set)(void*) = dlsym(library, "cuCtxSetCurrent");
  int (*count)(int*) = dlsym(library, "cuDeviceGetCount");
  int (*alloc)(unsigned long long*, size_t) = dlsym(library, "cuMemAlloc_v2");
  int gpu = 0, gpus = 1;
  void* context = NULL;
  unsigned long long memory = 0;
  if (init(0) || count(&gpus) || get(&gpu, rank % gpus) || retain(&context, gpu) || set(context) ||
      alloc(&memory, size)) {
    fprintf(stderr, "calls: no GPU memory\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return (void*)memory;
}

__attribute__((noinline)) void one_call(const char* what) {
  MPI_Status status;
  if (strstr(what, "allreduce"))
    MPI_Allreduce(in, out, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (rank == 0)
    MPI_Send(in, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  else
    MPI_Recv(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
}

// tools/paths/paths.py names this function to callgrind.
__attribute__((noinline)) void measured_call(const char* what) {
  one_call(what);
  __asm__ volatile("");
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* what = argv[1];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  device = strncmp(what, "device", 6) == 0;
  receiver = strstr(what, "receive") != NULL;
  bytes = device ? (strstr(what, "allreduce") ? 4096 : 65536) : 8;
  in = allocate(bytes);
  out = allocate(bytes);
  for (int i = 0; i < kWarmup; ++i) one_call(what);
  MPI_Barrier(MPI_COMM_WORLD);
  // The receive is posted after the message was sent.
  if (rank == 1) usleep(300000);
  if (rank == receiver)
    measured_call(what);
  else
    one_call(what);
  MPI_Finalize();
  return 0;
}
