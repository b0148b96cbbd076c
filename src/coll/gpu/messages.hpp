// SPDX-License-Identifier: BSD-3-Clause
// Messages of a collective on device buffers, and the location of its operands. Threading: under the instance
// lock.
#pragma once
#include <cstdint>
#include <optional>

#include "coll/schedule/call.hpp"
#include "device/collective.hpp"

namespace weft::coll::gpu {

/// Location of a rank's operands, as published in its vote.
enum class Location : uint8_t {
  nothing,  ///< no data in this call
  host,     ///< accessible by the CPU
  device,   ///< contiguous GPU memory of one context
  other     ///< anything else: schedules of messages handle it
};

/// The operation of a reduction on its datatype, and whether a kernel exists for it.
[[nodiscard]] device::kernel::Reduction kernel_reduction(const Call& call);
[[nodiscard]] bool has_kernel(const Call& call);
/// Location of this rank's operands; `memory`: of one of them, if in GPU memory.
struct Operands {
  Location location = Location::nothing;
  device::Memory memory;
};
[[nodiscard]] Operands locate_operands(const Call& call);
/// Bytes that this rank sends to, and expects from, each rank.
struct Amounts {
  uint64_t sent[device::kernel::Collective::kRanks], expected[device::kernel::Collective::kRanks];
};
[[nodiscard]] Amounts amounts_of(const Call& call);
/// Returns whether all messages have one size (Call::bytes), or there is a single vector.
[[nodiscard]] bool regular(const Call& call);
/// The messages of the call; with `parts`, a part of the vector for each rank.
[[nodiscard]] device::kernel::Collective messages_of(const Call& call, bool parts);
[[nodiscard]] uint64_t largest_message(const Call& call, const Amounts& amounts);
/// Bytes of in-place output that need staging, since a block would overwrite data that another block has yet
/// to send; 0: none.
[[nodiscard]] uint64_t in_place_staging_bytes(const Call& call);
using Shape = device::kernel::Regular::Shape;
/// The shape of a regular call; with `parts`, of a vector that is divided among the ranks. nullopt:
/// irregular.
[[nodiscard]] std::optional<Shape> shape_of(const Call& call, bool parts = false);
[[nodiscard]] device::kernel::Regular regular_form(const Call& call, Shape shape);

}  // namespace weft::coll::gpu
