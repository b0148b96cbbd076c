// SPDX-License-Identifier: BSD-3-Clause
// The whole iteration in one kernel. All blocks run at the same time. In each iteration a block computes
// pieces of the outer rows first and puts each into the neighbour's halo, with a notification; then strips of
// the interior. Block 0 waits for the neighbours' pieces before it arrives at the barrier of the blocks.
//
// The norm of a check is added over the ranks while the next sweep runs, as in the other variants: the last
// block puts this rank's sum into a slot of every rank. There are four slots: a rank has waited for the norm
// of check c before it can send that of check c + 2, so no rank is four checks ahead of another that still
// reads.
#include <weft_device.cuh>

#include "persistent.hpp"
#include "sweep.cuh"

namespace {

using namespace jacobi::kernel;
namespace weft_device = weft::device;

__device__ __forceinline__ unsigned read_word(const unsigned* word) {
  return *static_cast<const volatile unsigned*>(word);
}

// All blocks have arrived `turn` times.
__device__ void wait_for_blocks(const Persistent& p, unsigned turn) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(p.barrier, 1u);
    while (read_word(p.barrier) - turn * gridDim.x > 0x7fffffffu) {
    }
    __threadfence();
  }
  __syncthreads();
}

// Adds the block's sum. The last block puts the total into the slot of every rank.
__device__ void add_to_norm(const Persistent& p, const weft_device::Window& window, int check, float mine) {
  __shared__ double partial[threads / 32];
  __shared__ bool last;
  double sum = mine;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(full, sum, distance);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < threads / 32; ++warp) sum += partial[warp];
    atomicAdd(p.sum, sum);
    __threadfence();
    last = atomicAdd(p.arrived, 1u) + 1 == gridDim.x;
    if (last) {
      __threadfence();
      *p.arrived = 0u;
      const double total = __longlong_as_double(
          static_cast<long long>(atomicExch(reinterpret_cast<unsigned long long*>(p.sum), 0ull)));
      const unsigned slot = static_cast<unsigned>(check) % norm_slots;
      for (int rank = 0; rank < window.size(); ++rank)
        window.put_notify(weft_device::Thread(), rank, 2 * (slot * window.size() + window.rank()), &total,
                          sizeof total, first_norm + slot);
    }
  }
  __syncthreads();
}

// Waits for the norms of a check; returns whether they end the iteration.
__device__ bool ends(const Persistent& p, const weft_device::Window& window, int check) {
  const unsigned slot = static_cast<unsigned>(check) % norm_slots;
  if (window.wait_notify(weft_device::Thread(), first_norm + slot, window.size()) !=
      weft_device::Error::none) {
    p.report->failed = 1;
    return true;
  }
  double sum = 0;
  for (int rank = 0; rank < window.size(); ++rank) sum += __ldcg(p.norms + slot * window.size() + rank);
  const double norm = sqrt(sum);
  p.history[check] = norm;
  p.report->norm = norm;
  return norm <= p.tolerance;
}

// Computes a piece of row 1 or row `rows` and puts it into a neighbour's halo. A function of its own, so that
// requests to neighbours on other hosts take no registers from the sweep of the interior.
template <int V, bool WithNorm>
__device__ __noinline__ float outer(const Persistent& p, int k, bool first, int column_block,
                                    const weft_device::Window& window) {
  const weft_device::Target neighbour = window.target(first ? p.above : p.below);
  float* const to = p.grids[(k + 1) % 2];
  const Column<V> column(column_block, p.nx);
  const int row = first ? 1 : p.rows;
  const float sum = march<V, WithNorm>(p.grids[k % 2], to, column, p.nx, row, row + 1);
  __syncthreads();
  const int start = column_block * threads * V;
  const int cells = min(threads * V, p.nx - start);
  const uint64_t halo = first ? p.above_halo[(k + 1) % 2] : p.below_halo[(k + 1) % 2];
  neighbour.put_notify(weft_device::Block(), halo + start, to + static_cast<size_t>(row) * p.nx + start,
                       static_cast<size_t>(cells) * sizeof(float), first ? from_below : from_above);
  return sum;
}

template <int V, bool WithNorm>
__device__ void sweep(const Persistent& p, const weft_device::Window& window, int k) {
  const int outer_items = 2 * p.column_blocks, items = outer_items + p.strips * p.column_blocks;
  float sum = 0;
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    const int column_block = item % p.column_blocks;
    if (item < outer_items) {
      const bool first = item < p.column_blocks;
      sum += outer<V, WithNorm>(p, k, first, column_block, window);
      continue;
    }
    const Column<V> column(column_block, p.nx);
    const int row = 2 + (item - outer_items) / p.column_blocks * p.height;
    sum += march<V, WithNorm>(p.grids[k % 2], p.grids[(k + 1) % 2], column, p.nx, row,
                              min(row + p.height, p.rows));
  }
  if (WithNorm) add_to_norm(p, window, k / p.check_interval, sum);
}

template <int V>
__device__ void iterate(const Persistent& p) {
  const weft_device::Window window(p.window);
  int k = 0;
  bool done = false;
  for (; k < p.iterations && !done; ++k) {
    if (k % p.check_interval == 0)
      sweep<V, true>(p, window, k);
    else
      sweep<V, false>(p, window, k);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      const auto pieces = static_cast<uint64_t>(p.column_blocks);
      const auto upper = window.wait_notify(weft_device::Thread(), from_above, pieces);
      const auto lower = window.wait_notify(weft_device::Thread(), from_below, pieces);
      const bool failed = upper != weft_device::Error::none || lower != weft_device::Error::none;
      if (failed) p.report->failed = 1;
      const bool due = k > 0 && (k - 1) % p.check_interval == 0;
      if (failed || (due && ends(p, window, (k - 1) / p.check_interval))) *p.ends = 1u;
    }
    wait_for_blocks(p, static_cast<unsigned>(k + 1));
    done = read_word(p.ends) != 0;
  }
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  // The sweep after that which met the tolerance has only read its result.
  if (!done && k > 0 && (k - 1) % p.check_interval == 0) (void)ends(p, window, (k - 1) / p.check_interval);
  p.report->iterations = done ? k - 1 : k;
  // Notifications of a check that nobody waits for are taken, so that the window may be used again.
  if (done && p.report->failed == 0 && (k - 1) % p.check_interval == 0)
    (void)window.wait_notify(weft_device::Thread(),
                             first_norm + static_cast<unsigned>((k - 1) / p.check_interval) % norm_slots,
                             window.size());
}

}  // namespace

// Many blocks for small grids, many registers for large ones.
extern "C" __global__ void __launch_bounds__(threads, 4)
    jacobi_persistent_4(const __grid_constant__ Persistent p) {
  iterate<4>(p);
}
extern "C" __global__ void __launch_bounds__(threads, 2)
    jacobi_persistent_4_large(const __grid_constant__ Persistent p) {
  iterate<4>(p);
}
extern "C" __global__ void __launch_bounds__(threads, 4)
    jacobi_persistent_1(const __grid_constant__ Persistent p) {
  iterate<1>(p);
}
