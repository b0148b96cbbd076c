// SPDX-License-Identifier: BSD-3-Clause
// Process topologies (MPI 5.0 sections 8.5 and 8.6).
#include <algorithm>
#include <string>
#include <vector>

#include "api/caller.hpp"
#include "api/check.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "topo/cartesian.hpp"
#include "topo/dims.hpp"
#include "topo/dist_graph.hpp"
#include "topo/graph.hpp"

namespace weft::api::impl {
namespace {

using core::Communicator;
using topo::Cartesian;
using topo::DistGraph;
using topo::Graph;
using Kind = core::Topology::Kind;

Error wrong_topology(const char* wanted) {
  return {Errc::topology,
          std::string("the communicator has no ") + wanted + " topology: MPI_Topo_test returns its kind"};
}

template <class T>
Result<const T*> topology_of(Communicator& comm, Kind kind, const char* wanted) {
  if (comm.topology == nullptr || comm.topology->kind != kind) return wrong_topology(wanted);
  return static_cast<const T*>(comm.topology.get());
}

Result<const Cartesian*> cartesian_of(Communicator& comm) {
  return topology_of<Cartesian>(comm, Kind::cartesian, "Cartesian");
}
Result<const Graph*> graph_of(Communicator& comm) { return topology_of<Graph>(comm, Kind::graph, "graph"); }
Result<const DistGraph*> dist_graph_of(Communicator& comm) {
  return topology_of<DistGraph>(comm, Kind::distributed_graph, "distributed graph");
}

#define WEFT_TOPOLOGY(variable, find)                                \
  auto variable##_found = find;                                      \
  if (!variable##_found) return std::move(variable##_found).error(); \
  const auto& variable = **variable##_found

Status reject_intercommunicator(const Communicator& comm, const char* name) {
  if (!comm.inter()) return {};
  return Error(Errc::comm,
               std::string(name) + " is an intercommunicator: a topology needs an intracommunicator");
}

/// Checks that the caller's array has `needed` elements.
Status check_capacity(const char* name, int capacity, size_t needed) {
  if (capacity >= 0 && static_cast<size_t>(capacity) >= needed) return {};
  return Error(Errc::arg, std::string(name) + " = " + std::to_string(capacity) + ": " +
                              std::to_string(needed) + " elements are required");
}

Status check_ranks(const char* name, const int* ranks, int64_t n, int size) {
  for (int64_t i = 0; i < n; ++i)
    if (!is_valid_rank(ranks[i], size))
      return bad_group_rank(element_name(name, static_cast<size_t>(i)).c_str(), ranks[i], size);
  return {};
}

Status check_weights(const char* name, const int* weights, int64_t n) {
  if (weights == MPI_UNWEIGHTED) return {};
  if (n > 0 && (weights == nullptr || weights == MPI_WEIGHTS_EMPTY))
    return Error(Errc::arg, std::string(name) +
                                " is null or MPI_WEIGHTS_EMPTY, but there are edges: pass "
                                "their weights, or MPI_UNWEIGHTED");
  for (int64_t i = 0; i < n; ++i)
    if (weights[i] < 0) return negative_at(Errc::arg, name, static_cast<size_t>(i), weights[i]);
  return {};
}

/// Result of MPI_Cart_map and MPI_Graph_map: ranks are not reordered.
int mapped_rank(const Communicator& comm, int nodes) {
  return comm.rank() < nodes ? comm.rank() : MPI_UNDEFINED;
}

Status check_nodes(const Communicator& comm, int nodes) {
  if (nodes >= 0 && nodes <= comm.size()) return {};
  return Error(Errc::arg, "nnodes = " + std::to_string(nodes) + " (communicator has " +
                              std::to_string(comm.size()) + " ranks): use 0 to the size of the communicator");
}

std::vector<int> weights_or_ones(const int* weights, int n) {
  if (weights == MPI_UNWEIGHTED) return std::vector<int>(static_cast<size_t>(n), 1);
  return {weights, weights + n};
}

}  // namespace

Status Dims_create(int nnodes, int ndims, int* dims) {
  if (nnodes <= 0) return Error(Errc::arg, "nnodes = " + std::to_string(nnodes) + ": must be positive");
  return topo::balance(nnodes, {dims, static_cast<size_t>(ndims)});
}

Status Cart_create(Communicator& comm_old, int ndims, const int* dims, const int* periods, int /*reorder*/,
                   MPI_Comm* comm_cart) {
  WEFT_TRY(reject_intercommunicator(comm_old, "comm_old"));
  std::vector<bool> periodic(periods, periods + ndims);
  return return_communicator(topo::create_cartesian(comm_old, {dims, dims + ndims}, std::move(periodic)),
                             comm_cart);
}

Status Cartdim_get(Communicator& comm, int* ndims) {
  WEFT_TOPOLOGY(grid, cartesian_of(comm));
  *ndims = grid.dimensions();
  return {};
}

Status Cart_get(Communicator& comm, int maxdims, int* dims, int* periods, int* coords) {
  WEFT_TOPOLOGY(grid, cartesian_of(comm));
  WEFT_TRY(check_capacity("maxdims", maxdims, grid.dims.size()));
  std::copy(grid.dims.begin(), grid.dims.end(), dims);
  std::copy(grid.periods.begin(), grid.periods.end(), periods);
  const std::vector<int> own = grid.coordinates(grid.rank);
  std::copy(own.begin(), own.end(), coords);
  return {};
}

Status Cart_rank(Communicator& comm, const int* coords, int* rank) {
  WEFT_TOPOLOGY(grid, cartesian_of(comm));
  if (coords == nullptr && grid.dimensions() > 0) return null_pointer("coords");
  auto found = grid.rank_of({coords, grid.dims.size()});
  if (!found) return std::move(found).error();
  *rank = *found;
  return {};
}

Status Cart_coords(Communicator& comm, int rank, int maxdims, int* coords) {
  WEFT_TOPOLOGY(grid, cartesian_of(comm));
  WEFT_TRY(check_capacity("maxdims", maxdims, grid.dims.size()));
  const std::vector<int> found = grid.coordinates(rank);
  std::copy(found.begin(), found.end(), coords);
  return {};
}

Status Cart_shift(Communicator& comm, int direction, int disp, int* rank_source, int* rank_dest) {
  WEFT_TOPOLOGY(grid, cartesian_of(comm));
  if (!is_valid_rank(direction, grid.dimensions()))
    return Error(Errc::arg, "direction = " + std::to_string(direction) + " (the grid has " +
                                std::to_string(grid.dimensions()) + " dimensions, counted from 0)");
  const auto [source, dest] = grid.shift(direction, disp);
  *rank_source = source;
  *rank_dest = dest;
  return {};
}

Status Cart_sub(Communicator& comm, const int* remain_dims, MPI_Comm* newcomm) {
  WEFT_TOPOLOGY(grid, cartesian_of(comm));
  if (remain_dims == nullptr && grid.dimensions() > 0) return null_pointer("remain_dims");
  return return_communicator(topo::create_subgrid(comm, grid, {remain_dims, grid.dims.size()}), newcomm);
}

Status Cart_map(Communicator& comm, int ndims, const int* dims, const int* /*periods*/, int* newrank) {
  auto nodes = topo::grid_size({dims, static_cast<size_t>(ndims)});
  if (!nodes) return std::move(nodes).error();
  WEFT_TRY(check_nodes(comm, *nodes));
  *newrank = mapped_rank(comm, *nodes);
  return {};
}

Status Graph_create(Communicator& comm_old, int nnodes, const int* index, const int* edges, int /*reorder*/,
                    MPI_Comm* comm_graph) {
  WEFT_TRY(reject_intercommunicator(comm_old, "comm_old"));
  WEFT_TRY(check_nodes(comm_old, nnodes));
  return return_communicator(topo::create_graph(comm_old, {index, static_cast<size_t>(nnodes)}, edges),
                             comm_graph);
}

Status Graphdims_get(Communicator& comm, int* nnodes, int* nedges) {
  WEFT_TOPOLOGY(graph, graph_of(comm));
  *nnodes = static_cast<int>(graph.index.size());
  *nedges = static_cast<int>(graph.edges.size());
  return {};
}

Status Graph_get(Communicator& comm, int maxindex, int maxedges, int* index, int* edges) {
  WEFT_TOPOLOGY(graph, graph_of(comm));
  WEFT_TRY(check_capacity("maxindex", maxindex, graph.index.size()));
  WEFT_TRY(check_capacity("maxedges", maxedges, graph.edges.size()));
  std::copy(graph.index.begin(), graph.index.end(), index);
  std::copy(graph.edges.begin(), graph.edges.end(), edges);
  return {};
}

Status Graph_neighbors_count(Communicator& comm, int rank, int* nneighbors) {
  WEFT_TOPOLOGY(graph, graph_of(comm));
  *nneighbors = static_cast<int>(graph.neighbors(rank).size());
  return {};
}

Status Graph_neighbors(Communicator& comm, int rank, int maxneighbors, int* neighbors) {
  WEFT_TOPOLOGY(graph, graph_of(comm));
  const auto found = graph.neighbors(rank);
  WEFT_TRY(check_capacity("maxneighbors", maxneighbors, found.size()));
  std::copy(found.begin(), found.end(), neighbors);
  return {};
}

Status Graph_map(Communicator& comm, int nnodes, const int* index, const int* edges, int* newrank) {
  WEFT_TRY(check_nodes(comm, nnodes));
  WEFT_TRY(topo::check_graph({index, static_cast<size_t>(nnodes)}, edges));
  *newrank = mapped_rank(comm, nnodes);
  return {};
}

Status Dist_graph_create_adjacent(Communicator& comm_old, int indegree, const int* sources,
                                  const int* sourceweights, int outdegree, const int* destinations,
                                  const int* destweights, core::Info* /*info*/, int /*reorder*/,
                                  MPI_Comm* comm_dist_graph) {
  WEFT_TRY(reject_intercommunicator(comm_old, "comm_old"));
  WEFT_TRY(check_ranks("sources", sources, indegree, comm_old.size()));
  WEFT_TRY(check_ranks("destinations", destinations, outdegree, comm_old.size()));
  WEFT_TRY(check_weights("sourceweights", sourceweights, indegree));
  WEFT_TRY(check_weights("destweights", destweights, outdegree));
  if ((sourceweights == MPI_UNWEIGHTED) != (destweights == MPI_UNWEIGHTED))
    return Error(Errc::arg,
                 "only one of sourceweights and destweights is MPI_UNWEIGHTED: pass it for both or neither");
  DistGraph own;
  own.weighted = sourceweights != MPI_UNWEIGHTED;
  own.sources.assign(sources, sources + indegree);
  own.destinations.assign(destinations, destinations + outdegree);
  own.source_weights = weights_or_ones(sourceweights, indegree);
  own.destination_weights = weights_or_ones(destweights, outdegree);
  return return_communicator(topo::create_adjacent(comm_old, std::move(own)), comm_dist_graph);
}

Status Dist_graph_create(Communicator& comm_old, int n, const int* sources, const int* degrees,
                         const int* destinations, const int* weights, core::Info* /*info*/, int /*reorder*/,
                         MPI_Comm* comm_dist_graph) {
  WEFT_TRY(reject_intercommunicator(comm_old, "comm_old"));
  WEFT_TRY(check_ranks("sources", sources, n, comm_old.size()));
  int64_t total = 0;
  for (int i = 0; i < n; total += degrees[i++])
    if (degrees[i] < 0) return negative_at(Errc::arg, "degrees", static_cast<size_t>(i), degrees[i]);
  if (total > 0 && destinations == nullptr) return null_pointer("destinations");
  WEFT_TRY(check_ranks("destinations", destinations, total, comm_old.size()));
  WEFT_TRY(check_weights("weights", weights, total));
  const bool weighted = weights != MPI_UNWEIGHTED;
  std::vector<topo::Edge> edges;
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < degrees[i]; ++k) {
      const size_t at = edges.size();
      edges.push_back({sources[i], destinations[at], weighted ? weights[at] : 1});
    }
  return return_communicator(topo::create_dist_graph(comm_old, edges, weighted), comm_dist_graph);
}

Status Dist_graph_neighbors_count(Communicator& comm, int* indegree, int* outdegree, int* weighted) {
  WEFT_TOPOLOGY(graph, dist_graph_of(comm));
  *indegree = static_cast<int>(graph.sources.size());
  *outdegree = static_cast<int>(graph.destinations.size());
  *weighted = graph.weighted;
  return {};
}

Status Dist_graph_neighbors(Communicator& comm, int maxindegree, int* sources, int* sourceweights,
                            int maxoutdegree, int* destinations, int* destweights) {
  WEFT_TOPOLOGY(graph, dist_graph_of(comm));
  const auto copy_ranks = [](const std::vector<int>& from, int capacity, int* to) {
    std::copy_n(from.begin(), std::min<size_t>(from.size(), static_cast<size_t>(capacity)), to);
  };
  const auto copy_weights = [&](const std::vector<int>& from, int capacity, int* to) {
    if (graph.weighted && to != MPI_UNWEIGHTED && to != MPI_WEIGHTS_EMPTY) copy_ranks(from, capacity, to);
  };
  copy_ranks(graph.sources, maxindegree, sources);
  copy_weights(graph.source_weights, maxindegree, sourceweights);
  copy_ranks(graph.destinations, maxoutdegree, destinations);
  copy_weights(graph.destination_weights, maxoutdegree, destweights);
  return {};
}

}  // namespace weft::api::impl
