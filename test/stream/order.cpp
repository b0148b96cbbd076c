// SPDX-License-Identifier: BSD-3-Clause
// Ordinary calls in stream order: random sequences of all call forms against the same calls on the host,
// captured graphs, requests, host memory, default streams, windows, errors. On the emulated driver, and
// unchanged on GPUs. usage: order [PART [ROUNDS [SEED [SECONDS]]]]: repeats it with other random numbers
// until SECONDS have passed.
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "stream/order_requests.hpp"
#include "stream/order_sequences.hpp"
#include "stream/ordinary_mixed.hpp"

namespace {

using namespace weft::test::enqueued;
using namespace weft::test::ordered;

/// A receive returns before its message is sent, and so do calls behind it.
void returns_at_once(const OrderComm& ordered, const Plain& plain) {
  if (ranks == 1) return;
  Buffer data(Kind::device, 4000, device);
  int word = 0;
  if (rank == 0) {
    MPI_Recv(data.data(), 1000, MPI_INT, 1, 1, ordered.comm, MPI_STATUS_IGNORE);
    MPI_Recv(data.data(), 1000, MPI_INT, 1, 2, ordered.comm, MPI_STATUS_IGNORE);
    MPI_Send(&word, 1, MPI_INT, 1, 0, plain.comm);  // rank 1 sends only after this
    ordered.synchronize();
    expect(data.read() == pattern(4000, 1, 3), "messages sent after the receives returned");
  } else if (rank == 1) {
    data.write(pattern(4000, 1, 3));
    MPI_Recv(&word, 1, MPI_INT, 0, 0, plain.comm, MPI_STATUS_IGNORE);
    MPI_Send(data.data(), 1000, MPI_INT, 0, 1, ordered.comm);
    MPI_Send(data.data(), 1000, MPI_INT, 0, 2, ordered.comm);
    ordered.synchronize();
  }
}

/// Results in host memory are there when the call returns.
void host_memory(const OrderComm& ordered) {
  for (int round = 0; round < 5; ++round) {
    int local = rank + round, global = -1;
    MPI_Allreduce(&local, &global, 1, MPI_INT, MPI_SUM, ordered.comm);
    expect(global == ranks * (ranks - 1) / 2 + ranks * round, "MPI_Allreduce of a variable");
    int in[2] = {rank, round}, out[2] = {-1, -1};
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Irecv(out, 2, MPI_INT, left(), 1, ordered.comm, &requests[0]);
    MPI_Isend(in, 2, MPI_INT, right(), 1, ordered.comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(out[0] == left() && out[1] == round, "a message in host memory");
    MPI_Sendrecv(in, 2, MPI_INT, right(), 2, out, 2, MPI_INT, left(), 2, ordered.comm, &status);
    int count = 0;
    MPI_Get_count(&status, MPI_INT, &count);
    expect(status.MPI_SOURCE == left() && count == 2, "the status of MPI_Sendrecv");
    // Absolute addresses.
    MPI_Datatype absolute;
    MPI_Aint address;
    const int two = 2;
    MPI_Get_address(in, &address);
    MPI_Type_create_hindexed(1, &two, &address, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    in[0] = 1000 + rank;
    MPI_Isend(MPI_BOTTOM, 1, absolute, right(), 3, ordered.comm, &requests[0]);
    MPI_Recv(out, 2, MPI_INT, left(), 3, ordered.comm, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Send(MPI_BOTTOM, 1, absolute, MPI_PROC_NULL, 3, ordered.comm);
    MPI_Type_free(&absolute);
    expect(out[0] == 1000 + left(), "MPI_BOTTOM");
  }
}

/// Statuses, tests, lists that mix requests with and without stream order.
void requests(const OrderComm& ordered, const Plain& plain) {
  Buffer out(Kind::device, 4000, device), in(Kind::device, 4000, device);
  out.write(pattern(4000, rank, 5));
  MPI_Request list[4];
  MPI_Status statuses[4];
  int word = rank, other = -1;
  for (int form = 0; form < 5; ++form) {
    MPI_Irecv(in.data(), 1000, MPI_INT, left(), 1, ordered.comm, &list[0]);
    MPI_Isend(out.data(), 500, MPI_INT, right(), 1, ordered.comm, &list[1]);
    MPI_Irecv(&other, 1, MPI_INT, left(), 1, plain.comm, &list[2]);
    MPI_Isend(&word, 1, MPI_INT, right(), 1, plain.comm, &list[3]);
    if (form == 0) {
      MPI_Waitall(4, list, MPI_STATUSES_IGNORE);
    } else if (form == 1) {
      MPI_Waitall(4, list, statuses);
      int count = 0;
      MPI_Get_count(&statuses[0], MPI_INT, &count);
      expect(statuses[0].MPI_SOURCE == left() && count == 500, "the status of MPI_Waitall");
    } else if (form == 2) {
      for (int i = 0; i < 4; ++i) {
        int index = -1;
        MPI_Waitany(4, list, &index, MPI_STATUS_IGNORE);
        expect(index >= 0 && list[index] == MPI_REQUEST_NULL, "MPI_Waitany");
      }
    } else if (form == 3) {
      for (int done = 0; done == 0;) MPI_Testall(4, list, &done, MPI_STATUSES_IGNORE);
    } else {
      for (int i = 0; i < 4; ++i)
        for (int done = 0; done == 0;) MPI_Test(&list[i], &done, &statuses[i]);
      expect(statuses[0].MPI_SOURCE == left(), "the status of MPI_Test");
    }
    for (const MPI_Request request : list) expect(request == MPI_REQUEST_NULL, "a request is null");
    expect(other == left(), "a message without stream order");
    ordered.synchronize();
    const auto got = in.read(), sent = pattern(4000, left(), 5);
    expect(std::equal(got.begin(), got.begin() + 2000, sent.begin()), "a message in stream order");
  }
  MPI_Isend(out.data(), 10, MPI_INT, right(), 2, ordered.comm, &list[0]);
  MPI_Request_free(&list[0]);
  MPI_Message message;
  int flag = 0;
  while (flag == 0) MPI_Iprobe(left(), 2, ordered.comm, &flag, &statuses[0]);
  MPI_Mprobe(left(), 2, ordered.comm, &message, &statuses[0]);
  MPI_Mrecv(in.data(), 10, MPI_INT, &message, MPI_STATUS_IGNORE);
  ordered.synchronize();
  MPI_Barrier(
      plain.comm);  // the request of the send has been freed: its buffer is in use until the neighbor has it
}

/// Buffered sends in the stream need the buffer until they have run, though the program detaches it at once.
void buffered(const OrderComm& ordered) {
  Buffer out(Kind::device, 4000, device), in(Kind::device, 4000, device);
  std::vector<char> memory(4000 + MPI_BSEND_OVERHEAD);
  for (int round = 0; round < 3; ++round) {
    out.write(pattern(4000, rank, round));
    expect_class(MPI_Buffer_attach(memory.data(), static_cast<int>(memory.size())), MPI_SUCCESS,
                 "MPI_Buffer_attach");
    MPI_Bsend(out.data(), 1000, MPI_INT, right(), 9, ordered.comm);
    MPI_Recv(in.data(), 1000, MPI_INT, left(), 9, ordered.comm, MPI_STATUS_IGNORE);
    void* address = nullptr;
    int size = 0;
    expect_class(MPI_Buffer_detach(&address, &size), MPI_SUCCESS, "MPI_Buffer_detach");
    expect(address == memory.data(), "the detached buffer");
    ordered.synchronize();
    expect(in.read() == pattern(4000, left(), round), "a buffered message");
  }
}

/// Only even ranks have a stream; then the stream changes; then none has one.
void some_ranks(const OrderComm& ordered, const Plain& plain) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const OrderedStream second;
  Buffer in(Kind::device, 8000, device), out(Kind::device, 8000, device);
  for (int round = 0; round < 6; ++round) {
    if (rank % 2 == 0)
      expect_class(MPIX_Comm_set_stream(comm, round % 3 == 0   ? ordered.mpi_stream
                                              : round % 3 == 1 ? second.mpi_stream
                                                               : MPIX_STREAM_NULL),
                   MPI_SUCCESS, "MPIX_Comm_set_stream");
    in.write(pattern(8000, rank, round));
    MPI_Allreduce(in.data(), out.data(), 2000, MPI_INT, MPI_SUM, comm);
    MPI_Sendrecv(out.data(), 1000, MPI_INT, right(), 0, out.data() + 4000, 1000, MPI_INT, left(), 0, comm,
                 MPI_STATUS_IGNORE);
    MPI_Bcast(out.data(), 1000, MPI_INT, 0, comm);
    int sum = 0;
    MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, comm);
    ordered.synchronize();
    second.synchronize();
    std::vector<char> source = pattern(8000, rank, round), wanted(8000);
    MPI_Allreduce(source.data(), wanted.data(), 2000, MPI_INT, MPI_SUM, plain.comm);
    expect(std::memcmp(out.read().data(), wanted.data(), 8000) == 0 ||
               std::memcmp(out.read().data(), wanted.data(), 4000) == 0,
           "ranks with and without a stream, round " + std::to_string(round));
    expect(sum == round * ranks, "a host variable, round " + std::to_string(round));
  }
  expect_class(MPI_Comm_free(&comm), MPI_SUCCESS, "MPI_Comm_free");
}

/// The legacy default stream.
void default_stream() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  driver();
  const OrderedStream legacy(Stream{nullptr});
  expect_class(MPIX_Comm_set_stream(comm, legacy.mpi_stream), MPI_SUCCESS, "a default stream");
  Buffer in(Kind::device, 4000, device), out(Kind::device, 4000, device), result(Kind::device, 4000, device);
  in.write(pattern(4000, rank, 1));
  MPI_Sendrecv(in.data(), 1000, MPI_INT, right(), 0, out.data(), 1000, MPI_INT, left(), 0, comm,
               MPI_STATUS_IGNORE);
  driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<weft::test::Address>(result.data()),
                                reinterpret_cast<weft::test::Address>(out.data()), 4000, nullptr);
  expect(driver().cuStreamSynchronize(nullptr) == 0, "cuStreamSynchronize");
  expect(result.read() == pattern(4000, left(), 1), "the default stream");
  MPI_Comm_free(&comm);
}

