// SPDX-License-Identifier: BSD-3-Clause
// Kernels of a program that any MPI's compiler can build: the driver compiles their text when it is loaded.
// The emulated driver implements them. Call after bench_device_open(); a failure ends the job.
#ifndef BENCH_COMMON_KERNELS_H
#define BENCH_COMMON_KERNELS_H
#include <stdbool.h>
#include <stddef.h>

/// Finds the driver's functions and creates a stream that does not wait for the default stream.
void bench_kernels_open(void);

/// Returns the kernel `name` of an image: PTX, a fat binary, or what the emulated driver takes for one.
void* bench_kernels_find(const void* image, const char* name);

/// Launches a kernel in the stream. Returns at once.
void bench_kernels_launch(void* kernel, unsigned blocks, unsigned threads, void** parameters);

/// Returns whether a launched kernel has not ended.
bool bench_kernels_running(void);

/// Opens, and loads the two kernels below.
void bench_kernels_load(void);

/// Launches a kernel of one thread that runs for `ms` milliseconds. Returns at once.
void bench_kernels_delay(double ms);

/// Launches to[i * to_stride] = from[i * from_stride] for `count` doubles in device memory. Returns at once.
void bench_kernels_copy(double* to, size_t to_stride, const double* from, size_t from_stride, size_t count);

/// Waits for all launched kernels: for the stream, or for the whole device as cudaDeviceSynchronize() does.
void bench_kernels_wait(void);
void bench_kernels_wait_device(void);

#endif
