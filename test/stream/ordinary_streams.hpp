// SPDX-License-Identifier: BSD-3-Clause
// Ordinary calls by kernels on a communicator whose stream changes.
#pragma once
#include <vector>

#include "stream/order_comm.hpp"

namespace weft::test::enqueued {

/// The communicator follows the program to other streams, without a synchronisation, and back.
inline void other_streams(const OrderComm& ordered) {
  const OrderedStream second;
  Buffer data(Kind::device, 40'000, device), in(Kind::device, 40'000, device);
  data.write(pattern(40'000, rank, 0));
  for (int round = 0; round < 6; ++round) {
    expect_class(MPIX_Comm_set_stream(ordered.comm, round % 3 == 0   ? second.mpi_stream
                                                    : round % 3 == 1 ? ordered.mpi_stream
                                                                     : MPIX_STREAM_NULL),
                 MPI_SUCCESS, "MPIX_Comm_set_stream");
    MPI_Sendrecv(data.data(), 10'000, MPI_INT, right(), 0, in.data(), 10'000, MPI_INT, left(), 0,
                 ordered.comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(in.data(), 10'000, MPI_INT, left(), 1, data.data(), 10'000, MPI_INT, right(), 1,
                 ordered.comm, MPI_STATUS_IGNORE);
  }
  second.synchronize();
  ordered.synchronize();
  expect(data.read() == pattern(40'000, rank, 0), "messages in changing streams");
  MPI_Request request;
  MPI_Irecv(in.data(), 4, MPI_INT, left(), 2, ordered.comm, &request);
  expect_class(MPIX_Comm_set_stream(ordered.comm, second.mpi_stream), MPI_ERR_COMM,
               "another stream with an open request");
  MPI_Send(data.data(), 4, MPI_INT, right(), 2, ordered.comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  ordered.synchronize();
}

/// The stream changes within a capture: what comes behind the capture comes after all earlier operations.
inline void streams_in_captures(const OrderComm& ordered, const Plain& plain) {
  if (ranks == 1) return;
  constexpr double kTooEarlySeconds = 0.02;
  const OrderedStream second;
  Buffer data(Kind::device, 400, device);
  int word = 0;
  if (rank == 0) {
    MPI_Recv(data.data(), 10, MPI_INT, 1, 0, ordered.comm, MPI_STATUS_IGNORE);
    {
      void* graph = nullptr;  // without an executable, whose creation waits for kernels
      expect(driver().cuStreamBeginCapture_v2(second.stream, 0) == 0, "cuStreamBeginCapture");
      expect_class(MPIX_Comm_set_stream(ordered.comm, second.mpi_stream), MPI_SUCCESS,
                   "MPIX_Comm_set_stream");
      MPI_Sendrecv(data.data(), 10, MPI_INT, 0, 2, data.data() + 200, 10, MPI_INT, 0, 2, ordered.comm,
                   MPI_STATUS_IGNORE);
      expect(driver().cuStreamEndCapture(second.stream, &graph) == 0, "cuStreamEndCapture");
      driver().cuGraphDestroy(graph);
    }
    MPI_Send(data.data(), 10, MPI_INT, 1, 1, ordered.comm);
    bool sent = false;
    for (const double begin = MPI_Wtime(); !sent && MPI_Wtime() < begin + kTooEarlySeconds;)
      sent = driver().cuStreamQuery(second.stream) == 0;
    expect(!sent, "a send in another stream comes after a receive");
    MPI_Send(&word, 1, MPI_INT, 1, 0, plain.comm);
    second.synchronize();
  } else if (rank == 1) {
    MPI_Recv(&word, 1, MPI_INT, 0, 0, plain.comm, MPI_STATUS_IGNORE);
    MPI_Send(data.data(), 10, MPI_INT, 0, 0, ordered.comm);
    MPI_Recv(data.data(), 10, MPI_INT, 0, 1, ordered.comm, MPI_STATUS_IGNORE);
  }
  expect_class(MPIX_Comm_set_stream(ordered.comm, MPIX_STREAM_NULL), MPI_SUCCESS, "MPIX_Comm_set_stream");
  ordered.synchronize();
}

/// Back in the first stream, its hint for pinned memory holds again.
inline void pinned_memory() {
  const OrderedStream first("true", "true"), second;
  MPI_Comm comm = MPI_COMM_NULL;
  expect_class(MPIX_Stream_comm_create(MPI_COMM_WORLD, first.mpi_stream, &comm), MPI_SUCCESS,
               "MPIX_Stream_comm_create");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const Buffer pinned(Kind::pinned, 400, device);
  const auto exchange = [&] {
    return MPI_Sendrecv(pinned.data(), 10, MPI_INT, right(), 0, pinned.data() + 200, 10, MPI_INT, left(), 0,
                        comm, MPI_STATUS_IGNORE);
  };
  expect_class(exchange(), MPI_SUCCESS, "pinned memory in the first stream");
  MPIX_Comm_set_stream(comm, second.mpi_stream);
  expect_class(exchange(), MPI_ERR_BUFFER, "pinned memory in a stream without the hint");
  MPIX_Comm_set_stream(comm, MPIX_STREAM_NULL);
  expect_class(exchange(), MPI_SUCCESS, "pinned memory in the first stream again");
  second.synchronize();
  first.synchronize();
  expect_class(MPI_Comm_free(&comm), MPI_SUCCESS, "MPI_Comm_free");
}

}  // namespace weft::test::enqueued
