// SPDX-License-Identifier: BSD-3-Clause
// Peers of a collective: all ranks, or the neighbors in a periodic grid.
#include <stdlib.h>

#include "coll/collective.h"

static int* allocate(int count) {
  int* made = malloc((size_t)(count > 0 ? count : 1) * sizeof *made);
  if (!made) MPI_Abort(bench_comm, 3);
  return made;
}

/// Finds the distinct ranks within `radius` steps along each dimension, without this one. Returns their
/// number.
static int find_neighbors(MPI_Comm grid, int dimensions, int radius, int self, int* found) {
  int count = 0;
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    for (int step = -radius; step <= radius; ++step) {
      int unused, rank, known = 0;
      MPI_Cart_shift(grid, dimension, step, &unused, &rank);
      for (int i = 0; i < count; ++i) known |= found[i] == rank;
      if (rank != self && !known) found[count++] = rank;
    }
  }
  return count;
}

/// Neighborhoods are symmetric, so one list serves for both directions.
static MPI_Comm make_grid(const struct bench_run* run, struct coll_peers* peers) {
  const int dimensions = run->options.dimensions, radius = run->options.radius;
  int *sizes = allocate(dimensions), *periods = allocate(dimensions), *found;
  MPI_Comm grid, comm;
  for (int i = 0; i < dimensions; ++i) {
    sizes[i] = 0;
    periods[i] = 1;
  }
  MPI_Dims_create(run->ranks, dimensions, sizes);
  MPI_Cart_create(bench_comm, dimensions, sizes, periods, 0, &grid);
  found = allocate(run->ranks);
  peers->sources = peers->destinations = find_neighbors(grid, dimensions, radius, run->rank, found);
  peers->from = peers->to = found;
  MPI_Dist_graph_create_adjacent(bench_comm, peers->sources, found, MPI_UNWEIGHTED, peers->destinations,
                                 found, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
  MPI_Comm_free(&grid);
  free(sizes);
  free(periods);
  return comm;
}

static MPI_Comm chosen_comm = MPI_COMM_NULL;
static struct coll_peers chosen_peers;

static void make(const struct bench_run* run) {
  if (coll_chosen.collective->neighbors) {
    chosen_comm = make_grid(run, &chosen_peers);
    return;
  }
  int* everybody = allocate(run->ranks);
  for (int i = 0; i < run->ranks; ++i) everybody[i] = i;
  chosen_comm = bench_comm;
  chosen_peers = (struct coll_peers){run->ranks, run->ranks, everybody, everybody};
}

MPI_Comm coll_comm(const struct bench_run* run) {
  if (chosen_comm == MPI_COMM_NULL) make(run);
  return chosen_comm;
}

const struct coll_peers* coll_peers(const struct bench_run* run) {
  coll_comm(run);
  return &chosen_peers;
}

size_t coll_capacity(const struct bench_run* run, size_t size) {
  const struct collective* c = coll_chosen.collective;
  const size_t peers = (size_t)coll_peers(run)->sources, extent = bench_extent(run, size);
  return (c->blocks_in || c->blocks_out) && peers > 1 ? extent * peers : extent;
}

bool coll_has_root(void) {
  const struct collective* c = coll_chosen.collective;
  const bool rooted = c->root_in || c->root_out || c->validate == coll_validate_bcast;
  return rooted && coll_chosen.form != PERSISTENT;
}

bool coll_has_in_place(void) {
  const struct collective* c = coll_chosen.collective;
  return !c->neighbors && (c->validate == coll_validate_sums || c->validate == coll_validate_blocks);
}

bool coll_in_place(const struct bench_run* run, int root) {
  const struct collective* c = coll_chosen.collective;
  return run->options.in_place && (!(c->root_in || c->root_out) || run->rank == root);
}

int coll_root(const struct bench_run* run, long iteration) {
  if (run->options.root >= 0) return run->options.root;
  return (int)(((iteration % run->ranks) + run->ranks) % run->ranks);
}
