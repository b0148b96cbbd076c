// SPDX-License-Identifier: BSD-3-Clause
// Partitioned requests through the handle of weft_device.cuh. A thread of the host, which calls no MPI,
// stands for a kernel; kernels are in test/rma/device_api.cpp.
#include <thread>

#include "stream/stream_comm.hpp"
#include "weft_device.cuh"

namespace {

using namespace weft::test::enqueued;
using weft::device::Error;
using weft::device::PartitionedRequest;
using weft::device::Thread;

constexpr int kSent = 8, kReceived = 4;
constexpr size_t kBytes = 40'000;

struct Pair {
  explicit Pair(Kind kind) : out(kind, kBytes, device), in(kind, kBytes, device) {
    MPI_Psend_init(out.data(), kSent, kBytes / kSent, MPI_BYTE, right(), 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Precv_init(in.data(), kReceived, kBytes / kReceived, MPI_BYTE, left(), 5, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &requests[1]);
  }
  ~Pair() {
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
  void handles() {
    for (int i = 0; i < 2; ++i)
      expect_class(MPIX_Prequest_device_handle(requests[i], &handle[i]), MPI_SUCCESS, "handle");
  }
  /// The kernel.
  void exchange(int round) {
    const PartitionedRequest send(handle[0]), receive(handle[1]);
    expect(send.partitions() == kSent && receive.partitions() == kReceived, "numbers of partitions");
    for (int i = 0; i < kSent; ++i)
      expect(send.pready(Thread(), (i * 3 + round) % kSent) == Error::none, "pready");
    for (int i = kReceived; i-- > 0;) {
      expect(receive.wait_arrived(Thread(), i) == Error::none, "wait_arrived");
      expect(receive.parrived(i), "parrived");
    }
    expect(send.pready(Thread(), kSent) == Error::range && !receive.parrived(-1), "a partition too many");
  }
  void check(int round) {
    expect(in.read(0, kBytes) == pattern(kBytes, left(), round), "data of round " + std::to_string(round));
  }
  Buffer out, in;
  MPI_Request requests[2];
  void* handle[2] = {};
};

void rounds(Kind kind) {
  Pair pair(kind);
  pair.handles();
  expect(PartitionedRequest(pair.handle[0]).pready(Thread(), 0) == Error::range, "pready before MPI_Start");
  for (int round = 0; round < 10; ++round) {
    pair.out.write(pattern(kBytes, rank, round));
    MPI_Startall(2, pair.requests);
    std::thread kernel([&] { pair.exchange(round); });
    if (round % 2 == 0) MPI_Waitall(2, pair.requests, MPI_STATUSES_IGNORE);
    for (int done = 0; round % 2 != 0 && done == 0;)
      MPI_Testall(2, pair.requests, &done, MPI_STATUSES_IGNORE);
    kernel.join();
    pair.check(round);
  }
}

/// The host marks some partitions, the kernel the others; the handle is made after MPI_Start.
void mixed() {
  Pair pair(Kind::host);
  pair.out.write(pattern(kBytes, rank, 77));
  MPI_Startall(2, pair.requests);
  MPI_Pready(1, pair.requests[0]);
  pair.handles();
  std::thread kernel([&] {
    const PartitionedRequest send(pair.handle[0]);
    for (int i = 2; i < kSent; ++i) (void)send.pready(Thread(), i);
  });
  MPI_Pready(0, pair.requests[0]);
  MPI_Waitall(2, pair.requests, MPI_STATUSES_IGNORE);
  kernel.join();
  const PartitionedRequest receive(pair.handle[1]);
  for (int i = 0; i < kReceived; ++i) expect(receive.parrived(i), "arrived at the end");
  pair.check(77);
}

void errors() {
  void* handle = nullptr;
  MPI_Request plain;
  int word = 0;
  MPI_Send_init(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &plain);
  expect_class(MPIX_Prequest_device_handle(plain, &handle), MPI_ERR_REQUEST, "not partitioned");
  MPI_Request_free(&plain);
  Pair pair(Kind::host);
  expect_class(MPIX_Prequest_device_handle(pair.requests[0], nullptr), MPI_ERR_ARG, "no handle");
  driver().cuCtxSetCurrent(nullptr);
  expect_class(MPIX_Prequest_device_handle(pair.requests[0], &handle), MPI_ERR_UNSUPPORTED_OPERATION,
               "no context");
  (void)driver();
  MPI_Request none;
  MPI_Precv_init(&word, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &none);
  expect_class(MPIX_Prequest_device_handle(none, &handle), MPI_SUCCESS, "MPI_PROC_NULL");
  MPI_Start(&none);
  expect(PartitionedRequest(handle).parrived(0), "MPI_PROC_NULL arrives at once");
  MPI_Wait(&none, MPI_STATUS_IGNORE);
  MPI_Request_free(&none);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  (void)driver();
  for (const Kind kind : {Kind::device, Kind::host, Kind::managed}) rounds(kind);
  mixed();
  errors();
  return weft::test::finish(failures);
}
