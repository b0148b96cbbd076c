// SPDX-License-Identifier: BSD-3-Clause
// Wrong arguments of collectives: the error class, no message sent, and a communicator usable afterwards.
#include <algorithm>
#include <cstring>
#include <vector>

#include "coll/expect.hpp"

namespace {

int failures = 0, rank, size;

void expect_class(int wanted, int code, const char* call) {
  int got = MPI_SUCCESS;
  MPI_Error_class(code, &got);
  if (got == wanted) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s gave class %d, not %d\n", rank, call, got, wanted);
}
#define EXPECT_CLASS(wanted, call) expect_class(wanted, call, #call)

void local_errors() {
  int a[64] = {0}, b[64] = {0}, counts[8] = {1, 1, 1, 1, 1, 1, 1, 1}, displacements[8] = {0};
  MPI_Datatype types[8];
  std::fill_n(types, 8, MPI_INT);
  const MPI_Comm world = MPI_COMM_WORLD;
  MPI_Request request;
  EXPECT_CLASS(MPI_ERR_OP, MPI_Allreduce(a, b, 1, MPI_FLOAT, MPI_BAND, world));
  EXPECT_CLASS(MPI_ERR_OP, MPI_Iallreduce(a, b, 1, MPI_WCHAR, MPI_SUM, world, &request));
  EXPECT_CLASS(MPI_ERR_OP, MPI_Reduce_local(a, b, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Allreduce(a, a, 1, MPI_INT, MPI_SUM, world));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Allreduce(a, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, world));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Scan(b, b, 1, MPI_INT, MPI_SUM, world));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, world));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Alltoall(a, 1, MPI_INT, a, 1, MPI_INT, world));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Allgatherv(a, 1, MPI_INT, a, counts, displacements, MPI_INT, world));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Allgather(&a[rank], 1, MPI_INT, a, 1, MPI_INT, world));  // the own block
  EXPECT_CLASS(MPI_ERR_BUFFER,
               MPI_Alltoallw(a, counts, displacements, types, a, counts, displacements, types, world));
  if (rank == 0) EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Scatter(a, 1, MPI_INT, a, 1, MPI_INT, 0, world));
  EXPECT_CLASS(MPI_ERR_BUFFER,
               MPI_Alltoallv(a, counts, displacements, MPI_INT, a, counts, displacements, MPI_INT, world));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Reduce_local(a, a, 1, MPI_INT, MPI_SUM));
  EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Reduce_local(MPI_IN_PLACE, a, 1, MPI_INT, MPI_SUM));
  if (rank != 0) EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, b, 1, MPI_INT, 0, world));
  if (rank != 0) EXPECT_CLASS(MPI_ERR_BUFFER, MPI_Reduce(MPI_IN_PLACE, b, 1, MPI_INT, MPI_SUM, 0, world));
  EXPECT_CLASS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, size, world));
  EXPECT_CLASS(MPI_ERR_ROOT, MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, -1, world));
  EXPECT_CLASS(MPI_ERR_COUNT, MPI_Allreduce(a, b, -1, MPI_INT, MPI_SUM, world));
  EXPECT_CLASS(MPI_ERR_TYPE, MPI_Allgather(a, 1, MPI_DATATYPE_NULL, b, 1, MPI_INT, world));
  EXPECT_CLASS(MPI_ERR_OP, MPI_Allreduce(a, b, 1, MPI_INT, MPI_OP_NULL, world));
  EXPECT_CLASS(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
}

/// A block longer than the receive buffer is truncated and reported.
void truncation() {
  int a[4] = {1, 2, 3, 4}, b[4] = {0};
  EXPECT_CLASS(MPI_ERR_TRUNCATE, MPI_Allgather(a, 2, MPI_INT, b, 1, MPI_INT, MPI_COMM_SELF));
  if (size != 2) return;
  MPI_Request request;
  if (rank == 0) {
    MPI_Bcast(a, 4, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Ibcast(a, 4, MPI_INT, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    EXPECT_CLASS(MPI_ERR_TRUNCATE, MPI_Bcast(b, 2, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT_CLASS(MPI_SUCCESS, MPI_Ibcast(b, 2, MPI_INT, 0, MPI_COMM_WORLD, &request));
    EXPECT_CLASS(MPI_ERR_TRUNCATE, MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

/// A block shorter than the receive buffer is reported.
void too_short() {
  if (size != 2) return;
  int a[4] = {1, 2, 3, 4}, b[8] = {0}, counts[2] = {4, 4}, displacements[2] = {0, 4};
  MPI_Request request;
  if (rank == 0) {
    EXPECT_CLASS(MPI_SUCCESS, MPI_Bcast(a, 2, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT_CLASS(MPI_ERR_TRUNCATE,
                 MPI_Gatherv(a, 4, MPI_INT, b, counts, displacements, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT_CLASS(MPI_SUCCESS, MPI_Iscatter(a, 2, MPI_INT, b, 2, MPI_INT, 0, MPI_COMM_WORLD, &request));
    EXPECT_CLASS(MPI_SUCCESS, MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else {
    EXPECT_CLASS(MPI_ERR_TRUNCATE, MPI_Bcast(b, 4, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT_CLASS(MPI_SUCCESS,
                 MPI_Gatherv(a, 3, MPI_INT, nullptr, nullptr, nullptr, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT_CLASS(MPI_SUCCESS, MPI_Iscatter(nullptr, 0, MPI_INT, b, 3, MPI_INT, 0, MPI_COMM_WORLD, &request));
    EXPECT_CLASS(MPI_ERR_TRUNCATE, MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

/// Both buffers may have the same base address if the displacements do not overlap.
void common_base() {
  std::vector<int> all(static_cast<size_t>(2 * size)), counts(static_cast<size_t>(size), 1), out(counts),
      in(counts);
  for (int i = 0; i < size; ++i) {
    all[static_cast<size_t>(i)] = rank;
    out[static_cast<size_t>(i)] = i;
    in[static_cast<size_t>(i)] = size + i;
  }
  EXPECT_CLASS(MPI_SUCCESS, MPI_Alltoallv(all.data(), counts.data(), out.data(), MPI_INT, all.data(),
                                          counts.data(), in.data(), MPI_INT, MPI_COMM_WORLD));
  for (int i = 0; i < size; ++i)
    if (all[static_cast<size_t>(size + i)] != i) ++failures;
}

void zero_counts() {
  EXPECT_CLASS(MPI_SUCCESS, MPI_Bcast(nullptr, 0, MPI_INT, 0, MPI_COMM_WORLD));
  EXPECT_CLASS(MPI_SUCCESS, MPI_Allreduce(nullptr, nullptr, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT_CLASS(MPI_SUCCESS, MPI_Alltoall(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, MPI_COMM_WORLD));
  std::vector<int> zeros(static_cast<size_t>(size));
  EXPECT_CLASS(MPI_SUCCESS, MPI_Alltoallv(nullptr, zeros.data(), zeros.data(), MPI_INT, nullptr, zeros.data(),
                                          zeros.data(), MPI_INT, MPI_COMM_WORLD));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  local_errors();
  truncation();
  too_short();
  common_base();
  zero_counts();
  int all = 0;
  EXPECT_CLASS(MPI_SUCCESS, MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
