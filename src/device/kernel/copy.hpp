// SPDX-License-Identifier: BSD-3-Clause
// What host code, the kernels of copy.cu and the emulated driver agree on: the list of a copy kernel, and the
// copier's doorbell lines, status word and life.
#pragma once
#include <cstdint>

#include "device/kernel/launch.hpp"

#ifdef __CUDACC__
#define WEFT_BOTH_SIDES __host__ __device__
#else
#define WEFT_BOTH_SIDES  ///< a function of the CPU and of kernels
#endif

namespace weft::device::kernel {

/// One copy; addresses as the GPU that runs the kernel sees them.
struct Item {
  uint64_t dst, src, bytes;
};

/// Parameter of `weft_copy_list(List)`: many copies in one launch, as many as a window usually has: with 4
/// KiB of parameters a launch begins a microsecond later. The items are cut into chunks.
struct List : Launch {
  static constexpr uint32_t kMax = 64, kThreads = 512;
  uint32_t count;
  uint32_t chunk;  ///< bytes, a multiple of 16
  Item items[kMax];
  /// Chunks of one item.
  [[nodiscard]] WEFT_BOTH_SIDES static constexpr uint64_t chunks_of(uint64_t bytes, uint32_t chunk) {
    return (bytes + chunk - 1) / chunk;
  }
};
static_assert(sizeof(List) <= 4096);

/// One command of the copier: the doorbell's line. Every word travels with the command's sequence number, so
/// that one read over PCIe brings a whole command or shows that it is not there yet.
struct alignas(64) Command {
  /// blocks: how many share it; 0: leave. items: 0 for one copy from src to dst; else src is an array of so
  /// many Items in pinned host memory, each to be copied, `bytes` the longest's size; or kInline: the data
  /// themselves, at most kInlineBytes of them (none: it does nothing), are in the words of src; or a CallWord
  /// of kernel/collective.hpp, whose epoch is in `epoch`: a collective.
  enum Word { dst_low, dst_high, src_low, src_high, bytes, blocks, items, epoch };
  static constexpr uint32_t kInline = 1u << 30, kInlineBytes = 8;
  struct Pair {
    uint32_t word, sequence;
  } pairs[8];
};

/// Parameter of `weft_copier(Copier)`: a resident kernel that serves commands in the order of their sequence
/// numbers, command n in slot n % kSlots. It is launched only when no life before it is running and every
/// earlier command is done or was taken back.
struct Copier {
  static constexpr uint32_t kSlots = 16;
  static constexpr uint32_t kThreads = 512;
  static constexpr uint32_t kBlocks = 8, kMostBlocks = 16;  ///< that copies share, that calls may share
  static constexpr uint32_t kItems = 64;                    ///< of a command, at most
  uint64_t ring;                                            ///< Command[kSlots], pinned host memory
  uint64_t status;      ///< one 64-bit word in pinned host memory, see Status
  uint64_t memory;      ///< Memory, device memory, zero before the first life
  uint32_t first;       ///< the first command to take
  uint32_t generation;  ///< this life's number: 1 to 65535
  uint32_t linger;      ///< ns without a command after which it leaves
  uint32_t life;        ///< ns after which it leaves in any case, between two commands
  uint64_t homes;       ///< of ports for collectives, pinned host memory; 0: no such commands come

  /// Between the blocks of one launch.
  struct Memory {
    Command relay;  ///< from the first block to the others: its command; sequence = tag(generation, command)
    uint32_t present;  ///< blocks other than the first that are running
    /// Blocks other than the first that have finished their part of a command; kLate times how many of them
    /// have waited too long in a call.
    uint32_t arrived;
    static constexpr uint32_t kLate = 1u << 16;
  };
};

/// The copier's status word, always stored as a whole: at a life's start, by each completion, at its end.
/// Once `gone` has a life's number nothing is taken any more, and commands after `done` were not touched.
struct Status {
  uint32_t done;   ///< bits 0-31: the last command that is complete and visible to everybody
  uint16_t gone;   ///< bits 32-47: the last life that has ended
  uint16_t alive;  ///< bits 48-63: the last life that has begun
};

}  // namespace weft::device::kernel
