// SPDX-License-Identifier: BSD-3-Clause
#include "coll/random/topology.hpp"

#include <algorithm>

#include "coll/expect.hpp"

namespace randomized {
namespace {

using expect::success;

struct Edge {
  int from, to, weight;
};

/// Coordinates of a rank, row-major (MPI 5.0 section 8.5.1).
std::vector<int> coordinates(const std::vector<int>& dims, int rank) {
  std::vector<int> at(dims.size());
  for (size_t i = dims.size(); i-- > 0; rank /= dims[i]) at[i] = rank % dims[i];
  return at;
}

int rank_at(const Team& grid, std::vector<int> at) {
  int rank = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    if (grid.periods[i] != 0) at[i] = (at[i] + grid.dims[i]) % grid.dims[i];
    if (at[i] < 0 || at[i] >= grid.dims[i]) return MPI_PROC_NULL;
    rank = rank * grid.dims[i] + at[i];
  }
  return rank;
}

void fill_edges(Team& grid) {
  for (int rank = 0; rank < grid.size(); ++rank) {
    std::vector<int> neighbors;
    for (size_t i = 0; i < grid.dims.size(); ++i)
      for (const int step : {-1, 1}) {
        std::vector<int> at = coordinates(grid.dims, rank);
        at[i] += step;
        neighbors.push_back(rank_at(grid, at));
      }
    grid.sources.push_back(neighbors);
    grid.destinations.push_back(neighbors);
  }
  grid.cartesian = true;
}

/// Checks the grid queries of MPI in this process.
void verify_grid(const Team& grid) {
  const auto n = static_cast<int>(grid.dims.size());
  std::vector<int> dims(grid.dims.size()), periods(dims), coords(dims);
  int rank;
  MPI_Comm_rank(grid.comm, &rank);
  success(MPI_Cart_get(grid.comm, n, dims.data(), periods.data(), coords.data()));
  if (dims != grid.dims || periods != grid.periods || coords != coordinates(grid.dims, rank))
    expect::fail("MPI_Cart_get");
  for (int other = 0; other < grid.size(); ++other) {
    int back;
    success(MPI_Cart_coords(grid.comm, other, n, coords.data()));
    success(MPI_Cart_rank(grid.comm, coords.data(), &back));
    if (coords != coordinates(grid.dims, other) || back != other)
      expect::fail("MPI_Cart_coords", other, back);
  }
  for (int i = 0; i < n; ++i) {
    int low, high;
    success(MPI_Cart_shift(grid.comm, i, 1, &low, &high));
    const auto& wanted = grid.sources[static_cast<size_t>(rank)];
    if (low != wanted[static_cast<size_t>(2 * i)] || high != wanted[static_cast<size_t>(2 * i + 1)])
      expect::fail("MPI_Cart_shift", low, high);
  }
}

Team grid(const Team& from, Draw& draw) {
  Team made;
  int nodes = 1;
  for (int n = draw.below(4); n > 0; --n) {
    made.dims.push_back(1 + draw.below(from.size() / nodes));
    made.periods.push_back(draw.below(2));
    nodes *= made.dims.back();
  }
  if (draw.one_in(3)) {
    std::fill(made.dims.begin(), made.dims.end(), 0);
    success(MPI_Dims_create(nodes, static_cast<int>(made.dims.size()), made.dims.data()));
  }
  success(MPI_Cart_create(from.comm, static_cast<int>(made.dims.size()), made.dims.data(),
                          made.periods.data(), 0, &made.comm));
  if (made.exists() != (from.rank < nodes)) expect::fail("the wrong processes are in the grid");
  made.members.assign(from.members.begin(), from.members.begin() + nodes);
  made.history = "grid";
  fill_edges(made);
  if (made.exists()) verify_grid(made);
  return made;
}

Team subgrid(const Team& from, Draw& draw) {
  std::vector<int> remain;
  Team made;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    remain.push_back(draw.below(2));
    if (remain.back() == 0) continue;
    made.dims.push_back(from.dims[i]);
    made.periods.push_back(from.periods[i]);
  }
  success(MPI_Cart_sub(from.comm, remain.data(), &made.comm));
  const std::vector<int> own = coordinates(from.dims, from.rank);
  for (int rank = 0; rank < from.size(); ++rank) {
    const std::vector<int> at = coordinates(from.dims, rank);
    bool same = true;
    for (size_t i = 0; i < at.size(); ++i) same = same && (remain[i] != 0 || at[i] == own[i]);
    if (same) made.members.push_back(from.members[static_cast<size_t>(rank)]);
  }
  made.history = "subgrid";
  fill_edges(made);
  verify_grid(made);
  return made;
}

/// A graph with all edges on all processes: in both directions, some duplicated, some from a node to itself.
Team graph(const Team& from, Draw& draw) {
  const int nodes = 1 + draw.below(from.size());
  std::vector<std::vector<int>> neighbors(static_cast<size_t>(nodes));
  for (int n = draw.below(3 * nodes); n > 0; --n) {
    const int a = draw.below(nodes), b = draw.below(nodes);
    neighbors[static_cast<size_t>(a)].push_back(b);
    if (a != b) neighbors[static_cast<size_t>(b)].push_back(a);
  }
  std::vector<int> index, edges;
  for (const auto& list : neighbors) {
    edges.insert(edges.end(), list.begin(), list.end());
    index.push_back(static_cast<int>(edges.size()));
  }
  Team made;
  success(MPI_Graph_create(from.comm, nodes, index.data(), edges.data(), 0, &made.comm));
  if (made.exists() != (from.rank < nodes)) expect::fail("the wrong processes are in the graph");
  made.members.assign(from.members.begin(), from.members.begin() + nodes);
  made.sources = made.destinations = neighbors;
  made.history = "graph";
  return made;
}

