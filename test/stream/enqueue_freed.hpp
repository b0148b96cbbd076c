// SPDX-License-Identifier: BSD-3-Clause
// Enqueued operations whose requests the program frees.
#pragma once
#include <weft.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "stream/stream_comm.hpp"

namespace weft::test::enqueued {

/// Requests that the program frees instead of a wait: their operations take place, those of a capture that is
/// given up do not. The library uses the requests again.
inline void freed_requests(const StreamComm& stream_comm) {
  constexpr int kRounds = 160;  // twice the operations that may be unfinished
  const MPI_Comm comm = stream_comm.comm;
  Buffer out(Kind::device, 70000, device), in(Kind::device, 70000, device), sum(Kind::device, 4, device);
  std::set<MPI_Request> used;
  std::vector<MPI_Request> requests;
  const auto free_all = [&](const std::string& what) {
    for (MPI_Request& request : requests) {
      used.insert(request);
      expect_class(MPI_Request_free(&request), MPI_SUCCESS, "MPI_Request_free of " + what);
      expect(request == MPI_REQUEST_NULL, "a freed request is null");
    }
    requests.clear();
  };
  for (int round = 0; round < kRounds; ++round) {
    const int n = round % 3 == 0 ? 70000 : 60;
    out.write(pattern(out.size(), rank, round));
    MPIX_Isend_enqueue(out.data(), n, MPI_BYTE, right(), 1, comm, &requests.emplace_back());
    MPIX_Irecv_enqueue(in.data(), n, MPI_BYTE, MPI_PROC_NULL, 1, comm, &requests.emplace_back());
    if (round % 2 == 0) {  // the collective comes behind what is freed
      MPIX_Irecv_enqueue(in.data(), n, MPI_BYTE, left(), 1, comm, &requests.emplace_back());
      free_all("an operation");
      expect_class(MPIX_Allreduce_enqueue(MPI_IN_PLACE, sum.data(), 1, MPI_INT, MPI_BOR, comm), MPI_SUCCESS,
                   "a collective behind freed requests");
    } else {
      free_all("an operation");
      MPIX_Recv_enqueue(in.data(), n, MPI_BYTE, left(), 1, comm, MPI_STATUS_IGNORE);
    }
    stream_comm.synchronize();
    const auto got = in.read(), sent = pattern(70000, left(), round);
    expect(std::equal(got.begin(), got.begin() + n, sent.begin()), "the message of a freed request");
    MPI_Barrier(MPI_COMM_WORLD);  // `out` has been received
  }
  expect(used.size() < kRounds, "no freed request is used again");
  used.clear();
  // Operations that are unfinished when a capture begins are an error; the collective comes behind them.
  MPIX_Allreduce_enqueue(MPI_IN_PLACE, sum.data(), 1, MPI_INT, MPI_BOR, comm);
  stream_comm.synchronize();
  out.write(pattern(out.size(), rank, kRounds));
  for (int round = 0; round < kRounds; ++round) {
    {
      Graph graph(stream_comm.stream);
      for (const int peer : {right(), rank, MPI_PROC_NULL})
        expect_class(MPIX_Irecv_enqueue(in.data(), 60, MPI_BYTE, peer, 2, comm, &requests.emplace_back()),
                     MPI_SUCCESS, "a captured receive");
      if (round % 2 == 0) free_all("an operation within its capture");
      graph.discard();
    }
    free_all("an operation after its capture");
    MPI_Request request;
    int code = MPIX_Isend_enqueue(out.data(), 60, MPI_BYTE, right(), 3, comm, &request);
    if (code != MPI_SUCCESS) {
      expect_class(code, MPI_ERR_OTHER, "an operation behind those of a capture");
      code = MPIX_Isend_enqueue(out.data(), 60, MPI_BYTE, right(), 3, comm, &request);
    }
    expect_class(code, MPI_SUCCESS, "an operation after a capture that was given up");
    MPIX_Recv_enqueue(in.data(), 60, MPI_BYTE, left(), 3, comm, MPI_STATUS_IGNORE);
    expect_class(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "its wait");
  }
  stream_comm.synchronize();
  const auto got = in.read(), sent = pattern(60, left(), kRounds);
  expect(std::equal(sent.begin(), sent.end(), got.begin()), "a message after captures that were given up");
  expect(used.size() < kRounds, "no request of a capture that was given up is used again");
}

}  // namespace weft::test::enqueued
