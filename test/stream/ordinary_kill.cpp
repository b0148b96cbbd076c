// SPDX-License-Identifier: BSD-3-Clause
// A rank is killed while kernels of ordinary calls wait for it, in a call, in a request and in a graph: the
// streams go on, the next call and the requests return an error that names the rank. Prints "good".
#include <signal.h>
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "stream/order_comm.hpp"

namespace {

using namespace weft::test::enqueued;

void expect_failed_rank(int code, const char* call) {
  char text[400] = "";
  if (code != MPI_SUCCESS) MPIX_Last_error_message(text, sizeof text, nullptr);
  const std::string rank_text = "process " + std::to_string(ranks - 1);
  expect_class(code, MPIX_ERR_PROC_FAILED, call);
  expect(std::strstr(text, rank_text.c_str()) != nullptr, std::string(call) + ": " + text);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  auto ordered = std::make_unique<OrderComm>("true");
  const MPI_Comm comm = ordered->comm;
  Buffer data(Kind::device, 40'000, device), copied(Kind::device, 40'000, device);
  data.write(pattern(40'000, rank, 1));
  {
    Graph graph(ordered->stream);
    MPI_Sendrecv(data.data(), 10, MPI_INT, right(), 0, copied.data(), 10, MPI_INT, left(), 0, comm,
                 MPI_STATUS_IGNORE);
    graph.end();
    graph.launch();
    ordered->synchronize();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request requests[2];
    MPI_Irecv(copied.data(), 10'000, MPI_INT, ranks - 1, 2, comm, &requests[0]);
    MPI_Irecv(copied.data(), 10'000, MPI_INT, ranks - 1, 3, comm, &requests[1]);
    if (rank == ranks - 1) {
      ::usleep(20'000);  // the others wait in their streams
      ::raise(SIGKILL);
    }
    MPI_Recv(data.data(), 10'000, MPI_INT, ranks - 1, 1, comm, MPI_STATUS_IGNORE);
    ordered->synchronize();
    graph.launch();
    ordered->synchronize();
    int found = MPI_SUCCESS, index = -1;
    expect_class(MPIX_Comm_stream_error(comm, &found), MPI_SUCCESS, "MPIX_Comm_stream_error");
    expect_failed_rank(found, "MPIX_Comm_stream_error");
    expect_failed_rank(MPI_Send(data.data(), 10, MPI_INT, right(), 4, comm), "MPI_Send");
    expect_failed_rank(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE), "MPI_Waitany");
    expect_failed_rank(MPI_Wait(&requests[1 - index], MPI_STATUS_IGNORE), "MPI_Wait");
    expect(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "the requests are null");
  }
  MPI_Comm survivors;
  MPIX_Comm_shrink(comm, &survivors);
  print_good(survivors);
  ordered.release();  // its communicators have a dead rank
  MPI_Finalize();
  return 0;
}
