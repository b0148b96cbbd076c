// SPDX-License-Identifier: BSD-3-Clause
// Halo exchange of a 3-D field of doubles in GPU memory: the six faces are subarrays, which one call of
// MPI_Neighbor_alltoallw, or nonblocking sends and receives, move between the ranks of a periodic grid. The
// same calls run in three ways: by the host, which waits for the stream before them, in the order of the
// stream, and captured in a graph that the host launches once a step. All results are checked, then timed.
// All ranks promise GPU memory and no wildcards (weft_stream_kernels), so within a host a kernel executes the
// calls; with -kernels 0 the host executes them in stream order.
//   mpicxx -std=c++17 -O2 halo.cpp -o halo -I/usr/local/cuda/include -L/usr/local/cuda/lib64/stubs -lcuda
//   mpiexec -n 4 ./halo -n 256
// -n N: cells of a rank along each axis (256); -steps N: steps of a round (50); -rounds N: rounds of all
// (20); -kernels 0: without the promise
#include <cuda.h>
#include <mpi.h>
#include <weft.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void check(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  const char* why = nullptr;
  cuGetErrorString(code, &why);
  std::fprintf(stderr, "halo: %s failed: %s\n", what, why != nullptr ? why : "unknown error");
  MPI_Abort(MPI_COMM_WORLD, 1);
}

constexpr int kAxes = 3, kFaces = 2 * kAxes;
enum class Calls { neighbor, nonblocking };

/// The part of a rank: n^3 cells with a halo of one cell around them.
struct Part {
  int n = 0;
  int dims[kAxes] = {}, at[kAxes] = {};
  int neighbors[kFaces] = {};       ///< along each axis in negative, then in positive direction
  MPI_Datatype types[kFaces] = {};  ///< a plane of inner cells
  MPI_Aint sent[kFaces] = {}, received[kFaces] = {};  ///< displacements of the planes in bytes

  Part(int cells, MPI_Comm grid) : n(cells) {
    int periods[kAxes];
    MPI_Cart_get(grid, kAxes, dims, periods, at);
    for (int axis = 0; axis < kAxes; ++axis) {
      MPI_Cart_shift(grid, axis, 1, &neighbors[2 * axis], &neighbors[2 * axis + 1]);
      types[2 * axis] = types[2 * axis + 1] = plane(axis);
      sent[2 * axis] = at_plane(axis, 1);
      sent[2 * axis + 1] = at_plane(axis, n);
      received[2 * axis] = at_plane(axis, 0);
      received[2 * axis + 1] = at_plane(axis, n + 1);
    }
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    for (int axis = 0; axis < kAxes; ++axis) MPI_Type_free(&types[2 * axis]);
  }
  [[nodiscard]] size_t cells() const { return static_cast<size_t>(n + 2) * (n + 2) * (n + 2); }

