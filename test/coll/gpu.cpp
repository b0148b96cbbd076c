// SPDX-License-Identifier: BSD-3-Clause
// Collectives on GPU buffers by kernels, with one GPU per rank: blocking, nonblocking and persistent, all
// operations and types, uneven counts, unaligned buffers, in place, concurrent communicators; compared with
// results computed locally. Arguments: number of random calls, seed.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "device/cuda_test_support.hpp"
#include "reference/draw.hpp"

namespace {

using Bytes = std::vector<char>;
using randomized::Draw;
using randomized::mix;
using weft::test::Buffer;

constexpr size_t kBufferBytes = 9 << 20;

/// Form of a call: TEST_FORM, or random.
enum class Form { blocking, nonblocking, persistent };

int complete(int code, MPI_Request& request, bool persistent) {
  if (code == MPI_SUCCESS && persistent) code = MPI_Start(&request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (persistent && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  return code;
}

#define CALL(Name, name, ...)                                           \
  (form_ == Form::blocking ? MPI_##Name(__VA_ARGS__)                    \
   : form_ == Form::nonblocking                                         \
       ? complete(MPI_I##name(__VA_ARGS__, &request_), request_, false) \
       : complete(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_), request_, true))

struct Type {
  MPI_Datatype type;
  const char* name;
  size_t size;
  void (*write)(char* to, int value);
  std::vector<MPI_Op> ops;
};

template <class T>
void write(char* to, int value) {
  const T converted = static_cast<T>(value);
  std::memcpy(to, &converted, sizeof converted);
}
template <class T>
void write_two(char* to, int value) {
  write<T>(to, value);
  write<T>(to + sizeof(T), 10 * value);  // avoids complex products of zero, which has two signs
}

std::vector<Type> types() {
  const std::vector<MPI_Op> integer{MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,
                                    MPI_BXOR, MPI_BAND, MPI_LOR, MPI_LXOR},
      floating{MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX}, complex{MPI_SUM, MPI_PROD};
  return {{MPI_FLOAT, "float", 4, write<float>, floating},
          {MPI_INT, "int", 4, write<int>, integer},
          {MPI_DOUBLE, "double", 8, write<double>, floating},
          {MPI_INT8_T, "int8", 1, write<int8_t>, integer},
          {MPI_UINT16_T, "uint16", 2, write<uint16_t>, integer},
          {MPI_UINT64_T, "uint64", 8, write<uint64_t>, integer},
          {MPI_C_FLOAT_COMPLEX, "float complex", 8, write_two<float>, complex},
          {MPI_C_DOUBLE_COMPLEX, "double complex", 16, write_two<double>, complex},
          {MPI_2INT, "2int", 8, write_two<int>, {MPI_MINLOC, MPI_MAXLOC}}};
}

/// Element i of block `block` of rank `rank`.
int value(uint64_t seed, int rank, int block, size_t i) {
  const uint64_t mixed =
      (seed * 31 + static_cast<uint64_t>(rank) * 1009 + static_cast<uint64_t>(block) * 97 + i * 7919) *
      0x9e3779b97f4a7c15ULL;
  return static_cast<int>(mixed >> 61) % 5 + 1;
}

/// Random calls on one communicator.
class Trial {
 public:
  Trial(MPI_Comm comm, Buffer& send, Buffer& recv) : comm_(comm), send_(send), recv_(recv) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  void draw(uint64_t seed, const std::vector<size_t>& counts) {
    Draw draw(seed);
    seed_ = seed;
    static const std::vector<Type> all = types();
    type_ = &all[static_cast<size_t>(draw.below(static_cast<int>(all.size())))];
    if (draw.one_in(3)) type_ = &all[0];
    op_ = type_->ops[static_cast<size_t>(draw.below(static_cast<int>(type_->ops.size())))];
    n_ = counts[static_cast<size_t>(draw.below(static_cast<int>(counts.size())))];
    root_ = draw.below(size_);
    in_place_ = draw.one_in(3);
    offset_ = type_->size * static_cast<size_t>(draw.below(5));
    uneven_ = draw.number();
    form_ = forms()[static_cast<size_t>(draw.below(static_cast<int>(forms().size())))];
    run(draw.below(kKinds));
  }

 private:
  static constexpr int kKinds = 15;
  static const std::vector<Form>& forms() {
    static const char* const only = std::getenv("TEST_FORM");
    static const std::vector<Form> wanted =
        only == nullptr ? std::vector<Form>{Form::blocking, Form::nonblocking, Form::persistent}
        : std::string(only) == "nonblocking" ? std::vector<Form>{Form::nonblocking}
        : std::string(only) == "persistent"  ? std::vector<Form>{Form::persistent}
                                             : std::vector<Form>{Form::blocking};
    return wanted;
  }
  void run(int kind);
  void reduction(int kind);
  void movement(int kind);

  [[nodiscard]] Bytes block(int rank, int number, size_t n) const {
    Bytes bytes(n * type_->size);
    for (size_t i = 0; i < n; ++i)
      type_->write(bytes.data() + i * type_->size, value(seed_, rank, number, i));
    return bytes;
  }
  [[nodiscard]] Bytes folded(const std::vector<Bytes>& terms) const {
    Bytes result = terms.back();
    for (size_t i = terms.size() - 1; i-- > 0;)
      MPI_Reduce_local(terms[i].data(), result.data(), static_cast<int>(result.size() / type_->size),
                       type_->type, op_);
    return result;
  }
  /// Elements from one rank to another in v-variants.
  [[nodiscard]] size_t uneven(int from, int to) const {
    if (n_ == 0) return 0;
    return static_cast<size_t>(
        mix(uneven_, std::min(from, to), std::max(from, to), static_cast<int>(2 * n_ + 1)));
  }
  void* at(Buffer& buffer) const { return buffer.data() + offset_; }
  void put(Buffer& buffer, const Bytes& bytes) const {
    if (!bytes.empty()) buffer.write(bytes, offset_);
  }
  void poison(size_t n) { recv_.write(Bytes(std::min(kBufferBytes - offset_, n + 64), char(0x5a)), offset_); }
  void expect(const Bytes& wanted, const char* what) {
    Bytes got = recv_.read(offset_, std::min(kBufferBytes - offset_, wanted.size() + 64));
    Bytes all = wanted;
    all.resize(got.size(), char(0x5a));
    if (got == all) return;
    const auto at = std::mismatch(got.begin(), got.end(), all.begin());
    std::fprintf(
        stderr,
        "rank %d of %d: %s of %s, n=%zu, root %d%s, offset %zu, seed %llu: byte %ld of %zu is %d, not %d\n",
        rank_, size_, what, type_->name, n_, root_, in_place_ ? ", in place" : "", offset_,
        static_cast<unsigned long long>(seed_), static_cast<long>(at.first - got.begin()), wanted.size(),
        *at.first, *at.second);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  void check(int code, const char* what) {
    if (code == MPI_SUCCESS) return;
    std::fprintf(stderr, "rank %d: %s: error code %d\n", rank_, what, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  MPI_Comm comm_;
  Buffer &send_, &recv_;
  int rank_, size_;
  uint64_t seed_ = 0, uneven_ = 0;
  const Type* type_ = nullptr;
  MPI_Op op_ = MPI_SUM;
  size_t n_ = 0, offset_ = 0;
  int root_ = 0;
  bool in_place_ = false;
  Form form_ = Form::blocking;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

void Trial::run(int kind) {
  const size_t blocks = static_cast<size_t>(size_) * (2 * n_ + 1) * type_->size;
  if (blocks + 256 > kBufferBytes) n_ = 1000;
  kind < 6 ? reduction(kind) : movement(kind);
}

void Trial::reduction(int kind) {
  const char* const kNames[] = {"allreduce",      "reduce", "reduce_scatter_block",
                                "reduce_scatter", "scan",   "exscan"};
  const bool scattered = kind == 2 || kind == 3;
  std::vector<int> counts(static_cast<size_t>(size_), static_cast<int>(n_));
  if (kind == 3)
    for (int i = 0; i < size_; ++i) counts[static_cast<size_t>(i)] = static_cast<int>(uneven(i, i));
  const auto total = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), 0));
  const size_t n = scattered ? total : n_;
  const bool replaces = in_place_ && (kind != 1 || rank_ == root_);
  const Bytes mine = block(rank_, 0, n);
  poison(n * type_->size);
  put(replaces ? recv_ : send_, mine);
  std::vector<Bytes> terms;
  const int last = kind == 4 ? rank_ : kind == 5 ? rank_ - 1 : size_ - 1;
  for (int rank = 0; rank <= last; ++rank) terms.push_back(block(rank, 0, n));
  Bytes wanted = replaces ? mine : Bytes();
  if (!terms.empty() && (kind != 1 || rank_ == root_)) {
    Bytes result = folded(terms);
    if (scattered) {
      const int before = std::accumulate(counts.begin(), counts.begin() + rank_, 0);
      const auto first = result.begin() + static_cast<long>(static_cast<size_t>(before) * type_->size);
      result = Bytes(
          first,
          first + static_cast<long>(static_cast<size_t>(counts[static_cast<size_t>(rank_)]) * type_->size));
    }
    if (wanted.size() < result.size()) wanted.resize(result.size());
    std::copy(result.begin(), result.end(), wanted.begin());
  }
  const void* in = replaces ? MPI_IN_PLACE : at(send_);
  const int count = static_cast<int>(n_);
  int code = MPI_SUCCESS;
  switch (kind) {
    case 0:
      code = CALL(Allreduce, allreduce, in, at(recv_), count, type_->type, op_, comm_);
      break;
    case 1:
      code = CALL(Reduce, reduce, in, at(recv_), count, type_->type, op_, root_, comm_);
      break;
    case 2:
      code = CALL(Reduce_scatter_block, reduce_scatter_block, in, at(recv_), count, type_->type, op_, comm_);
      break;
    case 3:
      code = CALL(Reduce_scatter, reduce_scatter, in, at(recv_), counts.data(), type_->type, op_, comm_);
      break;
    case 4:
      code = CALL(Scan, scan, in, at(recv_), count, type_->type, op_, comm_);
      break;
    default:
      code = CALL(Exscan, exscan, in, at(recv_), count, type_->type, op_, comm_);
  }
  check(code, kNames[kind]);
  expect(wanted, kNames[kind]);
}

void Trial::movement(int kind) {
  const char* const kNames[] = {"bcast",     "gather",     "gatherv",  "scatter",  "scatterv",
                                "allgather", "allgatherv", "alltoall", "alltoallv"};
  const int which = kind - 6, n = static_cast<int>(n_);
  const bool v = which == 2 || which == 4 || which == 6 || which == 8, root = rank_ == root_;
  const auto ranks = static_cast<size_t>(size_);
  std::vector<int> counts(ranks, n), displacements(ranks);
  for (int i = 0; i < size_; ++i) {
    if (v) counts[static_cast<size_t>(i)] = static_cast<int>(which == 8 ? uneven(i, rank_) : uneven(i, i));
    if (i > 0)
      displacements[static_cast<size_t>(i)] =
          displacements[static_cast<size_t>(i - 1)] + counts[static_cast<size_t>(i - 1)];
  }
  const auto count_of = [&](int i) { return static_cast<size_t>(counts[static_cast<size_t>(i)]); };
  const size_t own = count_of(rank_);
  Bytes all_in, all_out, wanted;  // blocks of the ranks for this one, blocks of this one, the receive buffer
  for (int i = 0; i < size_; ++i) {
    append(all_in, block(i, which >= 7 ? rank_ : 0, count_of(i)));
    append(all_out, block(rank_, i, count_of(i)));
  }
  const size_t size = type_->size;
  const bool gathers = which == 1 || which == 2, scatters = which == 3 || which == 4;
  const bool replaces = in_place_ && which != 0 && (root || (!gathers && !scatters));
  poison(all_in.size());
  if (which == 0) {
    const Bytes data = block(root_, 0, n_);
    if (root) put(recv_, data);
    wanted = data;
  } else if (gathers) {
    if (!replaces) put(send_, block(rank_, 0, own));
    if (root) wanted = all_in;
    if (replaces)
      recv_.write(block(rank_, 0, own),
                  offset_ + static_cast<size_t>(displacements[static_cast<size_t>(rank_)]) * size);
  } else if (scatters) {
    if (root) put(send_, all_out);
    if (!replaces) wanted = block(root_, rank_, own);
  } else if (which == 5 || which == 6) {
    wanted = all_in;
    if (replaces)
      recv_.write(block(rank_, 0, own),
                  offset_ + static_cast<size_t>(displacements[static_cast<size_t>(rank_)]) * size);
    else
      put(send_, block(rank_, 0, own));
  } else {
    wanted = all_in;
    put(replaces ? recv_ : send_, all_out);
  }
  const void* in = replaces && !scatters ? MPI_IN_PLACE : at(send_);
  void* out = replaces && scatters ? MPI_IN_PLACE : at(recv_);
  const MPI_Datatype t = type_->type;
  const int *c = counts.data(), *d = displacements.data(), mine = static_cast<int>(own);
  int code = MPI_SUCCESS;
  switch (which) {
    case 0:
      code = CALL(Bcast, bcast, at(recv_), n, t, root_, comm_);
      break;
    case 1:
      code = CALL(Gather, gather, in, n, t, out, n, t, root_, comm_);
      break;
    case 2:
      code = CALL(Gatherv, gatherv, in, mine, t, out, c, d, t, root_, comm_);
      break;
    case 3:
      code = CALL(Scatter, scatter, in, n, t, out, n, t, root_, comm_);
      break;
    case 4:
      code = CALL(Scatterv, scatterv, in, c, d, t, out, mine, t, root_, comm_);
      break;
    case 5:
      code = CALL(Allgather, allgather, in, n, t, out, n, t, comm_);
      break;
    case 6:
      code = CALL(Allgatherv, allgatherv, in, mine, t, out, c, d, t, comm_);
      break;
    case 7:
      code = CALL(Alltoall, alltoall, in, n, t, out, n, t, comm_);
      break;
    default:
      code = CALL(Alltoallv, alltoallv, in, c, d, t, out, c, d, t, comm_);
  }
  check(code, kNames[which]);
  expect(wanted, kNames[which]);
}

/// A burst of small calls, which the resident kernel runs: each round multiplies the values by the number of
/// ranks.
void burst(MPI_Comm comm, Buffer& buffer, int calls) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<uint64_t> values(static_cast<size_t>(size)), wanted(values);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i + 1;
  wanted = values;
  Bytes bytes(values.size() * 8);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  buffer.write(bytes);
  for (int i = 0; i < calls; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, buffer.data(), size, MPI_UINT64_T, MPI_SUM, comm);
    MPI_Alltoall(MPI_IN_PLACE, 1, MPI_UINT64_T, buffer.data(), 1, MPI_UINT64_T, comm);
    for (uint64_t& value : wanted) value *= static_cast<uint64_t>(size);
    std::fill(wanted.begin(), wanted.end(), wanted[static_cast<size_t>(rank)]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer.data(), 1, MPI_UINT64_T, comm);
    // After the allgather, block j is the block of rank j.
    for (size_t j = 0; j < wanted.size(); ++j) {
      uint64_t own = j + 1;
      for (int n = 0; n <= i; ++n) own *= static_cast<uint64_t>(size);
      wanted[j] = own;
    }
  }
  const Bytes got = buffer.read(0, bytes.size());
  if (std::memcmp(got.data(), wanted.data(), got.size()) == 0) return;
  std::fprintf(stderr, "rank %d of %d: wrong values after %d small calls\n", rank, size, calls);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/// On the emulator: more small calls until the resident kernel of each rank has run one. On a loaded machine
/// the gaps between calls may be too long for it at first.
void await_resident_kernel(Buffer& recv) {
  if (weft::test::cuda().collectives == nullptr || std::getenv("TEST_DOORBELL") == nullptr) return;
  constexpr double kLimit = 20;
  const double begin = MPI_Wtime();
  while (true) {
    const int own[] = {weft::test::cuda().resident_kernel_calls() == 0, MPI_Wtime() - begin > kLimit};
    int any[] = {0, 0};  // unused; without time
    MPI_Allreduce(own, any, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any[0] == 0 || any[1] != 0) return;
    burst(MPI_COMM_WORLD, recv, 40);
  }
}

/// On the emulator: checks that kernels ran the collectives, and with TEST_EARLY_EXIT that some exited early.
void check_use(int ranks) {
  if (weft::test::cuda().collectives == nullptr) return;
  unsigned long late = 0;
  const unsigned long done = weft::test::cuda().collectives(&late);
  const bool wanted = std::getenv("TEST_NO_KERNELS") == nullptr && ranks > 1;
  if (std::getenv("TEST_DOORBELL") != nullptr && weft::test::cuda().resident_kernel_calls() == 0) {
    std::fprintf(stderr, "the resident kernel has run no collective\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (const char* ll128 = std::getenv("TEST_LL128");
      ll128 != nullptr && (weft::test::cuda().ll128_collectives() > 20) != (*ll128 == '1')) {
    std::fprintf(stderr, "%lu collectives used LL128\n", weft::test::cuda().ll128_collectives());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (std::getenv("TEST_DIRECT") != nullptr && weft::test::cuda().direct_collectives() < 20) {
    std::fprintf(stderr, "%lu collectives used mapped buffers\n", weft::test::cuda().direct_collectives());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if ((done > 20) != wanted || (std::getenv("TEST_EARLY_EXIT") != nullptr && late == 0)) {
    std::fprintf(stderr, "kernels ran %lu collectives, %lu launches exited early\n", done, late);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int device = weft::test::own_device();
  MPI_Init(&argc, &argv);
  const long rounds = argc > 1 ? std::atol(argv[1]) : 100;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm reversed, halves;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &halves);  // concurrent
  {
    const auto kind = std::getenv("TEST_MAPPED") != nullptr ? Buffer::Kind::mapped : Buffer::Kind::device;
    Buffer send(kind, kBufferBytes, device), recv(kind, kBufferBytes, device);
    std::vector<Trial> trials;
    for (MPI_Comm comm : {MPI_COMM_WORLD, reversed, halves}) trials.emplace_back(comm, send, recv);
    const std::vector<size_t> usual{0, 1, 1, 2, 3, 17, 255, 1000, 4099, 20000}, large{70001, 150000};
    for (long i = 0; i < rounds; ++i) {
      if (i % 50 == 0) burst(i % 100 == 0 ? MPI_COMM_WORLD : reversed, recv, 40);
      const uint64_t number = seed * 1'000'003 + static_cast<uint64_t>(i);
      const size_t which = Draw(number).one_in(2) ? 0 : 1 + static_cast<size_t>(i) % 2;
      // The halves draw different calls.
      const uint64_t own = which == 2 ? number + static_cast<uint64_t>(rank / 2) * 7'000'000 : number;
      trials[which].draw(own, i % 8 == 7 ? large : usual);
    }
    await_resident_kernel(recv);
  }
  check_use(size);
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&halves);
  if (rank == 0) std::printf("%ld rounds\n", rounds);
  MPI_Finalize();
  return 0;
}
