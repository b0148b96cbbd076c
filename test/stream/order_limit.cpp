// SPDX-License-Identifier: BSD-3-Clause
// The time limit of streams that wait in MPI calls (WEFT_STREAM_TIMEOUT_S, of seconds here): the stream goes
// on, the error names call, rank and stream, calls behind it are not executed, and when the message has come
// the communicator is usable again. With the argument "hang": rank 0 prints its process, and its stream waits
// without limit until the job is killed.
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "stream/order_comm.hpp"

namespace {

using namespace weft::test::enqueued;
constexpr int kInts = 3000, kBytes = 4 * kInts;

/// Returns the text of the communicator's error, which must be of the class MPI_ERR_OTHER.
std::string error_of(MPI_Comm comm) {
  int found = MPI_SUCCESS;
  char text[600] = "";
  expect_class(MPIX_Comm_stream_error(comm, &found), MPI_SUCCESS, "MPIX_Comm_stream_error");
  MPIX_Last_error_message(text, sizeof text, nullptr);
  if (found != MPI_SUCCESS) expect_class(found, MPI_ERR_OTHER, "the error of the stream");
  return found == MPI_SUCCESS ? "" : text;
}

void expect_limit(const std::string& text, const char* call, const OrderComm& ordered) {
  char stream[40];
  std::snprintf(stream, sizeof stream, "stream %p", static_cast<void*>(ordered.stream));
  for (const char* part : {call, "rank 1", static_cast<const char*>(stream), "WEFT_STREAM_TIMEOUT_S"})
    expect(text.find(part) != std::string::npos, std::string("no ") + part + " in: " + text);
}

void copy(const OrderComm& ordered, Buffer& to, const Buffer& from) {
  driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<weft::test::Address>(to.data()),
                                reinterpret_cast<weft::test::Address>(from.data()), to.size(),
                                ordered.stream);
}

/// Rank 0 receives two messages too early; rank 1 sends them when rank 0 has gone on. `form`: a blocking
/// receive, a nonblocking one and its wait, a graph.
void late_messages(const OrderComm& ordered, const Plain& plain, int form) {
  Buffer data(Kind::device, kBytes, device), behind(Kind::device, kBytes, device),
      result(Kind::device, kBytes, device);
  int word = form;
  if (rank == 1) {
    data.write(pattern(kBytes, 1, form));
    MPI_Recv(&word, 1, MPI_INT, 0, 0, plain.comm, MPI_STATUS_IGNORE);
    MPI_Send(data.data(), kInts, MPI_INT, 0, 1, ordered.comm);
  } else if (rank == 0) {
    result.write(pattern(kBytes, 0, form));
    behind.write(pattern(kBytes, 0, form));
    MPI_Request skipped = MPI_REQUEST_NULL;
    const auto enqueue = [&] {
      if (form == 1) {
        MPI_Request request;
        MPI_Irecv(data.data(), kInts, MPI_INT, 1, 1, ordered.comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(data.data(), kInts, MPI_INT, 1, 1, ordered.comm, MPI_STATUS_IGNORE);
      }
      MPI_Recv(behind.data(), kInts, MPI_INT, 1, 2, ordered.comm, MPI_STATUS_IGNORE);
      if (form == 0) MPI_Irecv(behind.data(), kInts, MPI_INT, 1, 3, ordered.comm, &skipped);
      copy(ordered, result, behind);
    };
    const double start = MPI_Wtime();
    if (form == 2) {
      Graph graph(ordered.stream);
      enqueue();
      graph.end();
      graph.launch();
      graph.launch();
      ordered.synchronize();
    } else {
      enqueue();
      ordered.synchronize();
    }
    const double seconds = MPI_Wtime() - start;
    if (form == 0) {
      MPI_Status status;
      expect_class(MPI_Wait(&skipped, &status), MPI_ERR_OTHER, "a receive that was not started");
    }
    expect(seconds > 0.9 && seconds < 20, "the stream has waited for " + std::to_string(seconds) + " s");
    expect_limit(error_of(ordered.comm), form == 1 ? "MPI_Wait" : "MPI_Recv", ordered);
    expect(result.read() == pattern(kBytes, 0, form), "a call behind the limit was executed");
    MPI_Send(&word, 1, MPI_INT, 1, 0, plain.comm);
  }
  // On the host again: waits until the late call has ended.
  MPIX_Comm_set_stream(ordered.comm, MPIX_STREAM_NULL);
  MPI_Barrier(ordered.comm);
  if (rank == 0) expect(data.read() == pattern(kBytes, 1, form), "the late message");
  MPIX_Comm_set_stream(ordered.comm, ordered.mpi_stream);
  error_of(ordered.comm);
  data.write(pattern(kBytes, 5, form));
  MPI_Allreduce(MPI_IN_PLACE, data.data(), kInts, MPI_INT, MPI_MAX, ordered.comm);
  ordered.synchronize();
  expect(error_of(ordered.comm).empty(), "an error after the late message");
  expect(data.read() == pattern(kBytes, 5, form), "a call after the late message");
}

/// A call for which the host waits has no limit: its buffers are in use.
void host_waits(const OrderComm& ordered, const Plain& plain) {
  int word = -1;
  if (rank == 0) {
    expect_class(MPI_Recv(&word, 1, MPI_INT, 1, 3, ordered.comm, MPI_STATUS_IGNORE), MPI_SUCCESS,
                 "a receive of host memory");
    expect(word == 7, "a late message in host memory");
  } else if (rank == 1) {
    ::usleep(1'500'000);
    word = 7;
    MPI_Send(&word, 1, MPI_INT, 0, 3, ordered.comm);
  }
  MPI_Barrier(plain.comm);
}

[[noreturn]] void hang(const OrderComm& ordered) {
  Buffer data(Kind::device, kBytes, device);
  if (rank == 0) {
    MPI_Recv(data.data(), kInts, MPI_INT, 1, 77, ordered.comm, MPI_STATUS_IGNORE);
    std::printf("%d %p\n", static_cast<int>(::getpid()), static_cast<void*>(ordered.stream));
    std::fflush(stdout);
  }
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  {
    const Plain plain;
    const OrderComm ordered;
    MPI_Comm_set_name(ordered.comm, "in order");
    if (argc > 1 && std::strcmp(argv[1], "hang") == 0) hang(ordered);
    for (int form = 0; form < 3; ++form) late_messages(ordered, plain, form);
    host_waits(ordered, plain);
  }
  return weft::test::finish(failures);
}
