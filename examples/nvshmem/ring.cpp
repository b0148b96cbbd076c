// SPDX-License-Identifier: BSD-3-Clause
// NVSHMEM beside MPI: its processes are the ranks of an MPI communicator, by a unique id that MPI broadcasts
// or by NVSHMEM's plugin for MPI. Each rank puts an array into its right neighbor's memory; MPI sends the
// same array, and the results are compared. Only NVSHMEM's functions for the host: no nvcc. With N the folder
// nvidia/nvshmem of the package nvidia-nvshmem-cu13 and C the folder nvidia/cu13 of nvidia-cuda-runtime,
// build and run:
//   mpicxx ring.cpp -o ring -I$N/include -I$C/include -L$N/lib -l:libnvshmem_host.so.3 -Wl,-rpath,$N/lib \
//     -L$C/lib -l:libcudart.so.13 -Wl,-rpath,$C/lib
//   mpiexec -n 2 ./ring
// Built with Open MPI's mpicxx and started by Weft's mpiexec:
//   mpiexec -n 2 ./ring plugin
#include <cuda_runtime.h>
#include <mpi.h>
#include <nvshmem_host.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kCount = 1 << 20;

void check(bool good, const char* what, const char* why = "") {
  if (good) return;
  std::fprintf(stderr, "ring: %s failed %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
void check_cuda(cudaError_t code, const char* what) {
  check(code == cudaSuccess, what, cudaGetErrorString(code));
}

/// Starts NVSHMEM with the ranks of the communicator, in their order. Collective; the rank's device must be
/// current.
void start_by_id(MPI_Comm comm) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (rank == 0) check(nvshmemx_get_uniqueid(&id) == 0, "nvshmemx_get_uniqueid");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_set_attr_uniqueid_args(rank, size, &id, &attributes);
  check(nvshmemx_hostlib_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) == 0,
        "nvshmemx_hostlib_init_attr");
}

/// The same by nvshmem_bootstrap_mpi.so.3, which is linked to Open MPI's libmpi.so.40 and calls it with Open
/// MPI's handles. In a program that is linked to another MPI library its calls would reach that one.
void start_by_plugin(MPI_Comm comm) {
#ifdef OPEN_MPI
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  attributes.mpi_comm = &comm;
  check(nvshmemx_hostlib_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) == 0,
        "nvshmemx_hostlib_init_attr");
#else
  static_cast<void>(comm);
  check(false, "the plugin", "(build the program with Open MPI's mpicxx and start it with Weft's mpiexec)");
#endif
}

/// Returns the number of elements in which NVSHMEM's result differs from MPI's.
int differences(MPI_Comm comm) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  check(nvshmem_my_pe() == rank && nvshmem_n_pes() == size, "the order of the processes");
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  const size_t bytes = kCount * sizeof(float);
  auto* const from = static_cast<float*>(nvshmem_malloc(bytes));
  auto* const by_put = static_cast<float*>(nvshmem_malloc(bytes));
  float* by_message;
  check(from != nullptr && by_put != nullptr, "nvshmem_malloc");
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&by_message), bytes), "cudaMalloc");
  std::vector<float> values(kCount);
  for (int i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 1000 + rank);
  check_cuda(cudaMemcpy(from, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  cudaStream_t stream;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  nvshmemx_putmem_on_stream(by_put, from, bytes, right, stream);
  nvshmemx_barrier_all_on_stream(stream);
  MPI_Sendrecv(from, kCount, MPI_FLOAT, right, 0, by_message, kCount, MPI_FLOAT, left, 0, comm,
               MPI_STATUS_IGNORE);
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<float> other(kCount);
  check_cuda(cudaMemcpy(values.data(), by_put, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check_cuda(cudaMemcpy(other.data(), by_message, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  int wrong = 0;
  for (int i = 0; i < kCount; ++i)
    wrong += values[i] != other[i] || other[i] != static_cast<float>(i % 1000 + left);
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  check_cuda(cudaFree(by_message), "cudaFree");
  nvshmem_free(by_put);
  nvshmem_free(from);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const bool plugin = argc > 1 && std::strcmp(argv[1], "plugin") == 0;
  const char* local = std::getenv("LOCAL_RANK");
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found == cudaSuccess && devices > 0)  // without a GPU, NVSHMEM itself fails below, with its message
    check_cuda(cudaSetDevice(local ? std::atoi(local) % devices : 0), "cudaSetDevice");
  MPI_Init(&argc, &argv);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (plugin)
    start_by_plugin(comm);
  else
    start_by_id(comm);
  int rank, wrong = differences(comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, comm);
  if (rank == 0)
    std::printf("NVSHMEM by %s: %d elements differ\n", plugin ? "its plugin" : "a unique id", wrong);
  nvshmemx_hostlib_finalize();
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return wrong != 0;
}
