// SPDX-License-Identifier: BSD-3-Clause
// The CUDA driver calls of the benchmarks. The driver is opened at run time, so the programs
// build and run without CUDA. WEFT_CUDA_DRIVER names another library instead, such as the emulator.
#ifndef BENCH_COMMON_DEVICE_H
#define BENCH_COMMON_DEVICE_H
#include <stdbool.h>
#include <stddef.h>

struct bench_device_info {
  char name[128];  ///< as the driver reports it
  int driver;      ///< version, such as 13000
  int ordinal;     ///< the device of this process
  int count;       ///< number of visible devices
};

/// Returns the local rank, from the launcher's variables; -1 if none is set.
int bench_local_rank(void);

/// Opens the driver, selects device `local_rank` modulo the number of devices and makes its primary context
/// current. On failure `error` (of `size` bytes) contains the reason.
bool bench_device_open(int local_rank, struct bench_device_info* info, char* error, size_t size);
void bench_device_close(void);

/// The name of a driver function, and the address of the function pointer to set.
struct bench_device_function {
  const char* name;
  void* pointer;
};

/// Looks up driver functions that a program calls itself, after bench_device_open(). Returns false if one is
/// missing, which `error` names.
bool bench_device_find(const struct bench_device_function* table, size_t count, char* error, size_t size);

enum bench_device_memory { BENCH_DEVICE_PLAIN, BENCH_DEVICE_MANAGED, BENCH_DEVICE_HOST };

/// Returns NULL on failure, with the reason in `error`. A preloaded library may supply device memory by
///   int bench_allocate_device(void** pointer, size_t bytes);   0: done; -1: allocate with the driver
///   int bench_free_device(void* pointer);                      0: done; -1: not allocated by the library
void* bench_device_allocate(enum bench_device_memory kind, size_t bytes, char* error, size_t size);
void bench_device_free(enum bench_device_memory kind, void* pointer);

enum { BENCH_HANDLE_BYTES = 64 };

/// CUDA IPC: exports an allocation of this process, maps an allocation of another process, and unmaps it.
bool bench_device_export(void* pointer, char handle[BENCH_HANDLE_BYTES], char* error, size_t size);
void* bench_device_import(const char handle[BENCH_HANDLE_BYTES], char* error, size_t size);
void bench_device_unimport(void* pointer);

/// Copies within device memory, mapped memory included, and waits until the copy is done.
bool bench_device_copy(void* to, const void* from, size_t bytes, char* error, size_t size);

/// Copies between host memory and device or managed memory, and waits until the copy is done.
bool bench_device_write(void* device, const void* host, size_t bytes, char* error, size_t size);
bool bench_device_read(void* host, const void* device, size_t bytes, char* error, size_t size);

#endif
