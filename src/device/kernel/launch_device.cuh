// SPDX-License-Identifier: BSD-3-Clause
// Device code of launches that can be taken back.
#pragma once
#include "device/kernel/launch.hpp"

namespace weft::device::kernel {

__device__ __forceinline__ Launch::Words& words_of(const Launch& launch) {
  return reinterpret_cast<Launch::Memory*>(launch.memory)->words[launch.number & 1];
}

/// The first block: clears the next launch's words, and says whether this one was taken back.
__device__ inline bool enter(const Launch& launch, Launch::Words& words, bool cancelled) {
  reinterpret_cast<Launch::Memory*>(launch.memory)->words[~launch.number & 1] = {};
  const uint32_t state = cancelled ? Launch::left : Launch::runs;
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(&words.state), "r"(state) : "memory");
  if (!cancelled) return true;
  const uint64_t word = static_cast<uint64_t>(launch.number) << 32 | Launch::left;
  asm volatile(
      "st.relaxed.sys.global.u64 [%0], %1;" ::"l"(&reinterpret_cast<Launch::Line*>(launch.line)->state),
      "l"(word)
      : "memory");
  return false;
}

/// Another block, which sees the cancel: what the first has found.
__device__ inline bool follow(const Launch::Words& words) {
  uint32_t state;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(state) : "l"(&words.state) : "memory");
  } while (state == 0);
  return state == Launch::runs;
}

/// Thread 0 of each block: the chunk to begin with; ~0: none.
__device__ inline uint32_t first_chunk(const Launch& launch) {
  Launch::Words& words = words_of(launch);
  const unsigned long long both = atomicAdd(reinterpret_cast<unsigned long long*>(&words.next), 1ull);
  const auto first = static_cast<uint32_t>(both);
  const bool cancelled = static_cast<uint32_t>(both >> 32) == launch.number;
  if (first == 0) return enter(launch, words, cancelled) ? 0 : ~0u;
  return first < launch.chunks && (!cancelled || follow(words)) ? first : ~0u;
}

/// All threads, first of all, of a launch that cannot be taken back: its blocks take the chunks in turn.
__device__ inline void enter_unchecked(const Launch& launch) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    reinterpret_cast<Launch::Memory*>(launch.memory)->words[~launch.number & 1] = {};
}

/// What was written before is seen before what is written next, by everybody; of the block after its barrier.
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/// Thread 0 of a block that has done so many chunks: the last one says that the launch is done. Its fence is
/// for what all blocks have written, since it has seen their numbers.
__device__ inline void account(const Launch& launch, Launch::Words& words, uint32_t done) {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  if (atomicAdd(&words.copied, done) + done != launch.chunks) return;
  fence_system();
  asm volatile(
      "st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&reinterpret_cast<Launch::Line*>(launch.line)->done),
      "r"(launch.number)
      : "memory");
}

}  // namespace weft::device::kernel
