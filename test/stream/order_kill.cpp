// SPDX-License-Identifier: BSD-3-Clause
// A rank is killed while the streams of the others wait for it, in an enqueued call or in a graph: the
// streams go on, the error names the rank, and the survivors continue in stream order. Prints "good".
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

void expect_failed_rank(MPI_Comm comm, const char* call) {
  int found = -1;
  char text[400] = "";
  expect_class(MPIX_Comm_stream_error(comm, &found), MPI_SUCCESS, "MPIX_Comm_stream_error");
  MPIX_Last_error_message(text, sizeof text, nullptr);
  const std::string rank_text = "process " + std::to_string(ranks - 1);
  expect(found == MPIX_ERR_PROC_FAILED && std::strstr(text, call) != nullptr &&
             std::strstr(text, rank_text.c_str()) != nullptr,
         "class " + std::to_string(found) + ": " + text);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  auto ordered = std::make_unique<OrderComm>();
  const MPI_Comm comm = ordered->comm;
  Buffer data(Kind::device, 40'000, device), copied(Kind::device, 40'000, device);
  data.write(pattern(40'000, rank, 1));
  const auto copy = [&] {
    driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<weft::test::Address>(copied.data()),
                                  reinterpret_cast<weft::test::Address>(data.data()), 40'000,
                                  ordered->stream);
  };
  {
    Graph graph(ordered->stream);
    MPI_Allreduce(MPI_IN_PLACE, data.data(), 10'000, MPI_INT, MPI_BXOR, comm);
    graph.end();
    graph.launch();
    ordered->synchronize();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == ranks - 1) {
      ::usleep(20'000);  // the others wait in their streams
      ::raise(SIGKILL);
    }
    MPI_Recv(data.data(), 10'000, MPI_INT, ranks - 1, 1, comm, MPI_STATUS_IGNORE);
    copy();
    ordered->synchronize();
    expect_failed_rank(comm, "MPI_Recv");
    graph.launch();
    copy();
    ordered->synchronize();
    expect_failed_rank(comm, "MPI_Allreduce");
  }
  MPI_Comm survivors;
  MPIX_Comm_shrink(comm, &survivors);
  MPIX_Comm_set_stream(survivors, ordered->mpi_stream);
  data.write(pattern(40'000, 0, 1));
  MPI_Bcast(data.data(), 10'000, MPI_INT, 0, survivors);
  MPI_Sendrecv_replace(data.data(), 10'000, MPI_INT, (rank + 1) % (ranks - 1), 1,
                       (rank + ranks - 2) % (ranks - 1), 1, survivors, MPI_STATUS_IGNORE);
  copy();
  ordered->synchronize();
  expect(copied.read() == pattern(40'000, 0, 1), "calls of the survivors");
  print_good(survivors);
  ordered.release();  // its communicators have a dead rank
  MPI_Finalize();
  return 0;
}
