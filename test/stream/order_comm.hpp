// SPDX-License-Identifier: BSD-3-Clause
// Helpers for tests of stream order: streams with the hint, communicators in stream order, and plain ones.
#pragma once
#include "stream/stream_comm.hpp"

namespace weft::test::enqueued {

/// A stream of this rank's GPU with its handle.
class OrderedStream {
 public:
  OrderedStream() {
    driver().cuStreamCreate(&stream, 1);
    made_ = true;
    create();
  }
  explicit OrderedStream(Stream existing) : stream(existing) { create(); }
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
  void create() {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPI_Info_set(info, "weft_stream_order", "true");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    expect_class(MPIX_Stream_create(info, &mpi_stream), MPI_SUCCESS, "MPIX_Stream_create");
    MPI_Info_free(&info);
  }
  bool made_ = false;
};

/// A communicator without stream, and a periodic ring of its ranks.
struct Plain {
  Plain() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const int periodic = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
  }
  ~Plain() {
    expect_class(MPI_Comm_free(&comm), MPI_SUCCESS, "MPI_Comm_free");
    expect_class(MPI_Comm_free(&grid), MPI_SUCCESS, "MPI_Comm_free");
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  MPI_Comm comm = MPI_COMM_NULL, grid = MPI_COMM_NULL;
};

/// The same in the order of a stream.
struct OrderComm : OrderedStream, Plain {
  OrderComm() {
    for (const MPI_Comm one : {comm, grid})
      expect_class(MPIX_Comm_set_stream(one, mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
  }
};

}  // namespace weft::test::enqueued
