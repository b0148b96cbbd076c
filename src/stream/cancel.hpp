// SPDX-License-Identifier: BSD-3-Clause
// Cancellation of enqueued operations whose peer has ended: a thread sleeps until a process of this host
// ends, then makes the kernels that may wait for it leave, also while the application waits for its stream
// outside of MPI. Runs only in jobs that continue on failure. Threading: the functions run under the instance
// lock.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/communicator.hpp"

namespace weft::stream {

/// Registers the cancel word of a communicator: it becomes 1 when one of its other processes on this host has
/// ended without leaving MPI. No effect in jobs that do not continue on failure.
void cancel_on_failure(core::Communicator& comm, uint32_t& word);
/// The word is not accessed any more.
void forget_cancel_word(core::Instance& instance, const uint32_t& word);

}  // namespace weft::stream
