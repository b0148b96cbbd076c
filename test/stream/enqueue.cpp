// SPDX-License-Identifier: BSD-3-Clause
// Enqueued sends and receives: sizes, tags out of order, more messages than slots, graphs, several streams
// and communicators, messages to oneself, statuses, progress by the host. On the emulated driver, and
// unchanged on GPUs.
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "stream/enqueue_freed.hpp"
#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;

void fill(Buffer& buffer, int from, int salt) { buffer.write(pattern(buffer.size(), from, salt)); }

/// Nonblocking ring exchange; unaligned by one byte, with guard bytes behind the buffer.
void ring(const StreamComm& stream_comm, Kind from, Kind to, size_t n) {
  Buffer out(from, n + 17, device), in(to, n + 17, device);
  fill(out, rank, 1);
  in.write(std::vector<char>(n + 17, 0x55));
  MPI_Request requests[2];
  const int count = static_cast<int>(n);
  MPIX_Irecv_enqueue(in.data() + 1, count, MPI_BYTE, left(), 4, stream_comm.comm, &requests[0]);
  MPIX_Isend_enqueue(out.data() + (n % 2), count, MPI_BYTE, right(), 4, stream_comm.comm, &requests[1]);
  expect_class(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS, "MPIX_Waitall_enqueue");
  expect(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "requests are null");
  stream_comm.synchronize();
  const auto got = in.read(), sent = pattern(n + 17, left(), 1);
  const std::string what = std::to_string(n) + " bytes, kinds " + std::to_string(static_cast<int>(from)) +
                           " to " + std::to_string(static_cast<int>(to));
  expect(std::equal(got.begin() + 1, got.begin() + 1 + static_cast<long>(n),
                    sent.begin() + static_cast<long>(n % 2)),
         "ring of " + what);
  bool guard_intact = got[0] == 0x55;
  for (size_t i = n + 1; i < n + 17; ++i) guard_intact = guard_intact && got[i] == 0x55;
  expect(guard_intact, "written past the end, " + what);
}

void sizes(const StreamComm& stream_comm) {
  for (const size_t n :
       {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{100}, size_t{4095}, size_t{4096}, size_t{4097},
        size_t{32768}, size_t{65537}, size_t{1} << 20, (size_t{3} << 20) + 5, size_t{16} << 20})
    ring(stream_comm, Kind::device, Kind::device, n);
  for (const Kind kind : {Kind::pinned, Kind::managed, Kind::pool, Kind::mapped})
    for (const size_t n : {size_t{9}, size_t{300000}}) {
      ring(stream_comm, kind, Kind::device, n);
      ring(stream_comm, Kind::device, kind, n);
    }
}

/// Blocking calls, even ranks first; more messages than slots.
void blocking(const StreamComm& stream_comm, size_t n, int times) {
  if (ranks % 2 != 0) return;
  Buffer out(Kind::device, n * static_cast<size_t>(times), device),
      in(Kind::device, n * static_cast<size_t>(times), device);
  fill(out, rank, 2);
  const int count = static_cast<int>(n), peer = rank ^ 1;
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 0; i < times; ++i) {
      const size_t at = n * static_cast<size_t>(i);
      if (rank % 2 == turn)
        MPIX_Send_enqueue(out.data() + at, count, MPI_BYTE, peer, i % 3, stream_comm.comm);
      else
        MPIX_Recv_enqueue(in.data() + at, count, MPI_BYTE, peer, i % 3, stream_comm.comm, MPI_STATUS_IGNORE);
    }
  stream_comm.synchronize();
  expect(in.read() == pattern(in.size(), peer, 2), std::to_string(times) + " blocking messages");
}