struct Neighbors {
  std::vector<int> sources, source_weights, destinations, destination_weights;
};

Neighbors neighbors_of(MPI_Comm comm) {
  int in, out, weighted;
  success(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted));
  Neighbors found{std::vector<int>(static_cast<size_t>(in)), std::vector<int>(static_cast<size_t>(in)),
                  std::vector<int>(static_cast<size_t>(out)), std::vector<int>(static_cast<size_t>(out))};
  success(MPI_Dist_graph_neighbors(comm, in, found.sources.data(), found.source_weights.data(), out,
                                   found.destinations.data(), found.destination_weights.data()));
  return found;
}

/// Checks the edges and weights of this process, in any order.
void verify_edges(const Team& team, const Neighbors& found, const std::vector<Edge>& edges, int rank) {
  std::vector<std::pair<int, int>> in, out, wanted_in, wanted_out;
  for (size_t i = 0; i < found.sources.size(); ++i)
    in.emplace_back(found.sources[i], found.source_weights[i]);
  for (size_t i = 0; i < found.destinations.size(); ++i)
    out.emplace_back(found.destinations[i], found.destination_weights[i]);
  for (const Edge& edge : edges) {
    if (edge.to == rank) wanted_in.emplace_back(edge.from, edge.weight);
    if (edge.from == rank) wanted_out.emplace_back(edge.to, edge.weight);
  }
  for (auto* list : {&in, &out, &wanted_in, &wanted_out}) std::sort(list->begin(), list->end());
  if (in != wanted_in || out != wanted_out) expect::fail("MPI_Dist_graph_neighbors", team.size());
}

/// Gathers the lists of all ranks by broadcasts, since the library chooses the order of neighbors.
std::vector<std::vector<int>> exchange(const Team& team, const std::vector<int>& own, int rank) {
  std::vector<std::vector<int>> lists;
  for (int owner = 0; owner < team.size(); ++owner) {
    std::vector<int> list = own;
    auto n = static_cast<int>(own.size());
    success(MPI_Bcast(&n, 1, MPI_INT, owner, team.comm));
    list.resize(static_cast<size_t>(n));
    if (rank == owner) list = own;
    success(MPI_Bcast(list.data(), n, MPI_INT, owner, team.comm));
    lists.push_back(list);
  }
  return lists;
}

Team distributed_graph(const Team& from, Draw& draw) {
  std::vector<Edge> edges;
  for (int n = draw.below(4 * from.size()); n > 0; --n)
    edges.push_back({draw.below(from.size()), draw.below(from.size()), draw.below(100)});
  const bool adjacent = draw.one_in(2);
  const uint64_t drawn = draw.number();
  std::vector<int> sources, destinations, weights, ones, source_weights, destination_weights;
  Team made;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (adjacent && edge.to == from.rank) {
      sources.push_back(edge.from);
      source_weights.push_back(edge.weight);
    }
    const bool mine = mix(drawn, static_cast<int>(i), 0, from.size()) == from.rank;
    if (adjacent ? edge.from == from.rank : mine) {
      destinations.push_back(edge.to);
      destination_weights.push_back(edge.weight);
    }
    if (!adjacent && mine) {
      sources.push_back(edge.from);
      ones.push_back(1);
    }
  }
  if (adjacent)
    success(MPI_Dist_graph_create_adjacent(
        from.comm, static_cast<int>(sources.size()), sources.data(),
        sources.empty() ? MPI_WEIGHTS_EMPTY : source_weights.data(), static_cast<int>(destinations.size()),
        destinations.data(), destinations.empty() ? MPI_WEIGHTS_EMPTY : destination_weights.data(),
        MPI_INFO_NULL, 0, &made.comm));
  else
    success(MPI_Dist_graph_create(
        from.comm, static_cast<int>(sources.size()), sources.data(), ones.data(), destinations.data(),
        sources.empty() ? MPI_WEIGHTS_EMPTY : destination_weights.data(), MPI_INFO_NULL, 0, &made.comm));
  made.members = from.members;
  made.history = adjacent ? "adjacent" : "dist_graph";
  const Neighbors found = neighbors_of(made.comm);
  verify_edges(made, found, edges, from.rank);
  made.sources = exchange(made, found.sources, from.rank);
  made.destinations = exchange(made, found.destinations, from.rank);
  return made;
}

}  // namespace

Team with_topology(const Team& from, Draw& draw) {
  switch (draw.below(4)) {
    case 0:
      return from.cartesian ? subgrid(from, draw) : grid(from, draw);
    case 1:
      return graph(from, draw);
    default:
      return distributed_graph(from, draw);
    case 3:
      return grid(from, draw);
  }
}

}  // namespace randomized