/// Calls that make the host wait are refused during a capture; the message names the call.
void refused_in_captures(const OrderComm& ordered) {
  Buffer data(Kind::device, 64, device);
  int word = 0, flag = 0;
  MPI_Request request = MPI_REQUEST_NULL, before = MPI_REQUEST_NULL;
  MPI_Status status;
  MPI_Irecv(data.data(), 4, MPI_INT, rank, 77, ordered.comm, &before);
  {
    Graph graph(ordered.stream);
    const MPI_Comm comm = ordered.comm;
    expect_class(MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_UNSUPPORTED_OPERATION,
                 "host memory in a capture");
    char text[400] = "";
    MPIX_Last_error_message(text, sizeof text, nullptr);
    expect(std::strstr(text, "MPI_Allreduce") != nullptr && std::strstr(text, "host memory") != nullptr,
           std::string("the message names call and reason: ") + text);
    expect_class(MPI_Iprobe(rank, 1, comm, &flag, &status), MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Iprobe");
    expect_class(MPI_Recv(data.data(), 4, MPI_INT, MPI_PROC_NULL, 1, comm, &status),
                 MPI_ERR_UNSUPPORTED_OPERATION, "a status in a capture");
    expect_class(MPI_Isend(&word, 1, MPI_INT, rank, 1, comm, &request), MPI_ERR_UNSUPPORTED_OPERATION,
                 "MPI_Isend of host memory");
    expect_class(MPI_Wait(&before, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "a wait for an earlier operation");
    expect_class(MPI_Isend(data.data(), 4, MPI_INT, rank, 78, comm, &request), MPI_SUCCESS, "MPI_Isend");
    expect_class(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "a wait with a status");
    expect_class(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "a test");
    expect_class(MPI_Recv(data.data(), 4, MPI_INT, rank, 78, comm, MPI_STATUS_IGNORE), MPI_SUCCESS,
                 "MPI_Recv");
    expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "its wait");
    graph.end();
    graph.launch();
    ordered.synchronize();
  }
  MPI_Send(data.data(), 4, MPI_INT, rank, 77, ordered.comm);
  expect_class(MPI_Wait(&before, MPI_STATUS_IGNORE), MPI_SUCCESS, "its wait after the capture");
  ordered.synchronize();
}

/// Errors arrive at the call itself, if it has failed before it returns, at a later call, or at the query;
/// the stream goes on.
void errors(const OrderComm& ordered) {
  Buffer data(Kind::device, 400, device);
  MPI_Request request;
  for (int form = 0; form < 2; ++form) {
    MPI_Isend(data.data(), 100, MPI_INT, rank, 1, ordered.comm, &request);
    const int received = MPI_Recv(data.data(), 10, MPI_INT, rank, 1, ordered.comm, MPI_STATUS_IGNORE);
    ordered.synchronize();
    int found = received;
    if (received == MPI_SUCCESS && form == 1) {
      expect_class(MPIX_Comm_stream_error(ordered.comm, &found), MPI_SUCCESS, "MPIX_Comm_stream_error");
      char text[400] = "";
      MPIX_Last_error_message(text, sizeof text, nullptr);
      expect(std::strstr(text, "MPI_Recv") != nullptr, std::string("the queried error: ") + text);
    }
    if (found != MPI_SUCCESS) expect_class(found, MPI_ERR_TRUNCATE, "the call itself, or the query");
    expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), found == MPI_SUCCESS ? MPI_ERR_TRUNCATE : MPI_SUCCESS,
                 "later");
    ordered.synchronize();
  }
}

