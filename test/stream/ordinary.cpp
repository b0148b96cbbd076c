// SPDX-License-Identifier: BSD-3-Clause
// Ordinary calls that kernels execute, on communicators whose ranks all promise GPU memory and no wildcards:
// all call forms against the same calls on the host, layouts, requests that the stream and the host complete,
// graphs, other streams, broken promises. On the emulated driver, and unchanged on GPUs.
// usage: ordinary [PART [ROUNDS [SEED [SECONDS]]]]: as order.cpp
#include <weft.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "stream/order_sequences.hpp"
#include "stream/ordinary_captures.hpp"
#include "stream/ordinary_mixed.hpp"
#include "stream/ordinary_requests.hpp"
#include "stream/ordinary_self.hpp"
#include "stream/ordinary_streams.hpp"
#include "stream/ordinary_threads.hpp"

namespace {

using namespace weft::test::enqueued;
using namespace weft::test::ordered;

void expect_message(int code, int wanted, const char* call, const char* text) {
  char message[500] = "";
  if (code != MPI_SUCCESS) MPIX_Last_error_message(message, sizeof message, nullptr);
  expect_class(code, wanted, call);
  expect(std::strstr(message, call) != nullptr && std::strstr(message, text) != nullptr,
         std::string(call) + ": the message names call and reason: " + message);
}

/// A part of a 3-D array of ints: `at` from the start along each axis.
MPI_Datatype block(const int (&sizes)[3], const int (&parts)[3], const int (&at)[3]) {
  MPI_Datatype type;
  MPI_Type_create_subarray(3, sizes, parts, at, MPI_ORDER_C, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

/// Random subarrays are sent and received, with different layouts at both ends, also to oneself; all in one
/// launch. The oracle is the same in host memory.
void layouts(const OrderComm& ordered, const Plain& plain, int rounds) {
  constexpr int kMessages = 6;
  for (int round = 0; round < rounds; ++round) {
    const int n = round % 3 == 0 ? 6 : round % 3 == 1 ? 20 : 150;
    // A message is received within a slab of its own.
    const int sizes[3] = {n, n + 1, n + 2}, slabs[3] = {kMessages * n, n + 1, n + 2};
    const size_t bytes =
        sizeof(int) * static_cast<size_t>(n) * static_cast<size_t>(n + 1) * static_cast<size_t>(n + 2);
    Buffer in(Kind::device, bytes, device), out(Kind::device, kMessages * bytes, device);
    const auto data = pattern(bytes, rank, round), before = pattern(kMessages * bytes, rank, round + 1);
    in.write(data);
    out.write(before);
    std::vector<char> host_in = data, host_out = before;
    MPI_Datatype sent[kMessages], received[kMessages];
    const int edge = 1 + static_cast<int>(random_below(static_cast<unsigned>(n / 2)));
    for (int i = 0; i < kMessages; ++i) {
      const int x = 1 + static_cast<int>(random_below(static_cast<unsigned>(edge)));
      const int parts[3] = {i % 3 == 0 ? 1 : x, i % 3 == 1 ? 1 : edge, i % 3 == 2 ? 1 : edge};
      const int swapped[3] = {parts[1], parts[2], parts[0]};
      const int from[3] = {0, i % 2, 1}, to[3] = {n * i + n / 2, n / 2, i % 2};
      sent[i] = block(sizes, parts, from);
      received[i] = block(slabs, swapped, to);
    }
    const auto exchange = [&](MPI_Comm comm, char* from, char* to) {
      MPI_Request requests[2 * kMessages];
      for (int i = 0; i < kMessages; ++i) {
        const int source = i % 3 == 2 ? rank : i % 2 == 0 ? left() : right();
        MPI_Irecv(to, 1, received[i], source, i, comm, &requests[i]);
      }
      for (int i = 0; i < kMessages; ++i) {
        const int dest = i % 3 == 2 ? rank : i % 2 == 0 ? right() : left();
        MPI_Isend(from, 1, sent[i], dest, i, comm, &requests[kMessages + i]);
      }
      MPI_Waitall(2 * kMessages, requests, MPI_STATUSES_IGNORE);
    };
    exchange(ordered.comm, in.data(), out.data());
    // Contiguous at one end, and a message that is shorter than its receive.
    int ints = 0, fits = 0;
    MPI_Type_size(sent[0], &ints);
    MPI_Type_size(received[1], &fits);
    ints /= static_cast<int>(sizeof(int));
    fits = std::min({ints, fits / static_cast<int>(sizeof(int)), 3});
    MPI_Sendrecv(in.data(), 1, sent[0], right(), 10, out.data(), 2 * ints, MPI_INT, left(), 10, ordered.comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(out.data(), fits, MPI_INT, left(), 11, out.data(), 1, received[1], right(), 11, ordered.comm,
                 MPI_STATUS_IGNORE);
    ordered.synchronize();
    exchange(plain.comm, host_in.data(), host_out.data());
    MPI_Sendrecv(host_in.data(), 1, sent[0], right(), 10, host_out.data(), 2 * ints, MPI_INT, left(), 10,
                 plain.comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(host_out.data(), fits, MPI_INT, left(), 11, host_out.data(), 1, received[1], right(), 11,
                 plain.comm, MPI_STATUS_IGNORE);
    const auto result = out.read();
    const auto wrong = std::mismatch(result.begin(), result.end(), host_out.begin()).first - result.begin();
    expect(result == host_out, "layouts, round " + std::to_string(round) + ", byte " + std::to_string(wrong) +
                                   " of " + std::to_string(result.size()) + ", edge " + std::to_string(edge));
    for (int i = 0; i < kMessages; ++i) MPI_Type_free(&sent[i]), MPI_Type_free(&received[i]);
  }
}

/// Lists of requests: completed in the stream, with statuses, by tests, one by one, mixed with others.
void requests(const OrderComm& ordered, const Plain& plain) {
  constexpr size_t kBytes = 400'000;
  Buffer out(Kind::device, kBytes, device), in(Kind::device, kBytes, device);
  MPI_Request list[6];
  MPI_Status statuses[6];
  int word = rank, other = -1;
  for (int form = 0; form < 14; ++form) {
    out.write(pattern(kBytes, rank, form));
    in.write(std::vector<char>(kBytes, 0));
    const int n = form < 7 ? 1000 : 90'000;
    MPI_Irecv(in.data(), n, MPI_INT, left(), 1, ordered.comm, &list[0]);
    MPI_Isend(out.data(), n, MPI_INT, right(), 1, ordered.comm, &list[1]);
    MPI_Irecv(&other, 1, MPI_INT, left(), 1, plain.comm, &list[2]);
    MPI_Isend(&word, 1, MPI_INT, right(), 1, plain.comm, &list[3]);
    MPI_Irecv(in.data(), 1, MPI_INT, MPI_PROC_NULL, 1, ordered.comm, &list[4]);
    MPI_Irecv(in.data() + 4 * n, 0, MPI_INT, left(), 2, ordered.comm, &list[5]);
    MPI_Send(out.data(), 0, MPI_INT, right(), 2, ordered.comm);
    int flag = 0, index = -1, count = 0, indices[6];
    switch (form % 7) {
      case 0:
        MPI_Waitall(2, list, MPI_STATUSES_IGNORE);
        MPI_Waitall(4, list + 2, MPI_STATUSES_IGNORE);
        break;
      case 1:
        expect_class(MPI_Waitall(6, list, statuses), MPI_SUCCESS, "MPI_Waitall with statuses");
        MPI_Get_count(&statuses[0], MPI_INT, &count);
        expect(statuses[0].MPI_SOURCE == left() && statuses[0].MPI_TAG == 1 && count == n,
               "the status of MPI_Waitall");
        expect(statuses[4].MPI_SOURCE == MPI_PROC_NULL, "the status of MPI_PROC_NULL");
        break;
      case 2:
        for (int i = 0; i < 6; ++i) {
          MPI_Waitany(6, list, &index, MPI_STATUS_IGNORE);
          expect(index >= 0 && list[index] == MPI_REQUEST_NULL, "MPI_Waitany");
        }
        break;
      case 3:
        while (flag == 0) MPI_Testall(6, list, &flag, MPI_STATUSES_IGNORE);
        break;
      case 4:
        for (int i = 0; i < 6; ++i)
          for (flag = 0; flag == 0;) MPI_Test(&list[i], &flag, &statuses[i]);
        expect(statuses[0].MPI_SOURCE == left(), "the status of MPI_Test");
        break;
      case 5:
        for (int left_over = 6; left_over > 0; left_over -= count)
          MPI_Waitsome(6, list, &count, indices, MPI_STATUSES_IGNORE);
        break;
      default:  // tested once, then awaited in the stream; a list with null requests
        MPI_Test(&list[0], &flag, MPI_STATUS_IGNORE);
        MPI_Wait(&list[1], MPI_STATUS_IGNORE);
        MPI_Waitall(2, list, MPI_STATUSES_IGNORE);
        MPI_Waitall(6, list, MPI_STATUSES_IGNORE);
    }
    for (const MPI_Request request : list) expect(request == MPI_REQUEST_NULL, "a request is null");
    expect(other == left(), "a message of another communicator");
    ordered.synchronize();
    const auto got = in.read(), sent = pattern(kBytes, left(), form);
    expect(std::equal(got.begin(), got.begin() + 4 * n, sent.begin()),
           "a message, form " + std::to_string(form));
  }
  // A status makes the host wait; a request that is freed; persistent requests with data that change.
  MPI_Status status;
  int count = 0;
  MPI_Sendrecv(out.data(), 300, MPI_INT, right(), 3, in.data(), 400, MPI_INT, left(), 3, ordered.comm,
               &status);
  MPI_Get_count(&status, MPI_INT, &count);
  expect(status.MPI_SOURCE == left() && count == 300, "the status of MPI_Sendrecv");
  MPI_Isend(out.data(), 10, MPI_INT, right(), 4, ordered.comm, &list[0]);
  MPI_Request_free(&list[0]);
  MPI_Recv(in.data(), 10, MPI_INT, left(), 4, ordered.comm, MPI_STATUS_IGNORE);
  MPI_Recv_init(in.data(), 5000, MPI_INT, left(), 5, ordered.comm, &list[0]);
  MPI_Ssend_init(out.data(), 5000, MPI_INT, right(), 5, ordered.comm, &list[1]);
  for (int round = 0; round < 4; ++round) {
    out.write(pattern(kBytes, rank, 50 + round));
    MPI_Startall(2, list);
    if (round == 0) MPI_Waitall(2, list, MPI_STATUSES_IGNORE);
    if (round == 1) MPI_Waitall(2, list, statuses);
    if (round == 2) MPI_Wait(&list[0], MPI_STATUS_IGNORE), MPI_Wait(&list[1], MPI_STATUS_IGNORE);
    for (int flag = 0; round == 3 && flag == 0;) MPI_Testall(2, list, &flag, statuses);
    ordered.synchronize();
    const auto got = in.read(), sent = pattern(kBytes, left(), 50 + round);
    expect(std::equal(got.begin(), got.begin() + 20'000, sent.begin()), "a persistent message");
  }
  MPI_Request_free(&list[0]);
  MPI_Request_free(&list[1]);
}

/// Nonblocking collectives begin in call order, whatever the order of their waits, and behind sends.
void collectives(const OrderComm& ordered) {
  Buffer a(Kind::device, 40, device), b(Kind::device, 40, device), c(Kind::device, 40, device);
  const auto write = [](Buffer& buffer, int value) {
    std::vector<char> bytes(40);
    for (int i = 0; i < 10; ++i) std::memcpy(bytes.data() + 4 * i, &value, 4);
    buffer.write(bytes);
  };
  const auto first = [](const Buffer& buffer) {
    int value = 0;
    std::memcpy(&value, buffer.read(0, 4).data(), 4);
    return value;
  };
  for (int form = 0; form < 4; ++form) {
    write(a, 1), write(b, 2), write(c, rank);
    MPI_Request requests[3];
    MPI_Iallreduce(MPI_IN_PLACE, a.data(), 10, MPI_INT, MPI_SUM, ordered.comm, &requests[0]);
    if (ranks > 1 && rank == 0) MPI_Send(c.data(), 10, MPI_INT, 1, 0, ordered.comm);
    if (rank == 1) MPI_Recv(c.data(), 10, MPI_INT, 0, 0, ordered.comm, MPI_STATUS_IGNORE);
    MPI_Iallreduce(MPI_IN_PLACE, b.data(), 10, MPI_INT, MPI_SUM, ordered.comm, &requests[1]);
    MPI_Ibarrier(ordered.comm, &requests[2]);
    if (form == 0) {  // in another order on each rank
      MPI_Wait(&requests[rank % 2], MPI_STATUS_IGNORE);
      MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    } else if (form == 1) {
      for (int flag = 0; flag == 0;) MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
    } else if (form == 2) {
      MPI_Bcast(c.data(), 10, MPI_INT, 0, ordered.comm);                 // behind them
      MPI_Scan(a.data(), c.data(), 10, MPI_INT, MPI_SUM, ordered.comm);  // by the host
      MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    } else {
      MPI_Status statuses[3];
      MPI_Waitall(3, requests, statuses);
    }
    ordered.synchronize();
    expect(first(a) == ranks && first(b) == 2 * ranks,
           "nonblocking reductions, form " + std::to_string(form));
    if (form == 2) expect(first(c) == (rank + 1) * ranks, "MPI_Scan behind nonblocking reductions");
  }
}

/// A synchronous send ends when its receive has matched it: the stream of the sender waits.
void synchronous_sends(const OrderComm& ordered, const Plain& plain) {
  if (ranks == 1) return;
  Buffer data(Kind::device, 400, device);
  int word = 0;
  if (rank == 0) {
    MPI_Ssend(data.data(), 10, MPI_INT, 1, 0, ordered.comm);
    MPI_Recv(&word, 1, MPI_INT, 1, 0, plain.comm, MPI_STATUS_IGNORE);
    expect(driver().cuStreamQuery(ordered.stream) != 0, "the stream waits in MPI_Ssend");
    MPI_Send(&word, 1, MPI_INT, 1, 0, plain.comm);
  } else if (rank == 1) {
    MPI_Send(&word, 1, MPI_INT, 0, 0, plain.comm);
    MPI_Recv(&word, 1, MPI_INT, 0, 0, plain.comm, MPI_STATUS_IGNORE);
    MPI_Recv(data.data(), 10, MPI_INT, 0, 0, ordered.comm, MPI_STATUS_IGNORE);
  }
  ordered.synchronize();
}

/// Broken promises, and what kernels cannot do: errors that name the call. No message is under way after one.
void refused(const OrderComm& ordered) {
  Buffer data(Kind::device, 400, device), pinned(Kind::pinned, 400, device);
  int words[4] = {}, flag = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  const MPI_Comm comm = ordered.comm;
  expect_message(MPI_Send(words, 4, MPI_INT, right(), 0, comm), MPI_ERR_BUFFER, "MPI_Send", "host memory");
  expect_message(MPI_Irecv(pinned.data(), 4, MPI_INT, left(), 0, comm, &request), MPI_ERR_BUFFER, "MPI_Irecv",
                 "pinned");
  expect_message(MPI_Allreduce(MPI_IN_PLACE, words, 4, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER,
                 "MPI_Allreduce", "host memory");
  expect_message(MPI_Recv(data.data(), 4, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE),
                 MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Recv", "MPI_ANY_SOURCE");
  expect_message(MPI_Bsend(data.data(), 4, MPI_INT, right(), 0, comm), MPI_ERR_UNSUPPORTED_OPERATION,
                 "MPI_Bsend", "kernels");
  expect_message(MPI_Iprobe(left(), 0, comm, &flag, &status), MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Iprobe",
                 "kernels");
  expect_message(
      MPI_Sendrecv_replace(data.data(), 1 << 20, MPI_INT, right(), 0, left(), 0, comm, MPI_STATUS_IGNORE),
      MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Sendrecv_replace", "MPI_Sendrecv");
  const int lengths[3] = {1, 2, 1}, displacements[3] = {0, 3, 11};
  MPI_Datatype irregular;
  MPI_Type_indexed(3, lengths, displacements, MPI_INT, &irregular);
  MPI_Type_commit(&irregular);
  expect_message(MPI_Isend(data.data(), 1, irregular, right(), 0, comm, &request),
                 MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Isend", "irregular");
  MPI_Type_free(&irregular);
  // A wait returns the errors of its own requests only.
  MPI_Request list[4];
  MPI_Status statuses[3];
  MPI_Iallreduce(MPI_IN_PLACE, words, 4, MPI_INT, MPI_SUM, comm, &list[2]);
  MPI_Iallreduce(MPI_IN_PLACE, data.data() + 300, 4, MPI_INT, MPI_SUM, comm, &list[3]);
  expect_class(MPI_Wait(&list[3], MPI_STATUS_IGNORE), MPI_SUCCESS, "a wait behind a wrong collective");
  MPI_Irecv(data.data(), 4, MPI_INT, left(), 8, comm, &list[0]);
  MPI_Isend(data.data() + 200, 4, MPI_INT, right(), 8, comm, &list[1]);
  expect_class(MPI_Waitall(3, list, statuses), MPI_ERR_IN_STATUS, "a list with a wrong collective");
  expect_class(statuses[0].MPI_ERROR, MPI_SUCCESS, "a receive beside a wrong collective");
  expect_class(statuses[1].MPI_ERROR, MPI_SUCCESS, "a send beside a wrong collective");
  expect_class(statuses[2].MPI_ERROR, MPI_ERR_BUFFER, "a wrong collective");
  MPI_Irecv(data.data(), 4, MPI_INT, left(), 9, comm, &request);
  if (ranks > 1) {
    expect_message(MPI_Scan(data.data(), data.data() + 100, 4, MPI_INT, MPI_SUM, comm),
                   MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Scan", "unfinished");
    expect_message(MPI_Allreduce(MPI_IN_PLACE, data.data(), 4, MPI_INT, MPI_SUM, comm),
                   MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Allreduce", "unfinished");
  }
  {
    Graph graph(ordered.stream);
    expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "a wait for an earlier receive");
    expect_class(MPI_Recv(data.data(), 4, MPI_INT, MPI_PROC_NULL, 1, comm, &status),
                 MPI_ERR_UNSUPPORTED_OPERATION, "a status in a capture");
    graph.end();
  }
  MPI_Send(data.data() + 200, 4, MPI_INT, right(), 9, comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  ordered.synchronize();
  // A message longer than its receive is reported once: by the call, if the stream is that fast, or by the
  // query.
  const int exchanged = MPI_Sendrecv(data.data(), 20, MPI_INT, right(), 3, data.data() + 200, 10, MPI_INT,
                                     left(), 3, comm, MPI_STATUS_IGNORE);
  ordered.synchronize();
  int found = MPI_SUCCESS;
  expect_class(MPIX_Comm_stream_error(comm, &found), MPI_SUCCESS, "MPIX_Comm_stream_error");
  if (exchanged != MPI_SUCCESS && ranks > 1)
    expect_class(exchanged, MPI_ERR_TRUNCATE, "a truncated message, by its call");
  else
    expect(ranks == 1 || found == MPI_ERR_TRUNCATE, "a truncated message: " + std::to_string(found));
}

/// Not all ranks promise, or none can: `prefer` leaves all calls to the host, `true` is an error on all
/// ranks.
void promises() {
  if (ranks == 1) return;
  for (const bool must : {false, true}) {
    const OrderedStream stream(rank != 0 ? "prefer" : must ? "true" : "false");
    MPI_Comm comm = MPI_COMM_NULL;
    expect_class(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream.mpi_stream, &comm), MPI_SUCCESS,
                 "MPIX_Stream_comm_create");
    int local = 1, sum = 0;  // host memory is allowed where the host executes the calls
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    expect_class(MPI_Allreduce(&local, &sum, 1, MPI_INT, MPI_SUM, comm), must ? MPI_ERR_BUFFER : MPI_SUCCESS,
                 "a communicator whose ranks do not all promise");
    MPI_Comm_free(&comm);
  }
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "weft_stream_kernels", "perhaps");
  MPIX_Stream stream;
  expect_class(MPIX_Stream_create(info, &stream), MPI_ERR_INFO_VALUE, "a wrong value of the hint");
  MPI_Info_free(&info);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks, MPI_THREAD_MULTIPLE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  wildcards = false;
  const Parts part(argc, argv);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 4;
  if (argc > 3) random_state = static_cast<unsigned>(std::atoi(argv[3]));
  const double end = MPI_Wtime() + (argc > 4 ? std::atof(argv[4]) : 0);
  do {
    {
      const Plain plain;
      const OrderComm ordered("true");
      part("layouts", [&] { layouts(ordered, plain, 3 * rounds); });
      part("requests", [&] { requests(ordered, plain); });
      part("freed", [&] { freed_requests(ordered); });
      part("synchronous_to_oneself", [&] { synchronous_to_oneself(ordered); });
      part("freed_to_oneself", [&] { freed_to_oneself(ordered); });
      part("truncated", [&] { truncated(ordered); });
      part("any_tag", [&] { any_tag_and_neighbors(ordered); });
      part("cancelled", [&] { cancelled(ordered); });
      part("no_room", [&] { no_room(ordered); });
      part("threads", [&] { threads(ordered); });
      part("held_launches", [&] { held_launches(ordered); });
      part("waits_for_any", [&] { waits_for_any(ordered); });
      part("tested_collectives", [&] { tested_collectives(ordered, plain); });
      part("collectives", [&] { collectives(ordered); });
      part("synchronous_sends", [&] { synchronous_sends(ordered, plain); });
      part("other_streams", [&] { other_streams(ordered); });
      part("streams_in_captures", [&] { streams_in_captures(ordered, plain); });
      part("discarded_captures", [&] { discarded_captures(ordered); });
      part("across_captures", [&] { across_captures(ordered); });
      part("pinned_memory", [&] { pinned_memory(); });
      part("refused", [&] { refused(ordered); });
      part("promises", [&] { promises(); });
      part("graphs", [&] { graphs(ordered, plain, 50, 3), graphs(ordered, plain, 5000, 2); });
      part("sequences", [&] { sequences(ordered, plain, rounds, 2 * static_cast<int>(kCallCount)); });
    }
    part("mixed", [&] { MixedRequests(random_state, "true").run(5 * rounds); });
    random_below(2);  // parts alone, too, get other numbers
  } while (time_left(end));
  return weft::test::finish(failures);
}
