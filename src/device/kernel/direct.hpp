// SPDX-License-Identifier: BSD-3-Clause
// What host code, the kernel of collective.cu and the emulated driver agree on: large collectives whose
// results are stored at once where they belong, in the buffers of other ranks, which are mapped.
//
// All ranks are in the call before one launches, and none ends it before all have done their part: so buffers
// are complete before they are read, and nobody writes them afterwards.
#pragma once
#include <cstdint>

#include "device/kernel/collective.hpp"

namespace weft::device::kernel {

/// Parameter of `weft_collective_direct(Direct)`. By call.form:
/// exchange: send[j] goes to out[j], in chunks of `piece` bytes; `rounds` counts those of the longest
/// message. reduce: what all ranks have for a rank is combined there in rank order, recv[0].bytes of it, and
/// stored to out[j] of all `targets`. send[j] goes into the area of rank j piece by piece: half of a block's
/// threads push, as far ahead as there is room, half combine. A block combines a piece when it has pushed its
/// own of the same round, so a result may overwrite what it has read. two_shot: the one source gives send[0]
/// to out[j] of the others: a chunk to each, who gives it to the rest. A block goes by rows of chunks, of
/// which there are `rounds`, and says how many it has given.
struct Direct {
  Collective call;
  uint64_t out[Collective::kRanks];  ///< as this GPU sees them

  static constexpr uint32_t kSets = 4;  ///< pieces of a block that are pushed ahead

  /// Bytes of an area that pieces need.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t data(uint64_t piece, uint32_t blocks,
                                                                uint32_t size) {
    return kSets * piece * blocks * (size - 1);
  }
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t slot(const Collective& c, uint32_t owner, uint32_t round,
                                                      uint32_t block, uint32_t source) {
    return Area::piece(c, owner, 0, round % kSets, block, source);
  }
  /// Words in the area of rank `at`, which blocks of other calls use as well. How many pieces, or rows, rank
  /// `from` has pushed there; how many that rank `at` has pushed are read; that `from` has done its part.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t pushed(const Collective& c, uint32_t at, uint32_t block,
                                                        uint32_t from) {
    return Area::flag(c.areas[at], 0, 0, block, from);
  }
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t taken(const Collective& c, uint32_t at, uint32_t block,
                                                       uint32_t from) {
    return Area::flag(c.areas[at], 1, 0, block, from);
  }
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t ended(const Collective& c, uint32_t at, uint32_t from) {
    return Area::flag(c.areas[at], 1, 1, 0, from);
  }
  /// Bytes of chunk `i` of a message.
  [[nodiscard]] WEFT_HOST_DEVICE static Range chunk(const Collective& c, uint64_t bytes, uint64_t i) {
    return within(i * c.piece, c.piece, bytes);
  }
  /// two_shot: the chunk of a row that the source gives to rank `to`.
  [[nodiscard]] WEFT_HOST_DEVICE static Range chunk_of_row(const Collective& c, uint64_t row, uint32_t source,
                                                           uint32_t to) {
    return chunk(c, c.send[0].bytes, row * (c.size - 1) + (to < source ? to : to - 1));
  }
  /// reduce: where a block stopped, the rounds that it has pushed and combined.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t place(uint32_t pushed, uint32_t combined) {
    return static_cast<uint64_t>(pushed) << 32 | combined;
  }
};

}  // namespace weft::device::kernel
