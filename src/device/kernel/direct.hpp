// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, a kernel of collective.cu and the emulated driver: large collectives that store
// their results directly in the mapped buffers of the other ranks.
//
// All ranks have entered the call before any rank launches, and no rank ends the call before all have done
// their part. So buffers are complete before they are read, and nobody writes them afterwards.
#pragma once
#include <cstdint>

#include "device/kernel/collective.hpp"

namespace weft::device::kernel {

/// Parameter of `weft_collective_direct(Direct)`. By call.form:
/// exchange: send[j] goes to out[j], in chunks of `chunk_bytes`; `rounds` counts the chunks of the longest
/// message.
/// reduce: the terms for a rank are combined there in rank order (recv[0].bytes) and stored to out[j] of all
/// `targets`. Each block pushes send[j] into the region of rank j chunk by chunk: half of the threads push,
/// up to kSlots chunks ahead, the other half reduce. A block reduces a chunk after it has pushed its own
/// chunk of that round, so a result may overwrite the input.
/// two_shot: the single source pushes one chunk of each stripe to every other rank, which forwards the chunk
/// to the rest. A block handles every gridDim.x-th of the `rounds` stripes and signals how many it has
/// pushed.
struct Direct {
  Collective call;
  uint64_t out[Collective::kRanks];  ///< as mapped on this GPU

  static constexpr uint32_t kSlots = 4;  ///< chunks that a block may push ahead, per peer

  /// Bytes that the chunks need in a region.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t chunk_slots_bytes(uint64_t chunk_bytes,
                                                                             uint32_t blocks, uint32_t size) {
    return kSlots * chunk_bytes * blocks * (size - 1);
  }
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t slot(const Collective& c, uint32_t owner, uint32_t round,
                                                      uint32_t block, uint32_t source) {
    return RegionLayout::simple_slot(c, owner, 0, round % kSlots, block, source);
  }
  /// Flag words in the region of rank `at`, shared with the blocks of other calls.
  /// pushed: chunks or stripes that rank `from` has pushed there. taken: chunks pushed by rank `at` that rank
  /// `from` has read. ended: rank `from` has done its part.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t pushed(const Collective& c, uint32_t at, uint32_t block,
                                                        uint32_t from) {
    return RegionLayout::flag(c.regions[at], 0, 0, block, from);
  }
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t taken(const Collective& c, uint32_t at, uint32_t block,
                                                       uint32_t from) {
    return RegionLayout::flag(c.regions[at], 1, 0, block, from);
  }
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t ended(const Collective& c, uint32_t at, uint32_t from) {
    return RegionLayout::flag(c.regions[at], 1, 1, 0, from);
  }
  /// Bytes of chunk `i` of a message.
  [[nodiscard]] WEFT_HOST_DEVICE static Range chunk(const Collective& c, uint64_t bytes, uint64_t i) {
    return within(i * c.chunk_bytes, c.chunk_bytes, bytes);
  }
  /// two_shot: the chunk of a stripe that the source pushes to rank `to`.
  [[nodiscard]] WEFT_HOST_DEVICE static Range chunk_of_stripe(const Collective& c, uint64_t stripe,
                                                              uint32_t source, uint32_t to) {
    return chunk(c, c.send[0].bytes, stripe * (c.size - 1) + (to < source ? to : to - 1));
  }
  /// reduce: resume state of a block, the rounds pushed and combined.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t resume(uint32_t pushed, uint32_t combined) {
    return static_cast<uint64_t>(pushed) << 32 | combined;
  }
};

}  // namespace weft::device::kernel
