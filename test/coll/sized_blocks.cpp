// SPDX-License-Identifier: BSD-3-Clause
// Blocks of random sizes along random edges, several between two ranks: neighborhood collectives, and
// alltoallv and alltoallw, in long sequences with all-reduces and broadcasts between. Small blocks are
// published in shared memory, the others are messages; each byte is compared. usage: sized_blocks rounds
// COUNT SEED; sized_blocks seconds TIME [SEED]
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "reference/draw.hpp"
#include "reference/rounds.hpp"

namespace {

using randomized::Draw;
using randomized::mix;

constexpr char kUntouched = 0x5a;
constexpr int kStride = 2;  // of the type with holes

int world_rank, ranks;
long compared;

[[noreturn]] void fail(const char* what, long a, long b) {
  std::fprintf(stderr, "rank %d of %d: %s (%ld, %ld)\n", world_rank, ranks, what, a, b);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

/// One of the blocks from a rank to another.
struct Edge {
  int from, to, number;  // the number-th between these two
};

/// The edges to or from this rank, in the order of their blocks.
struct Graph {
  std::vector<Edge> in, out;
  bool many = false;              // edges between two ranks
  MPI_Comm comm = MPI_COMM_NULL;  // MPI_COMM_NULL: one edge between all ranks, no topology
};

void add_edges(std::vector<Edge>& edges, int from, int to, int count) {
  for (int i = 0; i < count; ++i) edges.push_back({from, to, i});
}

/// Few edges, or more than a rank publishes, also to itself.
Graph random_graph(Draw& draw) {
  const uint64_t salt = draw.number();
  Graph graph;
  graph.many = draw.one_in(3);
  const auto count = [&](int from, int to) { return mix(salt, from, to, 4) * (graph.many ? 30 : 1); };
  std::vector<int> sources, destinations;
  for (int peer = 0; peer < ranks; ++peer) {
    add_edges(graph.in, peer, world_rank, count(peer, world_rank));
    add_edges(graph.out, world_rank, peer, count(world_rank, peer));
  }
  for (const Edge& edge : graph.in) sources.push_back(edge.from);
  for (const Edge& edge : graph.out) destinations.push_back(edge.to);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                                 MPI_UNWEIGHTED, static_cast<int>(destinations.size()), destinations.data(),
                                 MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph.comm);
  return graph;
}

Graph all_pairs() {
  Graph graph;
  for (int peer = 0; peer < ranks; ++peer) {
    add_edges(graph.in, peer, world_rank, 1);
    add_edges(graph.out, world_rank, peer, 1);
  }
  return graph;
}

/// The blocks of one side of a call.
class Side {
 public:
  Side(const std::vector<Edge>& edges, uint64_t salt, int largest, bool holes, bool same_to_all)
      : edges_(edges), salt_(salt), stride_(holes ? kStride : 1), same_to_all_(same_to_all) {
    for (const Edge& edge : edges) {
      counts.push_back(size(edge, largest));
      places.push_back(total_);
      bytes.push_back(total_ * stride_);
      addresses.push_back(bytes.back());
      total_ += counts.back();
    }
    types.assign(edges.size(), holes ? with_holes() : MPI_CHAR);
    memory.assign(static_cast<size_t>(total_ * stride_ + 1), kUntouched);
  }
  void fill() {
    each_byte([&](char& at, char value) { at = value; });
  }
  void check() {
    each_byte([&](char& at, char value) {
      ++compared;
      if (at != value) fail("wrong byte", at, value);
      at = kUntouched;
    });
    for (const char at : memory)
      if (at != kUntouched) fail("a byte outside of the blocks was written", at, 0);
  }
  [[nodiscard]] MPI_Datatype type() const { return types.empty() ? MPI_CHAR : types[0]; }
  static MPI_Datatype with_holes() {
    static const MPI_Datatype made = [] {
      MPI_Datatype type;
      MPI_Type_create_resized(MPI_CHAR, 0, kStride, &type);
      MPI_Type_commit(&type);
      return type;
    }();
    return made;
  }
  std::vector<char> memory;
  std::vector<int> counts, places, bytes;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Datatype> types;

