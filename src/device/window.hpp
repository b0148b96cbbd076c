// SPDX-License-Identifier: BSD-3-Clause
// Kernels of windows in GPU memory: accumulate operations in Weft's streams and in those of the application,
// and synchronisation in the latter. Threading: any thread; the caller orders submissions to one stream.
#pragma once
#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/kernel/accumulate.hpp"
#include "device/kernel/window.hpp"
#include "device/memory.hpp"
#include "device/stream.hpp"

namespace weft::device {

/// Largest accumulate operation in bytes that the resident kernel executes.
inline constexpr uint64_t kResidentAccumulateBytes = 1024;
/// The setting rma.kernel_timeout_ms, in nanoseconds.
[[nodiscard]] uint64_t kernel_timeout_ns();
/// Whether the kernels of windows are loaded in the context of `memory` and can access it.
[[nodiscard]] bool can_accumulate(const Memory& memory);
/// Whether the kernels that can_accumulate(target) reports can access the memory of an operand.
[[nodiscard]] bool can_access(const Memory& target, const Memory& operand);
/// Starts an accumulate operation on `memory`: small ones by the resident kernel if it runs, unless `lone` is
/// false. Others are executed in order. `result`: the memory at accumulate.result. Precondition:
/// can_accumulate().
[[nodiscard]] Result<Ticket> accumulate_async(const kernel::Accumulate& accumulate, const Memory& memory,
                                              const Memory& result = {}, bool lone = true);
/// Loads the kernels, which waits for running kernels. Errc::unsupported, with the reason, without kernels.
[[nodiscard]] Status adopt_for_windows(const UserStream& stream);
/// Enqueues an accumulate operation. Precondition of both: adopt_for_windows().
[[nodiscard]] Status enqueue_accumulate(const UserStream& stream, const kernel::Accumulate& accumulate);
[[nodiscard]] Status enqueue_window_sync(const UserStream& stream, const kernel::WindowSync& sync);

}  // namespace weft::device
