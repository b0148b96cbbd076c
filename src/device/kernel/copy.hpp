// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, the kernels of copy.cu and the emulated driver: the batch of a copy kernel;
// doorbell lines, status word and instances of the resident kernel.
#pragma once
#include <cstdint>

#include "device/kernel/launch.hpp"

#ifdef __CUDACC__
#define WEFT_BOTH_SIDES __host__ __device__
#else
#define WEFT_BOTH_SIDES  ///< marks functions for the CPU and for kernels
#endif

namespace weft::device::kernel {

/// One copy; addresses as mapped on the GPU that runs the kernel.
struct CopyItem {
  uint64_t dst, src, bytes;
};

/// Parameter of `weft_batch_copy(BatchCopyParams)`: many copies in one launch. The size covers usual windows;
/// 4 KiB of parameters would delay the launch by a microsecond. The items are cut into chunks.
struct BatchCopyParams : CancellableLaunch {
  static constexpr uint32_t kMax = 64, kThreads = 512;
  uint32_t count;
  uint32_t chunk;  ///< bytes, a multiple of 16
  CopyItem items[kMax];
  /// Number of chunks of an item.
  [[nodiscard]] WEFT_BOTH_SIDES static constexpr uint64_t chunks_of(uint64_t bytes, uint32_t chunk) {
    return (bytes + chunk - 1) / chunk;
  }
};
static_assert(sizeof(BatchCopyParams) <= 4096);

/// A doorbell line holds one command of the resident kernel. Every word carries the sequence number of the
/// command, so one read over PCIe gets the whole command or shows that it has not arrived.
struct alignas(64) Command {
  /// blocks: how many share the command, at most those of the instance; 0: exit.
  /// items: 0: one copy of `bytes` from src to dst. n: src is an array of n CopyItems in pinned host memory,
  /// `bytes` the size of the longest. kInline: src holds the data, at most kInlineBytes (0: no-op).
  /// kAccumulate: src is an Accumulate (kernel/accumulate.hpp) in pinned host memory. kPacked with the rest
  /// of a PackedAccumulate: its addresses are in the other words but `blocks`. Otherwise
  /// items holds a CallWord (kernel/collective.hpp), a collective with epoch `epoch`. For copies, `epoch` is
  /// an Output.
  enum Word { dst_low, dst_high, src_low, src_high, bytes, blocks, items, epoch };
  static constexpr uint32_t kInline = 1u << 30, kInlineBytes = 8;
  static constexpr uint32_t kAccumulate = 1u << 29, kPacked = 1u << 28;
  /// The place of all destinations, which says how their stores become visible.
  enum Output : uint32_t {
    anywhere,  ///< host memory, for instance: by a system-wide fence
    own_gpu,   ///< memory of the GPU that runs the kernel: by a fence of that GPU
    peer_gpu   ///< memory of other GPUs: copies by one warp read back what they stored, others by a
               ///< system-wide fence
  };
  /// Index of word i of PackedAccumulate::addresses.
  [[nodiscard]] WEFT_BOTH_SIDES static constexpr uint32_t packed_word(uint32_t i) {
    return i <= bytes ? i : static_cast<uint32_t>(epoch);
  }
  struct Pair {
    uint32_t word, sequence;
  } pairs[8];
};

/// Parameter of `weft_resident_kernel(ResidentKernelParams)`: a resident kernel that executes commands in the
/// order of their sequence numbers, command n in slot n % kSlots. An instance is launched only after the
/// previous instance has ended and every earlier command is done or cancelled.
struct ResidentKernelParams {
  static constexpr uint32_t kSlots = 16;
  static constexpr uint32_t kThreads = 512;
  static constexpr uint32_t kBlocks = 8, kMostBlocks = 16;  ///< most blocks for copies, for collectives
  static constexpr uint32_t kItems = 64;                    ///< most items of a command
  uint64_t ring;                                            ///< Command[kSlots], pinned host memory
  uint64_t status;                                          ///< ResidentKernelStatus, pinned host memory
  uint64_t memory;           ///< Memory, device memory, zero before the first instance
  uint32_t first;            ///< first command to take
  uint32_t instance;         ///< number of this instance, 1 to 65535
  uint32_t idle_timeout_ns;  ///< exits after so long without a command
  uint32_t lifetime_ns;      ///< exits after so long in any case, between two commands
  uint64_t slot_configs;  ///< configurations of the collective slots, pinned host memory; 0: no collectives

  /// Shared by the blocks of one instance.
  struct Memory {
    Command relay;     ///< from block 0 to the others; sequence = tag(instance, command)
    uint32_t present;  ///< running blocks other than block 0
    /// Increases by one for each block other than block 0 that has finished its part of a command, and by
    /// kLate more if it timed out.
    uint32_t arrived;
    static constexpr uint32_t kLate = 1u << 16;
  };
};

/// Status word of the resident kernel, always stored at once: at the start of an instance, after each
/// command, at the end. Once `ended` holds the number of an instance, commands after `done` were not started.
struct ResidentKernelStatus {
  uint32_t done;     ///< bits 0-31: last command that is complete and visible system-wide
  uint16_t ended;    ///< bits 32-47: last ended instance
  uint16_t started;  ///< bits 48-63: last started instance
};

}  // namespace weft::device::kernel
