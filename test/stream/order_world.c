/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into programs that know nothing of it: MPI_COMM_WORLD and MPI_COMM_SELF are in the order of a GPU
   stream from the end of MPI_Init on. Aborts if that is impossible. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

typedef int (*Function)();

static Function driver_function(const char* name) {
  const char* path = getenv("WEFT_CUDA_DRIVER");
  void* driver = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW);
  Function function = driver != NULL ? (Function)dlsym(driver, name) : NULL;
  if (function == NULL) {
    fprintf(stderr, "order_world: no %s in the CUDA driver\n", name);
    abort();
  }
  return function;
}

static void must(int code, const char* what) {
  if (code == 0) return;
  fprintf(stderr, "order_world: %s failed with %d\n", what, code);
  abort();
}

static void set_streams(void) {
  void *context = NULL, *before = NULL, *stream = NULL;
  MPI_Info info;
  MPIX_Stream made;
  int devices = 0;
  const char* rank = getenv("LOCAL_RANK");
  must(driver_function("cuInit")(0u), "cuInit");
  must(driver_function("cuDeviceGetCount")(&devices), "cuDeviceGetCount");
  must(driver_function("cuDevicePrimaryCtxRetain")(&context, (rank != NULL ? atoi(rank) : 0) % devices),
       "cuDevicePrimaryCtxRetain");
  must(driver_function("cuCtxGetCurrent")(&before), "cuCtxGetCurrent");
  must(driver_function("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  must(driver_function("cuStreamCreate")(&stream, 1u), "cuStreamCreate");
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  MPI_Info_set(info, "weft_stream_order", "true");
  must(MPIX_Info_set_hex(info, "value", &stream, sizeof stream), "MPIX_Info_set_hex");
  must(MPIX_Stream_create(info, &made), "MPIX_Stream_create");
  MPI_Info_free(&info);
  must(MPIX_Comm_set_stream(MPI_COMM_WORLD, made), "MPIX_Comm_set_stream");
  must(MPIX_Comm_set_stream(MPI_COMM_SELF, made), "MPIX_Comm_set_stream");
  if (before != NULL) driver_function("cuCtxSetCurrent")(before);
}

__attribute__((visibility("default"))) int MPI_Init(int* argc, char*** argv) {
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) set_streams();
  return code;
}

__attribute__((visibility("default"))) int MPI_Init_thread(int* argc, char*** argv, int required,
                                                           int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) set_streams();
  return code;
}
