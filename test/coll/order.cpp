// SPDX-License-Identifier: BSD-3-Clause
// Order of terms: every form of every reduction gives the bits of the order of docs/applications.md, before
// and after a communicator has shared memory. Argument "rank": the order of coll.order=rank. "hosts": only
// equal bits of all forms, since the order of terms depends on the hosts.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

enum class Order { tree, rank, hosts };
Order order = Order::tree;
int rank = 0, ranks = 1;
long calls = 0;

template <class T>
MPI_Datatype type_of() {
  return sizeof(T) == 8 ? MPI_DOUBLE : MPI_FLOAT;
}

/// Values of mixed sign and magnitude: their sum depends on the order.
template <class T>
T input(int from, int64_t i) {
  auto bits =
      static_cast<uint64_t>(from + 1) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(i) * 0xc2b2ae3d27d4eb4fu;
  bits ^= bits >> 29;
  bits *= 0xbf58476d1ce4e5b9u;
  bits ^= bits >> 32;
  const int magnitude = static_cast<int>(bits % 13) - 6;
  const double value =
      std::ldexp(static_cast<double>(bits >> 12) + 1.0, magnitude * (sizeof(T) == 8 ? 6 : 2) - 52);
  return static_cast<T>((bits & 64) != 0 ? -value : value);
}

/// An operation whose operands differ: a path that exchanges them gives other bits.
template <class T>
T halve_left(T left, T right) {
  return left / 2 + right;
}
template <class T>
void halve_left_array(void* in, void* inout, int* n, MPI_Datatype*) {
  const T* left = static_cast<T*>(in);
  T* right = static_cast<T*>(inout);
  for (int i = 0; i < *n; ++i) right[i] = halve_left(left[i], right[i]);
}

template <class T>
struct Operation {
  const char* name;
  MPI_Op op;
  T (*apply)(T, T);
};

/// The documented order, from the terms of ranks 0, 1, ...
template <class T>
T reduced(const Operation<T>& operation, std::vector<T> terms) {
  if (order == Order::rank) {
    T result = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) result = operation.apply(result, terms[i]);
    return result;
  }
  size_t power = 1;
  while (2 * power <= terms.size()) power *= 2;
  std::vector<T> nodes;
  const size_t paired = 2 * (terms.size() - power);
  for (size_t i = 0; i < terms.size(); i += i < paired ? 2 : 1)
    nodes.push_back(i < paired ? operation.apply(terms[i], terms[i + 1]) : terms[i]);
  for (; nodes.size() > 1; nodes.resize(nodes.size() / 2))
    for (size_t i = 0; i < nodes.size() / 2; ++i) nodes[i] = operation.apply(nodes[2 * i], nodes[2 * i + 1]);
  return nodes[0];
}

/// The documented order of scan: blocks of 1, 2, 4, ... ranks below the rank. Exscan: without the last term.
template <class T>
T prefix(const Operation<T>& operation, std::vector<T> terms, bool exclusive) {
  if (order == Order::rank) {
    if (exclusive) terms.pop_back();
    return reduced(operation, terms);
  }
  std::vector<T> partial = terms;
  T before = 0;
  for (size_t distance = 1; distance < terms.size(); distance *= 2) {
    std::vector<T> next = partial;
    for (size_t i = distance; i < terms.size(); ++i)
      next[i] = operation.apply(partial[i - distance], partial[i]);
    const T received = partial[terms.size() - 1 - distance];
    before = distance == 1 ? received : operation.apply(received, before);
    partial = next;
  }
  return exclusive ? before : partial.back();
}

