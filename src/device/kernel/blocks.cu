// SPDX-License-Identifier: BSD-3-Clause
// The collective kernels for blocks of any layout (blocks.hpp), and of enqueued calls for blocks of any
// regular layout (stream_blocks.hpp).
#include "device/kernel/blocks_device.cuh"
#include "device/kernel/collective_end_device.cuh"
#include "device/kernel/stream_blocks_device.cuh"
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

extern "C" __global__ void __launch_bounds__(Collective::kThreads, 1)
    weft_collective_stream_blocks(const __grid_constant__ StreamBlocks s) {
  const uint64_t own = s.control(s.rank);
  auto& control = *reinterpret_cast<StreamControl*>(own);
  if (threadIdx.x == 0) stream_beat() = {s.beat, s.beat_id};
  const uint64_t number = *const_cast<volatile uint64_t*>(&control.calls) + 1;
  const StreamBlocks::Protocols used = s.protocols();
  const uint64_t needed = StreamBlocks::needed(control, number, used);
  __syncthreads();
  if (control.floor < needed) await_peers(own, s.rank, s.size, needed, s.cancel);
  __syncthreads();
  uint32_t peer = 0;
  while (peer < s.size && blockIdx.x >= s.first_block[peer + 1]) ++peer;
  if (peer < s.size) PairExchange(s, peer, blockIdx.x - s.first_block[peer], number).run();
  if (!last_of_stream_call(control)) return;
  if (threadIdx.x < s.size && threadIdx.x != s.rank)
    acknowledge(s.control(threadIdx.x), s.rank, number, used.simple);
  if (threadIdx.x != 0) return;
  control.ticket = 0;
  control.calls = number;
  if (used.ll) control.last_use[number % 2] = number;
  if (used.simple) control.last_simple = number;
}

}  // namespace weft::device::kernel
