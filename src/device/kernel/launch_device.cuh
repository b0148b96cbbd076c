// SPDX-License-Identifier: BSD-3-Clause
// Device code of launches that can be taken back.
#pragma once
#include "device/kernel/launch.hpp"

namespace weft::device::kernel {

__device__ __forceinline__ Launch::Memory::Words& words_of(const Launch& launch) {
  return reinterpret_cast<Launch::Memory*>(launch.memory)->words[launch.number & 1];
}

/// The first block: the launch may have been taken back. True when it runs.
__device__ inline bool enter(const Launch& launch) {
  auto* const line = reinterpret_cast<Launch::Line*>(launch.line);
  auto& memory = *reinterpret_cast<Launch::Memory*>(launch.memory);
  const uint64_t number = static_cast<uint64_t>(launch.number) << 32;
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(&line->state), "l"(number | Launch::entered)
               : "memory");
  asm volatile("fence.sc.sys;" ::: "memory");
  uint32_t cancelled;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(cancelled) : "l"(&line->cancel) : "memory");
  const uint32_t state = cancelled == launch.number ? Launch::left : Launch::runs;
  memory.words[~launch.number & 1] = {};
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(&memory.words[launch.number & 1].state), "r"(state)
               : "memory");
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(&line->state), "l"(number | state) : "memory");
  return state == Launch::runs;
}

/// Another block: what the first has found.
__device__ inline bool follow(const Launch::Memory::Words& words) {
  uint32_t state;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(state) : "l"(&words.state) : "memory");
  } while (state == 0);
  return state == Launch::runs;
}

/// Thread 0 of each block: the chunk to begin with; ~0: none.
__device__ inline uint32_t first_chunk(const Launch& launch) {
  Launch::Memory::Words& words = words_of(launch);
  const uint32_t first = atomicAdd(&words.next, 1);
  const bool runs = first == 0 ? enter(launch) : first < launch.chunks && follow(words);
  return runs ? first : ~0u;
}

/// All threads, first of all, of a launch that cannot be taken back: its blocks take the chunks in turn.
__device__ inline void enter_unchecked(const Launch& launch) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    reinterpret_cast<Launch::Memory*>(launch.memory)->words[~launch.number & 1] = {};
}

/// What was written before is seen before what is written next, by everybody; of the block after its barrier.
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/// Thread 0 of a block that has done so many chunks: the last one says that the launch is done.
__device__ inline void account(const Launch& launch, Launch::Memory::Words& words, uint32_t done) {
  fence_system();
  if (atomicAdd(&words.copied, done) + done != launch.chunks) return;
  fence_system();
  asm volatile(
      "st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&reinterpret_cast<Launch::Line*>(launch.line)->done),
      "r"(launch.number)
      : "memory");
}

}  // namespace weft::device::kernel
