// SPDX-License-Identifier: BSD-3-Clause
// As much of CUDA C++ as the Jacobi kernels need, on the CPU: a block is 256 threads with barriers, blocks
// run one after the other. Included before kernels.cu, so that its arithmetic and indexing are tested without
// a GPU.
#pragma once
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>

#define __device__
#define __global__ inline
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __launch_bounds__(THREADS)

struct Index {
  unsigned x = 0;
};
inline thread_local Index threadIdx;
inline Index blockIdx, blockDim;

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

using std::min;

namespace simulated {

constexpr int warp = 32;

struct Block {
  explicit Block(int threads) : all(threads), values(static_cast<size_t>(threads)) {
    for (int i = 0; i < threads / warp; ++i) warps.push_back(std::make_unique<std::barrier<>>(warp));
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<double> values;
};

inline Block* block = nullptr;

// All lanes publish, then each reads the lane at `distance`; its own value where there is none.
template <class T>
T shuffle(T value, int distance) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % warp;
  std::barrier<>& barrier = *block->warps[static_cast<size_t>(thread / warp)];
  block->values[static_cast<size_t>(thread)] = static_cast<double>(value);
  barrier.arrive_and_wait();
  const int other = lane + distance;
  if (other >= 0 && other < warp)
    value = static_cast<T>(block->values[static_cast<size_t>(thread + distance)]);
  barrier.arrive_and_wait();
  return value;
}

template <class Kernel>
void launch(unsigned blocks, int threads, Kernel kernel) {
  blockDim.x = static_cast<unsigned>(threads);
  for (unsigned b = 0; b < blocks; ++b) {
    Block state(threads);
    block = &state;
    blockIdx.x = b;
    std::vector<std::jthread> pool;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([t, &kernel] {
        threadIdx.x = static_cast<unsigned>(t);
        kernel();
      });
    }
  }
}

}  // namespace simulated

template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  return simulated::shuffle(value, -distance);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int distance) {
  return simulated::shuffle(value, distance);
}
template <class T>
T atomicAdd(T* at, T value) {
  return std::atomic_ref<T>(*at).fetch_add(value);
}
inline void __syncthreads() { simulated::block->all.arrive_and_wait(); }
inline void __threadfence() {}
inline void __threadfence_system() {}