template <class T>
class Case {
 public:
  Case(const Operation<T>& operation, int n) : operation_(operation), n_(n) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    for (int64_t i = 0; i < int64_t{n} * ranks; ++i) input_.push_back(input<T>(rank, i));
    for (int64_t i = 0; i < int64_t{n} * ranks; ++i) {
      std::vector<T> terms;
      for (int from = 0; from < ranks; ++from) terms.push_back(input<T>(from, i));
      reduced_.push_back(reduced(operation, terms));
      terms.resize(static_cast<size_t>(rank) + 1);
      scan_.push_back(prefix(operation, terms, false));
      exscan_.push_back(rank > 0 ? prefix(operation, terms, true) : T{0});
    }
  }
  ~Case() { MPI_Comm_free(&comm_); }

  void round(int number) {
    const MPI_Datatype type = type_of<T>();
    const int root = number % ranks;
    const auto all = reduced_.begin();
    const std::vector<T> vector(all, all + n_),
        block(all + int64_t{n_} * rank, all + int64_t{n_} * (rank + 1));
    const std::vector<int> counts(static_cast<size_t>(ranks), n_);
    for (const bool in_place : {false, true}) {
      const bool at_root = in_place && rank == root;
      forms("allreduce", vector, in_place, n_, MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init, n_, type,
            operation_.op, comm_);
      forms("reduce", rank == root ? vector : std::vector<T>(), at_root, n_, MPI_Reduce, MPI_Ireduce,
            MPI_Reduce_init, n_, type, operation_.op, root, comm_);
      forms("reduce_scatter_block", block, in_place, n_ * ranks, MPI_Reduce_scatter_block,
            MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init, n_, type, operation_.op, comm_);
      forms("reduce_scatter", block, in_place, n_ * ranks, MPI_Reduce_scatter, MPI_Ireduce_scatter,
            MPI_Reduce_scatter_init, counts.data(), type, operation_.op, comm_);
      forms("scan", head(scan_), in_place, n_, MPI_Scan, MPI_Iscan, MPI_Scan_init, n_, type, operation_.op,
            comm_);
      forms("exscan", rank > 0 ? head(exscan_) : std::vector<T>(), in_place, n_, MPI_Exscan, MPI_Iexscan,
            MPI_Exscan_init, n_, type, operation_.op, comm_);
    }
  }

 private:
  std::vector<T> head(const std::vector<T>& values) const { return {values.begin(), values.begin() + n_}; }
  template <class Blocking, class Nonblocking, class Persistent, class... A>
  void forms(const char* what, std::vector<T> wanted, bool in_place, int64_t inputs, Blocking blocking,
             Nonblocking nonblocking, Persistent persistent, A... arguments) {
    std::vector<T> send(input_), recv;
    const void* const from = in_place ? MPI_IN_PLACE : static_cast<const void*>(send.data());
    const auto load = [&] {
      recv.assign(input_.size(), T{-1});
      if (in_place) std::copy(input_.begin(), input_.begin() + inputs, recv.begin());
    };
    const auto check = [&](const char* form) {
      ++calls;
      if (order == Order::hosts && wanted.size() > 0) {  // the first result of this collective decides
        std::vector<T>& first = results_[std::string(what) == "reduce" ? "allreduce" : what];
        if (first.empty()) first.assign(recv.begin(), recv.begin() + static_cast<long>(wanted.size()));
        wanted = first;
      }
      if (wanted.empty() || std::memcmp(recv.data(), wanted.data(), wanted.size() * sizeof(T)) == 0) return;
      size_t at = 0;
      while (recv[at] == wanted[at]) ++at;
      std::fprintf(stderr, "rank %d of %d: %s %s%s of %d %s, %s: element %zu is %.17g instead of %.17g\n",
                   rank, ranks, form, what, in_place ? " in place" : "", n_,
                   sizeof(T) == 8 ? "doubles" : "floats", operation_.name, at, static_cast<double>(recv[at]),
                   static_cast<double>(wanted[at]));
      MPI_Abort(MPI_COMM_WORLD, 1);
    };
    load();
    blocking(from, recv.data(), arguments...);
    check("blocking");
    MPI_Request request;
    load();
    nonblocking(from, recv.data(), arguments..., &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check("nonblocking");
    load();
    persistent(from, recv.data(), arguments..., MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check("persistent");
    MPI_Request_free(&request);
  }

  const Operation<T>& operation_;
  const int n_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<T> input_, reduced_, scan_, exscan_;
  std::map<std::string, std::vector<T>> results_;
};

template <class T>
void test(MPI_Op user, int most) {
  const Operation<T> operations[] = {{"sum", MPI_SUM, [](T a, T b) { return a + b; }},
                                     {"user", user, halve_left<T>}};
  for (const auto& operation : operations)
    for (const int n : {1, 7, 300, 3000, 20000}) {
      if (n > most) continue;
      Case<T> current(operation, n);
      const int rounds = n < 100 ? 6 : 3;  // more blocking calls than coll.shared_min_calls
      for (int number = 0; number < rounds; ++number) current.round(number);
    }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string words = argc > 1 ? argv[1] : "tree";
  order = words == "rank" ? Order::rank : words == "hosts" ? Order::hosts : Order::tree;
  const int most = argc > 2 ? std::atoi(argv[2]) : 3000;
  MPI_Op user_double, user_float;  // declared commutative
  MPI_Op_create(halve_left_array<double>, 1, &user_double);
  MPI_Op_create(halve_left_array<float>, 1, &user_float);
  test<double>(user_double, most);
  test<float>(user_float, most);
  MPI_Op_free(&user_double);
  MPI_Op_free(&user_float);
  if (rank == 0) std::printf("%ld calls of %d ranks\n", calls, ranks);
  if (calls < 1000) return 1;
  return MPI_Finalize();
}
