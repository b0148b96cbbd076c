// SPDX-License-Identifier: BSD-3-Clause
#define _GNU_SOURCE
#include "common/device.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The used part of the driver's binary interface: result code 0 is success, a device is an int, a context an
// opaque pointer, a device address 64 bits.
typedef int result_t;
typedef uint64_t address_t;

enum { MEM_ATTACH_GLOBAL = 1, HOST_PORTABLE = 1, IPC_LAZY_PEER_ACCESS = 1 };

typedef struct {
  char bytes[BENCH_HANDLE_BYTES];
} handle_t;  // CUipcMemHandle, passed by value

static struct {
  void* library;
  int device;
  void* context;
  result_t (*init)(unsigned);
  result_t (*driver_version)(int*);
  result_t (*device_count)(int*);
  result_t (*device_get)(int*, int);
  result_t (*device_name)(char*, int, int);
  result_t (*retain)(void**, int);
  result_t (*release)(int);
  result_t (*set_current)(void*);
  result_t (*synchronize)(void);
  result_t (*alloc)(address_t*, size_t);
  result_t (*free)(address_t);
  result_t (*alloc_managed)(address_t*, size_t, unsigned);
  result_t (*host_alloc)(void**, size_t, unsigned);
  result_t (*host_free)(void*);
  result_t (*to_device)(address_t, const void*, size_t);
  result_t (*to_host)(void*, address_t, size_t);
  result_t (*within)(address_t, address_t, size_t);
  result_t (*ipc_export)(handle_t*, address_t);
  result_t (*ipc_open)(address_t*, handle_t, unsigned);
  result_t (*ipc_close)(address_t);
  result_t (*error_string)(result_t, const char**);
} cuda;

static struct {  // functions of a preloaded library
  int (*allocate)(void**, size_t);
  int (*release)(void*);
} hooks;

static bool check(result_t result, const char* call, char* error, size_t size) {
  if (result == 0) return true;
  const char* text = NULL;
  if (cuda.error_string) cuda.error_string(result, &text);
  snprintf(error, size, "%s failed (CUDA error %d: %s)", call, result, text ? text : "unknown");
  return false;
}

int bench_local_rank(void) {
  static const char* const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                      "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char* text = getenv(names[i]);
    char* end = NULL;
    long value = text ? strtol(text, &end, 10) : -1;
    if (text && end != text && *end == '\0' && value >= 0 && value < INT32_MAX) return (int)value;
  }
  return -1;
}

static const char* library_name(void) {
  const char* name = getenv("WEFT_CUDA_DRIVER");
  return name && *name ? name : "libcuda.so.1";
}

bool bench_device_find(const struct bench_device_function* table, size_t count, char* error, size_t size) {
  for (size_t i = 0; i < count; ++i) {
    void* symbol = dlsym(cuda.library, table[i].name);
    if (!symbol) {
      snprintf(error, size, "%s has no %s", library_name(), table[i].name);
      return false;
    }
    memcpy(table[i].pointer, &symbol, sizeof symbol);  // POSIX: a data pointer holds a function's address
  }
  return true;
}

static bool load(char* error, size_t size) {
  cuda.library = dlopen(library_name(), RTLD_NOW);
  if (!cuda.library) {
    snprintf(error, size, "no CUDA driver (%s)", dlerror());
    return false;
  }
  const struct bench_device_function table[] = {{"cuGetErrorString", &cuda.error_string},
                                                {"cuInit", &cuda.init},
                                                {"cuDriverGetVersion", &cuda.driver_version},
                                                {"cuDeviceGetCount", &cuda.device_count},
                                                {"cuDeviceGet", &cuda.device_get},
                                                {"cuDeviceGetName", &cuda.device_name},
                                                {"cuDevicePrimaryCtxRetain", &cuda.retain},
                                                {"cuDevicePrimaryCtxRelease_v2", &cuda.release},
                                                {"cuCtxSetCurrent", &cuda.set_current},
                                                {"cuCtxSynchronize", &cuda.synchronize},
                                                {"cuMemAlloc_v2", &cuda.alloc},
                                                {"cuMemFree_v2", &cuda.free},
                                                {"cuMemAllocManaged", &cuda.alloc_managed},
                                                {"cuMemHostAlloc", &cuda.host_alloc},
                                                {"cuMemFreeHost", &cuda.host_free},
                                                {"cuMemcpyHtoD_v2", &cuda.to_device},
                                                {"cuMemcpyDtoH_v2", &cuda.to_host},
                                                {"cuMemcpyDtoD_v2", &cuda.within},
                                                {"cuIpcGetMemHandle", &cuda.ipc_export},
                                                {"cuIpcOpenMemHandle_v2", &cuda.ipc_open},
                                                {"cuIpcCloseMemHandle", &cuda.ipc_close}};
  return bench_device_find(table, sizeof table / sizeof *table, error, size);
}

