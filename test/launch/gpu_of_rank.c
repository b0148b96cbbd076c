/* SPDX-License-Identifier: BSD-3-Clause */
/* Usage: gpu_of_rank zero|modulo|raw|none [wait]. Selects a GPU as programs do: device 0, local rank modulo
   the number of devices, or the local rank; sends memory of it around the ring of the ranks with GPUs, and
   prints "rank 1: device 0 of 1, GPU 3", the last number being the emulated GPU. none: uses no GPU. wait:
   ends after the end of the standard input. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 1000

static void* driver;

/* The result of a driver function; exits with 3 if there is none. */
static void* function(const char* name) {
  void* found = dlsym(driver, name);
  if (found == NULL) {
    fprintf(stderr, "no function %s\n", name);
    exit(3);
  }
  return found;
}

static void check(int code, const char* name) {
  if (code == 0) return;
  fprintf(stderr, "%s: %s\n", name, code == 101 ? "invalid device ordinal" : "failed");
  exit(1);
}

#define CALL(name, types, ...)                         \
  do {                                                 \
    int(*called) types = (int(*) types)function(name); \
    check(called(__VA_ARGS__), name);                  \
  } while (0)

/* Returns a buffer on the device that `how` selects. */
static unsigned long long on_gpu(const char* how, int* device, int* count, int* gpu) {
  const char* const library = getenv("WEFT_CUDA_DRIVER");
  const char* const local = getenv("LOCAL_RANK");
  driver = dlopen(library != NULL ? library : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == NULL || local == NULL) {
    fprintf(stderr, "no driver, or no LOCAL_RANK\n");
    exit(3);
  }
  CALL("cuInit", (unsigned), 0);
  CALL("cuDeviceGetCount", (int*), count);
  if (*count == 0) {
    fprintf(stderr, "no device\n");
    exit(4);
  }
  *device = strcmp(how, "zero") == 0 ? 0 : strcmp(how, "modulo") == 0 ? atoi(local) % *count : atoi(local);
  void* context = NULL;
  unsigned char uuid[16];
  unsigned long long buffer = 0;
  CALL("cuDevicePrimaryCtxRetain", (void**, int), &context, *device);
  CALL("cuCtxSetCurrent", (void*), context);
  CALL("cuDeviceGetUuid_v2", (unsigned char*, int), uuid, *device);
  CALL("cuMemAlloc_v2", (unsigned long long*, size_t), &buffer, 2 * BYTES);
  *gpu = uuid[15] - '0';
  return buffer;
}

int main(int argc, char** argv) {
  char sent[BYTES], received[BYTES], line[100];
  int rank, place, ranks, device = -1, count = 0, gpu = -1;
  MPI_Comm ring;
  unsigned long long buffer = 0;
  const char* const how = argc > 1 ? argv[1] : "zero";
  if (strcmp(how, "none") != 0) buffer = on_gpu(how, &device, &count, &gpu);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, buffer != 0, 0, &ring);
  MPI_Comm_rank(ring, &place);
  MPI_Comm_size(ring, &ranks);
  if (buffer != 0) {
    const int left = (place + ranks - 1) % ranks, right = (place + 1) % ranks;
    memset(sent, place, BYTES);
    CALL("cuMemcpyHtoD_v2", (unsigned long long, const void*, size_t), buffer, sent, BYTES);
    MPI_Sendrecv((char*)buffer, BYTES, MPI_BYTE, right, 1, (char*)buffer + BYTES, BYTES, MPI_BYTE, left, 1,
                 ring, MPI_STATUS_IGNORE);
    CALL("cuMemcpyDtoH_v2", (void*, unsigned long long, size_t), received, buffer + BYTES, BYTES);
    for (int i = 0; i < BYTES; ++i)
      if (received[i] != (char)left) MPI_Abort(MPI_COMM_WORLD, 2);
  }
  snprintf(line, sizeof line, "rank %d: device %d of %d, GPU %d\n", rank, device, count, gpu);
  fputs(line, stdout);
  fflush(stdout);
  if (argc > 2 && rank == 0)
    while (getchar() != EOF) continue;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_free(&ring);
  MPI_Finalize();
  return 0;
}
