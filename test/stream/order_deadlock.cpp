// SPDX-License-Identifier: BSD-3-Clause
// Stream order where naive designs deadlock: more waiting streams than hardware queues, communicators in
// opposite orders, receives whose sender is queued behind them, full GPUs, more calls than slots. Kernels
// that are launched for the first time, since each part may run in a fresh process.
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "stream/order_comm.hpp"
#include "stream/ordered_calls.hpp"

namespace {

using namespace weft::test::enqueued;

/// Many streams of rank 0 wait, fewer than there are hardware queues; the messages need copies of the
/// library.
void many_streams(const Plain& plain) {
  constexpr int kStreams = 20, kBytes = 300'000;
  std::vector<std::unique_ptr<OrderComm>> comms;
  std::vector<std::unique_ptr<Buffer>> data;
  for (int i = 0; i < kStreams; ++i) {
    comms.push_back(std::make_unique<OrderComm>());
    data.push_back(std::make_unique<Buffer>(Kind::device, kBytes, device));
  }
  for (size_t i = 0; i < kStreams; ++i) {
    if (rank == 0)
      MPI_Recv(data[i]->data(), kBytes, MPI_BYTE, 1, 0, comms[i]->comm, MPI_STATUS_IGNORE);
    else
      data[i]->write(pattern(kBytes, 1, static_cast<int>(i)));
  }
  MPI_Barrier(plain.comm);
  std::vector<MPI_Request> requests;
  for (size_t i = kStreams; rank == 1 && i-- != 0;) {  // on the host, the last stream first
    MPIX_Comm_set_stream(comms[i]->comm, MPIX_STREAM_NULL);
    MPI_Isend(data[i]->data(), kBytes, MPI_BYTE, 0, 0, comms[i]->comm, &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  // Copies of the program are held, too, until all streams have gone on.
  for (const auto& ordered : comms) ordered->synchronize();
  for (size_t i = 0; i < kStreams; ++i)
    expect(data[i]->read() == pattern(kBytes, 1, static_cast<int>(i)), "message of a waiting stream");
}

/// More streams than may wait: calls in the last ones make the host wait.
void few_queues(const Plain& plain) {
  constexpr int kStreams = 12, kBytes = 300'000;
  std::vector<std::unique_ptr<OrderComm>> comms;
  std::vector<std::unique_ptr<Buffer>> data, back;
  for (int i = 0; i < kStreams; ++i) {
    comms.push_back(std::make_unique<OrderComm>());
    for (auto* buffers : {&data, &back})
      buffers->push_back(std::make_unique<Buffer>(Kind::device, kBytes, device));
    if (rank == 1) MPIX_Comm_set_stream(comms.back()->comm, MPIX_STREAM_NULL);
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<MPI_Request> requests;
    for (size_t i = 0; i < kStreams; ++i) {
      data[i]->write(pattern(kBytes, rank, static_cast<int>(i) + round));
      back[i]->write(std::vector<char>(kBytes, 0));
    }
    MPI_Barrier(plain.comm);
    for (size_t i = 0; i < kStreams; ++i) {
      const MPI_Comm comm = comms[i]->comm;
      if (rank == 0) {
        MPI_Recv(back[i]->data(), kBytes, MPI_BYTE, 1, round, comm, MPI_STATUS_IGNORE);
        MPI_Send(back[i]->data(), kBytes, MPI_BYTE, 1, round, comm);
      } else {
        MPI_Irecv(back[i]->data(), kBytes, MPI_BYTE, 0, round, comm, &requests.emplace_back());
        MPI_Isend(data[i]->data(), kBytes, MPI_BYTE, 0, round, comm, &requests.emplace_back());
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < kStreams; ++i) {
      comms[i]->synchronize();
      expect(back[i]->read() == pattern(kBytes, 1, static_cast<int>(i) + round),
             "a message of one of many streams");
    }
  }
}

/// Two communicators, each with its stream, are used in opposite orders.
void opposite_orders() {
  const OrderComm first, second;
  Buffer data[2] = {{Kind::device, 40'000, device}, {Kind::device, 40'000, device}};
  for (int round = 0; round < 20; ++round) {
    for (Buffer& buffer : data) buffer.write(pattern(40'000, rank, round));
    const auto sum = [&](const OrderComm& ordered, Buffer& buffer) {
      MPI_Allreduce(MPI_IN_PLACE, buffer.data(), 40'000, MPI_BYTE, MPI_BXOR, ordered.comm);
      MPI_Sendrecv_replace(buffer.data(), 40'000, MPI_BYTE, right(), 1, left(), 1, ordered.comm,
                           MPI_STATUS_IGNORE);
    };
    if ((rank + round) % 2 == 0) {
      sum(first, data[0]);
      sum(second, data[1]);
    } else {
      sum(second, data[1]);
      sum(first, data[0]);
    }
    first.synchronize();
    second.synchronize();
    expect(data[0].read() == data[1].read(), "results of both communicators");
  }
}

/// The sender is behind the receive: in the same stream, as nonblocking operations, and in another stream.
void sender_behind() {
  const OrderComm ordered;
  Buffer in(Kind::device, 100'000, device), out(Kind::device, 100'000, device);
  out.write(pattern(100'000, rank, 2));
  MPI_Request request;
  MPI_Irecv(in.data(), 100'000, MPI_BYTE, rank, 1, ordered.comm, &request);
  MPI_Send(out.data(), 100'000, MPI_BYTE, rank, 1, ordered.comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  ordered.synchronize();
  expect(in.read() == pattern(100'000, rank, 2), "a message to oneself in one stream");
  // Rank 0 receives in one stream, and its neighbor sends only after an exchange in another stream.
  const OrderComm second;
  if (ranks == 1) return;
  for (int round = 0; round < 10; ++round) {
    in.write(std::vector<char>(100'000, 0));
    if (rank == 0) MPI_Recv(in.data(), 100'000, MPI_BYTE, 1, 1, ordered.comm, MPI_STATUS_IGNORE);
    MPI_Barrier(second.comm);
    second.synchronize();
    if (rank == 1) MPI_Send(out.data(), 100'000, MPI_BYTE, 0, 1, ordered.comm);
    ordered.synchronize();
    if (rank == 0) expect(in.read() == pattern(100'000, 1, 2), "a message behind another stream");
  }
}

/// More calls than there are slots, all behind one message.
void many_calls(const Plain& plain) {
  constexpr int kCalls = 1500;
  const OrderComm ordered;
  Buffer data(Kind::device, 4 * kCalls, device);
  int word = 0;
  if (rank == 1) {
    for (int i = 0; i < 1000; ++i)
      MPI_Recv(data.data() + 4 * i, 1, MPI_INT, 0, i, ordered.comm, MPI_STATUS_IGNORE);
    MPI_Send(&word, 1, MPI_INT, 0, 0, plain.comm);
    for (int i = 1000; i < kCalls; ++i)
      MPI_Recv(data.data() + 4 * i, 1, MPI_INT, 0, i, ordered.comm, MPI_STATUS_IGNORE);
    ordered.synchronize();
    expect(data.read() == pattern(4 * kCalls, 0, 1), "messages behind one another");
  } else if (rank == 0) {
    data.write(pattern(4 * kCalls, 0, 1));
    MPI_Recv(&word, 1, MPI_INT, 1, 0, plain.comm, MPI_STATUS_IGNORE);
    for (int i = 0; i < kCalls; ++i) MPI_Send(data.data() + 4 * i, 1, MPI_INT, 1, i, ordered.comm);
    ordered.synchronize();
  }
}

/// Kernels that end after the messages occupy the GPUs; the pack kernel is launched for the first time.
void full_gpu(const Plain& plain) {
  const OrderComm ordered;
  constexpr int kInts = 3000;
  Buffer in(Kind::device, 8 * kInts, device), out(Kind::device, 8 * kInts, device);
  const auto exchange = [&](MPI_Datatype type, int count) {
    MPI_Sendrecv(out.data(), count, type, right(), 1, in.data(), count, type, left(), 1, ordered.comm,
                 MPI_STATUS_IGNORE);
  };
  // Maps the buffers, which waits for kernels: for a receive that is posted before its message, and after it.
  for (int turn = 0; turn < 6; ++turn) {
    MPI_Request request;
    if (turn % 2 == 0)
      MPI_Irecv(in.data(), 2 * kInts, MPI_INT, left(), 1, plain.comm, &request);
    else
      MPI_Isend(out.data(), 2 * kInts, MPI_INT, right(), 1, plain.comm, &request);
    MPI_Barrier(plain.comm);
    if (turn % 2 == 0)
      MPI_Send(out.data(), 2 * kInts, MPI_INT, right(), 1, plain.comm);
    else
      MPI_Recv(in.data(), 2 * kInts, MPI_INT, left(), 1, plain.comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  exchange(MPI_INT, 2 * kInts);
  ordered.synchronize();
  MPI_Datatype type = weft::test::ordered::strided(kInts);
  weft::test::FullGpu gpu(device);
  for (int round = 0; round < 3; ++round) {
    out.write(pattern(8 * kInts, rank, round));
    in.write(std::vector<char>(8 * kInts, 0));
    MPI_Barrier(plain.comm);
    gpu.fill();
    exchange(MPI_INT, 2 * kInts);
    ordered.synchronize();
    expect(gpu.full(), "the GPU was not full");
    MPI_Barrier(plain.comm);
    gpu.release();
    expect(in.read() == pattern(8 * kInts, left(), round), "a message with a full GPU");
    exchange(type, 1);
    ordered.synchronize();
  }
  MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const char* only = argc > 1 ? argv[1] : "";
  const auto part = [&](const char* name, auto&& run) {
    if (*only != '\0' && std::strcmp(only, name) != 0) return;
    run();
    MPI_Barrier(MPI_COMM_WORLD);
    if (std::getenv("TEST_VERBOSE") != nullptr && rank == 0)
      std::fprintf(stderr, "%s done, %d failures\n", name, failures);
  };
  {
    const Plain plain;
    part("full_gpu", [&] { full_gpu(plain); });
    part("many_streams", [&] { many_streams(plain); });
    part("few_queues", [&] { few_queues(plain); });
    part("opposite_orders", [&] { opposite_orders(); });
    part("sender_behind", [&] { sender_behind(); });
    part("many_calls", [&] { many_calls(plain); });
  }
  return weft::test::finish(failures);
}