/// All sends at once, received in reverse tag order, large and small mixed, two messages per tag.
void out_of_order(const StreamComm& stream_comm) {
  constexpr int kMessages = 20;
  const size_t stride = 100000;
  Buffer out(Kind::device, stride * kMessages, device), in(Kind::device, stride * kMessages, device);
  fill(out, rank, 3);
  in.write(std::vector<char>(in.size(), 0));
  std::vector<MPI_Request> requests;
  const auto bytes = [](int i) { return i % 3 == 0 ? 90000 : 16 + i; };
  for (int i = 0; i < kMessages; ++i)
    MPIX_Isend_enqueue(out.data() + stride * static_cast<size_t>(i), bytes(i), MPI_BYTE, right(), i / 2,
                       stream_comm.comm, &requests.emplace_back());
  // Tags from the last to the first; the two messages of a tag in send order.
  for (int tag = kMessages / 2 - 1; tag >= 0; --tag)
    for (int i = 2 * tag; i < 2 * tag + 2; ++i)
      MPIX_Recv_enqueue(in.data() + stride * static_cast<size_t>(i), bytes(i), MPI_BYTE, left(), tag,
                        stream_comm.comm, MPI_STATUS_IGNORE);
  MPIX_Waitall_enqueue(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  stream_comm.synchronize();
  const auto got = in.read(), sent = pattern(in.size(), left(), 3);
  for (int i = 0; i < kMessages; ++i) {
    const auto at = static_cast<long>(stride) * i;
    expect(std::equal(got.begin() + at, got.begin() + at + bytes(i), sent.begin() + at),
           "out of order, message " + std::to_string(i));
  }
}

/// Windows of nonblocking messages to every rank.
void window(const StreamComm& stream_comm) {
  if (ranks == 1) return;
  const int each = 36 / (ranks - 1);
  const size_t n = 5000;
  const size_t total = n * static_cast<size_t>(each * ranks);
  Buffer out(Kind::device, total, device), in(Kind::device, total, device);
  for (int round = 0; round < 3; ++round) {
    fill(out, rank, round);
    std::vector<MPI_Request> requests;
    for (int i = 0; i < each; ++i)
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        const size_t at = n * static_cast<size_t>(peer * each + i);
        const int count = i % 2 == 0 ? static_cast<int>(n) : 64;
        MPIX_Irecv_enqueue(in.data() + at, count, MPI_BYTE, peer, 7, stream_comm.comm,
                           &requests.emplace_back());
        MPIX_Isend_enqueue(out.data() + at, count, MPI_BYTE, peer, 7, stream_comm.comm,
                           &requests.emplace_back());
      }
    MPIX_Waitall_enqueue(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    stream_comm.synchronize();
    const auto got = in.read();
    for (int peer = 0; peer < ranks; ++peer) {
      const auto sent = pattern(total, peer, round);
      for (int i = 0; i < each && peer != rank; ++i) {
        const auto to = static_cast<long>(n) * (peer * each + i),
                   from = static_cast<long>(n) * (rank * each + i);
        expect(std::equal(got.begin() + to, got.begin() + to + (i % 2 == 0 ? static_cast<long>(n) : 64),
                          sent.begin() + from),
               "window, from " + std::to_string(peer));
      }
    }
  }
}

/// A captured ring, small and large, replayed with other data and back to back.
void graphs(const StreamComm& stream_comm, size_t n) {
  Buffer a(Kind::device, n, device), b(Kind::device, n, device);
  Graph graph(stream_comm.stream);
  MPI_Request requests[2];
  const int count = static_cast<int>(n);
  expect_class(MPIX_Irecv_enqueue(b.data(), count, MPI_BYTE, left(), 5, stream_comm.comm, &requests[0]),
               MPI_SUCCESS, "captured");
  MPIX_Isend_enqueue(a.data(), count, MPI_BYTE, right(), 5, stream_comm.comm, &requests[1]);
  expect_class(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS, "captured wait");
  driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<weft::test::Address>(a.data()),
                                reinterpret_cast<weft::test::Address>(b.data()), n, stream_comm.stream);
  graph.end();
  for (int i = 0; i < 100; ++i) {
    fill(a, rank, i);
    graph.launch();
    if (i % 10 == 5) ring(stream_comm, Kind::device, Kind::device, 64);  // between two launches
    stream_comm.synchronize();
    expect(b.read() == pattern(n, left(), i), "launch " + std::to_string(i) + " of a graph");
  }
  fill(a, rank, 77);
  for (int i = 0; i < 100; ++i) graph.launch();
  stream_comm.synchronize();
  expect(b.read() == pattern(n, ((rank - 100) % ranks + ranks) % ranks, 77), "100 launches back to back");
}

