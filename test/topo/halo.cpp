// SPDX-License-Identifier: BSD-3-Clause
// The halo exchange of a field in one call on one array: MPI_Neighbor_alltoallw, the field as sendbuf and as
// recvbuf, faces and halo as subarrays or as displacements. Blocking, nonblocking and persistent. Usage: halo
// host|device
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;

constexpr int kEdge = 6, kWhole = kEdge + 2, kCells = kWhole * kWhole * kWhole;
int rank = 0, failures = 0;

void check(bool good, const char* what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s\n", rank, what);
}

/// The value of an inner cell of a process of the periodic grid.
double value(int process, int x, int y, int z) { return process * 1000.0 + (x * kWhole + y) * kWhole + z; }

struct Field {
  std::vector<double> cells = std::vector<double>(kCells, -1.0);
  double& at(const int p[3]) { return cells[static_cast<size_t>((p[0] * kWhole + p[1]) * kWhole + p[2])]; }
};

Field inner(int process) {
  Field field;
  for (int x = 1; x <= kEdge; ++x)
    for (int y = 1; y <= kEdge; ++y)
      for (int z = 1; z <= kEdge; ++z) {
        const int p[3] = {x, y, z};
        field.at(p) = value(process, x, y, z);
      }
  return field;
}

/// The field of this rank after the exchange.
Field exchanged(MPI_Comm grid) {
  Field field = inner(rank);
  for (int axis = 0; axis < 3; ++axis) {
    int lower = 0, upper = 0;
    MPI_Cart_shift(grid, axis, 1, &lower, &upper);
    for (int a = 1; a <= kEdge; ++a)
      for (int b = 1; b <= kEdge; ++b)
        for (int side = 0; side < 2; ++side) {
          int to[3], from[3];
          to[(axis + 1) % 3] = from[(axis + 1) % 3] = a;
          to[(axis + 2) % 3] = from[(axis + 2) % 3] = b;
          to[axis] = side == 0 ? 0 : kEdge + 1;
          from[axis] = side == 0 ? kEdge : 1;
          field.at(to) = value(side == 0 ? lower : upper, from[0], from[1], from[2]);
        }
  }
  return field;
}

/// The layer `at` of an axis. `by_type`: the datatype has its displacement, else it begins with its first
/// cell.
MPI_Datatype layer(int axis, int at, bool by_type, MPI_Aint& displacement) {
  const int whole[3] = {kWhole, kWhole, kWhole};
  int part[3] = {kEdge, kEdge, kEdge}, start[3] = {1, 1, 1};
  part[axis] = 1;
  start[axis] = at;
  displacement =
      by_type ? 0 : ((start[0] * kWhole + start[1]) * kWhole + start[2]) * MPI_Aint{sizeof(double)};
  if (!by_type) std::memset(start, 0, sizeof start);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

void exchange(MPI_Comm grid, Buffer& memory, bool by_type, int form) {
  MPI_Datatype out[6], in[6];
  MPI_Aint out_at[6], in_at[6];
  const int ones[6] = {1, 1, 1, 1, 1, 1};
  for (int i = 0; i < 6; ++i) {
    out[i] = layer(i / 2, i % 2 == 0 ? 1 : kEdge, by_type, out_at[i]);
    in[i] = layer(i / 2, i % 2 == 0 ? 0 : kEdge + 1, by_type, in_at[i]);
  }
  const Field before = inner(rank);
  std::vector<char> bytes(kCells * sizeof(double));
  std::memcpy(bytes.data(), before.cells.data(), bytes.size());
  memory.write(bytes);
  void* const field = memory.data();
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (form == 0)
    code = MPI_Neighbor_alltoallw(field, ones, out_at, out, field, ones, in_at, in, grid);
  else if (form == 1)
    code = MPI_Ineighbor_alltoallw(field, ones, out_at, out, field, ones, in_at, in, grid, &request);
  else
    code = MPI_Neighbor_alltoallw_init(field, ones, out_at, out, field, ones, in_at, in, grid, MPI_INFO_NULL,
                                       &request);
  check(code == MPI_SUCCESS, "one array for both buffers is refused");
  if (form == 2) check(MPI_Start(&request) == MPI_SUCCESS, "the start fails");
  if (form != 0) check(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "the wait fails");
  if (form == 2) MPI_Request_free(&request);
  bytes = memory.read();
  check(std::memcmp(bytes.data(), exchanged(grid).cells.data(), kCells * sizeof(double)) == 0, "wrong cells");
  for (int i = 0; i < 6; ++i) {
    MPI_Type_free(&out[i]);
    MPI_Type_free(&in[i]);
  }
}

/// A block that is sent and received at once stays an error.
void same_block(MPI_Comm grid, Buffer& memory) {
  MPI_Aint at[6];
  MPI_Datatype types[6];
  const int ones[6] = {1, 1, 1, 1, 1, 1};
  for (int i = 0; i < 6; ++i) types[i] = layer(i / 2, 1, true, at[i]);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(
      MPI_Neighbor_alltoallw(memory.data(), ones, at, types, memory.data(), ones, at, types, grid),
      &error_class);
  check(error_class == MPI_ERR_BUFFER, "blocks that are sent and received at once are accepted");
  for (MPI_Datatype& type : types) MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 0, dims[3] = {0, 0, 0};
  const int periods[3] = {1, 1, 1};
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm grid = MPI_COMM_NULL;
  MPI_Dims_create(ranks, 3, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
  MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
  {
    Buffer memory(argc > 1 && std::strcmp(argv[1], "device") == 0 ? Buffer::Kind::device : Buffer::Kind::host,
                  kCells * sizeof(double), rank % weft::test::cuda().devices);
    for (int form = 0; form < 3; ++form)
      for (const bool by_type : {true, false}) exchange(grid, memory, by_type, form);
    same_block(grid, memory);
  }
  MPI_Comm_free(&grid);
  return weft::test::finish(failures);
}
