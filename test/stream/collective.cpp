// SPDX-License-Identifier: BSD-3-Clause
// Enqueued collectives: sizes for every protocol, in place, bursts of rooted collectives with fast roots,
// graphs replayed between other calls, memory kinds, errors. On the emulated driver, and unchanged on GPUs.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr size_t kMaxBytes = size_t{3} << 20;  // bytes of a buffer

void write(Buffer& buffer, const std::vector<int>& values) {
  std::vector<char> bytes(values.size() * sizeof(int));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  buffer.write(bytes);
}
std::vector<int> read(const Buffer& buffer, size_t n) {
  const std::vector<char> bytes = buffer.read(0, n * sizeof(int));
  const int* const values = reinterpret_cast<const int*>(bytes.data());
  return {values, values + n};
}

int value(int from, int to, size_t i, int salt) {
  return from * 1000 + to * 100 + static_cast<int>(i % 97) + salt * 7;
}
std::vector<int> made(size_t n, const std::function<int(size_t)>& at) {
  std::vector<int> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = at(i);
  return values;
}
int summed(int to, size_t i, int salt) {
  int sum = 0;
  for (int from = 0; from < ranks; ++from) sum += value(from, to, i, salt);
  return sum;
}

/// Five collectives of `n` ints per block, enqueued without waiting in between.
class Calls {
 public:
  Calls(const StreamComm& stream_comm, size_t n, bool in_place, Kind kind)
      : lane_(stream_comm), n_(n), blocks_(n * static_cast<size_t>(ranks)), in_place_(in_place) {
    for (int i = 0; i < 5; ++i) {
      in_.push_back(std::make_unique<Buffer>(kind, std::max<size_t>(blocks_, 1) * sizeof(int), device));
      out_.push_back(std::make_unique<Buffer>(kind, std::max<size_t>(blocks_, 1) * sizeof(int), device));
    }
  }
  void fill(int salt) {
    const auto ours = [&](size_t i) { return value(rank, static_cast<int>(i / n_), i % n_, salt); };
    const auto own = [&](size_t i) { return value(rank, 0, i, salt); };
    write(source(0), made(n_, own));
    write(source(1), made(n_, own));
    write(source(3), made(blocks_, ours));
    write(source(4), made(blocks_, ours));
    if (in_place_) {
      std::vector<int> mine = made(blocks_, [](size_t) { return -1; });
      for (size_t i = 0; i < n_; ++i) mine[static_cast<size_t>(rank) * n_ + i] = own(i);
      write(*out_[2], mine);
    } else {
      write(*in_[2], made(n_, own));
    }
    root_ = salt % ranks;
  }
  void enqueue() {
    const int n = static_cast<int>(n_);
    MPI_Comm comm = lane_.comm;
    const auto good = [](int code, const char* what) { expect_class(code, MPI_SUCCESS, what); };
    good(MPIX_Allreduce_enqueue(from(0), out_[0]->data(), n, MPI_INT, MPI_SUM, comm), "allreduce");
    good(MPIX_Bcast_enqueue(source(1).data(), n, MPI_INT, root_, comm), "bcast");
    good(MPIX_Allgather_enqueue(from(2), n, MPI_INT, out_[2]->data(), n, MPI_INT, comm), "allgather");
    good(MPIX_Alltoall_enqueue(from(3), n, MPI_INT, out_[3]->data(), n, MPI_INT, comm), "alltoall");
    good(MPIX_Reduce_scatter_block_enqueue(from(4), out_[4]->data(), n, MPI_INT, MPI_SUM, comm),
         "reduce_scatter_block");
  }
  void check(int salt, const std::string& when) {
    const std::string what = ", " + std::to_string(n_) + " ints" + (in_place_ ? ", in place, " : ", ") + when;
    expect(read(*out_[0], n_) == made(n_, [&](size_t i) { return summed(0, i, salt); }), "allreduce" + what);
    expect(read(source(1), n_) == made(n_, [&](size_t i) { return value(root_, 0, i, salt); }),
           "bcast" + what);
    expect(read(*out_[2], blocks_) ==
               made(blocks_, [&](size_t i) { return value(static_cast<int>(i / n_), 0, i % n_, salt); }),
           "allgather" + what);
    expect(read(*out_[3], blocks_) ==
               made(blocks_, [&](size_t i) { return value(static_cast<int>(i / n_), rank, i % n_, salt); }),
           "alltoall" + what);
    expect(read(*out_[4], n_) == made(n_, [&](size_t i) { return summed(rank, i, salt); }),
           "reduce_scatter_block" + what);
  }