 private:
  [[nodiscard]] int size(const Edge& edge, int largest) const {
    if (same_to_all_) return largest / 4 * mix(salt_, edge.from, 0, 4);
    return largest / 4 * mix(salt_, edge.from * 64 + edge.to, edge.number, 5) * mix(salt_, edge.to, 1, 2);
  }
  template <class F>
  void each_byte(F&& f) {
    for (size_t i = 0; i < edges_.size(); ++i) {
      const Edge& edge = edges_[i];
      const int start = same_to_all_ ? edge.from * 7 : edge.from * 7 + edge.to * 31 + edge.number * 13;
      for (int k = 0; k < counts[i]; ++k)
        f(memory[static_cast<size_t>((places[i] + k) * stride_)],
          static_cast<char>(static_cast<int>(salt_ & 0xff) + start + k));
    }
  }
  const std::vector<Edge>& edges_;
  const uint64_t salt_;
  const int stride_;
  const bool same_to_all_;
  int total_ = 0;
};

/// One call, and its comparison.
void exchange(const Graph& graph, Draw& draw) {
  const uint64_t salt = draw.number();
  const int sizes = graph.many ? 3 : 6;  // bounds the bytes of a call
  const int largest = std::array{4, 40, 400, 4000, 16128, 20000}[static_cast<size_t>(draw.below(sizes))];
  const bool neighbors = graph.comm != MPI_COMM_NULL, w = draw.one_in(2);
  const bool same = neighbors && draw.one_in(3);
  const bool holes_in = mix(salt, world_rank, 2, 2) != 0, holes_out = mix(salt, world_rank, 3, 2) != 0;
  const std::vector<Edge> own{{world_rank, 0, 0}};
  Side in(graph.in, salt, largest, holes_in, same),
      out(same ? own : graph.out, salt, largest, holes_out, same);
  out.fill();
  char *const from = out.memory.data(), *const to = in.memory.data();
  if (same)
    MPI_Neighbor_allgatherv(from, out.counts[0], out.type(), to, in.counts.data(), in.places.data(),
                            in.type(), graph.comm);
  else if (neighbors && w)
    MPI_Neighbor_alltoallw(from, out.counts.data(), out.addresses.data(), out.types.data(), to,
                           in.counts.data(), in.addresses.data(), in.types.data(), graph.comm);
  else if (neighbors)
    MPI_Neighbor_alltoallv(from, out.counts.data(), out.places.data(), out.type(), to, in.counts.data(),
                           in.places.data(), in.type(), graph.comm);
  else if (w)
    MPI_Alltoallw(from, out.counts.data(), out.bytes.data(), out.types.data(), to, in.counts.data(),
                  in.bytes.data(), in.types.data(), MPI_COMM_WORLD);
  else
    MPI_Alltoallv(from, out.counts.data(), out.places.data(), out.type(), to, in.counts.data(),
                  in.places.data(), in.type(), MPI_COMM_WORLD);
  in.check();
  out.check();  // was only read
}

/// The same calls before and after share the memory of the library.
void other_call(MPI_Comm comm, Draw& draw) {
  const int n = draw.of({1, 100, 5000}), root = draw.below(ranks);
  std::vector<int> mine(static_cast<size_t>(n), world_rank + 1), all(mine.size());
  MPI_Allreduce(mine.data(), all.data(), n, MPI_INT, MPI_SUM, comm);
  for (const int sum : all)
    if (sum != ranks * (ranks + 1) / 2) fail("wrong sum", sum, n);
  MPI_Bcast(mine.data(), n, MPI_INT, root, comm);
  for (const int value : mine)
    if (value != root + 1) fail("wrong broadcast", value, n);
}

void run_sequence(uint64_t seed) {
  Draw draw(seed);
  Graph graph = random_graph(draw);
  const Graph pairs = all_pairs();
  for (int calls = 0; calls < 40; ++calls) {
    const Graph& chosen = draw.one_in(2) ? graph : pairs;
    exchange(chosen, draw);
    if (draw.one_in(4)) other_call(chosen.comm == MPI_COMM_NULL ? MPI_COMM_WORLD : chosen.comm, draw);
  }
  MPI_Comm_free(&graph.comm);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long rounds = randomized::run_rounds(
      argc, argv, [](uint64_t seed) { run_sequence(seed); }, 100);
  if (world_rank == 0) std::printf("%ld rounds, %ld bytes compared in rank 0\n", rounds, compared);
  MPI_Datatype holes = Side::with_holes();
  MPI_Type_free(&holes);
  MPI_Finalize();
  return 0;
}
