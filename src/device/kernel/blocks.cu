// SPDX-License-Identifier: BSD-3-Clause
// The collective kernels for blocks of any layout (blocks.hpp), and for blocks of any regular layout by pairs
// of ranks (pair_blocks.hpp).
#include "device/kernel/blocks_device.cuh"
#include "device/kernel/collective_end_device.cuh"
#include "device/kernel/pair_blocks_device.cuh"
#include "device/kernel/stream_call_device.cuh"

namespace weft::device::kernel {

/// Direct: the first launch stores everything; later ones wait for the other ranks only.
extern "C" __global__ void __launch_bounds__(Collective::kThreads, 1)
    weft_collective_blocks(const __grid_constant__ Blocks b) {
  auto& resume = reinterpret_cast<Collective::ResumeState*>(b.call.resume_state)->blocks[blockIdx.x];
  const bool resumed = b.call.launch != 0;
  if (b.direct != 0) {
    if (!resumed) store_blocks(b);
    return end_after_all_ranks(b.call, false);
  }
  const uint64_t from = resumed ? *static_cast<volatile uint64_t*>(&resume) : 0;
  const uint64_t stopped = from == Collective::kEnded ? from : PackedBlocks(b).run(from, resumed);
  if (threadIdx.x == 0) resume = stopped;
  end(b.call, stopped != Collective::kEnded);
}

namespace {

/// Begins an enqueued call: waits for credits. Returns its number.
__device__ uint64_t begin_enqueued(const PairBlocks& s) {
  const uint64_t own = s.control(s.rank);
  auto& control = *reinterpret_cast<StreamControl*>(own);
  if (threadIdx.x == 0) stream_beat() = {s.status, s.launch};
  const uint64_t number = *const_cast<volatile uint64_t*>(&control.calls) + 1;
  const uint64_t needed = s.needed(control, number);
  __syncthreads();
  if (control.floor < needed) await_peers(own, s.rank, s.size, needed, s.timeout_ns);
  __syncthreads();
  return number;
}

__device__ void end_enqueued(const PairBlocks& s, uint64_t number) {
  auto& control = *reinterpret_cast<StreamControl*>(s.control(s.rank));
  if (!last_of_stream_call(control)) return;
  if (threadIdx.x < s.size && threadIdx.x != s.rank)
    acknowledge(s.control(threadIdx.x), s.rank, number, s.simple);
  if (threadIdx.x != 0) return;
  control.ticket = 0;
  control.calls = number;
  if (s.ll) control.last_use[number % 2] = number;
  if (s.simple) control.last_simple = number;
}

/// The part of this thread block, from a resume state. Returns the new one.
__device__ __forceinline__ uint64_t exchange(const PairBlocks& s, const PairCall& call, uint64_t resume,
                                             bool resumed) {
  uint32_t peer = 0;
  while (peer < s.size && blockIdx.x >= s.first_block[peer + 1]) ++peer;
  if (peer == s.size || resume == Collective::kEnded) return Collective::kEnded;
  return PairExchange(s, peer, blockIdx.x - s.first_block[peer], call).run(resume, resumed);
}

}  // namespace

/// One kernel for calls by the host and enqueued ones, whose code is large.
extern "C" __global__ void __launch_bounds__(Collective::kThreads, 1)
    weft_collective_pairs(const __grid_constant__ PairBlocks s) {
  const bool enqueued = s.enqueued(), resumed = !enqueued && s.launch != 0;
  PairCall call = PairCall::entered(s.epoch);
  if (enqueued) call = PairCall::enqueued(s.size, begin_enqueued(s));
  auto* const states = reinterpret_cast<Collective::ResumeState*>(s.resume_state);
  const uint64_t from = resumed ? *static_cast<volatile uint64_t*>(&states->blocks[blockIdx.x]) : 0;
  const uint64_t stopped = exchange(s, call, from, resumed);
  if (enqueued) return end_enqueued(s, call.number);
  if (threadIdx.x == 0) states->blocks[blockIdx.x] = stopped;
  end(s, stopped != Collective::kEnded);
}

}  // namespace weft::device::kernel
