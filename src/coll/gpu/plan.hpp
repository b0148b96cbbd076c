// SPDX-License-Identifier: BSD-3-Clause
// Plan: how a collective on device buffers is done by kernels: which form, which wire, how many blocks. Made
// from what all ranks know, so that the plans of all ranks fit together. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <optional>

#include "coll/call.hpp"
#include "device/collective.hpp"

namespace weft::coll::gpu {

/// Where a rank's operands are, as it tells the others.
enum class Side : uint8_t {
  nothing,  ///< it has no data in this call
  host,     ///< in memory that the CPU may touch
  device,   ///< in GPU memory, as kernels want them
  other     ///< anything else: schedules of messages can do it
};

/// The operation of a reduction as kernels know it; whether they do.
[[nodiscard]] device::kernel::Reduction kernel_reduction(const Call& call);
[[nodiscard]] bool computed(const Call& call);
/// Whether it moves parts of vectors, each from one rank to another.
[[nodiscard]] bool moves_parts(Collective what);
/// Whether kernels can do this kind of call; sees only what is equal on all ranks.
[[nodiscard]] bool suits(const Call& call);
/// Where the operands of this rank are; in GPU memory, of which one is in `memory` then.
struct Place {
  Side side = Side::nothing;
  device::Memory memory;
};
[[nodiscard]] Place place_of(const Call& call);
/// What this rank sends to each and awaits from each, and the largest of that; the largest of all ranks
/// decides.
struct Amounts {
  uint64_t sent[device::kernel::Collective::kRanks], awaited[device::kernel::Collective::kRanks];
};
[[nodiscard]] Amounts amounts_of(const Call& call);
/// Every message is a block of the same length, or there is one vector: Call::bytes says it.
[[nodiscard]] bool regular(const Call& call);
/// The messages of the call; of a vector, in a part for each rank.
[[nodiscard]] device::kernel::Collective messages_of(const Call& call, bool parts);
[[nodiscard]] uint64_t largest_message(const Call& call, const Amounts& amounts);
/// Bytes that have to be written elsewhere first, since a block would overwrite what another one has yet to
/// send; 0: none.
[[nodiscard]] uint64_t bytes_aside(const Call& call);
/// Whether kernels are the quicker way; `largest` as agreed.
[[nodiscard]] bool pays(const Call& call, uint64_t largest);

struct Plan {
  device::kernel::Collective collective{};  ///< without areas, epoch and launch
  device::Wire wire = device::Wire::packets;
  uint32_t blocks = 1, threads = 0;
  std::optional<device::kernel::Regular> small;  ///< the same call for a copier, when it is small enough
  uint32_t bells = 0;                            ///< blocks of a copier that do such calls well; 0: none
  std::optional<device::kernel::Direct> direct;  ///< in buffers of all ranks, instead of areas
  std::optional<device::kernel::Collective::Message> aside;  ///< its place, when that has to wait
  device::Memory memory;                                     ///< of an operand
};
/// Where ranks push: bytes that one rank's packets may carry, and its lines, and bytes for all pieces. And
/// whether the copiers of all ranks are awake: what they can do goes by packets then.
struct Room {
  uint64_t packets, lines, pieces;
  bool awake = false;
  /// In an area for so many ranks; `linked`: NVLink lies between all their GPUs.
  [[nodiscard]] static Room of_area(uint32_t ranks, bool linked, uint64_t pieces) {
    using device::kernel::Area;
    return {Area::packet_room(ranks), linked ? Area::line_room(ranks) : 0, pieces};
  }
};
/// Threads of each block, so that `blocks` blocks fit on a GPU at once.
[[nodiscard]] uint32_t threads_for(uint32_t blocks);
[[nodiscard]] Plan make_plan(const Call& call, uint64_t largest, const Room& room);

}  // namespace weft::coll::gpu