/// A captured pair of blocking calls, even ranks first.
void blocking_graph(const StreamComm& stream_comm) {
  if (ranks % 2 != 0) return;
  Buffer out(Kind::device, 8, device), in(Kind::device, 8, device);
  const int peer = rank ^ 1;
  Graph graph(stream_comm.stream);
  for (int turn = 0; turn < 2; ++turn)
    if (rank % 2 == turn)
      MPIX_Send_enqueue(out.data(), 8, MPI_BYTE, peer, 6, stream_comm.comm);
    else
      MPIX_Recv_enqueue(in.data(), 8, MPI_BYTE, peer, 6, stream_comm.comm, MPI_STATUS_IGNORE);
  graph.end();
  for (int i = 0; i < 100; ++i) {
    fill(out, rank, i);
    graph.launch();
    stream_comm.synchronize();
    expect(in.read() == pattern(8, peer, i), "blocking calls in a graph");
  }
}

/// Two streams and two communicators; the two sides call their operations in opposite orders.
void side_by_side() {
  if (ranks % 2 != 0) return;
  const StreamComm one, two;
  Buffer out(Kind::device, 2000, device), in(Kind::device, 2000, device);
  fill(out, rank, 8);
  const int peer = rank ^ 1;
  for (int i = 0; i < 2; ++i) {
    const StreamComm& stream_comm = (i == 0) == (rank % 2 == 0) ? one : two;
    const size_t at = &stream_comm == &one ? 0 : 1000;
    if (rank % 2 == 0) MPIX_Send_enqueue(out.data() + at, 1000, MPI_BYTE, peer, 1, stream_comm.comm);
    MPIX_Recv_enqueue(in.data() + at, 1000, MPI_BYTE, peer, 1, stream_comm.comm, MPI_STATUS_IGNORE);
    if (rank % 2 != 0) MPIX_Send_enqueue(out.data() + at, 1000, MPI_BYTE, peer, 1, stream_comm.comm);
  }
  one.synchronize();
  two.synchronize();
  expect(in.read() == pattern(2000, peer, 8), "two streams");
  MPIX_Stream found = MPIX_STREAM_NULL;
  MPIX_Comm_get_stream(two.comm, 0, &found);
  expect(found == two.mpi_stream, "MPIX_Comm_get_stream");
}

void self_messages(const StreamComm& stream_comm) {
  Buffer out(Kind::device, 100000, device), in(Kind::device, 100000, device);
  fill(out, rank, 9);
  MPIX_Send_enqueue(out.data(), 1000, MPI_BYTE, rank, 1, stream_comm.comm);
  MPIX_Send_enqueue(out.data() + 1000, 99000, MPI_BYTE, rank, 2, stream_comm.comm);
  MPIX_Recv_enqueue(in.data() + 1000, 99000, MPI_BYTE, rank, 2, stream_comm.comm, MPI_STATUS_IGNORE);
  expect_class(MPIX_Recv_enqueue(in.data(), 1000, MPI_BYTE, rank, 1, stream_comm.comm, MPI_STATUS_IGNORE),
               MPI_SUCCESS, "self");
  stream_comm.synchronize();
  expect(in.read() == pattern(100000, rank, 9), "send to oneself before the receive");
  MPI_Request requests[2];
  fill(out, rank, 10);
  MPIX_Irecv_enqueue(in.data(), 100000, MPI_BYTE, rank, 3, stream_comm.comm, &requests[0]);
  MPIX_Isend_enqueue(out.data(), 100000, MPI_BYTE, rank, 3, stream_comm.comm, &requests[1]);
  expect_class(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS, "self, nonblocking");
  stream_comm.synchronize();
  expect(in.read() == pattern(100000, rank, 10), "receive from oneself before the send");
  expect_class(MPIX_Recv_enqueue(in.data(), 1, MPI_BYTE, rank, 3, stream_comm.comm, MPI_STATUS_IGNORE),
               MPI_ERR_OTHER, "a receive from oneself without a send");
}

