// SPDX-License-Identifier: BSD-3-Clause
// A GPU stream with a communicator, and the time of operations enqueued in it. Weft only (weft.h).
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H
#include <mpi.h>
#include <stddef.h>

struct bench_stream {
  void* stream;
  MPI_Comm comm;
};

/// Ends the program with the library's text unless `code` is 0.
void bench_stream_check(int code, const char* what);
/// Opens the driver's functions and creates the stream and its communicator from MPI_COMM_WORLD. Collective.
struct bench_stream bench_stream_open(void);
void bench_stream_close(struct bench_stream* opened);
/// A plain copy inside the GPU.
void bench_stream_copy(const struct bench_stream* opened, void* to, const void* from, size_t size);
void bench_stream_synchronize(const struct bench_stream* opened);

/// Enqueues one operation.
typedef void bench_stream_operation(int mode, size_t size);
/// Microseconds per operation, enqueued back to back.
double bench_stream_measure(const struct bench_stream* opened, bench_stream_operation* enqueue, int mode,
                            size_t size, int iterations);
/// The same in a replayed CUDA graph of 20 operations.
double bench_stream_measure_graph(const struct bench_stream* opened, bench_stream_operation* enqueue,
                                  int mode, size_t size, int iterations);
#endif
