/* SPDX-License-Identifier: BSD-3-Clause */
/* Usage: gpu_of_rank zero|modulo|raw|none|list [wait]. Selects a GPU as programs do: device 0, local rank
   modulo the number of devices, or the local rank; sends memory of it around the ring of the ranks with GPUs,
   and prints "rank 1: device 0 of 1, GPU-656d... at 0000:13:00.0" (UUID and PCI address). none: uses no GPU.
   list: prints "device 0: GPU-656d... at 0000:10:00.0" for each device, without MPI. wait: ends after the end
   of the standard input. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (1 << 20)

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

/* Loads the driver. Returns the number of devices. */
static int open_driver(void) {
  const char* const library = getenv("WEFT_CUDA_DRIVER");
  int count = 0;
  driver = dlopen(library != NULL ? library : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == NULL) {
    fprintf(stderr, "no driver\n");
    exit(3);
  }
  CALL("cuInit", (unsigned), 0);
  CALL("cuDeviceGetCount", (int*), &count);
  if (count == 0) {
    fprintf(stderr, "no device\n");
    exit(4);
  }
  return count;
}

/* Stores UUID and PCI address of a device as text. */
static void name_gpu(int device, char* name, size_t bytes) {
  unsigned char uuid[16];
  char pci[20] = "";
  size_t at = 0;
  CALL("cuDeviceGetUuid_v2", (unsigned char*, int), uuid, device);
  CALL("cuDeviceGetPCIBusId", (char*, int, int), pci, sizeof pci, device);
  at += (size_t)snprintf(name, bytes, "GPU-");
  for (int i = 0; i < 16; ++i)
    at += (size_t)snprintf(name + at, bytes - at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                           uuid[i]);
  snprintf(name + at, bytes - at, " at %s", pci);
}

static int list_gpus(void) {
  const int count = open_driver();
  char name[80];
  for (int device = 0; device < count; ++device) {
    name_gpu(device, name, sizeof name);
    printf("device %d: %s\n", device, name);
  }
  return 0;
}

/* Returns a buffer of 2 * MAX_BYTES on the device that `how` selects. */
static unsigned long long on_gpu(const char* how, int* device, int* count) {
  const char* const local = getenv("LOCAL_RANK");
  *count = open_driver();
  if (local == NULL) {
    fprintf(stderr, "no LOCAL_RANK\n");
    exit(3);
  }
  *device = strcmp(how, "zero") == 0 ? 0 : strcmp(how, "modulo") == 0 ? atoi(local) % *count : atoi(local);
  void* context = NULL;
  unsigned long long buffer = 0;
  CALL("cuDevicePrimaryCtxRetain", (void**, int), &context, *device);
  CALL("cuCtxSetCurrent", (void*), context);
  CALL("cuMemAlloc_v2", (unsigned long long*, size_t), &buffer, 2 * MAX_BYTES);
  return buffer;
}

/* Sends `bytes` bytes of the buffer around the ring, and checks those of the left neighbour. */
static void send_around(MPI_Comm ring, unsigned long long buffer, int bytes) {
  static char sent[MAX_BYTES], received[MAX_BYTES];
  int place, ranks;
  MPI_Comm_rank(ring, &place);
  MPI_Comm_size(ring, &ranks);
  const int left = (place + ranks - 1) % ranks, right = (place + 1) % ranks;
  memset(sent, place + 1, (size_t)bytes);
  CALL("cuMemcpyHtoD_v2", (unsigned long long, const void*, size_t), buffer, sent, (size_t)bytes);
  MPI_Sendrecv((char*)buffer, bytes, MPI_BYTE, right, 1, (char*)buffer + MAX_BYTES, bytes, MPI_BYTE, left, 1,
               ring, MPI_STATUS_IGNORE);
  CALL("cuMemcpyDtoH_v2", (void*, unsigned long long, size_t), received, buffer + MAX_BYTES, (size_t)bytes);
  for (int i = 0; i < bytes; ++i)
    if (received[i] != (char)(left + 1)) MPI_Abort(MPI_COMM_WORLD, 2);
}

int main(int argc, char** argv) {
  char line[140], name[80] = "no GPU";
  int rank, device = -1, count = 0;
  MPI_Comm ring;
  unsigned long long buffer = 0;
  const char* const how = argc > 1 ? argv[1] : "zero";
  if (strcmp(how, "list") == 0) return list_gpus();
  if (strcmp(how, "none") != 0) buffer = on_gpu(how, &device, &count);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, buffer != 0, 0, &ring);
  if (buffer != 0) {
    send_around(ring, buffer, 1000);
    send_around(ring, buffer, MAX_BYTES);
    name_gpu(device, name, sizeof name);
  }
  snprintf(line, sizeof line, "rank %d: device %d of %d, %s\n", rank, device, count, name);
  fputs(line, stdout);
  fflush(stdout);
  if (argc > 2 && rank == 0)
    while (getchar() != EOF) continue;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_free(&ring);
  MPI_Finalize();
  return 0;
}
