// SPDX-License-Identifier: BSD-3-Clause
// Windows and persistent requests that were made before their communicator got a stream are in its order. On
// the emulated driver, and unchanged on GPUs.
#include "stream/gate.hpp"
#include "stream/order_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr int kInts = 500;
constexpr size_t kBytes = kInts * sizeof(int);

/// Ranks in a ring. `sent` gets its content in the stream, while the call is made.
class Ring {
 public:
  explicit Ring(const Plain& plain) {
    MPI_Win_create(window.data(), kBytes, 1, MPI_INFO_NULL, plain.comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Send_init(sent.data(), kInts, MPI_INT, right(), 5, plain.comm, &messages[0]);
    MPI_Recv_init(received.data(), kInts, MPI_INT, left(), 5, plain.comm, &messages[1]);
    MPI_Bcast_init(sent.data(), kInts, MPI_INT, 0, plain.comm, MPI_INFO_NULL, &broadcast);
  }
  /// A window can be freed when its communicator has been.
  ~Ring() {
    expect_class(MPI_Win_free(&win), MPI_SUCCESS, "MPI_Win_free");
    for (MPI_Request* request : {&messages[0], &messages[1], &broadcast}) MPI_Request_free(request);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  Buffer sent{Kind::device, kBytes, device}, later{Kind::device, kBytes, device};
  Buffer window{Kind::device, kBytes, device}, received{Kind::device, kBytes, device};
  MPI_Win win = MPI_WIN_NULL;
  MPI_Request messages[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, broadcast = MPI_REQUEST_NULL;
};

void expect_order(Ring& ring, const OrderedStream& in, int salt, const std::string& what) {
  Gate gate(in.stream);
  const auto write_in_stream = [&](int step) {
    ring.sent.write(std::vector<char>(kBytes, 1));
    ring.later.write(pattern(kBytes, rank, salt + step));
    ring.window.write(std::vector<char>(kBytes, 2));
    ring.received.write(std::vector<char>(kBytes, 3));
    MPI_Barrier(MPI_COMM_WORLD);
    gate.close();
    copy(in.stream, ring.sent, ring.later);
  };
  write_in_stream(0);
  expect_class(MPI_Win_fence(0, ring.win), MPI_SUCCESS, what + ": MPI_Win_fence");
  expect_class(MPI_Put(ring.sent.data(), kInts, MPI_INT, right(), 0, kInts, MPI_INT, ring.win), MPI_SUCCESS,
               what + ": MPI_Put");
  expect_class(MPI_Win_fence(0, ring.win), MPI_SUCCESS, what + ": MPI_Win_fence");
  in.synchronize();
  expect(ring.window.read() == pattern(kBytes, left(), salt), what + ": data put into a window");

  write_in_stream(1);
  expect_class(MPI_Startall(2, ring.messages), MPI_SUCCESS, what + ": MPI_Startall");
  expect_class(MPI_Waitall(2, ring.messages, MPI_STATUSES_IGNORE), MPI_SUCCESS, what + ": MPI_Waitall");
  in.synchronize();
  expect(ring.received.read() == pattern(kBytes, left(), salt + 1), what + ": a persistent message");

  write_in_stream(2);
  expect_class(MPI_Start(&ring.broadcast), MPI_SUCCESS, what + ": MPI_Start");
  expect_class(MPI_Wait(&ring.broadcast, MPI_STATUS_IGNORE), MPI_SUCCESS, what + ": MPI_Wait");
  in.synchronize();
  expect(ring.sent.read() == pattern(kBytes, 0, salt + 2), what + ": a persistent broadcast");
}

void refused_in_capture(Ring& ring, const OrderedStream& in) {
  Graph graph(in.stream);
  expect_class(MPI_Start(&ring.broadcast), MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Start in a capture");
  graph.discard();
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  {
    const OrderedStream first, second;
    Plain plain;
    Ring ring(plain);
    const auto set = [&](MPIX_Stream stream) {
      expect_class(MPIX_Comm_set_stream(plain.comm, stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
    };
    set(first.mpi_stream);
    expect_order(ring, first, 10, "the first stream");
    refused_in_capture(ring, first);
    set(second.mpi_stream);
    expect_order(ring, second, 20, "another stream");
    set(MPIX_STREAM_NULL);
    ring.received.write(std::vector<char>(kBytes, 3));
    ring.sent.write(pattern(kBytes, rank, 30));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Startall(2, ring.messages);
    MPI_Waitall(2, ring.messages, MPI_STATUSES_IGNORE);
    expect(ring.received.read() == pattern(kBytes, left(), 30), "no stream");
    set(first.mpi_stream);
    plain.free();
    expect_order(ring, first, 40, "a communicator that was freed");
  }
  return weft::test::finish(failures);
}
