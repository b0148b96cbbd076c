// SPDX-License-Identifier: BSD-3-Clause
#include "stream/stream.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

#include "common/device.h"

enum { NON_BLOCKING = 1, GRAPH_LENGTH = 20 };

static struct {
  int (*stream_create)(void**, unsigned);
  int (*stream_synchronize)(void*);
  int (*copy)(unsigned long long, unsigned long long, size_t, void*);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*launch)(void*, void*);
  int (*graph_destroy)(void*);
  int (*exec_destroy)(void*);
} cuda;

void bench_stream_check(int code, const char* what) {
  if (code == 0) return;
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char message[512] = "";
  MPIX_Last_error_message(message, sizeof message, NULL);
  fprintf(stderr, "rank %d: %s failed (%d) %s\n", rank, what, code, message);
  exit(1);
}

struct bench_stream bench_stream_open(void) {
  const struct bench_device_function table[] = {
      {"cuStreamCreate", &cuda.stream_create},   {"cuStreamSynchronize", &cuda.stream_synchronize},
      {"cuMemcpyDtoDAsync_v2", &cuda.copy},      {"cuStreamBeginCapture_v2", &cuda.begin_capture},
      {"cuStreamEndCapture", &cuda.end_capture}, {"cuGraphInstantiateWithFlags", &cuda.instantiate},
      {"cuGraphLaunch", &cuda.launch},           {"cuGraphDestroy", &cuda.graph_destroy},
      {"cuGraphExecDestroy", &cuda.exec_destroy}};
  char error[256];
  bench_stream_check(!bench_device_find(table, sizeof table / sizeof *table, error, sizeof error), error);
  struct bench_stream opened;
  MPI_Info info;
  MPIX_Stream mpi_stream;
  bench_stream_check(cuda.stream_create(&opened.stream, NON_BLOCKING), "cuStreamCreate");
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  MPIX_Info_set_hex(info, "value", &opened.stream, sizeof opened.stream);
  bench_stream_check(MPIX_Stream_create(info, &mpi_stream), "MPIX_Stream_create");
  bench_stream_check(MPIX_Stream_comm_create(MPI_COMM_WORLD, mpi_stream, &opened.comm),
                     "MPIX_Stream_comm_create");
  MPIX_Stream_free(&mpi_stream);
  MPI_Info_free(&info);
  return opened;
}

void bench_stream_close(struct bench_stream* opened) { MPI_Comm_free(&opened->comm); }

void bench_stream_copy(const struct bench_stream* opened, void* to, const void* from, size_t size) {
  bench_stream_check(cuda.copy((uintptr_t)to, (uintptr_t)from, size, opened->stream), "cuMemcpyDtoDAsync");
}

void bench_stream_synchronize(const struct bench_stream* opened) {
  bench_stream_check(cuda.stream_synchronize(opened->stream), "cuStreamSynchronize");
}

double bench_stream_measure(const struct bench_stream* opened, bench_stream_operation* enqueue, int mode,
                            size_t size, int iterations) {
  double start = 0;
  for (int i = -10; i < iterations; ++i) {
    if (i == 0) {
      bench_stream_synchronize(opened);
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    enqueue(mode, size);
  }
  bench_stream_synchronize(opened);
  return (MPI_Wtime() - start) * 1e6 / iterations;
}

double bench_stream_measure_graph(const struct bench_stream* opened, bench_stream_operation* enqueue,
                                  int mode, size_t size, int iterations) {
  void *graph = NULL, *executable = NULL;
  bench_stream_check(cuda.begin_capture(opened->stream, 0), "cuStreamBeginCapture");
  for (int i = 0; i < GRAPH_LENGTH; ++i) enqueue(mode, size);
  bench_stream_check(cuda.end_capture(opened->stream, &graph), "cuStreamEndCapture");
  bench_stream_check(cuda.instantiate(&executable, graph, 0), "cuGraphInstantiate");
  const int launches = (iterations + GRAPH_LENGTH - 1) / GRAPH_LENGTH;
  double start = 0;
  for (int i = -2; i < launches; ++i) {
    if (i == 0) {
      bench_stream_synchronize(opened);
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    bench_stream_check(cuda.launch(executable, opened->stream), "cuGraphLaunch");
  }
  bench_stream_synchronize(opened);
  const double time = (MPI_Wtime() - start) * 1e6 / (launches * GRAPH_LENGTH);
  cuda.exec_destroy(executable);
  cuda.graph_destroy(graph);
  return time;
}