 private:
  Buffer& source(size_t which) { return in_place_ && which != 1 ? *out_[which] : *in_[which]; }
  const void* from(size_t which) { return in_place_ ? MPI_IN_PLACE : in_[which]->data(); }
  const StreamComm& lane_;
  size_t n_, blocks_;
  bool in_place_;
  int root_ = 0;
  std::vector<std::unique_ptr<Buffer>> in_, out_;
};

void sizes(const StreamComm& stream_comm) {
  int salt = 0;
  for (const size_t n : {size_t{1}, size_t{3}, size_t{1000}, size_t{9001}, size_t{40000}, kMaxBytes / 64})
    for (const bool in_place : {false, true}) {
      Calls calls(stream_comm, n, in_place, Kind::device);
      calls.fill(++salt);
      calls.enqueue();
      stream_comm.synchronize();
      calls.check(salt, "once");
    }
  for (const Kind kind : {Kind::pinned, Kind::managed, Kind::pool}) {
    Calls calls(stream_comm, 500, false, kind);
    calls.fill(++salt);
    calls.enqueue();
    stream_comm.synchronize();
    calls.check(salt, "kind " + std::to_string(static_cast<int>(kind)));
  }
}

/// A call in place asks the driver about its one buffer once.
void classifications(const StreamComm& stream_comm) {
  const auto& cuda = weft::test::cuda();
  if (!cuda.emulated()) return;
  Calls calls(stream_comm, 3, true, Kind::device);
  for (int i = 0; i < 2; ++i) {  // before the first the driver may be asked for the type of memory alone
    calls.fill(i);
    const unsigned long before = cuda.calls("cuPointerGetAttributes");
    calls.enqueue();
    const unsigned long asked = cuda.calls("cuPointerGetAttributes") - before;
    expect(i == 0 || asked == 5, "5 calls in place have queried memory " + std::to_string(asked) + " times");
    stream_comm.synchronize();
    calls.check(i, "classified");
  }
}

/// Replays a captured graph with other data, between calls outside the graph.
void graphs(const StreamComm& stream_comm, size_t n) {
  Calls captured(stream_comm, n, false, Kind::device), others(stream_comm, 77, true, Kind::device);
  captured.fill(0);
  Graph graph(stream_comm.stream);
  captured.enqueue();
  graph.end();
  for (int i = 0; i < 20; ++i) {
    captured.fill(i * ranks);  // the root was captured
    others.fill(i);
    graph.launch();
    if (i % 3 == 1) others.enqueue();
    graph.launch();
    stream_comm.synchronize();
    captured.check(i * ranks, "launch " + std::to_string(i) + " of a graph");
    if (i % 3 == 1) others.check(i, "between launches");
  }
}

/// A root waits for nobody: it must not overrun peers that have yet to read.
void bursts(const StreamComm& stream_comm) {
  constexpr int kCalls = 60;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int i = 0; i < kCalls; ++i) {
    buffers.push_back(std::make_unique<Buffer>(Kind::device, 4000, device));
    const int root = i / 7 % ranks;
    write(*buffers.back(), made(1000, [&](size_t at) { return rank == root ? value(root, 1, at, i) : -1; }));
  }
  Buffer sum(Kind::device, 400, device);
  write(sum, made(100, [](size_t) { return 1; }));
  for (int i = 0; i < kCalls; ++i) {
    const int n = i % 3 == 0 ? 1000 : 1 + i;
    MPIX_Bcast_enqueue(buffers[static_cast<size_t>(i)]->data(), n, MPI_INT, i / 7 % ranks, stream_comm.comm);
    if (i % 20 == 19)
      MPIX_Allreduce_enqueue(MPI_IN_PLACE, sum.data(), 100, MPI_INT, MPI_SUM, stream_comm.comm);
  }
  stream_comm.synchronize();
  for (int i = 0; i < kCalls; ++i) {
    const int root = i / 7 % ranks;
    const auto n = static_cast<size_t>(i % 3 == 0 ? 1000 : 1 + i);
    expect(read(*buffers[static_cast<size_t>(i)], n) ==
               made(n, [&](size_t at) { return value(root, 1, at, i); }),
           "broadcast " + std::to_string(i) + " of a burst");
  }
  expect(read(sum, 100) == made(100, [](size_t) { return ranks * ranks * ranks; }), "sums in a burst");
}

