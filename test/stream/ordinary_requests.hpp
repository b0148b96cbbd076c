// SPDX-License-Identifier: BSD-3-Clause
// Requests of ordinary calls by kernels that the program frees, whose messages are too long, or that take any
// tag.
#pragma once
#include <cstring>
#include <thread>
#include <vector>

#include "stream/order_comm.hpp"

namespace weft::test::enqueued {

/// Requests that the program frees end without a wait: any number of them, and before a collective.
inline void freed_requests(const OrderComm& ordered) {
  constexpr int kInts = 50;
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, 4 * kInts, device), in(Kind::device, 4 * kInts, device);
  Buffer sum(Kind::device, 4, device);
  out.write(pattern(4 * kInts, rank, 7));
  MPI_Request request, reduction;
  const auto send_and_free = [&](bool persistent) {
    int sent = MPI_SUCCESS;
    if (persistent) {
      MPI_Send_init(out.data(), kInts, MPI_INT, right(), 6, comm, &request);
      sent = MPI_Start(&request);
    } else {
      sent = MPI_Isend(out.data(), kInts, MPI_INT, right(), 6, comm, &request);
    }
    expect_class(sent, MPI_SUCCESS, "a send that is freed");
    if (sent == MPI_SUCCESS) MPI_Request_free(&request);
    expect_class(MPI_Recv(in.data(), kInts, MPI_INT, left(), 6, comm, MPI_STATUS_IGNORE), MPI_SUCCESS,
                 "a receive of a freed send");
  };
  for (const bool persistent : {false, true}) {
    for (int i = 0; i < 200 && failures == 0; ++i) send_and_free(persistent);
    expect_class(MPI_Iallreduce(MPI_IN_PLACE, sum.data(), 1, MPI_INT, MPI_SUM, comm, &reduction), MPI_SUCCESS,
                 "MPI_Iallreduce");
    send_and_free(persistent);
    expect_class(MPI_Wait(&reduction, MPI_STATUS_IGNORE), MPI_SUCCESS, "a reduction behind a freed send");
    send_and_free(persistent);
    expect_class(MPI_Allreduce(MPI_IN_PLACE, sum.data(), 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS,
                 "MPI_Allreduce behind a freed send");
    send_and_free(persistent);
    expect_class(MPI_Scan(out.data(), in.data(), 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS,
                 "MPI_Scan behind a freed send");
    send_and_free(persistent);
    const OrderedStream second;
    for (const MPIX_Stream stream : {second.mpi_stream, MPIX_STREAM_NULL})
      expect_class(MPIX_Comm_set_stream(comm, stream), MPI_SUCCESS,
                   "MPIX_Comm_set_stream after a freed send");
    second.synchronize();
  }
  send_and_free(false);
  ordered.synchronize();
  expect(in.read() == pattern(4 * kInts, left(), 7), "the message of a freed send");
  // Freed after a test: it ends with the communicator.
  int flag = 0;
  constexpr int kLargeInts = 100'000;
  Buffer large(Kind::device, 4 * kLargeInts, device), target(Kind::device, 4 * kLargeInts, device);
  const OrderComm other("true");
  for (int i = 0; i < 10; ++i) {
    MPI_Isend(large.data(), kLargeInts, MPI_INT, right(), i, other.comm, &request);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (flag == 0) MPI_Request_free(&request);
  }
  for (int i = 0; i < 10; ++i)
    MPI_Recv(target.data(), kLargeInts, MPI_INT, left(), i, other.comm, MPI_STATUS_IGNORE);
}

/// The wait that returns the status of a message longer than its receive returns the error, too.
inline void truncated(const OrderComm& ordered) {
  Buffer out(Kind::device, 400, device), in(Kind::device, 400, device);
  MPI_Request requests[2];
  MPI_Status status;
  for (int round = 0; round < 20; ++round) {
    MPI_Irecv(in.data(), 10, MPI_INT, left(), 1, ordered.comm, &requests[0]);
    MPI_Isend(out.data(), 20, MPI_INT, right(), 1, ordered.comm, &requests[1]);
    int flag = 0;
    if (round % 2 == 1) MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
    expect_class(MPI_Wait(&requests[0], &status), MPI_ERR_TRUNCATE, "a wait for a longer message");
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    ordered.synchronize();
  }
  int found = MPI_SUCCESS;
  MPIX_Comm_stream_error(ordered.comm, &found);
}

/// A message to oneself for whose receive there is no room in a launch is received later.
inline void no_room(const OrderComm& ordered) {
  constexpr int kPairs = 79;  // unfinished operations, at most
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, 4 * (kPairs + 1), device), in(Kind::device, 4 * (kPairs + 1), device);
  out.write(pattern(4 * (kPairs + 1), rank, 3));
  MPI_Request requests[2 * kPairs], last[2];
  for (int i = 0; i < kPairs; ++i) {
    MPI_Irecv(in.data() + 4 * i, 1, MPI_INT, rank, i, comm, &requests[2 * i]);
    MPI_Isend(out.data() + 4 * i, 1, MPI_INT, rank, i, comm, &requests[2 * i + 1]);
  }
  const auto receive = [&] {
    return MPI_Irecv(in.data() + 4 * kPairs, 1, MPI_INT, rank, kPairs, comm, &last[1]);
  };
  MPI_Isend(out.data() + 4 * kPairs, 1, MPI_INT, rank, kPairs, comm, &last[0]);
  expect_class(receive(), MPI_ERR_NO_MEM, "a receive for which there is no room");
  expect_class(MPI_Waitall(2 * kPairs, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS, "the waits before it");
  expect_class(receive(), MPI_SUCCESS, "the same receive again");
  expect_class(MPI_Waitall(2, last, MPI_STATUSES_IGNORE), MPI_SUCCESS, "its wait");
  ordered.synchronize();
  expect(in.read() == out.read(), "messages to oneself of a full launch");
}

/// A receive that no message matches ends when it is cancelled, whether or not a kernel has looked for its
/// message; a receive that has a message is complete.
inline void cancelled(const OrderComm& ordered) {
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, 40, device), in(Kind::device, 80, device);
  for (int form = 0; form < 12; ++form) {
    const bool launched = form % 2 == 1, matched = form / 2 % 2 == 1;
    const int peer = form < 8 ? right() : rank, source = form < 8 ? left() : rank;
    const int tag = 10 + form;  // ranks are not in the same form at the same time
    const std::string what = ", form " + std::to_string(form);
    out.write(pattern(40, rank, form));
    MPI_Request receive, first;
    MPI_Status status;
    int flag = 0;
    MPI_Irecv(in.data(), 10, MPI_INT, source, tag, comm, &receive);
    if (matched) MPI_Send(out.data(), 10, MPI_INT, peer, tag, comm);
    if (launched) {  // with the pending receive
      MPI_Irecv(in.data() + 40, 10, MPI_INT, left(), 2, comm, &first);
      MPI_Send(out.data(), 10, MPI_INT, right(), 2, comm);
      MPI_Wait(&first, &status);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (form / 4 == 1)
      for (int i = 0; i < 20; ++i) MPI_Request_get_status(receive, &flag, MPI_STATUS_IGNORE);
    MPI_Cancel(&receive);
    if (form % 3 == 0) {
      for (flag = 0; flag == 0;) MPI_Test(&receive, &flag, &status);
    } else {
      expect_class(MPI_Wait(&receive, form % 3 == 1 ? &status : MPI_STATUS_IGNORE), MPI_SUCCESS,
                   "a wait for a cancelled receive" + what);
    }
    if (form % 3 != 2) {
      MPI_Test_cancelled(&status, &flag);
      if (matched && peer == rank) expect(flag == 0, "the receive was complete" + what);
      if (!matched) expect(flag == 1, "the receive is cancelled" + what);
      // Whether an earlier message has been seen is up to the stream: it goes to another receive otherwise.
      if (matched && flag == 1) MPI_Recv(in.data(), 10, MPI_INT, source, tag, comm, MPI_STATUS_IGNORE);
      ordered.synchronize();
      if (matched)
        expect(in.read(0, 40) == pattern(40, source, form), "the message of a cancelled receive" + what);
    } else if (matched) {
      ordered.synchronize();
      if (in.read(0, 40) != pattern(40, source, form))
        MPI_Recv(in.data(), 10, MPI_INT, source, tag, comm, MPI_STATUS_IGNORE);
    }
  }
  MPI_Request freed;
  int flag = 0;
  MPI_Irecv(in.data(), 10, MPI_INT, left(), 5, comm, &freed);
  for (int i = 0; i < 20; ++i) MPI_Request_get_status(freed, &flag, MPI_STATUS_IGNORE);
  MPI_Cancel(&freed);
  MPI_Request_free(&freed);
  expect_class(MPI_Barrier(comm), MPI_SUCCESS, "a barrier behind a cancelled receive");
  ordered.synchronize();
}

/// A receive of any tag from oneself takes no message of a neighborhood collective.
inline void any_tag_and_neighbors(const OrderComm& ordered) {
  if (ranks > 1) return;
  Buffer out(Kind::device, 40, device), in(Kind::device, 40, device), neighbors(Kind::device, 80, device);
  out.write(pattern(40, 0, 1));
  in.write(std::vector<char>(40, 0));
  MPI_Request request, collective;
  MPI_Irecv(in.data(), 10, MPI_INT, 0, MPI_ANY_TAG, ordered.grid, &request);
  MPI_Ineighbor_allgather(out.data(), 5, MPI_INT, neighbors.data(), 5, MPI_INT, ordered.grid, &collective);
  expect_class(MPI_Wait(&collective, MPI_STATUS_IGNORE), MPI_SUCCESS, "MPI_Ineighbor_allgather");
  MPI_Send(out.data() + 20, 5, MPI_INT, 0, 8, ordered.grid);
  MPI_Status status;
  expect_class(MPI_Wait(&request, &status), MPI_SUCCESS, "a receive of any tag");
  expect(status.MPI_TAG == 8, "the tag of a message to oneself: " + std::to_string(status.MPI_TAG));
  ordered.synchronize();
  expect(in.read(0, 20) == out.read(20, 20) && neighbors.read(20, 20) == out.read(0, 20),
         "messages of any tag and of neighbors");
}

/// A test of a collective behind a receive without a message is local, and returns false; the collective is
/// executed when the message has arrived. The sender enters the collective behind its message.
inline void tested_collectives(const OrderComm& ordered, const Plain& plain) {
  if (ranks == 1) return;
  constexpr int kTests = 100;
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, 40, device), in(Kind::device, 40, device), sum(Kind::device, 4, device);
  for (const bool freed : {false, true}) {
    const int one = 1, salt = freed ? 1 : 2;
    std::vector<char> bytes(sizeof one);
    std::memcpy(bytes.data(), &one, sizeof one);
    sum.write(bytes);
    out.write(pattern(40, rank, salt));
    MPI_Request receive, reduction;
    int flag = 0, word = 0;
    if (rank == 0) {
      MPI_Recv(&word, 1, MPI_INT, 1, 7, plain.comm, MPI_STATUS_IGNORE);
      MPI_Send(out.data(), 10, MPI_INT, 1, 7, comm);
    }
    if (rank == 1) MPI_Irecv(in.data(), 10, MPI_INT, 0, 7, comm, &receive);
    if (rank == 1 && freed) MPI_Request_free(&receive);
    MPI_Iallreduce(MPI_IN_PLACE, sum.data(), 1, MPI_INT, MPI_SUM, comm, &reduction);
    for (int i = 0; i < kTests && rank == 1; ++i) {
      expect_class(MPI_Test(&reduction, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS, "a test of a collective");
      expect(flag == 0, "a test of a collective behind a receive without a message");
    }
    if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 7, plain.comm);
    for (flag = 0; flag == 0;) MPI_Test(&reduction, &flag, MPI_STATUS_IGNORE);
    if (rank == 1 && !freed) MPI_Wait(&receive, MPI_STATUS_IGNORE);
    ordered.synchronize();
    int reduced = 0;
    std::memcpy(&reduced, sum.read().data(), sizeof reduced);
    expect(reduced == ranks, "a collective behind a receive");
    if (rank == 1) expect(in.read() == pattern(40, 0, salt), "the message before a collective");
  }
}

/// Two threads wait for collectives that one has started, and replace data at the same time.
inline void threads(const OrderComm& ordered) {
  constexpr int kRounds = 40, kInts = 30'000;
  Buffer sums(Kind::device, 16, device);
  const MPI_Comm comm = ordered.comm;
  for (int round = 0; round < kRounds; ++round) {
    const int ones[4] = {1, 1, 1, 1};
    std::vector<char> bytes(sizeof ones);
    std::memcpy(bytes.data(), ones, sizeof ones);
    sums.write(bytes);
    MPI_Request requests[4];
    for (int i = 0; i < 4; ++i)
      MPI_Iallreduce(MPI_IN_PLACE, sums.data() + 4 * i, 1, MPI_INT, MPI_SUM, comm, &requests[i]);
    const auto wait = [&](int first, bool with_status) {
      driver();
      MPI_Status statuses[2];
      MPI_Request mine[2] = {requests[first], requests[first + 2]};
      expect_class(MPI_Waitall(2, mine, with_status ? statuses : MPI_STATUSES_IGNORE), MPI_SUCCESS,
                   "waits for collectives by two threads");
    };
    std::thread other(wait, 0, round % 3 == 1);
    wait(1, round % 3 == 2);
    ordered.synchronize();
    int reduced[4];  // this thread has waited for the last one
    std::memcpy(reduced, sums.read().data(), sizeof reduced);
    for (const int sum : reduced) expect(sum == ranks, "a collective that two threads wait for");
    other.join();
  }
  const auto replace = [&](int salt) {
    driver();
    Buffer data(Kind::device, 4 * kInts, device);
    data.write(pattern(4 * kInts, rank, salt));
    for (int round = 0; round < kRounds; ++round)
      expect_class(
          MPI_Sendrecv_replace(data.data(), kInts, MPI_INT, rank, salt, rank, salt, comm, MPI_STATUS_IGNORE),
          MPI_SUCCESS, "MPI_Sendrecv_replace by two threads");
    ordered.synchronize();
    expect(data.read() == pattern(4 * kInts, rank, salt), "data that two threads replace");
  };
  std::thread other(replace, 1);
  replace(2);
  other.join();
}

}  // namespace weft::test::enqueued
