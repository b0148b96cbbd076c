// SPDX-License-Identifier: BSD-3-Clause
// Lifetime of the one Instance, shared by the world model and all sessions (MPI 5.0 section 11.1).
// Threading: any thread, without the instance lock.
#pragma once
#include <mutex>

#include "base/result.hpp"
#include "core/instance.hpp"

namespace weft::api {

/// Name of a thread level as an info value, e.g. "MPI_THREAD_SINGLE".
[[nodiscard]] const char* thread_level_name(int level);
/// Adds a user (world model or session); creates the instance for the first one. Local. `required`: thread
/// level.
[[nodiscard]] Result<core::Instance*> acquire_instance(int required);
/// Takes the instance lock as EntryPoint does, for functions that run unlocked. Must not be held while
/// calling acquire_instance() or release_instance().
[[nodiscard]] std::unique_lock<core::InstanceLock> lock_of(core::Instance& instance);
/// Starts the progress thread of progress.thread=auto; the last action of a call on a window that messages
/// reach.
void start_progress_thread();
/// Makes the following calls take the instance lock, since threads of the library will. Called outside of any
/// call's lock: before an EntryPoint, or as the last action of a call. Error in a user callback.
[[nodiscard]] Status take_locks();
/// Removes a user. After the last one MPI is finalized until the next acquire_instance().
void release_instance();
/// From now on the process may leave the job by exit(0) while sessions are open. At exit its last messages
/// have `time_ns` to arrive.
void allow_exit(uint64_t time_ns);

}  // namespace weft::api