/// Statuses in pinned memory; MPI_ANY_TAG matches in send order; truncation.
void statuses(const StreamComm& stream_comm) {
  Buffer out(Kind::device, 10000, device), in(Kind::device, 10000, device),
      pinned(Kind::pinned, 4 * sizeof(MPI_Status), 0);
  auto* status = reinterpret_cast<MPI_Status*>(pinned.data());
  fill(out, rank, 11);
  MPI_Request requests[4];
  MPIX_Isend_enqueue(out.data(), 100, MPI_BYTE, right(), 8, stream_comm.comm, &requests[0]);
  MPIX_Isend_enqueue(out.data(), 9000, MPI_BYTE, right(), 9, stream_comm.comm, &requests[1]);
  MPIX_Irecv_enqueue(in.data(), 10000, MPI_BYTE, left(), MPI_ANY_TAG, stream_comm.comm, &requests[2]);
  MPIX_Irecv_enqueue(in.data(), 10000, MPI_BYTE, left(), MPI_ANY_TAG, stream_comm.comm, &requests[3]);
  expect_class(MPIX_Waitall_enqueue(4, requests, status), MPI_SUCCESS, "wait with statuses");
  stream_comm.synchronize();
  for (int i = 0; i < 2; ++i) {
    int count = 0;
    MPI_Get_count(&status[2 + i], MPI_BYTE, &count);
    expect(status[2 + i].MPI_SOURCE == left() && status[2 + i].MPI_TAG == 8 + i &&
               count == (i == 0 ? 100 : 9000),
           "status " + std::to_string(i));
  }
  if (ranks == 1) return;
  for (const int n : {50, 9000}) {
    in.write(std::vector<char>(in.size(), 0));
    MPIX_Isend_enqueue(out.data(), n, MPI_BYTE, right(), 8, stream_comm.comm, &requests[0]);
    int codes[3];
    codes[0] = MPIX_Recv_enqueue(in.data(), n - 10, MPI_BYTE, left(), 8, stream_comm.comm, MPI_STATUS_IGNORE);
    codes[1] = MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE);
    stream_comm.synchronize();
    MPIX_Irecv_enqueue(in.data(), 0, MPI_BYTE, left(), 8, stream_comm.comm, &requests[1]);
    MPIX_Isend_enqueue(out.data(), 0, MPI_BYTE, right(), 8, stream_comm.comm, &requests[2]);
    codes[2] = MPIX_Waitall_enqueue(2, requests + 1, MPI_STATUSES_IGNORE);
    int reported = 0;
    for (const int code : codes) {
      if (code != MPI_SUCCESS) expect_class(code, MPI_ERR_TRUNCATE, "a message that is too long");
      reported += code != MPI_SUCCESS ? 1 : 0;
    }
    expect(reported == 1, "a message that is too long is reported once");
    stream_comm.synchronize();
    const auto got = in.read(), sent = pattern(in.size(), left(), 11);
    expect(
        std::equal(got.begin(), got.begin() + n - 10, sent.begin()) && got[static_cast<size_t>(n - 10)] == 0,
        "what fits of it");
  }
}

/// A send without a wait progresses while the host is in MPI.
void host_progress(const StreamComm& stream_comm) {
  if (ranks % 2 != 0) return;
  Buffer data(Kind::device, 300000, device);
  const int peer = rank ^ 1;
  int word = 0;
  if (rank % 2 == 0) {
    fill(data, rank, 12);
    MPI_Request request;
    MPIX_Isend_enqueue(data.data(), 300000, MPI_BYTE, peer, 1, stream_comm.comm, &request);
    MPI_Recv(&word, 1, MPI_INT, peer, 2, stream_comm.comm, MPI_STATUS_IGNORE);
    MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
    stream_comm.synchronize();
  } else {
    MPIX_Recv_enqueue(data.data(), 300000, MPI_BYTE, peer, 1, stream_comm.comm, MPI_STATUS_IGNORE);
    stream_comm.synchronize();
    expect(data.read() == pattern(300000, peer, 12), "a send while the host waits");
    MPI_Send(&word, 1, MPI_INT, peer, 2, stream_comm.comm);
  }
}

