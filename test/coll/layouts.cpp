// SPDX-License-Identifier: BSD-3-Clause
// Collectives on GPU buffers of random layouts by kernels: vectors, subarrays, indexed and struct types,
// other ones at the sender than at the receiver, blocking, nonblocking and persistent, on new and reused
// memory, with other collectives between them; compared with the same calls on host memory. usage: layouts
// rounds COUNT SEED; layouts seconds TIME [SEED]. TEST_STREAM: calls in the order of a stream, which kernels
// execute, some of them in replayed graphs. TEST_MIXED: on communicators with a stream, which executes
// reductions meanwhile. TEST_PAIRS: mostly regular types, which pairs of ranks move.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coll/contiguous_calls.hpp"
#include "coll/layout_types.hpp"
#include "device/cuda_test_support.hpp"
#include "reference/draw.hpp"
#include "reference/rounds.hpp"
#include "stream/order_comm.hpp"

namespace {

using randomized::Draw;
using namespace layouts;

int device = 0;

enum class Form { blocking, nonblocking, persistent };

#define CALL(Name, name, ...)                                       \
  (form_ == Form::blocking ? MPI_##Name(__VA_ARGS__)                \
   : form_ == Form::nonblocking                                     \
       ? complete(MPI_I##name(__VA_ARGS__, &request_), request_, 1) \
       : complete(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_), request_, 2))

/// `starts`: 1 for a nonblocking operation, else of a persistent one.
int complete(int code, MPI_Request& request, int starts) {
  for (int i = 0; i < starts && code == MPI_SUCCESS; ++i) {
    if (starts > 1) code = MPI_Start(&request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (starts > 1 && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  return code;
}

/// Memory that lives for several calls.
struct Memory {
  std::unique_ptr<Buffer> send, receive;
  static void grow(std::unique_ptr<Buffer>& buffer, size_t bytes, bool anew) {
    if (buffer != nullptr && buffer->size() >= bytes && !anew) return;
    buffer.reset();  // the new one may get its address
    buffer = std::make_unique<Buffer>(Buffer::Kind::device, std::max<size_t>(bytes, 1), device);
  }
};

/// A communicator, a grid and a graph of its ranks.
struct Comms {
  MPI_Comm all[3];
  void free() {
    for (MPI_Comm& comm : all) MPI_Comm_free(&comm);
  }
};

class Trial {
 public:
  explicit Trial(const Comms& comms, const Comms* in_stream = nullptr, Stream stream = nullptr)
      : plain_(comms.all), in_stream_(in_stream != nullptr ? in_stream->all : nullptr), stream_(stream) {
    MPI_Comm_rank(comms.all[0], &rank_);
    MPI_Comm_size(comms.all[0], &size_);
  }
  void run(uint64_t seed, Memory& memory, bool small) {
    Draw draw(seed);
    Draw own(seed * 131 + static_cast<uint64_t>(rank_) + 1);
    seed_ = seed;
    what_ = in_stream_ == nullptr ? static_cast<What>(draw.below(kWhats))
                                  : draw.of({alltoallw, alltoallv, allgatherv, cube_alltoallw,
                                             graph_alltoallw, graph_alltoallv, graph_allgather});
    form_ = draw.of({Form::blocking, Form::blocking, Form::nonblocking, Form::persistent});
    base_ = &element(draw);
    root_ = draw.below(size_);
    numbers_ = draw.number();
    static const int kSizes[] = {0, 1, 2, 3, 7, 24, 100, 360, 1000, 5040, 20000, 60000};
    n_ = kSizes[draw.below(small ? 9 : 12)];
    in_place_ = draw.one_in(4);
    send_ = Side();
    receive_ = Side();
    Types types(in_stream_ != nullptr || (pairs_ && !draw.one_in(4)));
    lay_out(draw, own, types);
    const size_t sent = send_.bytes + 64, received = receive_.bytes + 64;
    Memory::grow(memory.send, sent, own.one_in(4));
    Memory::grow(memory.receive, received, own.one_in(4));
    Bytes in(sent), out(received);
    for (char& byte : in) byte = static_cast<char>(own.number());
    for (char& byte : out) byte = static_cast<char>(own.number());
    memory.send->write(in, 0);
    memory.receive->write(out, 0);
    const bool captured = in_stream_ != nullptr && form_ == Form::blocking && draw.one_in(2);
    call_on_gpu(memory.send->data(), memory.receive->data(), captured);
    check(call(in.data(), out.data()), "on the host");
    compare(memory.receive->read(0, received), out, "receive buffer");
    compare(memory.send->read(0, sent), in, "send buffer");
  }

 private:
  enum What {
    alltoallw,
    alltoallv,
    alltoall,
    allgather,
    allgatherv,
    gather,
    gatherv,
    scatter,
    scatterv,
    bcast,
    cube_alltoallw,
    graph_alltoallw,
    graph_alltoallv,
    graph_allgather,
    kWhats
  };
  [[nodiscard]] int elements(int from, int to) const {
    return n_ == 0 ? 0 : mix(numbers_, from * 64 + to, 3, 2 * n_ + 1);
  }
  void lay_out(Draw& draw, Draw& own, Types& types);
  void lay_out_edges(Draw& own, Types& types);
  int call(char* in, char* out);
  int call_edges(char* in, char* out);
  void call_on_gpu(char* in, char* out, bool captured) {
    if (in_stream_ == nullptr) return check(call(in, out), "on the GPU");
    comms_ = in_stream_;
    if (captured) {
      weft::test::enqueued::Graph graph(stream_);
      check(call(in, out), "in a graph");
      graph.end();
      for (int launch = 0; launch < 2; ++launch) graph.launch();
      weft::test::enqueued::poll_until_idle(stream_);
    } else {
      check(call(in, out), "in the stream");
      weft::test::enqueued::poll_until_idle(stream_);
    }
    comms_ = plain_;
  }
  void check(int code, const char* where) const {
    if (code == MPI_SUCCESS) return;
    std::fprintf(stderr, "rank %d: %s: error code %d\n", rank_, where, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  void compare(const Bytes& got, const Bytes& wanted, const char* what) const {
    if (got == wanted) return;
    const auto at = std::mismatch(got.begin(), got.end(), wanted.begin());
    std::fprintf(stderr, "rank %d of %d: call %d, form %d, n %d, seed %llu: %s differs at byte %ld of %zu\n",
                 rank_, size_, what_, static_cast<int>(form_), n_, static_cast<unsigned long long>(seed_),
                 what, static_cast<long>(at.first - got.begin()), got.size());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  const MPI_Comm *plain_, *in_stream_;
  const MPI_Comm* comms_ = plain_;
  Stream stream_;
  const bool pairs_ = std::getenv("TEST_PAIRS") != nullptr;
  int rank_ = 0, size_ = 1;
  uint64_t seed_ = 0, numbers_ = 0;
  What what_ = alltoallw;
  Form form_ = Form::blocking;
  const Element* base_ = nullptr;
  int n_ = 0, root_ = 0;
  bool in_place_ = false;
  Side send_, receive_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// Edges of a topology: the numbers of elements depend on the pair of ranks only, so repeated edges match.
void Trial::lay_out_edges(Draw& own, Types& types) {
  const MPI_Comm comm = what_ == cube_alltoallw ? comms_[1] : comms_[2];
  std::vector<int> sources, destinations;
  if (what_ == cube_alltoallw) {
    for (int i = 0; i < 3; ++i) {
      int low, high;
      MPI_Cart_shift(comm, i, 1, &low, &high);
      sources.insert(sources.end(), {low, high});
    }
    destinations = sources;
  } else {
    int in, out, weighted;
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    sources.resize(static_cast<size_t>(in));
    destinations.resize(static_cast<size_t>(out));
    MPI_Dist_graph_neighbors(comm, in, sources.data(), MPI_UNWEIGHTED, out, destinations.data(),
                             MPI_UNWEIGHTED);
  }
  int self;
  MPI_Comm_rank(comm, &self);
  const bool one_type = what_ == graph_alltoallv || what_ == graph_allgather;
  const int unit = one_type ? 1 + mix(numbers_, 1, 1, 12) : 1;
  const MPI_Datatype out_type = types.make(own, *base_, unit), in_type = types.make(own, *base_, unit);
  MPI_Aint low, out_extent, in_extent;
  MPI_Type_get_extent(out_type, &low, &out_extent);
  MPI_Type_get_extent(in_type, &low, &in_extent);
  const auto add = [&](Side& side, int from, int to, MPI_Datatype type, MPI_Aint extent) {
    const int n = what_ == graph_allgather ? n_ : elements(from, to);
    if (one_type)
      side.add(type, n / unit, extent);
    else
      side.add(own, *base_, types.layout(own, *base_, from < 0 || to < 0 ? 0 : n));
  };
  for (const int to : destinations)
    if (what_ != graph_allgather || send_.counts.empty()) add(send_, self, to, out_type, out_extent);
  for (const int from : sources) add(receive_, from, self, in_type, in_extent);
}

void Trial::lay_out(Draw& draw, Draw& own, Types& types) {
  if (what_ >= cube_alltoallw) return lay_out_edges(own, types);
  if (what_ == alltoallw) {
    in_place_ = false;
    for (int peer = 0; peer < size_; ++peer) {
      send_.add(own, *base_, types.layout(own, *base_, elements(rank_, peer)));
      receive_.add(own, *base_, types.layout(own, *base_, elements(peer, rank_)));
    }
    return;
  }
  const int unit = 1 + draw.below(30);
  const MPI_Datatype out_type = types.make(own, *base_, unit), in_type = types.make(own, *base_, unit);
  MPI_Aint low, out_extent, in_extent;
  MPI_Type_get_extent(out_type, &low, &out_extent);
  MPI_Type_get_extent(in_type, &low, &in_extent);
  const int n = n_ / unit;
  const auto uneven = [&](int from, int to) { return elements(from, to) / unit; };
  for (int peer = 0; peer < size_; ++peer) {
    int out = n, in = n;
    if (what_ == alltoallv) out = uneven(rank_, peer), in = uneven(peer, rank_);
    if (what_ == allgatherv || what_ == gatherv) out = uneven(rank_, 0), in = uneven(peer, 0);
    if (what_ == scatterv) out = uneven(root_, peer), in = uneven(root_, rank_);
    send_.add(out_type, out, out_extent);
    receive_.add(in_type, in, in_extent);
  }
  // In place, the types of alltoall(v) are those of the receive buffer on all ranks: symmetric counts.
  if (what_ == alltoallv || what_ == bcast) in_place_ = false;
}

int Trial::call_edges(char* in, char* out) {
  const MPI_Comm comm = what_ == cube_alltoallw ? comms_[1] : comms_[2];
  const std::vector<MPI_Aint> from(send_.displacements.begin(), send_.displacements.end()),
      to(receive_.displacements.begin(), receive_.displacements.end());
  const MPI_Datatype out_type = send_.types.empty() ? MPI_BYTE : send_.types[0],
                     in_type = receive_.types.empty() ? MPI_BYTE : receive_.types[0];
  switch (what_) {
    case graph_alltoallv:
      return CALL(Neighbor_alltoallv, neighbor_alltoallv, in, send_.counts.data(), send_.displacements.data(),
                  out_type, out, receive_.counts.data(), receive_.displacements.data(), in_type, comm);
    case graph_allgather:
      return CALL(Neighbor_allgather, neighbor_allgather, in, send_.counts.empty() ? 0 : send_.counts[0],
                  out_type, out, receive_.counts.empty() ? 0 : receive_.counts[0], in_type, comm);
    default:
      return CALL(Neighbor_alltoallw, neighbor_alltoallw, in, send_.counts.data(), from.data(),
                  send_.types.data(), out, receive_.counts.data(), to.data(), receive_.types.data(), comm);
  }
}

int Trial::call(char* in, char* out) {
  if (what_ >= cube_alltoallw) return call_edges(in, out);
  const MPI_Comm comm = comms_[0];
  const MPI_Datatype out_type = send_.types[0], in_type = receive_.types[0];
  const int own = send_.counts[0], from_each = receive_.counts[0];
  const bool everyone = what_ == alltoall || what_ == allgather || what_ == allgatherv;
  const bool replaces = in_place_ && (everyone || rank_ == root_);
  const bool scatters = what_ == scatter || what_ == scatterv;
  const void* const from = replaces && !scatters ? MPI_IN_PLACE : in;
  void* const to = replaces && scatters ? MPI_IN_PLACE : out;
  const int *sent = send_.counts.data(), *sent_at = send_.displacements.data();
  const int *received = receive_.counts.data(), *received_at = receive_.displacements.data();
  switch (what_) {
    case alltoallw:
      return CALL(Alltoallw, alltoallw, in, sent, sent_at, send_.types.data(), out, received, received_at,
                  receive_.types.data(), comm);
    case alltoallv:
      return CALL(Alltoallv, alltoallv, in, sent, sent_at, out_type, out, received, received_at, in_type,
                  comm);
    case alltoall:
      return CALL(Alltoall, alltoall, from, own, out_type, to, from_each, in_type, comm);
    case allgather:
      return CALL(Allgather, allgather, from, own, out_type, to, from_each, in_type, comm);
    case allgatherv:
      return CALL(Allgatherv, allgatherv, from, own, out_type, to, received, received_at, in_type, comm);
    case gather:
      return CALL(Gather, gather, from, own, out_type, to, from_each, in_type, root_, comm);
    case gatherv:
      return CALL(Gatherv, gatherv, from, own, out_type, to, received, received_at, in_type, root_, comm);
    case scatter:
      return CALL(Scatter, scatter, from, own, out_type, to, from_each, in_type, root_, comm);
    case scatterv:
      return CALL(Scatterv, scatterv, from, sent, sent_at, out_type, to, from_each, in_type, root_, comm);
    default:
      return CALL(Bcast, bcast, out, from_each, in_type, root_, comm);
  }
}

/// On the emulator: kernels have moved blocks of other layouts.
void check_use(long rounds) {
  if (weft::test::cuda().block_collectives == nullptr) return;
  const unsigned long blocks = weft::test::cuda().block_collectives(),
                      direct = weft::test::cuda().direct_collectives();
  const unsigned long pairs = weft::test::cuda().pair_collectives();
  const auto wanted = static_cast<unsigned long>(rounds);
  if (blocks >= wanted && (std::getenv("TEST_DIRECT") == nullptr || direct >= wanted / 4) &&
      (std::getenv("TEST_PAIRS") == nullptr || pairs >= wanted))
    return;
  std::fprintf(stderr,
               "%ld rounds, but kernels moved blocks %lu times, %lu in mapped buffers, %lu by pairs\n",
               rounds, blocks, direct, pairs);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/// A periodic grid of three dimensions, in which neighbors repeat.
MPI_Comm make_cube(MPI_Comm comm) {
  int size, sizes[3] = {0, 0, 0};
  const int periodic[3] = {1, 1, 1};
  MPI_Comm_size(comm, &size);
  MPI_Dims_create(size, 3, sizes);
  MPI_Comm cube;
  MPI_Cart_create(comm, 3, sizes, periodic, 0, &cube);
  return cube;
}

/// A random graph with repeated edges, which all ranks know.
MPI_Comm make_graph(MPI_Comm comm, uint64_t seed) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<int> sources, destinations;
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to)
      for (int edges = mix(seed, from, to, 3); edges > 0; --edges) {
        if (from == rank) destinations.push_back(to);
        if (to == rank) sources.push_back(from);
      }
  MPI_Comm graph;
  MPI_Dist_graph_create_adjacent(comm, static_cast<int>(sources.size()), sources.data(), MPI_UNWEIGHTED,
                                 static_cast<int>(destinations.size()), destinations.data(), MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &graph);
  return graph;
}

/// Calls on communicators in the order of a stream.
void run_in_stream(const Comms& plain, Buffer& buffer, Memory& memory, uint64_t seed, bool small) {
  weft::test::enqueued::OrderedStream ordered("true");
  Comms comms{};
  for (size_t i = 0; i < std::size(comms.all); ++i)
    if (MPIX_Stream_comm_create(plain.all[i], ordered.mpi_stream, &comms.all[i]) != MPI_SUCCESS)
      MPI_Abort(MPI_COMM_WORLD, 1);
  {
    Trial trial(plain, &comms, ordered.stream);
    for (uint64_t i = 0; i < 24; ++i) {
      trial.run(seed + i, memory, small);
      const size_t which = static_cast<size_t>(mix(seed, static_cast<int>(i), 5, 6));
      if (which < std::size(comms.all)) plain_calls(comms.all[which], buffer, seed + i, ordered.stream);
    }
  }
  comms.free();
}

/// Calls by the host on communicators with a stream, and reductions in that stream.
void run_mixed(const Comms& plain, Buffer& buffer, Memory& memory, uint64_t seed, bool small) {
  weft::test::enqueued::Stream stream = nullptr;
  MPIX_Stream mpi_stream = MPIX_STREAM_NULL;
  weft::test::enqueued::make_stream(stream, mpi_stream);
  Comms comms{};
  for (size_t i = 0; i < std::size(comms.all); ++i)
    if (MPIX_Stream_comm_create(plain.all[i], mpi_stream, &comms.all[i]) != MPI_SUCCESS)
      MPI_Abort(MPI_COMM_WORLD, 1);
  {
    Buffer enqueued(Buffer::Kind::device, 4096, device);
    Trial trial(comms);
    for (uint64_t i = 0; i < 8; ++i) {
      const auto at = [&](int what, int n) { return mix(seed, static_cast<int>(i), what, n); };
      MPI_Comm const comm = comms.all[static_cast<size_t>(at(5, 3))];
      std::optional<layouts::Sum> sum;
      if (at(6, 2) == 0) {
        sum.emplace(comm, enqueued, seed * 7 + i);
        MPIX_Allreduce_enqueue(MPI_IN_PLACE, sum->data(), layouts::Sum::kCount, MPI_INT, MPI_SUM, comm);
      }
      trial.run(seed + i, memory, small);
      if (at(7, 2) == 0) plain_calls(comm, buffer, seed + i);
      if (at(8, 6) == 0) even_calls(comm, buffer, seed + i);
      if (!sum) continue;
      weft::test::enqueued::poll_until_idle(stream);
      sum->check();
    }
  }
  comms.free();
  MPIX_Stream_free(&mpi_stream);
  weft::test::enqueued::driver().cuStreamDestroy_v2(stream);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::enqueued::device = weft::test::own_device();
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool small = std::getenv("TEST_SMALL") != nullptr, in_stream = std::getenv("TEST_STREAM") != nullptr;
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  long rounds;
  {
    Memory memory;
    Buffer plain(Buffer::Kind::device, 4096, device);
    rounds = randomized::run_rounds(
        argc, argv,
        [&](uint64_t seed) {
          MPI_Comm comm = mix(seed, 1, 2, 3) == 0 ? reversed : MPI_COMM_WORLD;
          Comms comms{{MPI_COMM_NULL, make_cube(comm), make_graph(comm, seed)}};
          MPI_Comm_dup(comm, &comms.all[0]);
          if (in_stream) {
            run_in_stream(comms, plain, memory, seed, small);
          } else if (std::getenv("TEST_MIXED") != nullptr) {
            run_mixed(comms, plain, memory, seed, small);
          } else {
            Trial trial(comms);
            for (uint64_t i = 0; i < 8; ++i) {
              trial.run(seed + i, memory, small);
              if (mix(seed, static_cast<int>(i), 5, 2) == 0) plain_calls(comm, plain, seed + i);
              if (mix(seed, static_cast<int>(i), 6, 6) == 0) even_calls(comm, plain, seed + i);
            }
          }
          comms.free();
        },
        50);
  }
  check_use(rounds);
  MPI_Comm_free(&reversed);
  MPI_Finalize();
  if (rank == 0) std::printf("%ld rounds passed\n", rounds);
  return 0;
}
