// SPDX-License-Identifier: BSD-3-Clause
// Copies on a GPU that processes use in time slices (device/time_slices.hpp), in the forms that the driver
// leaves to copy engines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/queue/work_queue.hpp"

namespace weft::device::cuda {

enum class CopyForm : uint8_t {
  plain,  ///< the driver chooses the engine
  rows,   ///< from pinned host memory; small copies in two rows
  staged  ///< inside the GPU, through pinned host memory
};

/// Returns the form of copies that are submitted together by the queue; `plain` on a GPU that is not in time
/// slices. Reports the slow path gpu.time_sliced.
[[nodiscard]] CopyForm form_of(const WorkQueue& queue, const Memory& dst, const Memory& src,
                               std::span<const CopyOp> copies);
/// Returns whether the stream has a pinned chunk for the form `staged`, which it keeps from then on. The
/// mutex of the stream is held.
[[nodiscard]] bool can_stage(TrackedStream& tracked);
/// Leases a pinned chunk if `spare` others are left for other transfers; else Errc::again (pinned.cpp).
[[nodiscard]] Result<PinnedBuffer> lease_spare(WorkQueue& queue, size_t spare);
/// Submits a copy in the form `rows`.
[[nodiscard]] Code copy_in_rows(const kernel::CopyItem& item, Stream stream);
/// Submits a copy in the form `staged`, after can_stage().
[[nodiscard]] Code copy_staged(const kernel::CopyItem& item, TrackedStream& tracked);

}  // namespace weft::device::cuda
