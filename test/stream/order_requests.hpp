// SPDX-License-Identifier: BSD-3-Clause
// Requests in stream order that the program cancels before the stream has started them.
#pragma once
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

}  // namespace weft::test::enqueued