void misuse(const StreamComm& stream_comm) {
  Buffer data(Kind::device, 64, device);
  char host[64];
  const MPI_Comm comm = stream_comm.comm;
  MPI_Status status;
  MPI_Request request;
  expect_class(MPIX_Send_enqueue(host, 64, MPI_BYTE, right(), 1, comm), MPI_ERR_BUFFER, "pageable memory");
  expect_class(MPIX_Recv_enqueue(data.data(), 64, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE),
               MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ANY_SOURCE");
  expect_class(MPIX_Recv_enqueue(data.data(), 64, MPI_BYTE, left(), 1, comm, &status), MPI_ERR_ARG,
               "status on the stack");
  expect_class(MPIX_Send_enqueue(data.data(), 64, MPI_BYTE, ranks, 1, comm), MPI_ERR_RANK,
               "a rank that is none");
  expect_class(MPIX_Send_enqueue(data.data(), 64, MPI_BYTE, MPI_PROC_NULL, 1, comm), MPI_SUCCESS,
               "MPI_PROC_NULL");
  expect_class(MPIX_Send_enqueue(data.data(), -1, MPI_BYTE, right(), 1, comm), MPI_ERR_COUNT,
               "a negative count");
  const int lengths[] = {1, 2, 1}, displacements[] = {0, 2, 7};
  MPI_Datatype irregular;
  MPI_Type_indexed(3, lengths, displacements, MPI_INT, &irregular);
  MPI_Type_commit(&irregular);
  expect_class(MPIX_Send_enqueue(data.data(), 1, irregular, right(), 1, comm), MPI_ERR_UNSUPPORTED_OPERATION,
               "an irregular type");
  MPI_Type_free(&irregular);
  MPI_Comm plain;
  MPI_Comm_dup(MPI_COMM_SELF, &plain);
  MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN);
  expect_class(MPIX_Send_enqueue(data.data(), 64, MPI_BYTE, 0, 1, plain), MPI_ERR_COMM,
               "a communicator without a stream");
  MPI_Comm_free(&plain);
  MPIX_Irecv_enqueue(data.data(), 64, MPI_BYTE, MPI_PROC_NULL, 1, comm, &request);
  int flag;
  expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "MPI_Wait on an enqueued request");
  expect_class(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
               "MPI_Test on an enqueued request");
  expect_class(MPI_Waitall(1, &request, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
               "MPI_Waitall on an enqueued request");
  expect_class(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel on an enqueued request");
  expect_class(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "a receive from MPI_PROC_NULL");
  std::vector<MPI_Request> many(79);
  for (MPI_Request& one : many) MPIX_Irecv_enqueue(data.data(), 0, MPI_BYTE, left(), 1, comm, &one);
  if (ranks > 1)
    expect_class(MPIX_Irecv_enqueue(data.data(), 0, MPI_BYTE, left(), 1, comm, &request), MPI_ERR_NO_MEM,
                 "too many at a time");
  for (int i = 0; i < 79; ++i) MPIX_Send_enqueue(data.data(), 0, MPI_BYTE, right(), 1, comm);
  expect_class(MPIX_Waitall_enqueue(79, many.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS,
               "as many as there may be");
  MPI_Comm several;
  MPIX_Stream both[2] = {stream_comm.mpi_stream, MPIX_STREAM_NULL};
  MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, 2, both, &several);
  MPI_Comm_set_errhandler(several, MPI_ERRORS_RETURN);
  expect_class(MPIX_Send_enqueue(data.data(), 64, MPI_BYTE, 0, 1, several), MPI_ERR_COMM, "several streams");
  MPI_Comm_free(&several);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  MPIX_Stream stream;
  expect_class(MPIX_Stream_create(info, &stream), MPI_ERR_INFO_VALUE, "a stream without its value");
  void* null = nullptr;
  MPIX_Info_set_hex(info, "value", &null, sizeof null);
  expect_class(MPIX_Stream_create(info, &stream), MPI_SUCCESS, "the default stream");
  MPIX_Stream_free(&stream);
  MPI_Info_set(info, "weft_stream_order", "perhaps");
  expect_class(MPIX_Stream_create(info, &stream), MPI_ERR_INFO_VALUE,
               "a hint that is neither true nor false");
  MPI_Info_free(&info);
  expect_class(MPIX_Stream_create(MPI_INFO_NULL, &stream), MPI_SUCCESS, "a stream of no GPU");
  expect_class(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &plain), MPI_SUCCESS, "its communicator");
  MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN);
  expect_class(MPIX_Send_enqueue(data.data(), 64, MPI_BYTE, right(), 1, plain), MPI_ERR_COMM,
               "no GPU stream");
  MPI_Comm_free(&plain);
  if (ranks > 1) {
    const MPIX_Stream mixed = rank == 0 ? stream : stream_comm.mpi_stream;
    expect_class(MPIX_Stream_comm_create(MPI_COMM_WORLD, mixed, &plain), MPI_ERR_ARG,
                 "a GPU stream on some ranks only");
  }
  MPIX_Stream_free(&stream);
  if (ranks == 1) return;
  MPIX_Irecv_enqueue(data.data(), 64, MPI_BYTE, left(), 1, comm, &request);
  MPI_Comm still = comm;
  expect_class(MPI_Comm_free(&still), MPI_ERR_COMM, "MPI_Comm_free with a request under way");
  driver().cuStreamBeginCapture_v2(stream_comm.stream, 0);
  expect_class(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER,
               "a wait in a capture, begun before it");
  void* graph = nullptr;
  driver().cuStreamEndCapture(stream_comm.stream, &graph);
  driver().cuGraphDestroy(graph);
  MPIX_Send_enqueue(data.data(), 64, MPI_BYTE, right(), 1, comm);
  MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
  stream_comm.synchronize();
}

