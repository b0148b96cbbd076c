// SPDX-License-Identifier: BSD-3-Clause
// Ordinary calls by kernels whose operations a capture begins or ends alone.
#pragma once
#include <vector>

#include "stream/order_comm.hpp"

namespace weft::test::enqueued {

/// Operations of a capture that the program gives up: once it has freed their requests, the communicator is
/// as before, also within the next capture.
inline void discarded_captures(const OrderComm& ordered) {
  constexpr int kInts = 100, kBytes = 4 * kInts;
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, kBytes, device), in(Kind::device, kBytes, device), sum(Kind::device, 4, device);
  const auto exchange = [&](int tag) {
    return MPI_Sendrecv(out.data(), kInts, MPI_INT, right(), tag, in.data(), kInts, MPI_INT, left(), tag,
                        comm, MPI_STATUS_IGNORE);
  };
  MPI_Request requests[4];
  for (int form = 0; form < 4; ++form) {
    const std::string what = ", form " + std::to_string(form);
    out.write(pattern(kBytes, rank, form));
    in.write(std::vector<char>(kBytes, 0));
    {
      Graph graph(ordered.stream);
      MPI_Irecv(in.data(), kInts, MPI_INT, left(), 1, comm, &requests[0]);
      MPI_Isend(out.data(), kInts, MPI_INT, right(), 1, comm, &requests[1]);
      MPI_Isend(out.data(), kInts, MPI_INT, rank, 2, comm, &requests[2]);
      MPI_Iallreduce(MPI_IN_PLACE, sum.data(), 1, MPI_INT, MPI_SUM, comm, &requests[3]);
      if (form % 2 == 1) MPI_Request_free(&requests[0]);
      graph.discard();
    }
    if (form < 2) {
      expect_class(exchange(1), MPI_ERR_OTHER, "a call behind a capture without its waits" + what);
      expect_class(MPI_Barrier(comm), MPI_ERR_OTHER,
                   "a collective behind a capture without its waits" + what);
    } else {
      Graph graph(ordered.stream);
      expect_class(exchange(1), MPI_ERR_OTHER, "a call in the next capture" + what);
      graph.discard();
    }
    for (int i = form % 2; i < 4; ++i)
      expect_class(MPI_Request_free(&requests[i]), MPI_SUCCESS, "MPI_Request_free" + what);
    expect_class(exchange(1), MPI_SUCCESS, "an exchange after a discarded capture" + what);
    expect_class(MPI_Barrier(comm), MPI_SUCCESS, "a barrier after a discarded capture" + what);
    ordered.synchronize();
    expect(in.read() == pattern(kBytes, left(), form), "its message" + what);
  }
}

/// Operations that are started outside of a capture are not completed within it.
inline void across_captures(const OrderComm& ordered) {
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, 40, device), in(Kind::device, 40, device), sum(Kind::device, 4, device);
  const int one = 1;
  std::vector<char> word(4);
  std::memcpy(word.data(), &one, 4);
  sum.write(word);
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, sum.data(), 1, MPI_INT, MPI_SUM, comm, &request);
  {
    Graph graph(ordered.stream);
    expect_class(MPI_Barrier(comm), MPI_ERR_OTHER, "a captured collective behind an earlier one");
    expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
                 "a captured wait for an earlier one");
    graph.discard();
  }
  expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "the wait behind the capture");
  ordered.synchronize();
  int reduced = 0;
  std::memcpy(&reduced, sum.read().data(), 4);
  expect(reduced == ranks, "a reduction around a capture: " + std::to_string(reduced));
  out.write(pattern(40, rank, 1));
  MPI_Isend(out.data(), 10, MPI_INT, rank, 1, comm, &request);
  {
    Graph graph(ordered.stream);
    expect_class(MPI_Recv(in.data(), 10, MPI_INT, rank, 1, comm, MPI_STATUS_IGNORE), MPI_ERR_OTHER,
                 "a captured receive of an earlier message to oneself");
    graph.discard();
  }
  expect_class(MPI_Recv(in.data(), 10, MPI_INT, rank, 1, comm, MPI_STATUS_IGNORE), MPI_SUCCESS,
               "its receive behind the capture");
  expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "the message to oneself");
  ordered.synchronize();
  expect(in.read() == out.read(), "a message to oneself around a capture");
}

}  // namespace weft::test::enqueued
