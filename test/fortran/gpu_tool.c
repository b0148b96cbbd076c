// SPDX-License-Identifier: BSD-3-Clause
// Device memory for gpu.F90, by calls of the CUDA driver, and the work of pack kernels.
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void* driver;

static void check(int code, const char* what) {
  if (code == 0) return;
  fprintf(stderr, "%s: error %d\n", what, code);
  exit(1);
}

static void* symbol(const char* name) {
  void* const found = dlsym(driver, name);
  check(found == NULL, name);
  return found;
}

/// Makes device 0 current in this thread.
void gpu_open(void) {
  const char* const path = getenv("WEFT_CUDA_DRIVER");
  void* context = NULL;
  driver = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW);
  check(driver == NULL, "dlopen");
  check(((int (*)(unsigned))symbol("cuInit"))(0), "cuInit");
  check(((int (*)(void**, int))symbol("cuDevicePrimaryCtxRetain"))(&context, 0), "cuDevicePrimaryCtxRetain");
  check(((int (*)(void*))symbol("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
}

void* gpu_memory(size_t bytes) {
  unsigned long long address = 0;
  check(((int (*)(unsigned long long*, size_t))symbol("cuMemAlloc_v2"))(&address, bytes), "cuMemAlloc_v2");
  return (void*)(size_t)address;
}

void gpu_write(void* address, const void* data, size_t bytes) {
  check(((int (*)(unsigned long long, const void*, size_t))symbol("cuMemcpyHtoD_v2"))((size_t)address, data,
                                                                                      bytes),
        "cuMemcpyHtoD_v2");
}

void gpu_read(void* data, const void* address, size_t bytes) {
  check(((int (*)(void*, unsigned long long, size_t))symbol("cuMemcpyDtoH_v2"))(data, (size_t)address, bytes),
        "cuMemcpyDtoH_v2");
}

/// Number of launches of pack kernels, and of messages that kernels have read from strided memory.
unsigned long gpu_packs(void) {
  static const char* const names[] = {"gpu.pack_launches", "p2p.strided_messages"};
  static MPI_T_pvar_session session;
  static MPI_T_pvar_handle handles[2];
  unsigned long long sum = 0;
  if (handles[0] == NULL) {
    int provided;
    check(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), "MPI_T_init_thread");
    check(MPI_T_pvar_session_create(&session), "MPI_T_pvar_session_create");
    for (int i = 0; i < 2; ++i) {
      int index, count;
      check(MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &index), "MPI_T_pvar_get_index");
      check(MPI_T_pvar_handle_alloc(session, index, NULL, &handles[i], &count), "MPI_T_pvar_handle_alloc");
      check(MPI_T_pvar_start(session, handles[i]), "MPI_T_pvar_start");
    }
  }
  for (int i = 0; i < 2; ++i) {
    unsigned long long value = 0;
    check(MPI_T_pvar_read(session, handles[i], &value), "MPI_T_pvar_read");
    sum += value;
  }
  return (unsigned long)sum;
}
