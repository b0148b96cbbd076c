// SPDX-License-Identifier: BSD-3-Clause
// Requests in stream order that the program cancels before the stream has started them, or frees after a
// capture.
#pragma once
#include <set>
#include <vector>

#include "stream/order_comm.hpp"

namespace weft::test::enqueued {

/// A receive that is cancelled before the stream starts it ends; an earlier one of the same persistent
/// request gets its message.
inline void cancelled_before_start(const OrderComm& ordered, const Plain& plain) {
  if (ranks % 2 != 0) return;
  constexpr int kInts = 10, kBytes = 4 * kInts;
  const MPI_Comm comm = ordered.comm;
  const int partner = rank ^ 1;
  Buffer data(Kind::device, kBytes, device), first(Kind::device, kBytes, device);
  int word = 0;
  if (rank % 2 == 0) {
    MPI_Request once, persistent;
    MPI_Status status;
    int flag = 0;
    MPI_Recv(data.data(), kInts, MPI_INT, partner, 1, comm, MPI_STATUS_IGNORE);  // the stream waits here
    MPI_Irecv(data.data(), kInts, MPI_INT, partner, 2, comm, &once);
    MPI_Cancel(&once);
    MPI_Recv_init(first.data(), kInts, MPI_INT, partner, 3, comm, &persistent);
    MPI_Start(&persistent);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    MPI_Start(&persistent);
    MPI_Cancel(&persistent);
    MPI_Send(&word, 1, MPI_INT, partner, 0, plain.comm);
    for (MPI_Request* request : {&once, &persistent}) {
      expect_class(MPI_Wait(request, &status), MPI_SUCCESS, "a wait for a cancelled receive");
      MPI_Test_cancelled(&status, &flag);
      expect(flag == 1, "the receive is cancelled");
    }
    ordered.synchronize();
    expect(first.read() == pattern(kBytes, partner, 3), "the message of the start before");
    MPI_Request_free(&persistent);
  } else {
    data.write(pattern(kBytes, rank, 3));
    MPI_Recv(&word, 1, MPI_INT, partner, 0, plain.comm, MPI_STATUS_IGNORE);
    MPI_Send(data.data(), kInts, MPI_INT, partner, 1, comm);
    MPI_Send(data.data(), kInts, MPI_INT, partner, 3, comm);
    ordered.synchronize();
  }
}

/// Freed after a capture that the program discards: the library uses the request again.
inline void captured_and_freed(const OrderComm& ordered) {
  constexpr int kRounds = 100;
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, 40, device), in(Kind::device, 40, device);
  std::set<MPI_Request> used;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Request request;
    {
      Graph graph(ordered.stream);
      expect_class(MPI_Irecv(in.data(), 10, MPI_INT, rank, 4, comm, &request), MPI_SUCCESS, "MPI_Irecv");
      graph.discard();
    }
    used.insert(request);
    expect_class(MPI_Request_free(&request), MPI_SUCCESS, "MPI_Request_free of a captured receive");
    MPI_Isend(out.data(), 10, MPI_INT, rank, 5, comm, &request);
    MPI_Recv(in.data(), 10, MPI_INT, rank, 5, comm, MPI_STATUS_IGNORE);
    expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "a message after a discarded capture");
    ordered.synchronize();
  }
  expect(used.size() < kRounds, "no request of a discarded capture is used again");
}

}  // namespace weft::test::enqueued
