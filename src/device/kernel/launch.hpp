// SPDX-License-Identifier: BSD-3-Clause
// Launches that can be taken back: what the host, the kernels and the emulated driver agree on.
#pragma once
#include <cstdint>

namespace weft::device::kernel {

/// The beginning of such a kernel's parameter.
///
/// The work is cut into chunks, which the blocks that have a place deal among themselves: one block alone
/// does everything, so a launch that has begun never waits for a place. A launch that has not begun can be
/// taken back: a copy engine, which needs no place, writes `cancel` and then reads `next`; each block's first
/// deal adds to `next` and reads `cancel` by one atomic operation on both. So a host that finds `next` 0
/// knows that nothing will be done, and one that does not is told by `done` or `left` what became of it. A
/// block that sees no cancel knows that the first one saw none. All of this happens in the GPU's memory:
/// words in host memory would cost each launch 3 us, and a compare-and-swap is not atomic between a GPU and a
/// CPU over PCIe.
struct Launch {
  enum State : uint32_t { runs = 1, left };
  struct Words {
    alignas(16) uint32_t next;  ///< chunks dealt
    uint32_t cancel;            ///< by a copy engine: the launch's number
    uint32_t copied;            ///< chunks done
    uint32_t state;             ///< runs or left
  };
  /// In pinned memory; every word carries the launch's number.
  struct Line {
    alignas(64) uint64_t state;   ///< by the GPU: number << 32 | left
    uint32_t done;                ///< by the GPU: everything is done and visible to everybody
    uint32_t missed;              ///< by the GPU, before `done`: a chunk was not there in time
    alignas(64) uint32_t cancel;  ///< by the host, for the copy engine
    Words seen;                   ///< by the copy engine, after it wrote `cancel`
  };
  /// In device memory, zero before the first launch: the blocks' words, by launches in turn. The first block
  /// of a launch clears the words of the next, which begins when all its blocks are gone.
  struct Memory {
    Words words[2];
  };
  uint64_t line;    ///< Line
  uint64_t memory;  ///< Memory: launches that share it share a stream
  uint32_t number;  ///< of the launch, never 0; its lowest bit says which words are its
  uint32_t chunks;  ///< of the work
};
static_assert(sizeof(Launch::Memory) <= sizeof(Launch::Line));

}  // namespace weft::device::kernel