static void find_hooks(void) {
  void* allocate = dlsym(RTLD_DEFAULT, "bench_allocate_device");
  void* release = dlsym(RTLD_DEFAULT, "bench_free_device");
  if (!allocate || !release) return;
  memcpy(&hooks.allocate, &allocate, sizeof allocate);
  memcpy(&hooks.release, &release, sizeof release);
}

bool bench_device_open(int local_rank, struct bench_device_info* info, char* error, size_t size) {
  if (!load(error, size)) return false;
  if (!check(cuda.init(0), "cuInit", error, size)) return false;
  if (!check(cuda.driver_version(&info->driver), "cuDriverGetVersion", error, size)) return false;
  if (!check(cuda.device_count(&info->count), "cuDeviceGetCount", error, size)) return false;
  if (info->count == 0) {
    snprintf(error, size, "no CUDA device is visible (CUDA_VISIBLE_DEVICES is '%s')",
             getenv("CUDA_VISIBLE_DEVICES") ? getenv("CUDA_VISIBLE_DEVICES") : "not set");
    return false;
  }
  info->ordinal = local_rank % info->count;
  if (!check(cuda.device_get(&cuda.device, info->ordinal), "cuDeviceGet", error, size)) return false;
  if (!check(cuda.device_name(info->name, sizeof info->name, cuda.device), "cuDeviceGetName", error, size))
    return false;
  if (!check(cuda.retain(&cuda.context, cuda.device), "cuDevicePrimaryCtxRetain", error, size)) return false;
  find_hooks();
  return check(cuda.set_current(cuda.context), "cuCtxSetCurrent", error, size);
}

void bench_device_close(void) {
  if (cuda.context) cuda.release(cuda.device);
  cuda.context = NULL;
}

void* bench_device_allocate(enum bench_device_memory kind, size_t bytes, char* error, size_t size) {
  address_t address = 0;
  void* host = NULL;
  switch (kind) {
    case BENCH_DEVICE_PLAIN:
      if (hooks.allocate && hooks.allocate(&host, bytes) == 0) return host;
      if (!check(cuda.alloc(&address, bytes), "cuMemAlloc", error, size)) return NULL;
      break;
    case BENCH_DEVICE_MANAGED:
      if (!check(cuda.alloc_managed(&address, bytes, MEM_ATTACH_GLOBAL), "cuMemAllocManaged", error, size))
        return NULL;
      break;
    case BENCH_DEVICE_HOST:
      return check(cuda.host_alloc(&host, bytes, HOST_PORTABLE), "cuMemHostAlloc", error, size) ? host : NULL;
  }
  return (void*)(uintptr_t)address;
}

void bench_device_free(enum bench_device_memory kind, void* pointer) {
  if (kind == BENCH_DEVICE_HOST) {
    cuda.host_free(pointer);
  } else if (kind != BENCH_DEVICE_PLAIN || !hooks.release || hooks.release(pointer) != 0) {
    cuda.free((address_t)(uintptr_t)pointer);
  }
}

// A copy from pageable memory may return before it is complete, so synchronise.
bool bench_device_write(void* device, const void* host, size_t bytes, char* error, size_t size) {
  return check(cuda.to_device((address_t)(uintptr_t)device, host, bytes), "cuMemcpyHtoD", error, size) &&
         check(cuda.synchronize(), "cuCtxSynchronize", error, size);
}

bool bench_device_read(void* host, const void* device, size_t bytes, char* error, size_t size) {
  return check(cuda.to_host(host, (address_t)(uintptr_t)device, bytes), "cuMemcpyDtoH", error, size);
}

bool bench_device_export(void* pointer, char handle[BENCH_HANDLE_BYTES], char* error, size_t size) {
  handle_t name;
  memset(&name, 0, sizeof name);
  bool good = check(cuda.ipc_export(&name, (address_t)(uintptr_t)pointer), "cuIpcGetMemHandle", error, size);
  memcpy(handle, name.bytes, BENCH_HANDLE_BYTES);
  return good;
}

void* bench_device_import(const char handle[BENCH_HANDLE_BYTES], char* error, size_t size) {
  handle_t name;
  address_t address = 0;
  memcpy(name.bytes, handle, BENCH_HANDLE_BYTES);
  if (!check(cuda.ipc_open(&address, name, IPC_LAZY_PEER_ACCESS), "cuIpcOpenMemHandle", error, size))
    return NULL;
  return (void*)(uintptr_t)address;
}

void bench_device_unimport(void* pointer) { cuda.ipc_close((address_t)(uintptr_t)pointer); }

bool bench_device_copy(void* to, const void* from, size_t bytes, char* error, size_t size) {
  return check(cuda.within((address_t)(uintptr_t)to, (address_t)(uintptr_t)from, bytes), "cuMemcpyDtoD",
               error, size) &&
         check(cuda.synchronize(), "cuCtxSynchronize", error, size);
}
