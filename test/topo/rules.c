// SPDX-License-Identifier: BSD-3-Clause
// Rules of MPI for topologies beyond edges: members, inheritance, empty topologies, periodic dimensions of
// one and two processes.
#include <mpi.h>

#include "core/expect.h"

static int rank, size;

static void kind_is(MPI_Comm comm, int wanted) {
  int kind;
  MPI_Topo_test(comm, &kind);
  EXPECT_EQ(kind == wanted, 1);
}

// Duplicates keep the topology; other children do not.
static void inheritance(void) {
  const int dims[1] = {size}, periods[1] = {1};
  MPI_Comm grid, child;
  MPI_Request request;
  kind_is(MPI_COMM_WORLD, MPI_UNDEFINED);
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
  kind_is(grid, MPI_CART);
  MPI_Comm_dup(grid, &child);
  kind_is(child, MPI_CART);
  MPI_Comm_free(&child);
  MPI_Comm_idup(grid, &child, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  kind_is(child, MPI_CART);
  MPI_Comm_free(&child);
  MPI_Comm_split(grid, 0, 0, &child);
  kind_is(child, MPI_UNDEFINED);
  MPI_Comm_free(&child);
  MPI_Comm_free(&grid);
}

// A grid without dimensions has one process.
static void no_dimensions(void) {
  MPI_Comm grid;
  int n = -1, at = -1, dummy;
  MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &grid);
  EXPECT_EQ((grid != MPI_COMM_NULL) == (rank == 0), 1);
  if (rank != 0) return;
  MPI_Cartdim_get(grid, &n);
  MPI_Cart_rank(grid, NULL, &at);
  EXPECT_EQ(n == 0 && at == 0, 1);
  EXPECT_EQ(MPI_Neighbor_alltoall(&n, 1, MPI_INT, &dummy, 1, MPI_INT, grid) == MPI_SUCCESS, 1);
  MPI_Comm_free(&grid);
}

// A message sent down arrives from above, also if both neighbors are the same process or this process.
static void short_periodic_dimensions(void) {
  for (int length = 1; length <= size; ++length) {
    const int dims[2] = {length, 1}, periods[2] = {1, 1};
    MPI_Comm grid;
    int out[4], in[4] = {-1, -1, -1, -1}, own, low, high;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    if (grid == MPI_COMM_NULL) continue;
    MPI_Comm_rank(grid, &own);
    for (int i = 0; i < 4; ++i) out[i] = 10 * own + i;
    MPI_Cart_shift(grid, 0, 1, &low, &high);
    EXPECT_EQ(MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, grid) == MPI_SUCCESS, 1);
    EXPECT_EQ(in[0] == 10 * low + 1 && in[1] == 10 * high && in[2] == 10 * own + 3 && in[3] == 10 * own + 2,
              1);
    MPI_Comm_free(&grid);
  }
}

static void displacements(void) {
  const int dims[2] = {1, size}, periods[2] = {0, 1};
  const int far[2] = {0, -3 * size - 1};
  MPI_Comm grid;
  int low, high, at;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
  MPI_Cart_shift(grid, 0, 1, &low, &high);
  EXPECT_EQ(low == MPI_PROC_NULL && high == MPI_PROC_NULL, 1);
  MPI_Cart_shift(grid, 0, 0, &low, &high);
  EXPECT_EQ(low == rank && high == rank, 1);
  MPI_Cart_shift(grid, 1, -2 * size - 1, &low, &high);
  EXPECT_EQ(low == (rank + 1) % size && high == (rank + size - 1) % size, 1);
  MPI_Cart_shift(grid, 1, 2147483647, &low, &high);
  EXPECT_EQ(high == (int)(((long)rank + 2147483647L) % size), 1);
  MPI_Cart_rank(grid, far, &at);
  EXPECT_EQ(at == size - 1, 1);
  MPI_Comm_free(&grid);
}

// Subgrids with no dimension, and with one dimension of size 1.
static void subgrids(void) {
  const int dims[2] = {size, 1}, periods[2] = {1, 0}, none[2] = {0, 0}, second[2] = {0, 1};
  MPI_Comm grid, part;
  int n, members;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  MPI_Cart_sub(grid, none, &part);
  MPI_Cartdim_get(part, &n);
  MPI_Comm_size(part, &members);
  EXPECT_EQ(n == 0 && members == 1, 1);
  MPI_Comm_free(&part);
  MPI_Cart_sub(grid, second, &part);
  MPI_Cartdim_get(part, &n);
  EXPECT_EQ(n == 1, 1);
  MPI_Comm_free(&part);
  MPI_Comm_free(&grid);
}

static void maps(void) {
  const int dims[1] = {1}, periods[1] = {0}, index[1] = {0};
  int mapped;
  MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &mapped);
  EXPECT_EQ(mapped == (rank == 0 ? 0 : MPI_UNDEFINED), 1);
  MPI_Graph_map(MPI_COMM_WORLD, 1, index, NULL, &mapped);
  EXPECT_EQ(mapped == (rank == 0 ? 0 : MPI_UNDEFINED), 1);
}

// Weights are returned; MPI_UNWEIGHTED at creation is reported and leaves the arrays unchanged.
static void weights(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_Comm ring;
  int in, out, weighted, source, dest, in_weight = -7, out_weight = -7;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &ring);
  kind_is(ring, MPI_DIST_GRAPH);
  MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
  EXPECT_EQ(in == 1 && out == 1 && !weighted, 1);
  MPI_Dist_graph_neighbors(ring, 1, &source, &in_weight, 1, &dest, &out_weight);
  EXPECT_EQ(source == before && dest == next && in_weight == -7 && out_weight == -7, 1);
  MPI_Comm_free(&ring);
  const int one = 1, weight = 100 + rank;
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &next, &weight, MPI_INFO_NULL, 1, &ring);
  MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
  EXPECT_EQ(in == 1 && out == 1 && weighted, 1);
  MPI_Dist_graph_neighbors(ring, 1, &source, &in_weight, 1, &dest, &out_weight);
  EXPECT_EQ(source == before && dest == next && in_weight == 100 + before && out_weight == 100 + rank, 1);
  MPI_Dist_graph_neighbors(ring, 0, &source, MPI_UNWEIGHTED, 0, &dest, MPI_UNWEIGHTED);
  MPI_Comm_free(&ring);
}

// More neighbors than a round holds without allocation, each several times.
static void many_edges(void) {
  enum { kEach = 50, kMaxEdges = 50 * 8 };
  int ranks[kMaxEdges], out[kMaxEdges], in[kMaxEdges], n = 0;
  MPI_Comm dense;
  if (size > 8) return;
  for (int time = 0; time < kEach; ++time)
    for (int other = 0; other < size; ++other) ranks[n++] = other;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n, ranks, MPI_UNWEIGHTED, n, ranks, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &dense);
  for (int i = 0; i < n; ++i) out[i] = 1000 * rank + i;
  for (int time = 0; time < 3; ++time) {
    MPI_Request request;
    MPI_Ineighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, dense, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < n; ++i) EXPECT_EQ(in[i] == 1000 * (i % size) + i / size * size + rank, 1);
    for (int i = 0; i < n; ++i) in[i] = -1;
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, dense);
    for (int i = 0; i < n; ++i) EXPECT_EQ(in[i] == 1000 * (i % size) + i / size * size + rank, 1);
  }
  MPI_Comm_free(&dense);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  inheritance();
  no_dimensions();
  short_periodic_dimensions();
  displacements();
  subgrids();
  maps();
  weights();
  many_edges();
  MPI_Finalize();
  return failures != 0;
}
