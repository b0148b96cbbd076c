// SPDX-License-Identifier: BSD-3-Clause
// Helpers for tests of stream order: streams with the hint, communicators in stream order, and plain ones.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "stream/stream_comm.hpp"

namespace weft::test::enqueued {

/// A stream of this rank's GPU with its handle. `kernels`: the hint weft_stream_kernels; `pinned`: the hint
/// weft_stream_order_pinned.
class OrderedStream {
 public:
  explicit OrderedStream(const char* kernels = "false", const char* pinned = "false") {
    driver().cuStreamCreate(&stream, 1);
    made_ = true;
    create(kernels, pinned);
  }
  explicit OrderedStream(Stream existing, const char* kernels = "false") : stream(existing) {
    create(kernels, "false");
  }
  ~OrderedStream() {
    MPIX_Stream_free(&mpi_stream);
    if (made_) driver().cuStreamDestroy_v2(stream);
  }
  OrderedStream(const OrderedStream&) = delete;
  OrderedStream& operator=(const OrderedStream&) = delete;
  void synchronize() const { expect(driver().cuStreamSynchronize(stream) == 0, "cuStreamSynchronize"); }
  Stream stream = nullptr;
  MPIX_Stream mpi_stream = MPIX_STREAM_NULL;

 private:
  void create(const char* kernels, const char* pinned) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPI_Info_set(info, "weft_stream_order", "true");
    MPI_Info_set(info, "weft_stream_kernels", kernels);
    MPI_Info_set(info, "weft_stream_order_pinned", pinned);
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    expect_class(MPIX_Stream_create(info, &mpi_stream), MPI_SUCCESS, "MPIX_Stream_create");
    MPI_Info_free(&info);
  }
  bool made_ = false;
};

/// Runs the part of a test that its first argument names, or all.
class Parts {
 public:
  Parts(int argc, char** argv) : only_(argc > 1 ? argv[1] : "all") {}
  template <class Run>
  void operator()(const char* name, Run&& run) const {
    if (std::strcmp(only_, "all") != 0 && std::strcmp(only_, name) != 0) return;
    run();
    MPI_Barrier(MPI_COMM_WORLD);
    if (std::getenv("TEST_VERBOSE") != nullptr && rank == 0)
      std::fprintf(stderr, "%s done, %d failures\n", name, failures);
  }

 private:
  const char* only_;
};

/// Repeats a test for a time: returns whether there is time left, equal on all ranks. `end`: of rank 0.
inline bool time_left(double end) {
  int left = MPI_Wtime() < end && failures == 0 ? 1 : 0;
  MPI_Bcast(&left, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return left != 0;
}

/// A communicator without stream, and a periodic ring of its ranks.
struct Plain {
  Plain() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const int periodic = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
  }
  ~Plain() { free(); }
  void free() {
    for (MPI_Comm* one : {&comm, &grid})
      if (*one != MPI_COMM_NULL) expect_class(MPI_Comm_free(one), MPI_SUCCESS, "MPI_Comm_free");
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  MPI_Comm comm = MPI_COMM_NULL, grid = MPI_COMM_NULL;
};

/// The same in the order of a stream. With the hint weft_stream_kernels, kernels execute the calls that they
/// can.
struct OrderComm : OrderedStream, Plain {
  OrderComm() {
    for (const MPI_Comm one : {comm, grid})
      expect_class(MPIX_Comm_set_stream(one, mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
  }
  explicit OrderComm(const char* kernels) : OrderedStream(kernels) {
    for (MPI_Comm* one : {&comm, &grid}) {
      MPI_Comm made = MPI_COMM_NULL;
      expect_class(MPIX_Stream_comm_create(*one, mpi_stream, &made), MPI_SUCCESS, "MPIX_Stream_comm_create");
      MPI_Comm_free(one);
      *one = made;
      MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    }
  }
  /// On a driver whose streams run only when they are queried, somebody must do so while MPI_Comm_free waits.
  ~OrderComm() {
    Context context = nullptr;
    driver().cuCtxGetCurrent(&context);
    std::atomic<bool> freed{std::getenv("EMUCUDA_RUN") == nullptr};
    std::thread queries([&] {
      driver().cuCtxSetCurrent(context);
      for (; !freed; std::this_thread::sleep_for(std::chrono::microseconds(100)))
        driver().cuStreamQuery(stream);
    });
    free();
    freed = true;
    queries.join();
  }
  OrderComm(const OrderComm&) = delete;
  OrderComm& operator=(const OrderComm&) = delete;
};

/// Frees the communicator of all that live; its rank 0 prints "good" if none of them has failed.
inline void print_good(MPI_Comm survivors) {
  int all = failures;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_SUM, survivors);
  MPI_Comm_free(&survivors);
  if (rank == 0 && all == 0) std::printf("good\n"), std::fflush(stdout);
}

}  // namespace weft::test::enqueued
