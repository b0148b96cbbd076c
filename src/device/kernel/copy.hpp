// SPDX-License-Identifier: BSD-3-Clause
// What host code, the kernels of copy.cu and the emulated driver agree on: the list of a copy kernel, and the
// copier's doorbell lines, status word and life.
#pragma once
#include <cstdint>

namespace weft::device::kernel {

/// One copy; addresses as the GPU that runs the kernel sees them.
struct Item {
  uint64_t dst, src, bytes;
};

/// Parameter of `weft_copy_list(List)`: many copies in one launch. Bounded by the 4 KiB of kernel parameters.
struct List {
  static constexpr uint32_t kMax = 160;
  uint32_t count = 0;
  uint32_t reserved = 0;
  Item items[kMax];
};
static_assert(sizeof(List) <= 4096);

/// One command of the copier: the doorbell's line. Every word travels with the command's sequence number, so
/// that one read over PCIe brings a whole command or shows that it is not there yet.
/// Words: dst low, dst high, src low, src high, bytes, blocks that share the copy (1: the first alone).
struct alignas(64) Command {
  struct Pair {
    uint32_t word, sequence;
  } pairs[8];
};

/// Parameter of `weft_copier(Copier)`: a resident kernel that serves commands in the order of their sequence
/// numbers, command n in slot n % kSlots. Command 0 does not exist: numbers skip 0 when they wrap.
struct Copier {
  static constexpr uint32_t kSlots = 16;
  uint64_t ring;        ///< Command[kSlots], pinned host memory
  uint64_t status;      ///< one 64-bit word in pinned host memory, see Status
  uint64_t memory;      ///< Memory, device memory, kept between lives
  uint32_t first;       ///< the first command to take; 0: go on where the previous life ended, unless that
                        ///< one was idle: then leave at once
  uint32_t generation;  ///< this life's number, from 1
  uint32_t linger;      ///< ns without a command after which it leaves
  uint32_t life;        ///< ns after which it leaves in any case, between two commands

  /// The status word: stored as a whole by each completion and by a life's end. After `gone` has this life's
  /// number nothing is taken any more; commands after `done` were not touched.
  struct Status {
    uint32_t done;  ///< low half: the last command that is complete and visible to everybody
    uint32_t gone;  ///< high half: the last life that has ended
  };

  /// Kept in device memory from life to life.
  struct Memory {
    Command relay;     ///< from the first block to the others: its command, as pairs
    uint32_t next;     ///< where the previous life ended
    uint32_t idle;     ///< it had nothing to do
    uint32_t arrived;  ///< blocks that have finished their part
  };
};

}  // namespace weft::device::kernel