void create_and_free() {
  unsigned long before = 0;
  for (int round = 0; round < 4; ++round) {
    {
      const StreamComm stream_comm;
      ring(stream_comm, Kind::device, Kind::device, 50000);
    }
    if (driver().live == nullptr) continue;
    if (round > 0) expect(driver().live() == before, "memory left after MPI_Comm_free");
    before = driver().live();
  }
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const char* only = argc > 1 ? argv[1] : "";
  const auto part = [&](const char* name, auto&& run) {
    if (*only != '\0' && std::strcmp(only, name) != 0) return;
    run();
    if (std::getenv("TEST_VERBOSE") != nullptr && rank == 0)
      std::fprintf(stderr, "%s done, %d failures\n", name, failures);
  };
  {
    const StreamComm stream_comm;
    part("sizes", [&] { sizes(stream_comm); });
    part("blocking", [&] { blocking(stream_comm, 8, 300), blocking(stream_comm, 10000, 100); });
    part("order", [&] { out_of_order(stream_comm); });
    part("window", [&] { window(stream_comm); });
    part("graphs", [&] { graphs(stream_comm, 8), graphs(stream_comm, 200000); });
    part("blocking_graph", [&] { blocking_graph(stream_comm); });
    part("self", [&] { self_messages(stream_comm); });
    part("statuses", [&] { statuses(stream_comm); });
    part("host", [&] { host_progress(stream_comm); });
    part("freed", [&] { freed_requests(stream_comm); });
    part("misuse", [&] { misuse(stream_comm); });
    part("streams", [&] { side_by_side(); });
    part("create_and_free", [&] { create_and_free(); });
  }
  return weft::test::finish(failures);
}
