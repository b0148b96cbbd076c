// SPDX-License-Identifier: BSD-3-Clause
// The collective kernel for blocks of any layout (blocks.hpp).
#include "device/kernel/blocks_device.cuh"
#include "device/kernel/collective_end_device.cuh"

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

}  // namespace weft::device::kernel
