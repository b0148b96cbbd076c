// SPDX-License-Identifier: BSD-3-Clause
// Jobs on two (fake) hosts that are stuck in collectives of GPU streams: enqueued ones, and ordinary calls
// that kernels or the host execute in stream order. hosts.py says what `weft hang --job` must find. Needs
// four ranks, two on each host; the communicators have the two ranks of a host. usage: enqueued CASE
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "stream/order_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr int kInts = 16;

MPI_Comm of_host;
std::optional<Buffer> in, out;
int word = 0;

bool first_of_host() { return rank % 2 == 0; }
int partner() { return rank ^ 1; }

MPI_Comm named(MPI_Comm comm, const char* name) {
  MPI_Comm_set_name(comm, name);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

/// Two communicators of one stream.
struct Pair {
  Pair() {
    MPI_Comm made;
    expect_class(MPIX_Stream_comm_create(of_host, stream.mpi_stream, &made), MPI_SUCCESS,
                 "MPIX_Stream_comm_create");
    second = named(made, "second");
    named(stream.comm, "first");
  }
  StreamComm stream{of_host};
  const MPI_Comm& first = stream.comm;
  MPI_Comm second = MPI_COMM_NULL;
};

void receive(int source, int tag) {
  MPI_Recv(&word, 1, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
void enqueue(MPI_Comm comm) {
  MPIX_Allreduce_enqueue(in->data(), out->data(), kInts, MPI_INT, MPI_SUM, comm);
}

/// One rank of two does not enqueue the collective.
void not_enqueued(const Pair& pair) {
  if (first_of_host()) {
    enqueue(pair.first);
    poll_until_idle(pair.stream.stream);
  } else {
    receive(partner(), 1);
  }
}

void opposite_order(const Pair& pair) {
  enqueue(first_of_host() ? pair.first : pair.second);
  enqueue(first_of_host() ? pair.second : pair.first);
  poll_until_idle(pair.stream.stream);
}

/// The collective of one rank is behind a receive whose message is sent behind the collective of the other.
void behind_receive(const Pair& pair) {
  if (first_of_host()) MPIX_Recv_enqueue(in->data(), 4, MPI_BYTE, 1, 5, pair.first, MPI_STATUS_IGNORE);
  enqueue(pair.second);
  if (!first_of_host()) MPIX_Send_enqueue(in->data(), 4, MPI_BYTE, 0, 5, pair.first);
  poll_until_idle(pair.stream.stream);
}

void blocking_barrier(const Pair& pair) {
  if (first_of_host()) return static_cast<void>(MPI_Barrier(MPI_COMM_WORLD));
  enqueue(pair.first);
  poll_until_idle(pair.stream.stream);
}

/// A cycle over both hosts: the streams of ranks 0 and 2 wait for ranks 1 and 3, which receive.
void both_hosts(const Pair& pair) {
  if (!first_of_host()) return receive((rank + 1) % 4, 6);
  for (int i = 0; i < 600; ++i) enqueue(pair.first);
  poll_until_idle(pair.stream.stream);
}

/// More collectives than a rank describes (queued_table::kCollectives).
void overwritten(const Pair& pair) {
  if (!first_of_host()) return receive(partner(), 1);
  for (int i = 0; i < 3000; ++i) enqueue(pair.first);
  poll_until_idle(pair.stream.stream);
}

void in_graph(const Pair& pair) {
  if (!first_of_host()) return receive(partner(), 7);
  Graph graph(pair.stream.stream);
  enqueue(pair.second);
  graph.end();
  graph.launch();
  poll_until_idle(pair.stream.stream);
}

/// Ordinary calls that kernels execute; the host waits for one.
void by_kernels() {
  const OrderedStream stream("true");
  MPI_Comm comm;
  expect_class(MPIX_Stream_comm_create(of_host, stream.mpi_stream, &comm), MPI_SUCCESS,
               "MPIX_Stream_comm_create");
  named(comm, "kernels");
  if (!first_of_host()) return receive(partner(), 8);
  MPI_Request request;
  MPI_Status status;
  MPI_Iallreduce(in->data(), out->data(), kInts, MPI_INT, MPI_SUM, comm, &request);
  MPI_Wait(&request, &status);
  poll_until_idle(stream.stream);
}

/// Ordinary calls that the host executes in stream order: one rank has enqueued the collective behind a
/// receive, the other one calls it without a stream.
void by_host() {
  const OrderedStream stream;
  MPI_Comm comm;
  MPI_Comm_dup(of_host, &comm);
  named(comm, "words");
  if (first_of_host()) {
    expect_class(MPIX_Comm_set_stream(comm, stream.mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
    MPI_Recv(in->data(), 1, MPI_INT, 1, 9, comm, MPI_STATUS_IGNORE);
  }
  MPI_Allreduce(in->data(), out->data(), kInts, MPI_INT, MPI_SUM, comm);
  poll_until_idle(stream.stream);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const char* const name = argc > 1 ? argv[1] : "";
  const auto is = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &of_host);
  in.emplace(Kind::device, kInts * sizeof(int), device);
  out.emplace(Kind::device, kInts * sizeof(int), device);
  std::unique_ptr<Pair> pair;
  if (!is("by_kernels") && !is("by_host")) pair = std::make_unique<Pair>();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf("%d\n", static_cast<int>(getpid()));
    std::fflush(stdout);
  }
  if (is("not_enqueued")) not_enqueued(*pair);
  if (is("opposite_order")) opposite_order(*pair);
  if (is("behind_receive")) behind_receive(*pair);
  if (is("blocking_barrier")) blocking_barrier(*pair);
  if (is("both_hosts")) both_hosts(*pair);
  if (is("overwritten")) overwritten(*pair);
  if (is("in_graph")) in_graph(*pair);
  if (is("by_kernels")) by_kernels();
  if (is("by_host")) by_host();
  return weft::test::finish(failures);
}