/// The error of a call in a stream that has been taken off reaches the next call.
void error_after_stream(const OrderComm& ordered) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Buffer data(Kind::device, 400, device);
  for (int form = 0; form < 3; ++form) {
    MPIX_Comm_set_stream(comm, ordered.mpi_stream);
    MPI_Request request = MPI_REQUEST_NULL, other = MPI_REQUEST_NULL;
    MPI_Isend(data.data(), 100, MPI_INT, 0, 1, comm, &request);
    int found = MPI_Recv(data.data(), 10, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    MPIX_Comm_set_stream(comm, MPIX_STREAM_NULL);
    if (found == MPI_SUCCESS) {
      if (form == 0) found = MPI_Bcast(data.data(), 10, MPI_INT, 0, comm);
      if (form == 1) found = MPI_Irecv(data.data(), 10, MPI_INT, 0, 2, comm, &other);
      if (form == 2) found = MPI_Send_init(data.data(), 10, MPI_INT, 0, 2, comm, &other);
    }
    expect_class(found, MPI_ERR_TRUNCATE, "an error after the stream, form " + std::to_string(form));
    expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "the send");
    expect_class(MPI_Barrier(comm), MPI_SUCCESS, "the next call");
  }
  MPI_Comm_free(&comm);
}

/// The last call of a communicator returns the error of a call in its stream, and leaves it valid.
void error_at_end(const OrderComm& ordered, int (*end)(MPI_Comm*), const std::string& name) {
  Buffer data(Kind::device, 400, device);
  bool at_end = false;  // and not by the call itself, which may have failed before it returns
  for (int i = 0; i < 100 && !at_end; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPIX_Comm_set_stream(comm, ordered.mpi_stream);
    MPI_Request request;
    MPI_Isend(data.data(), 100, MPI_INT, 0, 1, comm, &request);
    MPI_Request_free(&request);
    if (MPI_Recv(data.data(), 10, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
      at_end = true;
      expect_class(end(&comm), MPI_ERR_TRUNCATE, name + " after a call that has failed");
    }
    expect_class(end(&comm), MPI_SUCCESS, name);
    expect(comm == MPI_COMM_NULL, "the handle after " + name);
  }
  expect(at_end, "an error at " + name);
}

/// One-sided operations, by fences and by locks.
void windows(const OrderComm& ordered) {
  constexpr int kInts = 300;
  Buffer window(Kind::device, kInts * sizeof(int), device), data(Kind::device, kInts * sizeof(int), device),
      got(Kind::device, kInts * sizeof(int), device);
  auto* const values = reinterpret_cast<int*>(data.data());
  auto* const fetched = reinterpret_cast<int*>(got.data());
  std::vector<int> ones(kInts, rank + 1), zeros(kInts, 0);
  const auto write = [](Buffer& buffer, const std::vector<int>& ints) {
    std::vector<char> bytes(ints.size() * sizeof(int));
    std::memcpy(bytes.data(), ints.data(), bytes.size());
    buffer.write(bytes);
  };
  const auto read = [](Buffer& buffer) {
    std::vector<int> ints(buffer.size() / sizeof(int));
    std::memcpy(ints.data(), buffer.read().data(), buffer.size());
    return ints;
  };
  write(window, zeros);
  write(data, ones);
  MPI_Win win;
  expect_class(
      MPI_Win_create(window.data(), kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, ordered.comm, &win),
      MPI_SUCCESS, "MPI_Win_create");
  for (int round = 1; round <= 3; ++round) {
    MPI_Win_fence(0, win);
    MPI_Put(values, 100, MPI_INT, right(), 0, 100, MPI_INT, win);
    MPI_Accumulate(values, 100, MPI_INT, left(), 100, 100, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get(fetched, 100, MPI_INT, right(), 0, 100, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 3; ++i) MPI_Fetch_and_op(values, fetched + 200 + i, MPI_INT, 0, 200, MPI_SUM, win);
    MPI_Win_flush(0, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(ordered.comm);
    ordered.synchronize();
    const auto mine = read(window), result = read(got);
    expect(mine[0] == left() + 1 && mine[99] == left() + 1, "MPI_Put");
    expect(mine[100] == round * (right() + 1), "MPI_Accumulate");
    expect(result[0] == rank + 1, "MPI_Get");
    if (rank == 0) expect(mine[200] == round * 3 * ranks * (ranks + 1) / 2, "MPI_Fetch_and_op");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  expect_class(MPI_Win_free(&win), MPI_SUCCESS, "MPI_Win_free");
}

/// MPIX_*_enqueue executed by the host: any type, any source.
void extensions(const OrderComm& ordered) {
  MPI_Comm comm;
  expect_class(MPIX_Stream_comm_create(MPI_COMM_WORLD, ordered.mpi_stream, &comm), MPI_SUCCESS,
               "MPIX_Stream_comm_create");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Buffer in(Kind::device, 8000, device), out(Kind::device, 8000, device);
  in.write(pattern(8000, rank, 4));
  MPI_Datatype type = weft::test::ordered::strided(900);
  MPI_Request requests[2];
  MPIX_Irecv_enqueue(out.data(), 1, type, MPI_ANY_SOURCE, 3, comm, &requests[0]);
  MPIX_Isend_enqueue(in.data(), 1, type, right(), 3, comm, &requests[1]);
  MPI_Type_free(&type);
  expect_class(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS, "MPIX_Waitall_enqueue");
  MPIX_Allreduce_enqueue(MPI_IN_PLACE, out.data(), 1, MPI_INT, MPI_MAX, comm);
  MPIX_Isend_enqueue(in.data(), 5, MPI_INT, rank, 1, comm, &requests[0]);
  MPIX_Recv_enqueue(in.data() + 400, 5, MPI_INT, rank, 1, comm, MPI_STATUS_IGNORE);
  MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE);
  ordered.synchronize();
  const auto sent = pattern(8000, left(), 4), got = out.read();
  MPI_Win win;
  Buffer window(Kind::device, 800, device);
  window.write(std::vector<char>(800, 0));
  MPI_Win_create(window.data(), 800, 1, MPI_INFO_NULL, comm, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  expect_class(MPIX_Win_fence_enqueue(0, win), MPI_SUCCESS, "MPIX_Win_fence_enqueue");
  MPIX_Put_enqueue(in.data(), 400, MPI_BYTE, right(), 0, 400, MPI_BYTE, win);
  MPIX_Accumulate_enqueue(in.data(), 100, MPI_INT, right(), 400, 100, MPI_INT, MPI_BOR, win);
  MPIX_Win_fence_enqueue(0, win);
  MPIX_Get_enqueue(out.data(), 400, MPI_BYTE, rank, 400, 400, MPI_BYTE, win);
  expect_class(MPIX_Win_fence_enqueue(0, win), MPI_SUCCESS, "MPIX_Win_fence_enqueue");
  ordered.synchronize();
  expect(std::memcmp(window.read().data(), sent.data(), 400) == 0 &&
             std::memcmp(out.read().data(), sent.data(), 400) == 0,
         "one-sided operations by the host");
  expect_class(MPI_Win_free(&win), MPI_SUCCESS, "MPI_Win_free");
  for (size_t i = 1; i < 900; ++i)
    expect(std::memcmp(got.data() + 8 * i, sent.data() + 8 * i, 4) == 0, "a strided message");
  expect_class(MPI_Comm_free(&comm), MPI_SUCCESS, "MPI_Comm_free");
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const Parts part(argc, argv);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 4;
  if (argc > 3) random_state = static_cast<unsigned>(std::atoi(argv[3]));
  const double end = MPI_Wtime() + (argc > 4 ? std::atof(argv[4]) : 0);
  do {
    {
      const Plain plain;
      const OrderComm ordered;
      part("at_once", [&] { returns_at_once(ordered, plain); });
      part("host_memory", [&] { host_memory(ordered); });
      part("sequences", [&] { sequences(ordered, plain, rounds, 2 * static_cast<int>(kCallCount)); });
      part("graphs", [&] { graphs(ordered, plain, 50, 3), graphs(ordered, plain, 5000, 2); });
      part("requests", [&] { requests(ordered, plain); });
      part("cancelled", [&] { cancelled_before_start(ordered, plain); });
      part("captured_and_freed", [&] { captured_and_freed(ordered); });
      part("buffered", [&] { buffered(ordered); });
      part("some_ranks", [&] { some_ranks(ordered, plain); });
      part("default_stream", [&] { default_stream(); });
      part("captures", [&] { refused_in_captures(ordered); });
      part("errors", [&] { errors(ordered); });
      part("error_after_stream", [&] { error_after_stream(ordered); });
      part("error_at_free", [&] { error_at_end(ordered, MPI_Comm_free, "MPI_Comm_free"); });
      part("error_at_disconnect", [&] { error_at_end(ordered, MPI_Comm_disconnect, "MPI_Comm_disconnect"); });
      part("windows", [&] { windows(ordered); });
      part("extensions", [&] { extensions(ordered); });
    }
    part("mixed", [&] { MixedRequests(random_state, "prefer").run(5 * rounds); });
    random_below(2);  // parts alone, too, get other numbers
  } while (time_left(end));
  return weft::test::finish(failures);
}
