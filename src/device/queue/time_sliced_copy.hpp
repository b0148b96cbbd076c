// SPDX-License-Identifier: BSD-3-Clause
// Copies on a GPU that processes use in time slices (device/time_slices.hpp), in the forms that the driver
// leaves to copy engines.
#pragma once
#include <cstdint>
#include <span>

#include "device/queue/work_queue.hpp"

namespace weft::device::cuda {

enum class CopyForm : uint8_t {
  plain,  ///< the driver chooses the engine
  rows,   ///< from pinned host memory, in two rows
  staged  ///< inside the GPU, through pinned host memory
};

/// Returns the form of a copy by the queue; `plain` on a GPU that is not in time slices.
[[nodiscard]] CopyForm form_of(const WorkQueue& queue, const Memory& dst, const Memory& src);
/// Returns whether copies inside the GPU are to be staged, and can be: they take less time than a switch of
/// the GPU, and pinned memory is left. Reports the slow path gpu.time_sliced. The mutex of the stream is
/// held, and `near` is memory of its context.
[[nodiscard]] bool can_stage(std::span<const kernel::CopyItem> items, TrackedStream& tracked,
                             const Memory& near);
/// Submits a copy in the form `rows`.
[[nodiscard]] Code copy_in_rows(const kernel::CopyItem& item, Stream stream);
/// Submits a copy in the form `staged`, after can_stage().
[[nodiscard]] Code copy_staged(const kernel::CopyItem& item, TrackedStream& tracked);

}  // namespace weft::device::cuda
