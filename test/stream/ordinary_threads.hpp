// SPDX-License-Identifier: BSD-3-Clause
// Ordinary calls by kernels in two threads: one waits for what the other launches or starts.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "stream/order_comm.hpp"

namespace weft::test::enqueued {

/// Runs `launching` in a thread until its launch of a kernel is on the way to the stream, then `behind` in
/// another thread, which must not return before the kernel is in the stream.
template <class Launching, class Behind>
void run_behind_launch(Launching&& launching, Behind&& behind, const std::string& what) {
  constexpr auto kTooEarly = std::chrono::milliseconds(20);
  std::atomic<bool> returned{false};
  driver().hold("cuLaunchKernel");
  std::thread first([&] { driver(), launching(); });
  while (driver().hold(nullptr) == 0) std::this_thread::yield();
  std::thread second([&] { driver(), behind(), returned = true; });
  std::this_thread::sleep_for(kTooEarly);  // a call that does not wait returns meanwhile
  expect(!returned, what);
  driver().hold("");
  second.join();
  first.join();
}

/// Two threads wait for the two ends of a message, which one of them launches. With statuses the host reads
/// the data at once.
inline void held_launches(const OrderComm& ordered) {
  if (driver().hold == nullptr) return;  // a real driver
  constexpr int kInts = 100, kBytes = 4 * kInts;
  constexpr unsigned kSlowUs = 3000, kUsualUs = 30;  // delay of operations in streams
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, kBytes, device), in(Kind::device, kBytes, device);
  driver().delay(kSlowUs);
  for (int form = 0; form < 4; ++form) {
    out.write(pattern(kBytes, rank, form));
    in.write(std::vector<char>(kBytes, 0));
    MPI_Request request;
    MPI_Isend(out.data(), kInts, MPI_INT, rank, 1, comm, &request);
    std::vector<char> received;
    MPI_Status of_receive, of_send;
    const auto receive = [&] {
      MPI_Recv(in.data(), kInts, MPI_INT, rank, 1, comm, form / 2 == 0 ? MPI_STATUS_IGNORE : &of_receive);
      if (form / 2 == 0) ordered.synchronize();
      received = in.read();
    };
    run_behind_launch(
        receive, [&] { MPI_Wait(&request, form % 2 == 0 ? MPI_STATUS_IGNORE : &of_send); },
        "the wait for a send whose launch is not in the stream, form " + std::to_string(form));
    expect(received == pattern(kBytes, rank, form), "a message of two threads, form " + std::to_string(form));
  }
  driver().delay(kUsualUs);
  const OrderedStream second;
  run_behind_launch(
      [&] {
        MPI_Sendrecv(out.data(), kInts, MPI_INT, rank, 2, in.data(), kInts, MPI_INT, rank, 2, comm,
                     MPI_STATUS_IGNORE);
      },
      [&] {
        expect_class(MPIX_Comm_set_stream(comm, second.mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
      },
      "the change of the stream during a launch");
  expect_class(MPIX_Comm_set_stream(comm, MPIX_STREAM_NULL), MPI_SUCCESS, "MPIX_Comm_set_stream");
  second.synchronize();
  ordered.synchronize();
}

/// A thread that waits for any of its requests completes them, although another thread has started an
/// operation later and is outside of MPI.
inline void waits_for_any(const OrderComm& ordered) {
  constexpr int kInts = 100, kBytes = 4 * kInts;
  constexpr auto kUntilItWaits = std::chrono::milliseconds(5);
  const MPI_Comm comm = ordered.comm;
  Buffer out(Kind::device, kBytes, device), in(Kind::device, kBytes, device);
  for (const bool some : {false, true}) {
    out.write(pattern(kBytes, rank, some ? 1 : 2));
    std::atomic<bool> started{false};
    std::thread other([&] {
      driver();
      MPI_Request request;
      MPI_Irecv(in.data(), kInts, MPI_INT, left(), 3, comm, &request);
      started = true;
      int index = -1, count = -1;
      if (some)
        MPI_Waitsome(1, &request, &count, &index, MPI_STATUSES_IGNORE);
      else
        MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
      expect(index == 0 && request == MPI_REQUEST_NULL, "a wait for any request");
    });
    while (!started) std::this_thread::yield();
    std::this_thread::sleep_for(kUntilItWaits);
    MPI_Request request;
    MPI_Isend(out.data(), kInts, MPI_INT, right(), 3, comm, &request);
    other.join();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ordered.synchronize();
    expect(in.read() == pattern(kBytes, left(), some ? 1 : 2), "the message of a wait for any request");
  }
}

}  // namespace weft::test::enqueued
