// SPDX-License-Identifier: BSD-3-Clause
// Wrong arguments of topologies, neighborhood collectives and calls on intercommunicators: the error class,
// no communicator created, and the parent usable afterwards.
#include <mpi.h>

#include "core/expect.h"

static int rank, size;

static void constructors(void) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int periods[2] = {0, 0}, zero[2] = {1, 0}, large[2] = {size + 1, 1}, huge[2] = {1 << 20, 1 << 20};
  const int backwards[2] = {1, 0}, index[1] = {1}, outside = size, negative = -1, one = 1;
  int dims[2] = {-1, 0}, newrank;
  MPI_Comm made;
  EXPECT_ERROR(MPI_ERR_DIMS, MPI_Dims_create(4, 2, dims));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Dims_create(0, 2, dims));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Cart_create(world, -1, dims, periods, 0, &made));
  EXPECT_ERROR(MPI_ERR_DIMS, MPI_Cart_create(world, 2, zero, periods, 0, &made));
  EXPECT_ERROR(MPI_ERR_DIMS, MPI_Cart_create(world, 2, huge, periods, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Cart_create(world, 2, large, periods, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Cart_map(world, 2, large, periods, &newrank));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Graph_create(world, size + 1, index, index, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Graph_create(world, 1, index, &outside, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Graph_create(world, 1, index, NULL, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Graph_create(world, 1, &negative, index, 0, &made));
  if (size > 1) EXPECT_ERROR(MPI_ERR_ARG, MPI_Graph_create(world, 2, backwards, zero, 0, &made));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Dist_graph_create(world, 1, &outside, &one, &rank, MPI_UNWEIGHTED,
                                                   MPI_INFO_NULL, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Dist_graph_create(world, 1, &rank, &negative, &rank, MPI_UNWEIGHTED,
                                                  MPI_INFO_NULL, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG,
               MPI_Dist_graph_create(world, 1, &rank, &one, &rank, &negative, MPI_INFO_NULL, 0, &made));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Dist_graph_create_adjacent(world, 1, &negative, MPI_UNWEIGHTED, 0, NULL,
                                                            MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(world, 1, &rank, MPI_UNWEIGHTED, 1, &rank, &one,
                                                           MPI_INFO_NULL, 0, &made));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(world, 1, &rank, MPI_WEIGHTS_EMPTY, 1, &rank, &one,
                                                           MPI_INFO_NULL, 0, &made));
}

static void queries(void) {
  const int dims[1] = {size}, periods[1] = {0};
  int n, low, high, at[1] = {size};
  MPI_Comm grid;
  EXPECT_ERROR(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(MPI_COMM_WORLD, &n));
  EXPECT_ERROR(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(MPI_COMM_WORLD, &n, &low));
  EXPECT_ERROR(MPI_ERR_TOPOLOGY, MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &n, &low, &high));
  CALL(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
  EXPECT_ERROR(MPI_ERR_TOPOLOGY, MPI_Graph_neighbors_count(grid, 0, &n));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Cart_rank(grid, at, &n));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Cart_coords(grid, size, 1, at));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Cart_coords(grid, 0, 0, at));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Cart_shift(grid, 1, 1, &low, &high));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Cart_shift(grid, -1, 1, &low, &high));
  CALL(MPI_Comm_free(&grid));
}

static void neighborhoods(void) {
  const int dims[1] = {size}, periods[1] = {1}, counts[2] = {1, -1}, displacements[2] = {0, 1};
  const MPI_Aint bytes[2] = {0, 4};
  const MPI_Datatype types[2] = {MPI_INT, MPI_DATATYPE_NULL};
  int out[2] = {0, 0}, in[2];
  MPI_Comm grid;
  MPI_Request request;
  EXPECT_ERROR(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
  EXPECT_ERROR(MPI_ERR_TOPOLOGY,
               MPI_Ineighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD, &request));
  CALL(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, grid));
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(out, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, grid));
  EXPECT_ERROR(MPI_ERR_COUNT, MPI_Neighbor_alltoallv(out, counts, displacements, MPI_INT, in, counts,
                                                     displacements, MPI_INT, grid));
  EXPECT_ERROR(MPI_ERR_COUNT,
               MPI_Neighbor_allgatherv(out, 1, MPI_INT, in, counts, displacements, MPI_INT, grid));
  EXPECT_ERROR(MPI_ERR_TYPE, MPI_Neighbor_alltoallw(out, displacements, bytes, types, in, displacements,
                                                    bytes, types, grid));
  CALL(MPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, MPI_INT, grid));
  CALL(MPI_Comm_free(&grid));
}

static void intercommunicators(void) {
  MPI_Comm half, inter, made;
  MPI_Group group;
  int out = 1, in, dims[1] = {1}, periods[1] = {0};
  const int color = rank % 2, leader = color == 0 ? 1 : 0;
  if (size < 2) return;
  CALL(MPI_Comm_split(MPI_COMM_WORLD, color, 0, &half));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Intercomm_create(half, size, MPI_COMM_WORLD, leader, 0, &inter));
  if (rank < 2) {
    EXPECT_ERROR(MPI_ERR_COMM, MPI_Intercomm_create(half, 0, MPI_COMM_NULL, leader, 0, &inter));
    EXPECT_ERROR(MPI_ERR_RANK, MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, size, 0, &inter));
  }
  CALL(MPI_Barrier(MPI_COMM_WORLD));
  CALL(MPI_Intercomm_create(half, 0, rank < 2 ? MPI_COMM_WORLD : MPI_COMM_NULL, leader, 0, &inter));
  CALL(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Scan(&out, &in, 1, MPI_INT, MPI_SUM, inter));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Exscan(&out, &in, 1, MPI_INT, MPI_SUM, inter));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Cart_create(inter, 1, dims, periods, 0, &made));
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Allreduce(MPI_IN_PLACE, &in, 1, MPI_INT, MPI_SUM, inter));
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, &in, 1, MPI_INT, inter));
  EXPECT_ERROR(MPI_ERR_ROOT, MPI_Bcast(&out, 1, MPI_INT, -17, inter));
  EXPECT_ERROR(MPI_ERR_OP, MPI_Allreduce(&out, &in, 1, MPI_FLOAT, MPI_BAND, inter));
  CALL(MPI_Comm_group(MPI_COMM_WORLD, &group));
  EXPECT_ERROR(MPI_ERR_GROUP, MPI_Comm_create(inter, group, &made));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_create_group(inter, group, 0, &made));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, leader, 0, &made));
  EXPECT_ERROR(MPI_ERR_GROUP, MPI_Intercomm_create_from_groups(group, 0, group, 0, "same", MPI_INFO_NULL,
                                                               MPI_ERRORS_RETURN, &made));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Intercomm_create_from_groups(group, size, group, 0, "none", MPI_INFO_NULL,
                                                              MPI_ERRORS_RETURN, &made));
  CALL(MPI_Group_free(&group));
  // Insignificant arguments are ignored.
  const int root = color == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  if (root == MPI_PROC_NULL)
    CALL(MPI_Reduce(NULL, NULL, -1, MPI_DATATYPE_NULL, MPI_OP_NULL, root, inter));
  else
    CALL(MPI_Reduce(&out, &in, 1, MPI_INT, MPI_SUM, root, inter));
  CALL(MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, inter));
  EXPECT_EQ(in, color == 0 ? size / 2 : (size + 1) / 2);
  CALL(MPI_Comm_free(&inter));
  CALL(MPI_Comm_free(&half));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  constructors();
  queries();
  neighborhoods();
  intercommunicators();
  MPI_Finalize();
  return failures != 0;
}
