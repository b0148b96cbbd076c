// SPDX-License-Identifier: BSD-3-Clause
// Views of the one Instance: the world model and each session are one (MPI 5.0 section 11.1).
// Threading: any thread, without the instance lock.
#pragma once
#include <mutex>

#include "base/result.hpp"
#include "core/instance.hpp"

namespace weft::api {

/// "MPI_THREAD_SINGLE" and so on, as info values have it.
[[nodiscard]] const char* thread_level_name(int level);
/// Opens a view: makes the instance if it is the first one of the process. Local. `required`: the thread
/// level.
[[nodiscard]] Result<core::Instance*> join(int required);
/// The instance lock as an entry point holds it, for calls that run without. Never while calling join(),
/// leave().
[[nodiscard]] std::unique_lock<std::mutex> lock_of(core::Instance& instance);
/// Closes a view. After the last one MPI is finalized until the next join().
void leave();

}  // namespace weft::api
