// SPDX-License-Identifier: BSD-3-Clause
// Device code for the end of a launched collective kernel.
#pragma once
#include "device/kernel/direct_device.cuh"

namespace weft::device::kernel {

/// Scope of a fence: the memory of this GPU, or all memory.
enum class Fence : uint8_t { own, all };
template <Fence whose>
__device__ __forceinline__ void fence() {
  if (whose == Fence::own)
    __threadfence();
  else
    __threadfence_system();
}

/// Counts the finished blocks of a launch. Returns true in thread 0 of the last block; `late` then tells
/// whether any block timed out.
template <Fence whose, class Call>
__device__ inline bool last_block(const Call& c, bool& late) {
  if (threadIdx.x != 0) return false;
  auto& resume_state = *reinterpret_cast<Collective::ResumeState*>(c.resume_state);
  if (gridDim.x > 1) {
    constexpr uint32_t kLate = 1u << 16;  // timed-out blocks are counted in the high half
    fence<whose>();
    const uint32_t before = atomicAdd(&resume_state.ticket, late ? kLate + 1 : 1u);
    if (before % kLate != gridDim.x - 1) return false;
    late = late || before / kLate != 0;
    *static_cast<volatile uint32_t*>(&resume_state.ticket) = 0;
  }
  fence<whose>();
  return true;
}

template <class Call>
__device__ inline void publish_outcome(const Call& c, bool late) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(c.status),
               "l"(Collective::outcome(c.epoch, c.launch, late))
               : "memory");
}

/// Ends the launch of a block; the last block notifies the host. The output lies in the memory of this GPU,
/// so a GPU-scope fence suffices: flags guard the data sent to other ranks. A system fence costs most of a
/// microsecond. `Call`: a parameter with resume state, status, epoch and launch.
template <class Call>
__device__ inline void end(const Call& c, bool late) {
  late = __syncthreads_or(late);
  if (last_block<Fence::own>(c, late)) publish_outcome(c, late);
}

/// Like end(), after all ranks have done their part.
__device__ inline void end_after_all_ranks(const Collective& c, bool late) {
  late = __syncthreads_or(late);
  const bool last = __syncthreads_or(last_block<Fence::all>(c, late));
  late = __syncthreads_or(last && late && threadIdx.x == 0);
  if (!last) return;
  if (!late) late = !all_ranks_done(c);
  if (threadIdx.x == 0) publish_outcome(c, late);
}

}  // namespace weft::device::kernel
