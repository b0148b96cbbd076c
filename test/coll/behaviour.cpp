// SPDX-License-Identifier: BSD-3-Clause
// Guarantees of collectives beyond their results: barriers synchronize, nonblocking collectives overlap and
// complete in any order, persistent collectives start in any order, arguments may be freed early, and threads
// may use separate communicators.
#include <unistd.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "coll/expect.hpp"

namespace {

using expect::success;

int rank, size;

void begin(const char* what) { std::snprintf(expect::situation, sizeof expect::situation, "%s", what); }
void require(bool good, const char* what, long a = 0, long b = 0) {
  if (!good) expect::fail(what, a, b);
}

/// No rank leaves before the last rank has entered.
void barrier_holds() {
  begin("barrier");
  for (int late = 0; late < size; ++late) {
    success(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == late) ::usleep(20000);
    const double came = MPI_Wtime();
    success(MPI_Barrier(MPI_COMM_WORLD));
    const double left = MPI_Wtime();
    double last = came;
    success(MPI_Allreduce(MPI_IN_PLACE, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    require(left >= last, "left before the last rank entered, by microseconds",
            static_cast<long>((last - left) * 1e6));
  }
}

/// Roots and leaves run ahead of late ranks as far as slots are free, then synchronize: unread data must not
/// be overwritten.
void run_ahead() {
  begin("running ahead");
  constexpr int kLargest = 5000, kSizes[] = {2, 2, 2, 12, 13, 2, kLargest, 1};
  std::vector<uint32_t> data(kLargest), sum(kLargest);
  const auto element_index = [](int i, int k) { return int64_t{i} * kLargest + k; };
  const auto word = [&](int of, int i, int k) { return reference::input(of, 0, element_index(i, k)); };
  for (int ahead = 26; ahead < 75; ++ahead) {
    const int root = ahead % size, late = (root + 1 + ahead / size % (size - 1)) % size;
    const bool reduces = ahead % 3 == 0, mixed = ahead % 5 == 4;
    if (rank == late) ::usleep(ahead % 2 == 0 ? 3000 : 1000);
    for (int i = 0; i < ahead; ++i) {
      const int n = mixed ? kSizes[i % 8] : 2;
      for (int k = 0; k < n; ++k) data[static_cast<size_t>(k)] = word(rank, i, k);
      if (reduces) {
        success(MPI_Reduce(data.data(), sum.data(), n, MPI_UINT32_T, MPI_SUM, root, MPI_COMM_WORLD));
        for (int k = 0; rank == root && k < n; ++k)
          require(sum[static_cast<size_t>(k)] == reference::reduced(size - 1, element_index(i, k), false),
                  "sum", i, k);
      } else {
        success(MPI_Bcast(data.data(), n, MPI_UINT32_T, root, MPI_COMM_WORLD));
        for (int k = 0; k < n; ++k) require(data[static_cast<size_t>(k)] == word(root, i, k), "word", i, k);
      }
    }
    if (ahead % 2 == 0) success(MPI_Barrier(MPI_COMM_WORLD));
  }
}

/// Many concurrent collectives on two communicators, interleaved with blocking ones, completed in reverse
/// order.
void overlap() {
  begin("overlapping nonblocking collectives");
  constexpr int kRequests = 60, kWords = 3000;
  MPI_Comm other;
  success(MPI_Comm_dup(MPI_COMM_WORLD, &other));
  std::vector<std::vector<uint32_t>> in(kRequests, std::vector<uint32_t>(kWords)), out(in);
  std::vector<MPI_Request> requests(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    const auto n = static_cast<size_t>(i);
    MPI_Comm comm = i % 3 == 0 ? other : MPI_COMM_WORLD;
    for (int k = 0; k < kWords; ++k) in[n][static_cast<size_t>(k)] = reference::input(rank, i, k);
    if (i % 2 == 0) {
      success(MPI_Iallreduce(in[n].data(), out[n].data(), kWords, MPI_UINT32_T, MPI_SUM, comm, &requests[n]));
    } else {
      if (rank == i % size) out[n] = in[n];
      success(MPI_Ibcast(out[n].data(), kWords, MPI_UINT32_T, i % size, comm, &requests[n]));
    }
    if (i % 10 == 0) success(MPI_Barrier(other));
  }
  for (size_t i = kRequests; i-- > 0;) {
    success(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    for (int k = 0; k < kWords; ++k) {
      uint32_t wanted = 0;
      for (int r = 0; r < size; ++r) wanted += reference::input(r, static_cast<int>(i), k);
      if (i % 2 == 1) wanted = reference::input(static_cast<int>(i) % size, static_cast<int>(i), k);
      require(out[i][static_cast<size_t>(k)] == wanted, "wrong word", static_cast<long>(i), k);
    }
  }
  success(MPI_Comm_free(&other));
}

/// Two persistent operations of one communicator, started in opposite orders by odd and even ranks.
void start_in_any_order() {
  begin("persistent collectives started in different orders");
  uint32_t in[2], out[2];
  MPI_Request requests[2];
  for (int i = 0; i < 2; ++i)
    success(MPI_Allreduce_init(&in[i], &out[i], 1, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &requests[i]));
  for (uint32_t time = 0; time < 50; ++time) {
    for (uint32_t i = 0; i < 2; ++i) in[i] = static_cast<uint32_t>(rank) + time * (i + 1);
    const int first = rank % 2;
    success(MPI_Start(&requests[first]));
    success(MPI_Start(&requests[1 - first]));
    success(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    const auto ranks = static_cast<uint32_t>(size);
    for (uint32_t i = 0; i < 2; ++i)
      require(out[i] == ranks * (ranks - 1) / 2 + ranks * time * (i + 1), "wrong sum", i, out[i]);
  }
  for (MPI_Request& request : requests) success(MPI_Request_free(&request));
}

/// Types, operations, communicators and arrays may be freed once the call has returned.
void free_early() {
  begin("arguments freed before completion");
  MPI_Comm comm;
  MPI_Datatype type;
  MPI_Op op;
  success(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  success(MPI_Type_contiguous(2, MPI_UINT32_T, &type));
  success(MPI_Type_commit(&type));
  success(MPI_Op_create(expect::compose, 0, &op));
  std::vector<uint32_t> mine(20000), all(mine), gathered(static_cast<size_t>(2 * size));
  for (size_t k = 0; k < mine.size(); ++k) mine[k] = reference::input(rank, 0, static_cast<int64_t>(k));
  MPI_Request requests[2];
  success(MPI_Iallreduce(mine.data(), all.data(), 10000, type, op, comm, &requests[0]));
  {
    std::vector<int> counts(static_cast<size_t>(size), 1), displacements(counts);
    for (int i = 0; i < size; ++i) displacements[static_cast<size_t>(i)] = i;
    success(MPI_Iallgatherv(mine.data(), 1, type, gathered.data(), counts.data(), displacements.data(), type,
                            comm, &requests[1]));
    for (int& count : counts) count = 1 << 30;
  }
  success(MPI_Type_free(&type));
  success(MPI_Op_free(&op));
  success(MPI_Comm_free(&comm));
  success(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (size_t k = 0; k < all.size(); ++k)
    require(all[k] == reference::reduced(size - 1, static_cast<int64_t>(k), true), "wrong word",
            static_cast<long>(k));
  for (int i = 0; i < 2 * size; ++i)
    require(gathered[static_cast<size_t>(i)] == reference::input(i / 2, 0, i % 2), "wrong gathered word", i);
}

template <class T>
void predefined(MPI_Datatype type, MPI_Op op, const char* name, T (*combine)(T, T)) {
  begin(name);
  for (const int n : {1, 5000}) {
    std::vector<T> mine(static_cast<size_t>(n)), result(mine);
    const auto value = [](int r, int k) { return static_cast<T>(1 + (r * 3 + k) % 4); };
    for (int k = 0; k < n; ++k) mine[static_cast<size_t>(k)] = value(rank, k);
    success(MPI_Allreduce(mine.data(), result.data(), n, type, op, MPI_COMM_WORLD));
    for (int k = 0; k < n; ++k) {
      T wanted = value(0, k);
      for (int r = 1; r < size; ++r) wanted = combine(wanted, value(r, k));
      require(result[static_cast<size_t>(k)] == wanted, "wrong element", k);
    }
  }
}

template <class T>
void arithmetic(MPI_Datatype type, const char* name) {
  predefined<T>(type, MPI_SUM, name, [](T a, T b) { return static_cast<T>(a + b); });
  predefined<T>(type, MPI_PROD, name, [](T a, T b) { return static_cast<T>(a * b); });
}

void types_and_operations() {
  arithmetic<int8_t>(MPI_INT8_T, "int8");
  arithmetic<uint16_t>(MPI_UINT16_T, "uint16");
  arithmetic<int64_t>(MPI_INT64_T, "int64");
  arithmetic<float>(MPI_FLOAT, "float");
  arithmetic<double>(MPI_DOUBLE, "double");
  arithmetic<long double>(MPI_LONG_DOUBLE, "long double");
  arithmetic<std::complex<float>>(MPI_C_FLOAT_COMPLEX, "complex float");
  predefined<int>(MPI_INT, MPI_MAX, "max", [](int a, int b) { return a > b ? a : b; });
  predefined<double>(MPI_DOUBLE, MPI_MIN, "min", [](double a, double b) { return a < b ? a : b; });
  predefined<int>(MPI_INT, MPI_BXOR, "bxor", [](int a, int b) { return a ^ b; });
  predefined<int>(MPI_INT, MPI_LAND, "land", [](int a, int b) { return int{a != 0 && b != 0}; });
  begin("minloc");
  struct {
    double value;
    int at;
  } mine{rank == 0 ? 3.0 : 2.0, rank}, result{};
  success(MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
  require(result.at == (size > 1 ? 1 : 0), "the lowest rank of the minimum", result.at);
}

/// Floating-point sums are bitwise equal on all ranks, whatever the algorithm.
void same_bits_everywhere() {
  begin("floating-point sums");
  for (const int n : {1, 100, 5000, 100000}) {
    std::vector<float> mine(static_cast<size_t>(n)), result(mine), first;
    for (int k = 0; k < n; ++k)
      mine[static_cast<size_t>(k)] =
          static_cast<float>(reference::input(rank, 0, k)) * 1e-3f / static_cast<float>(k + 1);
    success(MPI_Allreduce(mine.data(), result.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    first = result;
    success(MPI_Bcast(first.data(), n, MPI_FLOAT, 0, MPI_COMM_WORLD));
    require(first == result, "ranks differ", n);
  }
}

void large_counts() {
  begin("large-count functions");
  uint32_t in[2] = {reference::input(rank, 0, 0), reference::input(rank, 0, 1)}, out[2];
  success(MPI_Allreduce_c(in, out, MPI_Count{2}, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD));
  require(out[1] == reference::reduced(size - 1, 1, false), "wrong sum");
  std::vector<uint32_t> all(static_cast<size_t>(size));
  std::vector<MPI_Count> counts(static_cast<size_t>(size), 1);
  std::vector<MPI_Aint> displacements(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) displacements[static_cast<size_t>(i)] = size - 1 - i;
  success(MPI_Allgatherv_c(in, 1, MPI_UINT32_T, all.data(), counts.data(), displacements.data(), MPI_UINT32_T,
                           MPI_COMM_WORLD));
  for (int i = 0; i < size; ++i)
    require(all[static_cast<size_t>(size - 1 - i)] == reference::input(i, 0, 0), "wrong word", i);
}

/// MPI_Comm_idup does not wait for other ranks: rank 0 calls it after all others have returned from it.
void duplicate_late(MPI_Comm parent) {
  MPI_Comm child;
  MPI_Request request;
  if (rank != 0) {
    success(MPI_Comm_idup(parent, &child, &request));
    success(MPI_Send(nullptr, 0, MPI_INT, 0, 3, MPI_COMM_WORLD));
  } else {
    for (int other = 1; other < size; ++other)
      success(MPI_Recv(nullptr, 0, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    success(MPI_Comm_idup(parent, &child, &request));
  }
  success(MPI_Wait(&request, MPI_STATUS_IGNORE));
  uint32_t one = 1, sum = 0;
  success(MPI_Allreduce(&one, &sum, 1, MPI_UINT32_T, MPI_SUM, child));
  int wanted = size, inter;
  success(MPI_Comm_test_inter(parent, &inter));
  if (inter != 0) success(MPI_Comm_remote_size(parent, &wanted));
  require(sum == static_cast<uint32_t>(wanted), "the duplicate sums", sum);
  success(MPI_Comm_free(&child));
}

/// Intercommunicator of the even and the odd ranks.
MPI_Comm even_and_odd() {
  MPI_Comm half, inter;
  success(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half));
  success(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter));
  success(MPI_Comm_free(&half));
  return inter;
}

void duplicates_do_not_wait() {
  begin("MPI_Comm_idup does not wait");
  duplicate_late(MPI_COMM_WORLD);
  if (size < 2) return;
  MPI_Comm inter = even_and_odd();
  duplicate_late(inter);
  success(MPI_Comm_free(&inter));
}

/// Threads that create and use communicators, each from its own parent.
void threads_make_communicators() {
  begin("threads that make communicators");
  constexpr int kThreads = 3;
  MPI_Comm comms[kThreads];
  for (int t = 0; t < kThreads; ++t)
    if (t == 2 && size > 1)
      comms[t] = even_and_odd();
    else
      success(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
  std::vector<std::thread> running;
  for (int t = 0; t < kThreads; ++t)
    running.emplace_back([comm = comms[t], t] {
      for (int time = 0; time < 20; ++time) {
        MPI_Comm child, part;
        MPI_Request request;
        success(MPI_Comm_idup(comm, &child, &request));
        success(MPI_Barrier(comm));
        success(MPI_Wait(&request, MPI_STATUS_IGNORE));
        success(MPI_Comm_split(child, 0, -rank, &part));
        uint32_t mine = static_cast<uint32_t>(t), least = 100;
        success(MPI_Allreduce(&mine, &least, 1, MPI_UINT32_T, MPI_MIN, part));
        require(least == mine, "another thread's value", t, least);
        success(MPI_Comm_free(&part));
        success(MPI_Comm_free(&child));
      }
    });
  for (std::thread& thread : running) thread.join();
  for (MPI_Comm& comm : comms) success(MPI_Comm_free(&comm));
}

/// Each thread uses its own communicator, also with user functions, which run without the library's lock.
void threads() {
  begin("threads");
  constexpr int kThreads = 3;
  MPI_Comm comms[kThreads];
  for (MPI_Comm& comm : comms) success(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  const MPI_Datatype pair = expect::type_of(reference::kPair);
  const MPI_Op op = expect::op_of(reference::kPair);
  std::vector<std::thread> running;
  for (int t = 0; t < kThreads; ++t)
    running.emplace_back([=, comm = comms[t]] {
      std::vector<uint32_t> mine(400), all(400);
      for (int time = 0; time < 30; ++time) {
        for (int k = 0; k < 400; ++k) mine[static_cast<size_t>(k)] = reference::input(rank, 0, k);
        MPI_Request request;
        if (time % 2 == 0) {
          success(MPI_Allreduce(mine.data(), all.data(), 200, pair, op, comm));
        } else {
          success(MPI_Iallreduce(mine.data(), all.data(), 200, pair, op, comm, &request));
          success(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        for (int k = 0; k < 400; ++k)
          require(all[static_cast<size_t>(k)] == reference::reduced(size - 1, k, true), "wrong word", t, k);
      }
    });
  for (std::thread& thread : running) thread.join();
  for (MPI_Comm& comm : comms) success(MPI_Comm_free(&comm));
}

/// The ranks of a broadcast use different types for the same integers: single, in threes, with gaps.
void types_of_their_own() {
  begin("broadcast, types that differ");
  constexpr int kThrees = 30'000, kGap = 2;
  MPI_Datatype threes, gaps;
  MPI_Type_contiguous(3, MPI_INT, &threes);
  MPI_Type_vector(3 * kThrees, 1, kGap, MPI_INT, &gaps);
  MPI_Type_commit(&threes);
  MPI_Type_commit(&gaps);
  for (int root = 0; root < size; ++root) {
    const int layout = (rank + root) % 3, stride = layout == 2 ? kGap : 1;
    std::vector<int> data(static_cast<size_t>(3 * kThrees * stride), -1);
    if (rank == root)
      for (size_t i = 0; i < data.size(); i += static_cast<size_t>(stride))
        data[i] = static_cast<int>(i) / stride;
    const MPI_Datatype types[] = {MPI_INT, threes, gaps};
    const int counts[] = {3 * kThrees, kThrees, 1};
    success(MPI_Bcast(data.data(), counts[layout], types[layout], root, MPI_COMM_WORLD));
    for (size_t i = 0; i < data.size(); ++i) {
      const int there = static_cast<int>(i);
      const int wanted = there % stride == 0 ? there / stride : -1;
      require(data[i] == wanted, "integer, at", data[i], there);
    }
  }
  MPI_Type_free(&threes);
  MPI_Type_free(&gaps);
}

}  // namespace

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  barrier_holds();
  if (size > 1) run_ahead();
  overlap();
  start_in_any_order();
  free_early();
  types_and_operations();
  types_of_their_own();
  same_bits_everywhere();
  large_counts();
  duplicates_do_not_wait();
  if (provided == MPI_THREAD_MULTIPLE) threads();
  if (provided == MPI_THREAD_MULTIPLE) threads_make_communicators();
  expect::close();
  MPI_Finalize();
  return 0;
}
