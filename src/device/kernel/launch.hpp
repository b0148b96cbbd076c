// SPDX-License-Identifier: BSD-3-Clause
// Launches that can be taken back: what the host, the kernels and the emulated driver agree on.
#pragma once
#include <cstdint>

namespace weft::device::kernel {

/// The beginning of such a kernel's parameter.
///
/// The work is cut into chunks, which the blocks that have a place deal among themselves: one block alone
/// does everything, so a launch that has begun never waits for a place. A launch that has not begun can be
/// taken back. Its first block writes `state` = entered and then reads `cancel`; the host writes `cancel` and
/// then reads `state`, both with a full fence between. So at least one sees the other: a host that does not
/// see `entered` knows that nothing will be done, and one that does is told by `state` what became of it.
/// (A compare-and-swap would be simpler, but is not atomic between a GPU and a CPU over PCIe.)
struct Launch {
  enum State : uint32_t { entered = 1, runs, left };
  /// In pinned memory; every word carries the launch's number.
  struct Line {
    alignas(64) uint64_t state;   ///< by the GPU: number << 32 | State
    uint32_t done;                ///< by the GPU: everything is done and visible to everybody
    uint32_t missed;              ///< by the GPU, before `done`: a chunk was not there in time
    alignas(64) uint32_t cancel;  ///< by the host
  };
  /// In device memory, zero before the first launch: the blocks' words, by launches in turn. The first block
  /// of a launch clears the words of the next, which begins when all its blocks are gone.
  struct Memory {
    struct Words {
      uint32_t next;    ///< chunks dealt
      uint32_t copied;  ///< chunks done
      uint32_t state;   ///< runs or left
    } words[2];
  };
  uint64_t line;    ///< Line
  uint64_t memory;  ///< Memory: launches that share it share a stream
  uint32_t number;  ///< of the launch, never 0; its lowest bit says which words are its
  uint32_t chunks;  ///< of the work
};
static_assert(sizeof(Launch::Memory) <= sizeof(Launch::Line));

}  // namespace weft::device::kernel