 private:
  [[nodiscard]] MPI_Aint at_plane(int axis, int index) const {
    MPI_Aint stride = sizeof(double);
    for (int inner = axis + 1; inner < kAxes; ++inner) stride *= n + 2;
    return index * stride;
  }
  [[nodiscard]] MPI_Datatype plane(int axis) const {
    const int sizes[kAxes] = {n + 2, n + 2, n + 2};
    int parts[kAxes] = {n, n, n}, starts[kAxes] = {1, 1, 1};
    parts[axis] = 1;
    starts[axis] = 0;
    MPI_Datatype type;
    MPI_Type_create_subarray(kAxes, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
  }
};

/// Fills the halo of the field. The same calls for a communicator with and without a stream.
void exchange(double* field, const Part& part, MPI_Comm grid, Calls calls) {
  if (calls == Calls::neighbor) {
    static const int counts[kFaces] = {1, 1, 1, 1, 1, 1};
    MPI_Neighbor_alltoallw(field, counts, part.sent, part.types, field, counts, part.received, part.types,
                           grid);
    return;
  }
  const auto place = [field](MPI_Aint bytes) { return field + bytes / static_cast<MPI_Aint>(sizeof *field); };
  MPI_Request requests[2 * kFaces];
  for (int face = 0; face < kFaces; ++face)  // the tag is the face that the sender sends
    MPI_Irecv(place(part.received[face]), 1, part.types[face], part.neighbors[face], face ^ 1, grid,
              &requests[face]);
  for (int face = 0; face < kFaces; ++face)
    MPI_Isend(place(part.sent[face]), 1, part.types[face], part.neighbors[face], face, grid,
              &requests[kFaces + face]);
  MPI_Waitall(2 * kFaces, requests, MPI_STATUSES_IGNORE);
}

/// The number of a cell in the whole periodic field.
double number(const Part& part, int x, int y, int z) {
  const int local[kAxes] = {x, y, z};
  double value = 0;
  for (int axis = 0; axis < kAxes; ++axis) {
    const int whole = part.n * part.dims[axis];
    value = value * whole + (part.n * part.at[axis] + local[axis] - 1 + whole) % whole;
  }
  return value;
}

/// Compares the faces of the halo; edges and corners are not exchanged and stay -1.
bool good(const std::vector<double>& field, const Part& part) {
  const int n = part.n;
  size_t cell = 0;
  for (int x = 0; x < n + 2; ++x)
    for (int y = 0; y < n + 2; ++y)
      for (int z = 0; z < n + 2; ++z, ++cell) {
        const auto outside = [n](int i) { return i == 0 || i == n + 1 ? 1 : 0; };
        const double wanted = outside(x) + outside(y) + outside(z) > 1 ? -1 : number(part, x, y, z);
        if (field[cell] == wanted) continue;
        std::fprintf(stderr, "halo: cell (%d, %d, %d) is %g, not %g\n", x, y, z, field[cell], wanted);
        return false;
      }
  return true;
}

/// The field, with its initial values, and the stream that works on it.
class Field {
 public:
  explicit Field(const Part& part) : part_(part), bytes_(part.cells() * sizeof(double)) {
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(cuMemAlloc(&field_, bytes_), "cuMemAlloc");
    check(cuMemAlloc(&initial_, bytes_), "cuMemAlloc");
    std::vector<double> values(part.cells(), -1);
    size_t cell = 0;
    for (int x = 0; x < part.n + 2; ++x)
      for (int y = 0; y < part.n + 2; ++y)
        for (int z = 0; z < part.n + 2; ++z, ++cell)
          if (std::min({x, y, z}) > 0 && std::max({x, y, z}) <= part.n) values[cell] = number(part, x, y, z);
    check(cuMemcpyHtoDAsync(initial_, values.data(), bytes_, stream), "cuMemcpyHtoDAsync");
    wait();
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;
  ~Field() {
    cuMemFree(field_);
    cuMemFree(initial_);
    cuStreamDestroy(stream);
  }
  [[nodiscard]] double* data() const { return reinterpret_cast<double*>(field_); }
  /// Enqueues the copy of the initial values, in place of a kernel that computes.
  void reset() const { check(cuMemcpyDtoDAsync(field_, initial_, bytes_, stream), "cuMemcpyDtoDAsync"); }
  /// Enqueues little work, in place of a kernel: the step that is timed.
  void touch() const { check(cuMemsetD8Async(initial_, 0, sizeof(double), stream), "cuMemsetD8Async"); }
  void wait() const { check(cuStreamSynchronize(stream), "cuStreamSynchronize"); }
  [[nodiscard]] bool exchanged() const {
    std::vector<double> values(part_.cells());
    check(cuMemcpyDtoH(values.data(), field_, bytes_), "cuMemcpyDtoH");
    return good(values, part_);
  }
  CUstream stream = nullptr;

 private:
  const Part& part_;
  size_t bytes_;
  CUdeviceptr field_ = 0, initial_ = 0;
};

/// Work of a stream, captured once.
class Graph {
 public:
  template <class Work>
  Graph(CUstream stream, Work work) : stream_(stream) {
    check(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    work();
    check(cuStreamEndCapture(stream, &graph_), "cuStreamEndCapture");
    check(cuGraphInstantiateWithFlags(&executable_, graph_, 0), "cuGraphInstantiate");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    cuGraphExecDestroy(executable_);
    cuGraphDestroy(graph_);
  }
  void launch() const { check(cuGraphLaunch(executable_, stream_), "cuGraphLaunch"); }

 private:
  CUstream stream_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

/// The grid of ranks, once more in the order of the stream. `kernels`: all ranks promise that its calls use
/// GPU memory and no wildcards.
struct OrderedGrid {
  OrderedGrid(MPI_Comm grid, CUstream gpu_stream, bool kernels) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPI_Info_set(info, "weft_stream_order", "true");
    if (kernels) MPI_Info_set(info, "weft_stream_kernels", "prefer");
    MPIX_Info_set_hex(info, "value", &gpu_stream, sizeof gpu_stream);
    MPIX_Stream_create(info, &stream);
    MPI_Info_free(&info);
    MPIX_Stream_comm_create(grid, stream, &comm);
  }
  OrderedGrid(const OrderedGrid&) = delete;
  OrderedGrid& operator=(const OrderedGrid&) = delete;
  ~OrderedGrid() {
    MPI_Comm_free(&comm);
    MPIX_Stream_free(&stream);
  }
  MPIX_Stream stream = MPIX_STREAM_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
};

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Options {
  int n = 256, steps = 50, rounds = 20, kernels = 1;
};

/// Checks and times one form of the calls; returns whether the results are right.
bool run(const Options& options, const Part& part, MPI_Comm grid, Calls calls) {
  const Field field(part);
  const OrderedGrid ordered(grid, field.stream, options.kernels != 0);
  int right = 1;
  const auto by_host = [&] {
    field.wait();
    exchange(field.data(), part, grid, calls);
  };
  field.reset();
  by_host();
  if (!field.exchanged()) right = 0;
  const auto in_stream = [&] { exchange(field.data(), part, ordered.comm, calls); };
  field.reset();
  in_stream();  // the first messages set up connections
  field.wait();
  if (!field.exchanged()) right = 0;
  {
    const Graph graph(field.stream, [&] {
      field.reset();
      in_stream();
    });
    for (int launch = 0; launch < 3; ++launch) graph.launch();
    field.wait();
    if (!field.exchanged()) right = 0;
  }
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, grid);
  const Graph step(field.stream, [&] {
    field.touch();
    in_stream();
  });
  std::vector<double> host_times, stream_times, graph_times;
  for (int round = 0; round < options.rounds; ++round) {
    MPI_Barrier(grid);
    const double start = MPI_Wtime();
    for (int i = 0; i < options.steps; ++i) field.touch(), by_host();
    field.wait();
    MPI_Barrier(grid);
    const double middle = MPI_Wtime();
    for (int i = 0; i < options.steps; ++i) field.touch(), in_stream();
    field.wait();
    MPI_Barrier(grid);
    const double last = MPI_Wtime();
    for (int i = 0; i < options.steps; ++i) step.launch();
    field.wait();
    MPI_Barrier(grid);
    host_times.push_back((middle - start) / options.steps);
    stream_times.push_back((last - middle) / options.steps);
    graph_times.push_back((MPI_Wtime() - last) / options.steps);
  }
  int rank;
  MPI_Comm_rank(grid, &rank);
  if (rank == 0)
    std::printf("%s: %s; by the host %.1f us, in the stream %.1f us, in a graph %.1f us, graph / host %.3f\n",
                calls == Calls::neighbor ? "MPI_Neighbor_alltoallw" : "MPI_Isend and MPI_Irecv",
                right != 0 ? "right" : "WRONG", 1e6 * median(host_times), 1e6 * median(stream_times),
                1e6 * median(graph_times), median(graph_times) / median(host_times));
  return right != 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "-n") == 0) options.n = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "-steps") == 0) options.steps = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "-rounds") == 0) options.rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "-kernels") == 0) options.kernels = std::atoi(argv[i + 1]);
  }
  if (options.n < 1 || options.steps < 1 || options.rounds < 1) return 2;
  int gpus = 0, ranks = 0, rank = 0;
  CUcontext context;
  CUdevice gpu;
  const char* local_rank = std::getenv("LOCAL_RANK");
  MPI_Init(&argc, &argv);
  check(cuInit(0), "cuInit");
  check(cuDeviceGetCount(&gpus), "cuDeviceGetCount");
  check(cuDeviceGet(&gpu, (local_rank != nullptr ? std::atoi(local_rank) : 0) % gpus), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, gpu), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int dims[kAxes] = {}, periodic[kAxes] = {1, 1, 1};
  MPI_Dims_create(ranks, kAxes, dims);
  MPI_Comm grid;
  MPI_Cart_create(MPI_COMM_WORLD, kAxes, dims, periodic, 0, &grid);
  if (rank == 0)
    std::printf("%d ranks in a grid of %d x %d x %d, each with %d^3 cells\n", ranks, dims[0], dims[1],
                dims[2], options.n);
  bool right = true;
  {
    const Part part(options.n, grid);
    for (const Calls calls : {Calls::neighbor, Calls::nonblocking})
      right = run(options, part, grid, calls) && right;
  }
  MPI_Comm_free(&grid);
  MPI_Finalize();
  return right ? 0 : 1;
}
