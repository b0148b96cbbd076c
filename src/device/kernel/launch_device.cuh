// SPDX-License-Identifier: BSD-3-Clause
// Device code of cancellable launches.
#pragma once
#include "device/kernel/launch.hpp"
#include "device/kernel/ptx_device.cuh"

namespace weft::device::kernel {

__device__ __forceinline__ CancellableLaunch::Words& words_of(const CancellableLaunch& launch) {
  return reinterpret_cast<CancellableLaunch::Memory*>(launch.memory)->words[launch.number & 1];
}

/// First block: clears the words of the next launch. Returns false if this launch was cancelled.
__device__ inline bool enter(const CancellableLaunch& launch, CancellableLaunch::Words& words,
                             bool cancelled) {
  reinterpret_cast<CancellableLaunch::Memory*>(launch.memory)->words[~launch.number & 1] = {};
  const uint32_t state = cancelled ? CancellableLaunch::cancelled : CancellableLaunch::running;
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(&words.state), "r"(state) : "memory");
  if (!cancelled) return true;
  const uint64_t word = static_cast<uint64_t>(launch.number) << 32 | CancellableLaunch::cancelled;
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(
                   &reinterpret_cast<CancellableLaunch::HostState*>(launch.host_state)->state),
               "l"(word)
               : "memory");
  return false;
}

/// Another block that reads the cancel: waits for the verdict of the first block.
__device__ inline bool follow(const CancellableLaunch::Words& words) {
  uint32_t state;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(state) : "l"(&words.state) : "memory");
  } while (state == 0);
  return state == CancellableLaunch::running;
}

/// Called by thread 0 of each block. Returns the first chunk of the block; ~0: none.
__device__ inline uint32_t first_chunk(const CancellableLaunch& launch) {
  CancellableLaunch::Words& words = words_of(launch);
  const unsigned long long both = atomicAdd(reinterpret_cast<unsigned long long*>(&words.next), 1ull);
  const auto first = static_cast<uint32_t>(both);
  const bool cancelled = static_cast<uint32_t>(both >> 32) == launch.number;
  if (first == 0) return enter(launch, words, cancelled) ? 0 : ~0u;
  return first < launch.chunks && (!cancelled || follow(words)) ? first : ~0u;
}

/// Called by all threads first in a launch that is not cancellable; its blocks take the chunks round robin.
__device__ inline void enter_unchecked(const CancellableLaunch& launch) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    reinterpret_cast<CancellableLaunch::Memory*>(launch.memory)->words[~launch.number & 1] = {};
}

/// Thread 0 of a block that has done `done` chunks. The last block reports completion. Its fence covers the
/// stores of all blocks, since it has read their counts.
__device__ inline void account(const CancellableLaunch& launch, CancellableLaunch::Words& words,
                               uint32_t done) {
  fence_gpu();
  if (atomicAdd(&words.copied, done) + done != launch.chunks) return;
  fence_system();
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(
                   &reinterpret_cast<CancellableLaunch::HostState*>(launch.host_state)->done),
               "r"(launch.number)
               : "memory");
}

}  // namespace weft::device::kernel
