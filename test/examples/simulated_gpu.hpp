// SPDX-License-Identifier: BSD-3-Clause
// The parts of CUDA C++ that the Jacobi kernels need, on the CPU: a thread is a fiber, a block is 256 fibers
// that run in turn, blocks run one after the other. Included before kernels.cu to test it without a GPU.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
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
inline Index threadIdx, blockIdx, blockDim;

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

using std::min;

namespace simulated {

constexpr int warp = 32;
constexpr size_t stack_bytes = 64 << 10;

void yield();

/// Barrier: blocks fibers until `members` of them have arrived.
class Barrier {
 public:
  explicit Barrier(int members) : members_(members) {}
  void wait() {
    if (++come_ == members_) {
      come_ = 0;
      ++generation_;
      return;
    }
    for (const unsigned mine = generation_; mine == generation_;) yield();
  }

 private:
  int members_, come_ = 0;
  unsigned generation_ = 0;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = true;
  unsigned shuffles = 0;
};

/// The running block, and the set of fibers that all blocks use.
struct Machine {
  std::vector<Fiber> fibers;
  std::vector<Barrier> warps;
  std::vector<Barrier> all;
  std::vector<double> values[2];  // for alternating shuffles: a fast lane may be one shuffle ahead
  ucontext_t scheduler;
  void (*body)(const void*) = nullptr;
  const void* argument = nullptr;
};

inline Machine machine;

inline Fiber& current() { return machine.fibers[threadIdx.x]; }

inline void yield() { swapcontext(&current().context, &machine.scheduler); }

inline void enter() {
  machine.body(machine.argument);
  current().done = true;
  yield();
}

inline void start(Fiber& fiber) {
  if (!fiber.stack) fiber.stack = std::make_unique<char[]>(stack_bytes);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = stack_bytes;
  fiber.context.uc_link = nullptr;
  fiber.done = false;
  fiber.shuffles = 0;
  makecontext(&fiber.context, enter, 0);
}

inline void run_block(int threads) {
  machine.fibers.resize(static_cast<size_t>(threads));
  machine.warps.assign(static_cast<size_t>(threads / warp), Barrier(warp));
  machine.all.assign(1, Barrier(threads));
  for (auto& values : machine.values) values.assign(static_cast<size_t>(threads), 0);
  for (Fiber& fiber : machine.fibers) start(fiber);
  for (bool busy = true; busy;) {
    busy = false;
    for (unsigned t = 0; t < static_cast<unsigned>(threads); ++t) {
      threadIdx.x = t;
      if (current().done) continue;
      busy = true;
      swapcontext(&machine.scheduler, &current().context);
    }
  }
}

template <class Kernel>
void launch(unsigned blocks, int threads, Kernel kernel) {
  machine.body = [](const void* argument) { (*static_cast<const Kernel*>(argument))(); };
  machine.argument = &kernel;
  blockDim.x = static_cast<unsigned>(threads);
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) run_block(threads);
}

// All lanes publish their values, then each reads the lane at `distance`, or its own value without such a
// lane.
template <class T>
T shuffle(T value, int distance) {
  const size_t thread = threadIdx.x;
  const int other = static_cast<int>(thread % warp) + distance;
  std::vector<double>& values = machine.values[current().shuffles++ % 2];
  values[thread] = static_cast<double>(value);
  machine.warps[thread / warp].wait();
  return other >= 0 && other < warp
             ? static_cast<T>(values[thread / warp * warp + static_cast<size_t>(other)])
             : value;
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
  return std::exchange(*at, *at + value);
}
inline void __syncthreads() { simulated::machine.all[0].wait(); }
inline void __threadfence() {}
inline void __threadfence_system() {}
