// SPDX-License-Identifier: BSD-3-Clause
#include "common/kernels.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/device.h"
#include "common/kernel_texts.h"
#include "common/start.h"

enum { NON_BLOCKING = 1, NOT_READY = 600, THREADS = 256, MOST_BLOCKS = 528 };

static struct {
  int (*load)(void**, const void*);
  int (*find)(void**, void*, const char*);
  int (*stream)(void**, unsigned);
  int (*query)(void*);
  int (*wait)(void*);
  int (*wait_device)(void);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**);
} cuda;
static void *delay, *copy, *stream;

static void stop(const char* what) {
  fprintf(stderr, "kernels: %s\n", what);
  MPI_Abort(bench_comm, 3);
  abort();
}

static void check(int code, const char* call) {
  char text[128];
  if (code == 0) return;
  snprintf(text, sizeof text, "%s failed (CUDA error %d)", call, code);
  stop(text);
}

void bench_kernels_open(void) {
  const struct bench_device_function table[] = {
      {"cuModuleLoadData", &cuda.load},    {"cuModuleGetFunction", &cuda.find},
      {"cuStreamCreate", &cuda.stream},    {"cuStreamQuery", &cuda.query},
      {"cuStreamSynchronize", &cuda.wait}, {"cuCtxSynchronize", &cuda.wait_device},
      {"cuLaunchKernel", &cuda.launch}};
  char error[256];
  if (!bench_device_find(table, sizeof table / sizeof *table, error, sizeof error)) stop(error);
  check(cuda.stream(&stream, NON_BLOCKING), "cuStreamCreate");
}

void* bench_kernels_find(const void* image, const char* name) {
  void *module = NULL, *kernel = NULL;
  check(cuda.load(&module, image), "cuModuleLoadData");
  check(cuda.find(&kernel, module, name), "cuModuleGetFunction");
  return kernel;
}

void bench_kernels_launch(void* kernel, unsigned blocks, unsigned threads, void** parameters) {
  check(cuda.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
}

bool bench_kernels_running(void) {
  const int code = cuda.query(stream);
  if (code != NOT_READY) check(code, "cuStreamQuery");
  return code == NOT_READY;
}

void bench_kernels_load(void) {
  bench_kernels_open();
  delay = bench_kernels_find(bench_delay_text, "weft_bench_delay");
  copy = bench_kernels_find(bench_copy_text, "weft_bench_copy");
}

void bench_kernels_delay(double ms) {
  uint64_t ns = (uint64_t)(ms * 1e6);
  void* parameters[] = {&ns};
  bench_kernels_launch(delay, 1, 1, parameters);
}

void bench_kernels_copy(double* to, size_t to_stride, const double* from, size_t from_stride, size_t count) {
  uint64_t words[] = {(uint64_t)(uintptr_t)to, to_stride, (uint64_t)(uintptr_t)from, from_stride, count};
  void* parameters[] = {&words[0], &words[1], &words[2], &words[3], &words[4]};
  size_t blocks = (count + THREADS - 1) / THREADS;
  if (blocks == 0) return;
  if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
  bench_kernels_launch(copy, (unsigned)blocks, THREADS, parameters);
}

void bench_kernels_wait(void) { check(cuda.wait(stream), "cuStreamSynchronize"); }
void bench_kernels_wait_device(void) { check(cuda.wait_device(), "cuCtxSynchronize"); }
