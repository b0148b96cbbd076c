// SPDX-License-Identifier: BSD-3-Clause
// The few CUDA driver calls that the benchmarks make. The driver is opened at run time, so the programs
// build and run without CUDA. WEFT_CUDA_DRIVER names another library in its place (the emulator).
#ifndef BENCH_COMMON_DEVICE_H
#define BENCH_COMMON_DEVICE_H
#include <stdbool.h>
#include <stddef.h>

struct bench_device_info {
  char name[128];  ///< as the driver reports it
  int driver;      ///< version, such as 13000
  int ordinal;     ///< the device this process uses
  int count;       ///< devices visible
};

/// The rank among the processes of this host, from the launcher's variables; -1 if none is set.
int bench_local_rank(void);

/// Opens the driver, takes device `local_rank` modulo the number of devices and makes its primary context
/// current. On failure `error` (of `size` bytes) says why.
bool bench_device_open(int local_rank, struct bench_device_info* info, char* error, size_t size);
void bench_device_close(void);

/// A function of the driver by name, and the function pointer that is to hold it.
struct bench_device_function {
  const char* name;
  void* pointer;
};

/// What a program calls of the driver by itself, after bench_device_open(). False: `error` names what is
/// missing.
bool bench_device_find(const struct bench_device_function* table, size_t count, char* error, size_t size);

enum bench_device_memory { BENCH_DEVICE_PLAIN, BENCH_DEVICE_MANAGED, BENCH_DEVICE_HOST };

/// NULL on failure, with the reason in `error`. A preloaded library may supply device memory by
///   int bench_allocate_device(void** pointer, size_t bytes);   0: done; -1: the driver's, please
///   int bench_free_device(void* pointer);                      0: done; -1: not one of its own
void* bench_device_allocate(enum bench_device_memory kind, size_t bytes, char* error, size_t size);
void bench_device_free(enum bench_device_memory kind, void* pointer);

enum { BENCH_HANDLE_BYTES = 64 };

/// CUDA IPC: a name for an allocation of this process, the mapping of another process's, and its end.
bool bench_device_export(void* pointer, char handle[BENCH_HANDLE_BYTES], char* error, size_t size);
void* bench_device_import(const char handle[BENCH_HANDLE_BYTES], char* error, size_t size);
void bench_device_unimport(void* pointer);

/// Copies within device memory, mapped memory included, and waits until the copy is done.
bool bench_device_copy(void* to, const void* from, size_t bytes, char* error, size_t size);

/// Copies between host memory and device or managed memory, and waits until the copy is done.
bool bench_device_write(void* device, const void* host, size_t bytes, char* error, size_t size);
bool bench_device_read(void* host, const void* device, size_t bytes, char* error, size_t size);

#endif
