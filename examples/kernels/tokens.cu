// SPDX-License-Identifier: BSD-3-Clause
// Tokens of a mixture of experts, dispatched and combined by one kernel on each GPU: tokens.cuh.
//   nvcc -std=c++17 -ccbin mpicxx -lmpi_abi tokens.cu -o tokens && mpiexec -n 2 ./tokens 4096 1024
#include <cuda_runtime.h>
#include <mpi.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tokens.cuh"

namespace {

constexpr int threads = 256;

/// All blocks have arrived `turn` times; an error of one is an error of all.
__device__ tokens::Error meet(unsigned* words, unsigned turn, tokens::Error error) {
  __syncthreads();
  if (threadIdx.x == 0) {
    if (error != tokens::Error::none) atomicMax(words + 1, static_cast<unsigned>(error));
    __threadfence();
    atomicAdd(words, 1u);
    while (*static_cast<volatile unsigned*>(words) < turn * gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  return static_cast<tokens::Error>(*static_cast<volatile unsigned*>(words + 1));
}

__global__ void __launch_bounds__(threads) exchange(const void* handle, tokens::Layout layout,
                                                    const float* data, const int* experts, unsigned* words) {
  unsigned turn = 0;
  (void)tokens::round(weft::device::Block(), weft::device::Window(handle), layout, data, experts,
                      static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
                      [&](tokens::Error error) { return meet(words, ++turn, error); });
}

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0, devices = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(cudaGetDeviceCount(&devices));
  check(cudaSetDevice(rank % devices));
  const tokens::Layout layout{ranks, argc > 1 ? std::atoi(argv[1]) : 1024,
                              argc > 2 ? std::atoi(argv[2]) : 1024};
  const size_t words = layout.words(), size = static_cast<size_t>(layout.tokens) * layout.width;
  std::vector<float> data(size), results(size);
  std::vector<int> experts(layout.tokens);
  for (size_t i = 0; i < size; ++i) data[i] = static_cast<float>((i + rank) % 997);
  for (int i = 0; i < layout.tokens; ++i) experts[i] = (i * 31 + rank) % ranks;
  float *memory = nullptr, *on_gpu = nullptr;
  int* experts_on_gpu = nullptr;
  unsigned* meeting = nullptr;
  check(cudaMalloc(&memory, words * sizeof(float)));
  check(cudaMalloc(&on_gpu, size * sizeof(float)));
  check(cudaMalloc(&experts_on_gpu, experts.size() * sizeof(int)));
  check(cudaMalloc(&meeting, 2 * sizeof(unsigned)));
  check(cudaMemcpy(on_gpu, data.data(), size * sizeof(float), cudaMemcpyHostToDevice));
  check(cudaMemcpy(experts_on_gpu, experts.data(), experts.size() * sizeof(int), cudaMemcpyHostToDevice));
  MPI_Win window;
  void* handle = nullptr;
  MPI_Win_create(memory, static_cast<MPI_Aint>(words * sizeof(float)), sizeof(float), MPI_INFO_NULL,
                 MPI_COMM_WORLD, &window);
  MPIX_Win_create_notify(window, tokens::notifications);
  MPIX_Win_device_handle(window, &handle);
  const int blocks = ranks < 32 ? ranks : 32;
  for (int round = 0; round < 5; ++round) {
    check(cudaMemset(meeting, 0, 2 * sizeof(unsigned)));
    check(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    exchange<<<blocks, threads>>>(handle, layout, on_gpu, experts_on_gpu, meeting);
    check(cudaDeviceSynchronize());
    if (rank == 0) std::printf("round %d: %.3f ms\n", round, (MPI_Wtime() - begin) * 1e3);
  }
  check(cudaMemcpy(results.data(), memory + layout.result(0), size * sizeof(float), cudaMemcpyDeviceToHost));
  int wrong = 0, all = 0;
  for (size_t i = 0; i < size; ++i)
    wrong += results[i] != data[i] * static_cast<float>(experts[i / layout.width] + 1);
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf(all == 0 ? "all tokens came back from their experts\n" : "%d wrong values\n", all);
  MPI_Win_free(&window);
  MPI_Finalize();
  return all != 0;
}
