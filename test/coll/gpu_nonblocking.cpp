// SPDX-License-Identifier: BSD-3-Clause
// Nonblocking and persistent collectives on GPU buffers, many active at once: started in any order,
// interleaved with blocking ones, with some ranks in host memory, on neighborhoods, with one type per block,
// freed while active; and mismatched counts, which return an error on all ranks. Argument: number of rounds.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;

constexpr int kCalls = 6, kMaxInts = 40000;
int rank, size, device, failures;

void expect(bool good, const char* what, int number) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "rank %d of %d: %s, number %d\n", rank, size, what, number);
}

/// A vector of ints in GPU or host memory.
class Vector {
 public:
  explicit Vector(Buffer::Kind kind = Buffer::Kind::device) : buffer_(kind, kMaxInts * sizeof(int), device) {}
  void set(const std::vector<int>& values) {
    std::vector<char> bytes(values.size() * sizeof(int));
    if (values.empty()) return;
    std::memcpy(bytes.data(), values.data(), bytes.size());
    buffer_.write(bytes);
  }
  [[nodiscard]] std::vector<int> get(int n) const {
    const std::vector<char> bytes = buffer_.read(0, static_cast<size_t>(n) * sizeof(int));
    const int* const values = reinterpret_cast<const int*>(bytes.data());
    return {values, values + n};
  }
  [[nodiscard]] bool all(int n, int value) const {
    const std::vector<int> values = get(n);
    return std::all_of(values.begin(), values.end(), [&](int v) { return v == value; });
  }
  void fill(int n, int value) { set(std::vector<int>(static_cast<size_t>(n), value)); }
  [[nodiscard]] int* data() const { return reinterpret_cast<int*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

int sum_of_ranks(int more) { return size * (size - 1) / 2 + size * more; }
int count_of(int i) {
  static const int counts[] = {1, 1000, 3, 30000, 17, 0};
  return counts[i % 6];
}

/// Several concurrent sums, awaited in a different order on each rank, with a blocking sum in between.
void overlapped(MPI_Comm comm, int round) {
  std::vector<std::unique_ptr<Vector>> in, out;
  std::vector<MPI_Request> requests(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    // Some buffers of some ranks are in host memory, so messages run those calls.
    const bool host = (i + round) % 5 == 4 && rank == size - 1;
    const auto kind = host ? Buffer::Kind::host : Buffer::Kind::device;
    in.push_back(std::make_unique<Vector>(kind));
    out.push_back(std::make_unique<Vector>(kind));
    in.back()->fill(count_of(i), rank + i + round);
    MPI_Iallreduce(in.back()->data(), out.back()->data(), count_of(i), MPI_INT, MPI_SUM, comm,
                   &requests[static_cast<size_t>(i)]);
    if (i == 2) {
      Vector value;
      value.fill(5, rank);
      MPI_Allreduce(MPI_IN_PLACE, value.data(), 5, MPI_INT, MPI_SUM, comm);
      expect(value.all(5, sum_of_ranks(0)), "an interleaved blocking sum", round);
    }
  }
  std::vector<int> order(kCalls);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + (rank * 2 + round) % kCalls, order.end());
  for (const int i : order) {
    MPI_Wait(&requests[static_cast<size_t>(i)], MPI_STATUS_IGNORE);
    expect(out[static_cast<size_t>(i)]->all(count_of(i), sum_of_ranks(i + round)), "a nonblocking sum", i);
  }
}

/// Persistent collectives, started repeatedly in a different order on each rank; each round replaces one.
class Persistent {
 public:
  explicit Persistent(MPI_Comm comm) : comm_(comm), in_(kCalls), out_(kCalls), requests_(kCalls) {
    for (int i = 0; i < kCalls; ++i) make(i);
  }
  ~Persistent() {
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
  }
  Persistent(const Persistent&) = delete;
  void run(int round) {
    for (int i = 0; i < kCalls; ++i) in(i).fill(count_of(i), rank + i + round);
    for (int i = 0; i < kCalls; ++i) MPI_Start(&request((i + rank * round) % kCalls));
    if (round % 3 == 0) {
      MPI_Waitall(kCalls, requests_.data(), MPI_STATUSES_IGNORE);
    } else {
      for (int i = kCalls - 1; i >= 0; --i) MPI_Wait(&request((i + rank) % kCalls), MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < kCalls; ++i) check(i, round);
    reordered_starts(round);
    const int again = round % kCalls;
    MPI_Request_free(&request(again));
    make(again);
  }

 private:
  Vector& in(int i) { return in_[static_cast<size_t>(i)]; }
  Vector& out(int i) { return out_[static_cast<size_t>(i)]; }
  MPI_Request& request(int i) { return requests_[static_cast<size_t>(i)]; }
  /// A single start, which needs no ordering; then two starts in different orders on different ranks.
  void reordered_starts(int round) {
    for (int i = 0; i < kCalls; ++i) in(i).fill(count_of(i), rank + i + round);
    for (int i = 0; i < kCalls; i += 3) {
      MPI_Start(&request(i));
      MPI_Wait(&request(i), MPI_STATUS_IGNORE);
      const int swapped = (rank + round) % 2;
      MPI_Start(&request(i + 1 + swapped));
      if (rank == round % 3) MPI_Wait(&request(i + 1 + swapped), MPI_STATUS_IGNORE);
      MPI_Start(&request(i + 2 - swapped));
      MPI_Wait(&request(i + 2 - swapped), MPI_STATUS_IGNORE);
      MPI_Wait(&request(i + 1 + swapped), MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < kCalls; ++i) check(i, round);
  }
  void make(int i) {
    if (i % 2 == 0)
      MPI_Allreduce_init(in(i).data(), out(i).data(), count_of(i), MPI_INT, MPI_SUM, comm_, MPI_INFO_NULL,
                         &request(i));
    else
      MPI_Bcast_init(in(i).data(), count_of(i), MPI_INT, i % size, comm_, MPI_INFO_NULL, &request(i));
  }
  void check(int i, int round) {
    const bool good = i % 2 == 0 ? out(i).all(count_of(i), sum_of_ranks(i + round))
                                 : in(i).all(count_of(i), i % size + i + round);
    expect(good, "a persistent call", i);
  }
  MPI_Comm comm_;
  std::vector<Vector> in_, out_;
  std::vector<MPI_Request> requests_;
};

/// Nonblocking calls end one after the other while persistent ones before them wait for the last rank.
void behind_persistent(MPI_Comm comm, int round) {
  constexpr int kPersistent = kCalls / 2;
  std::vector<Vector> in(kCalls), out(kCalls);
  std::vector<MPI_Request> requests(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    const auto at = static_cast<size_t>(i);
    in[at].fill(1000 + i, rank + i + round);
    if (i < kPersistent)
      MPI_Allreduce_init(in[at].data(), out[at].data(), 1000 + i, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                         &requests[at]);
  }
  if (rank != size - 1) MPI_Startall(kPersistent, requests.data());
  if (rank == size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (auto i = static_cast<size_t>(kPersistent); i < kCalls; ++i)
    MPI_Iallreduce(in[i].data(), out[i].data(), 1000 + static_cast<int>(i), MPI_INT, MPI_SUM, comm,
                   &requests[i]);
  MPI_Waitall(kCalls - kPersistent, &requests[kPersistent], MPI_STATUSES_IGNORE);
  if (rank == size - 1) MPI_Startall(kPersistent, requests.data());
  MPI_Waitall(kPersistent, requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; i < kCalls; ++i)
    expect(out[static_cast<size_t>(i)].all(1000 + i, sum_of_ranks(i + round)), "a sum behind persistent ones",
           i);
  for (int i = 0; i < kPersistent; ++i) MPI_Request_free(&requests[static_cast<size_t>(i)]);
}

/// Exchange with both neighbors of a ring; with two ranks both are the same process.
void neighborhood(MPI_Comm ring, int round) {
  constexpr int kBlock = 300;
  Vector in, out;
  std::vector<int> values;
  for (int block = 0; block < 2; ++block)
    for (int i = 0; i < kBlock; ++i) values.push_back(1000 * rank + 100 * block + round);
  in.set(values);
  out.fill(2 * kBlock, -1);
  MPI_Request request;
  MPI_Ineighbor_alltoall(in.data(), kBlock, MPI_INT, out.data(), kBlock, MPI_INT, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int left, right;
  MPI_Cart_shift(ring, 0, 1, &left, &right);
  const std::vector<int> got = out.get(2 * kBlock);
  expect(got[0] == 1000 * left + 100 + round && got[2 * kBlock - 1] == 1000 * right + round,
         "a neighborhood all-to-all", round);
  MPI_Neighbor_allgather(in.data(), kBlock, MPI_INT, out.data(), kBlock, MPI_INT, ring);
  expect(out.get(1)[0] == 1000 * left + round && out.get(2 * kBlock)[kBlock] == 1000 * right + round,
         "a neighborhood all-gather", round);
}

/// Ints to even ranks, pairs of ints to odd ranks.
void type_per_block(MPI_Comm comm, int round) {
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  const int n = 50 + round;  // ints for an even rank; pairs for an odd one
  const auto ranks = static_cast<size_t>(size);
  const auto ints = [&](int to) { return to % 2 == 0 ? n : 2 * n; };
  std::vector<int> out_counts(ranks, n), out_displacements(ranks), in_counts(ranks, n),
      in_displacements(ranks);
  std::vector<MPI_Datatype> out_types(ranks), in_types(ranks, rank % 2 == 0 ? MPI_INT : pair);
  std::vector<int> values;
  for (int to = 0; to < size; ++to) {
    out_types[static_cast<size_t>(to)] = to % 2 == 0 ? MPI_INT : pair;
    out_displacements[static_cast<size_t>(to)] = static_cast<int>(values.size() * sizeof(int));
    values.insert(values.end(), static_cast<size_t>(ints(to)), 100 * rank + to);
    in_displacements[static_cast<size_t>(to)] =
        static_cast<int>(static_cast<size_t>(to * ints(rank)) * sizeof(int));
  }
  Vector in, out;
  in.set(values);
  out.fill(ints(rank) * size, -1);
  MPI_Alltoallw(in.data(), out_counts.data(), out_displacements.data(), out_types.data(), out.data(),
                in_counts.data(), in_displacements.data(), in_types.data(), comm);
  const std::vector<int> got = out.get(ints(rank) * size);
  for (int from = 0; from < size; ++from)
    for (int i = 0; i < ints(rank); ++i)
      if (got[static_cast<size_t>(from * ints(rank) + i)] != 100 * from + rank)
        return expect(false, "an all-to-all with types", round);
  MPI_Type_free(&pair);
}

/// The last rank expects more, or fewer, elements than the first rank sends.
void count_mismatch(MPI_Comm comm, int more) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Vector in, out;
  in.fill(100 * size, rank);
  std::vector<int> counts(static_cast<size_t>(size), 50), displacements(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) displacements[static_cast<size_t>(i)] = 100 * i;
  if (rank == size - 1) counts[0] += more;
  const std::vector<int> sent(static_cast<size_t>(size), 50);
  const auto class_of = [](int code) {
    int name = MPI_SUCCESS;
    MPI_Error_class(code, &name);
    return name;
  };
  int code = MPI_Alltoallv(in.data(), sent.data(), displacements.data(), MPI_INT, out.data(), counts.data(),
                           displacements.data(), MPI_INT, comm);
  expect(class_of(code) == MPI_ERR_TRUNCATE, "no error of a blocking call", more);
  MPI_Request request;
  code = MPI_Ialltoallv(in.data(), sent.data(), displacements.data(), MPI_INT, out.data(), counts.data(),
                        displacements.data(), MPI_INT, comm, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(class_of(code) == MPI_ERR_TRUNCATE, "no error of a nonblocking call", more);
  code = MPI_Allreduce(in.data(), out.data(), rank == size - 1 ? 50 + more : 50, MPI_INT, MPI_SUM, comm);
  expect(class_of(code) == MPI_ERR_TRUNCATE, "no error of a reduction", more);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/// Frees the request and the communicator before the operation completes.
void freed_while_active() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  static Vector in, out;  // static: must outlive the operation
  in.fill(1000, rank);
  MPI_Request request;
  MPI_Iallreduce(in.data(), out.data(), 1000, MPI_INT, MPI_SUM, comm, &request);
  MPI_Request_free(&request);
  MPI_Comm_free(&comm);
  Vector value;
  value.fill(10, rank);
  for (int i = 0; i < 20; ++i) {
    value.fill(10, rank);
    MPI_Allreduce(MPI_IN_PLACE, value.data(), 10, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(value.all(10, sum_of_ranks(0)), "a sum concurrent with a freed request", i);
  }
}

unsigned long calls_by_kernels() {
  unsigned long late = 0;
  return weft::test::cuda().collectives == nullptr ? 0 : weft::test::cuda().collectives(&late);
}

/// A communicator whose hint disables kernels.
void hints() {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "weft_coll_gpu", "off");
  MPI_Comm comm;
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  Vector value;
  MPI_Barrier(MPI_COMM_WORLD);
  const unsigned long before = calls_by_kernels();
  for (int i = 0; i < 10; ++i) {
    value.fill(10, rank);
    MPI_Allreduce(MPI_IN_PLACE, value.data(), 10, MPI_INT, MPI_SUM, comm);
    expect(value.all(10, sum_of_ranks(0)), "a sum without kernels", i);
  }
  expect(calls_by_kernels() == before, "kernels where a hint forbids them", 0);
  MPI_Comm_free(&comm);
  MPI_Info_set(info, "weft_coll_gpu_ll_max_bytes", "many");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int name = MPI_SUCCESS;
  MPI_Error_class(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm), &name);
  expect(name == MPI_ERR_INFO_VALUE, "a bad hint", name);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Info_free(&info);
}

void check_use(int rounds) {
  if (weft::test::cuda().collectives == nullptr || size == 1) return;
  unsigned long late = 0;
  const unsigned long done = weft::test::cuda().collectives(&late);
  expect(done >= 5ul * static_cast<unsigned long>(rounds), "too few calls by kernels",
         static_cast<int>(done));
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, size);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  MPI_Comm other, ring;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
  {
    Persistent persistent(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; ++round) {
      overlapped(round % 2 == 0 ? MPI_COMM_WORLD : other, round);
      persistent.run(round);
      behind_persistent(round % 2 == 0 ? MPI_COMM_WORLD : other, round);
      neighborhood(ring, round);
      type_per_block(MPI_COMM_WORLD, round);
      if (round % 4 == 0 && size > 1) count_mismatch(MPI_COMM_WORLD, round % 8 == 0 ? 10 : -50);
    }
    hints();
    freed_while_active();
  }
  check_use(rounds);
  MPI_Comm_free(&other);
  MPI_Comm_free(&ring);
  return weft::test::finish(failures);
}
