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

/// Whether kernels can do this kind of call; sees only what is equal on all ranks.
[[nodiscard]] bool suits(const Call& call);
/// Where the operands of this rank are.
[[nodiscard]] Side side_of(const Call& call);
/// Bytes of the largest message of this rank, or of the vector; the largest of all ranks decides.
[[nodiscard]] uint64_t largest_message(const Call& call);
/// Whether kernels are the quicker way; `largest` as agreed.
[[nodiscard]] bool pays(const Call& call, uint64_t largest);

struct Plan {
  device::kernel::Collective collective{};  ///< without areas, epoch and launch
  device::Wire wire = device::Wire::packets;
  uint32_t blocks = 1, threads = 0;
  std::optional<device::kernel::Regular> small;  ///< the same call for a copier, when it is small enough
};
[[nodiscard]] Plan make_plan(const Call& call, uint64_t largest);

}  // namespace weft::coll::gpu
