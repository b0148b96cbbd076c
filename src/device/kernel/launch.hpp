// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, kernels and the emulated driver: cancellable launches.
#pragma once
#include <cstdint>

namespace weft::device::kernel {

/// The parameter of a cancellable kernel begins with this struct.
///
/// The work is cut into chunks, which the scheduled blocks take from a counter. One block alone does
/// everything, so a started launch never waits for another block to be scheduled. A launch that has not
/// started can be cancelled: a copy engine, which needs no multiprocessor, writes `cancel` and then reads
/// `next`. The first action of each block is one atomic operation that increments `next` and reads `cancel`.
/// So if the host finds `next` 0, nothing will be done; otherwise `done` or `cancelled` reports the outcome.
/// A block that reads no cancel knows that block 0 read none. All words are in GPU memory: words in host
/// memory would cost 3 us per launch, and compare-and-swap between GPU and CPU is not atomic over PCIe.
struct CancellableLaunch {
  enum State : uint32_t { running = 1, cancelled };
  struct Words {
    alignas(16) uint32_t next;  ///< chunks taken
    uint32_t cancel;            ///< by a copy engine: the number of the launch
    uint32_t copied;            ///< chunks done
    uint32_t state;             ///< running or cancelled
  };
  /// In pinned memory; every word holds the number of its launch.
  struct HostState {
    alignas(64) uint64_t state;   ///< by the GPU: number << 32 | cancelled
    uint32_t done;                ///< by the GPU: all chunks are done and visible system-wide
    uint32_t timed_out;           ///< by the GPU, before `done`: a tile timed out
    alignas(64) uint32_t cancel;  ///< by the host, for the copy engine
    Words snapshot;               ///< by the copy engine, after it wrote `cancel`
  };
  /// Lies in device memory, zeroed before the first launch. Launches alternate between the two sets of words.
  /// The first block of a launch clears the other set for the next launch, which starts after all blocks have
  /// exited.
  struct Memory {
    Words words[2];
  };
  uint64_t host_state;  ///< address of a HostState
  uint64_t memory;      ///< address of a Memory; launches that share it share a stream
  uint32_t number;      ///< of the launch, never 0; the lowest bit selects the set of words
  uint32_t chunks;      ///< of the work
};
static_assert(sizeof(CancellableLaunch::Memory) <= sizeof(CancellableLaunch::HostState));

}  // namespace weft::device::kernel
