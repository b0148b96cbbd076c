// SPDX-License-Identifier: BSD-3-Clause
#include "common/kernels.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/device.h"
#include "common/start.h"

enum { NON_BLOCKING = 1, NOT_READY = 600, THREADS = 256, MOST_BLOCKS = 528 };

static const char delay_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry weft_bench_delay(.param .u64 ns) {\n"
    "  .reg .u64 %x<5>;\n  .reg .pred %p;\n"
    "  ld.param.u64 %x1, [ns];\n"
    "  mov.u64 %x2, %globaltimer;\n"
    "again:\n"
    "  mov.u64 %x3, %globaltimer;\n"
    "  sub.s64 %x4, %x3, %x2;\n"
    "  setp.lt.u64 %p, %x4, %x1;\n"
    "  @%p bra again;\n"
    "  ret;\n}\n";

// i: x7, in steps of all threads, x8; strides in bytes: x4 and x5.
static const char copy_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry weft_bench_copy(.param .u64 to, .param .u64 to_stride, .param .u64 from,\n"
    "                                .param .u64 from_stride, .param .u64 count) {\n"
    "  .reg .u64 %x<13>;\n  .reg .u32 %r<5>;\n  .reg .f64 %d;\n  .reg .pred %p;\n"
    "  ld.param.u64 %x1, [to];\n  ld.param.u64 %x2, [from];\n  ld.param.u64 %x3, [count];\n"
    "  ld.param.u64 %x4, [to_stride];\n  ld.param.u64 %x5, [from_stride];\n"
    "  shl.b64 %x4, %x4, 3;\n  shl.b64 %x5, %x5, 3;\n"
    "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n  mov.u32 %r4, %nctaid.x;\n"
    "  mul.wide.u32 %x6, %r1, %r2;\n  cvt.u64.u32 %x7, %r3;\n  add.u64 %x7, %x7, %x6;\n"
    "  mul.wide.u32 %x8, %r4, %r2;\n"
    "again:\n"
    "  setp.ge.u64 %p, %x7, %x3;\n"
    "  @%p bra done;\n"
    "  mad.lo.u64 %x9, %x7, %x5, %x2;\n"
    "  mad.lo.u64 %x10, %x7, %x4, %x1;\n"
    "  ld.global.f64 %d, [%x9];\n"
    "  st.global.f64 [%x10], %d;\n"
    "  add.u64 %x7, %x7, %x8;\n"
    "  bra again;\n"
    "done:\n"
    "  ret;\n}\n";

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
  delay = bench_kernels_find(delay_text, "weft_bench_delay");
  copy = bench_kernels_find(copy_text, "weft_bench_copy");
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