void misuse(const StreamComm& stream_comm) {
  int host[4] = {0, 0, 0, 0};
  Buffer buffer(Kind::device, 64, device);
  expect_class(MPIX_Allreduce_enqueue(MPI_IN_PLACE, host, 4, MPI_INT, MPI_SUM, stream_comm.comm),
               MPI_ERR_BUFFER, "pageable host memory");
  expect_class(MPIX_Allreduce_enqueue(MPI_IN_PLACE, buffer.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
               MPI_ERR_COMM, "a communicator without a stream");
  expect_class(MPIX_Allreduce_enqueue(MPI_IN_PLACE, buffer.data(), -1, MPI_INT, MPI_SUM, stream_comm.comm),
               MPI_ERR_COUNT, "a negative count");
  const MPI_Count huge = MPI_Count{1} << 62;
  expect_class(MPIX_Allreduce_enqueue(MPI_IN_PLACE, nullptr, 4, MPI_INT, MPI_SUM, stream_comm.comm),
               MPI_ERR_BUFFER, "a null address");
  expect_class(
      MPIX_Allreduce_enqueue_c(MPI_IN_PLACE, buffer.data(), huge, MPI_INT, MPI_SUM, stream_comm.comm),
      MPI_ERR_COUNT, "a count beyond the address space");
  expect_class(
      MPIX_Allgather_enqueue_c(MPI_IN_PLACE, 0, MPI_INT, buffer.data(), huge, MPI_INT, stream_comm.comm),
      MPI_ERR_COUNT, "blocks beyond the address space");
  expect_class(MPIX_Bcast_enqueue(nullptr, 1, MPI_INT, 0, stream_comm.comm), MPI_ERR_BUFFER, "a null buffer");
  expect_class(MPIX_Bcast_enqueue(buffer.data(), 1, MPI_INT, ranks, stream_comm.comm), MPI_ERR_ROOT,
               "a bad root");
  expect_class(
      MPIX_Allreduce_enqueue(MPI_IN_PLACE, buffer.data(), 1, MPI_LONG_DOUBLE, MPI_SUM, stream_comm.comm),
      MPI_ERR_UNSUPPORTED_OPERATION, "a type without kernels");
  MPI_Request requests[2];
  MPIX_Irecv_enqueue(buffer.data(), 4, MPI_INT, left(), 3, stream_comm.comm, &requests[0]);
  MPIX_Isend_enqueue(buffer.data() + 32, 4, MPI_INT, right(), 3, stream_comm.comm, &requests[1]);
  if (ranks > 1)
    expect_class(MPIX_Bcast_enqueue(buffer.data(), 1, MPI_INT, 0, stream_comm.comm),
                 MPI_ERR_UNSUPPORTED_OPERATION, "beside nonblocking operations");
  MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
  MPIX_Bcast_enqueue(buffer.data(), 1, MPI_INT, 0, stream_comm.comm);
  stream_comm.synchronize();
}

/// Two streams at once, one with the ranks reversed.
void side_by_side() {
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  {
    const StreamComm one, two(reversed);
    Buffer a(Kind::device, 40000, device), b(Kind::device, 40000, device);
    write(a, made(10000, [](size_t) { return 1; }));
    write(b, made(10000, [](size_t) { return 1; }));
    for (int i = 0; i < 9; ++i) {
      MPIX_Allreduce_enqueue(MPI_IN_PLACE, a.data(), i % 2 == 0 ? 10000 : 10, MPI_INT, MPI_SUM, one.comm);
      MPIX_Allreduce_enqueue(MPI_IN_PLACE, b.data(), i % 2 == 0 ? 10000 : 10, MPI_INT, MPI_SUM, two.comm);
    }
    one.synchronize();
    two.synchronize();
    int all = 1;
    for (int i = 0; i < 9; ++i) all *= ranks;
    expect(read(a, 10) == made(10, [&](size_t) { return all; }), "sums of one stream");
    expect(read(b, 10) == made(10, [&](size_t) { return all; }), "sums of another stream");
  }
  MPI_Comm_free(&reversed);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  {
    const StreamComm stream_comm;
    sizes(stream_comm);
    classifications(stream_comm);
    graphs(stream_comm, 2);
    graphs(stream_comm, 30000);
    bursts(stream_comm);
    misuse(stream_comm);
    side_by_side();
  }
  return weft::test::finish(failures);
}
