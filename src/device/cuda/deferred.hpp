// SPDX-License-Identifier: BSD-3-Clause
// Deferred: releases of memory that wait in the driver for all streams. While streams of the program may wait
// for a call of the host, such a release would wait for a call that needs the same thread. Threading: any
// thread.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "device/memory.hpp"

namespace weft::device::cuda {

/// Runs `release`, and releases that were deferred before; if streams may wait (device::StreamsWait), keeps
/// it until a later call or the end of the process's use of the driver.
void release_or_defer(std::function<void()> release);
/// Closes an import, or keeps it. `handle`: bytes of its IPC handle.
void close_or_defer(const Memory& mapped, std::string handle, std::function<void()> close);
/// The import of a handle in a context whose closing was deferred, for further use; null: there is none.
[[nodiscard]] std::optional<Memory> revive(const std::string& handle, const void* context);
/// Runs all deferred releases.
void release_deferred();

}  // namespace weft::device::cuda
