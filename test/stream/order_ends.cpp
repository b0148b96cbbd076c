// SPDX-License-Identifier: BSD-3-Clause
// Changes and ends of streams, communicators, windows and MPI: windows where only some ranks have a stream,
// streams that end before windows, and errors that no call but the last one can return. On the emulated
// driver, and unchanged on GPUs.
#include "stream/gate.hpp"
#include "stream/order_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr int kInts = 100;
constexpr size_t kBytes = kInts * sizeof(int);

/// A window of a communicator of which only even ranks, or none, have a stream, which ends before the window.
void stream_of_some(bool any) {
  Plain plain;
  Buffer memory(Kind::device, kBytes, device), data(Kind::device, kBytes, device);
  MPI_Win win = MPI_WIN_NULL;
  {
    const OrderedStream in;
    const bool mine = any && rank % 2 == 0;
    const auto set = [&](MPIX_Stream stream) {
      if (mine) expect_class(MPIX_Comm_set_stream(plain.comm, stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
    };
    set(in.mpi_stream);
    MPI_Win_create(memory.data(), kBytes, 1, MPI_INFO_NULL, plain.comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    data.write(pattern(kBytes, rank, 1));
    MPI_Win_fence(0, win);
    MPI_Put(data.data(), kInts, MPI_INT, right(), 0, kInts, MPI_INT, win);
    MPI_Win_fence(0, win);
    in.synchronize();
    expect(memory.read() == pattern(kBytes, left(), 1), "data put where some ranks have a stream");
    set(MPIX_STREAM_NULL);
  }
  expect_class(MPI_Win_free(&win), MPI_SUCCESS, "MPI_Win_free after the end of the stream");
}

/// A graph of the new stream begins after the calls in the old one.
void graph_of_another_stream() {
  if (ranks == 1) return;
  const OrderedStream old, next;
  Plain plain;
  Buffer first(Kind::device, kBytes, device), second(Kind::device, kBytes, device);
  if (rank == 0) {
    MPIX_Comm_set_stream(plain.comm, old.mpi_stream);
    Gate gate(old.stream);
    gate.close();
    MPI_Recv(first.data(), kInts, MPI_INT, 1, 5, plain.comm, MPI_STATUS_IGNORE);
    MPIX_Comm_set_stream(plain.comm, next.mpi_stream);
    Graph graph(next.stream);
    MPI_Recv(second.data(), kInts, MPI_INT, 1, 5, plain.comm, MPI_STATUS_IGNORE);
    graph.end();
    graph.launch();
    next.synchronize();
    old.synchronize();
    expect(first.read() == pattern(kBytes, 1, 1) && second.read() == pattern(kBytes, 1, 2),
           "a graph of another stream after earlier calls");
  } else if (rank == 1) {
    first.write(pattern(kBytes, 1, 1));
    second.write(pattern(kBytes, 1, 2));
    for (const Buffer* sent : {&first, &second}) MPI_Send(sent->data(), kInts, MPI_INT, 0, 5, plain.comm);
  }
}

/// The communicator has been freed, so the window returns the last error, and ends.
void error_at_window_free() {
  const OrderedStream in;
  Plain plain;
  Buffer memory(Kind::device, kBytes, device), data(Kind::device, kBytes, device);
  MPIX_Comm_set_stream(plain.comm, in.mpi_stream);
  MPI_Win win;
  MPI_Win_create(memory.data(), kBytes, 1, MPI_INFO_NULL, plain.comm, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  plain.free();
  Gate gate(in.stream);
  gate.close();
  MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win);
  MPI_Put(data.data(), kInts, MPI_INT, right(), kBytes, kInts, MPI_INT, win);
  expect_class(MPI_Win_unlock(right(), win), MPI_SUCCESS, "MPI_Win_unlock before the stream has begun");
  expect_class(MPI_Win_free(&win), MPI_ERR_RMA_RANGE, "MPI_Win_free after an error in the stream");
  expect(win == MPI_WIN_NULL, "the handle of the freed window");
}

/// A kernel has reported the error; the communicator stays as it is, and can be freed once more.
void error_of_kernels_at_free() {
  if (ranks == 1) return;
  const OrderedStream in("prefer");
  MPI_Comm comm;
  MPIX_Stream_comm_create(MPI_COMM_WORLD, in.mpi_stream, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Buffer data(Kind::device, 2 * kBytes, device);
  Gate gate(in.stream);
  gate.close();
  expect_class(MPI_Sendrecv(data.data(), 20, MPI_INT, right(), 3, data.data() + kBytes, 10, MPI_INT, left(),
                            3, comm, MPI_STATUS_IGNORE),
               MPI_SUCCESS, "MPI_Sendrecv before the stream has begun");
  expect_class(MPI_Comm_free(&comm), MPI_ERR_TRUNCATE, "MPI_Comm_free after an error of a kernel");
  expect(comm != MPI_COMM_NULL, "the handle after an error");
  expect_class(MPI_Barrier(comm), MPI_SUCCESS, "a call before MPI_Comm_free once more");
  expect_class(MPI_Comm_free(&comm), MPI_SUCCESS, "MPI_Comm_free once more");
}

/// MPI_COMM_WORLD cannot be freed: MPI_Finalize returns the error, and is called once more.
void error_at_finalize() {
  const OrderedStream in;
  Buffer data(Kind::device, kBytes, device);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPIX_Comm_set_stream(MPI_COMM_WORLD, in.mpi_stream);
  Gate gate(in.stream);
  gate.close();
  MPI_Request request;
  MPI_Isend(data.data(), 20, MPI_INT, rank, 1, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
  expect_class(MPI_Recv(data.data(), 10, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS,
               "MPI_Recv before the stream has begun");
  expect_class(MPI_Finalize(), MPI_ERR_TRUNCATE, "MPI_Finalize after an error in the stream");
  MPIX_Comm_set_stream(MPI_COMM_WORLD, MPIX_STREAM_NULL);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  for (const bool any : {true, false}) stream_of_some(any);
  graph_of_another_stream();
  error_at_window_free();
  error_of_kernels_at_free();
  error_at_finalize();
  return weft::test::finish(failures);
}
