// SPDX-License-Identifier: BSD-3-Clause
// Ordinary calls by kernels: messages of a rank to itself.
#pragma once
#include <set>

#include "stream/order_comm.hpp"

namespace weft::test::enqueued {

/// A synchronous send to oneself ends only when a receive has started, however the program asks.
inline void synchronous_to_oneself(const OrderComm& ordered) {
  constexpr int kInts = 100, kBytes = 4 * kInts, kTests = 50;
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, kBytes, device), in(Kind::device, kBytes, device);
  const auto expect_message = [&](int salt, const char* what) {
    ordered.synchronize();
    expect(in.read() == pattern(kBytes, rank, salt), what);
    out.write(pattern(kBytes, rank, salt + 1));
    in.write(std::vector<char>(kBytes, 0));
  };
  out.write(pattern(kBytes, rank, 0));
  MPI_Request send, receive;
  MPI_Status status;
  int flag = 0;
  for (const int n : {kInts, 0}) {
    MPI_Issend(out.data(), n, MPI_INT, rank, 1, comm, &send);
    for (int i = 0; i < kTests; ++i) {
      MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
      expect(flag == 0, "a test of a synchronous send to oneself without a receive");
    }
    MPI_Irecv(in.data(), n, MPI_INT, rank, 1, comm, &receive);
    for (flag = 0; flag == 0;) MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    if (n != 0) expect_message(0, "a synchronous message to oneself, tested");
  }
  for (const bool with_status : {false, true}) {
    MPI_Issend(out.data(), kInts, MPI_INT, rank, 1, comm, &send);
    expect_class(MPI_Wait(&send, with_status ? &status : MPI_STATUS_IGNORE), MPI_ERR_OTHER,
                 "a wait for a synchronous send to oneself without a receive");
    expect(send == MPI_REQUEST_NULL, "the request of a failed send is null");
    expect_class(MPI_Ssend(out.data(), kInts, MPI_INT, rank, 1, comm), MPI_ERR_OTHER,
                 "MPI_Ssend to oneself without a receive");
  }
  MPI_Irecv(in.data(), kInts, MPI_INT, rank, 1, comm, &receive);
  expect_class(MPI_Ssend(out.data(), kInts, MPI_INT, rank, 1, comm), MPI_SUCCESS,
               "MPI_Ssend to oneself with a receive");
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  expect_message(1, "a message of MPI_Ssend to oneself");
  MPI_Request list[2];
  MPI_Ssend_init(out.data(), kInts, MPI_INT, rank, 2, comm, &list[0]);
  MPI_Recv_init(in.data(), kInts, MPI_INT, rank, 2, comm, &list[1]);
  for (int round = 0; round < 3; ++round) {
    MPI_Startall(2, list);
    expect_class(MPI_Waitall(2, list, MPI_STATUSES_IGNORE), MPI_SUCCESS, "synchronous persistent sends");
    expect_message(2 + round, "a persistent synchronous message to oneself");
  }
  MPI_Request_free(&list[0]);
  MPI_Request_free(&list[1]);
}

/// The request of a freed send to oneself is used again once its message has been received.
inline void freed_to_oneself(const OrderComm& ordered) {
  constexpr int kRounds = 200, kMostAtATime = 10;
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, 400, device), in(Kind::device, 400, device);
  for (const int n : {0, 100}) {
    std::set<MPI_Request> used;
    for (int round = 0; round < kRounds; ++round) {
      MPI_Request send, receive;
      MPI_Isend(out.data(), n, MPI_INT, rank, 3, comm, &send);
      used.insert(send);
      if (round % 2 == 0) MPI_Request_free(&send);
      MPI_Irecv(in.data(), n, MPI_INT, rank, 3, comm, &receive);
      expect_class(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_SUCCESS,
                   "a receive of a freed send to oneself");
      if (round % 2 == 1) MPI_Request_free(&send);
    }
    expect(used.size() < kMostAtATime,
           std::to_string(used.size()) + " requests of sends to oneself that are freed");
    ordered.synchronize();
  }
}

}  // namespace weft::test::enqueued
