// SPDX-License-Identifier: BSD-3-Clause
// Plan: form, protocol and number of blocks of a collective on device buffers. Depends only on values that
// all ranks know, so the plans of all ranks match. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "coll/gpu/messages.hpp"
#include "coll/schedule/call.hpp"
#include "device/collective.hpp"

namespace weft::coll::gpu {

/// Returns whether the collective moves blocks, each from one rank to another.
[[nodiscard]] bool moves_parts(Collective what);
/// Returns whether kernels support this kind of call; depends only on arguments that are equal on all ranks.
[[nodiscard]] bool supports(const Call& call);
/// Returns whether kernels are faster than messages; `largest` is the agreed largest message, `layouts` that
/// of all ranks.
[[nodiscard]] bool kernels_faster(const Call& call, uint64_t largest, Layouts layouts = Layouts::contiguous);

struct Plan {
  device::kernel::Collective collective{};  ///< without regions, epoch and launch
  device::Protocol protocol = device::Protocol::ll;
  uint32_t blocks = 1, threads = 0;
  std::optional<device::kernel::Regular>
      command;                   ///< the call as a command, if small enough for the resident kernel
  uint32_t doorbell_blocks = 0;  ///< blocks of the resident kernel for such calls; 0: not eligible
  std::optional<device::kernel::Direct> direct;       ///< set: in the buffers of all ranks, without regions
  std::unique_ptr<device::kernel::Blocks> layouts;    ///< set: blocks of any layout
  std::unique_ptr<device::kernel::PairBlocks> pairs;  ///< set: messages that pairs of ranks divide
  Status unable;                                      ///< an error: this rank cannot run the call
  std::optional<device::kernel::Collective::Message>
      staged_output;      ///< set: output to copy from staging memory
  device::Memory memory;  ///< of an operand
};
/// Capacity per peer of the LL and LL128 parts of a region, and of all Simple chunks, in bytes. If the
/// resident kernels of all ranks run, eligible calls use LL.
struct RegionCapacity {
  uint64_t ll, ll128, simple;
  bool resident_running = false;
  uint32_t max_blocks = 0;  ///< most blocks that run at the same time on every GPU; 0: no limit
  /// Capacity of a region for `ranks` ranks; `linked`: NVLink connects all their GPUs.
  [[nodiscard]] static RegionCapacity of_region(uint32_t ranks, bool linked, uint64_t simple) {
    using device::kernel::RegionLayout;
    return {.ll = RegionLayout::ll_capacity(ranks),
            .ll128 = linked ? RegionLayout::ll128_capacity(ranks) : 0,
            .simple = simple};
  }
};
/// `blocks`, at most `limit` if that is not 0.
[[nodiscard]] inline uint64_t limited(uint64_t blocks, uint32_t limit) {
  return limit != 0 && limit < blocks ? limit : blocks;
}
/// Threads per block such that `blocks` blocks fit on a GPU at once.
[[nodiscard]] uint32_t threads_for(uint32_t blocks);
[[nodiscard]] Plan make_plan(const Call& call, uint64_t largest, const RegionCapacity& capacity);
/// The same if a rank has blocks that are not contiguous. `layouts`: of all ranks; `near`: memory of this
/// rank's GPU.
[[nodiscard]] Plan make_layouts_plan(const Call& call, uint64_t largest, Layouts layouts,
                                     const RegionCapacity& capacity, const device::Memory& near);

}  // namespace weft::coll::gpu
