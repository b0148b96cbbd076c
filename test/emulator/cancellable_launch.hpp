// SPDX-License-Identifier: BSD-3-Clause
// Start of a cancellable launch, by the contract of device/kernel/launch.hpp.
#pragma once
#include "device/kernel/launch.hpp"

namespace emucuda {

/// The part of the first block. Returns false if the launch was cancelled.
inline bool enter_launch(const weft::device::kernel::CancellableLaunch& launch,
                         weft::device::kernel::CancellableLaunch::HostState& host,
                         weft::device::kernel::CancellableLaunch::Memory& memory) {
  using weft::device::kernel::CancellableLaunch;
  CancellableLaunch::Words& words = memory.words[launch.number & 1];
  ++words.next;
  const bool cancelled = words.cancel == launch.number;
  memory.words[~launch.number & 1] = {};
  words.state = cancelled ? CancellableLaunch::cancelled : CancellableLaunch::running;
  if (cancelled)
    __atomic_store_n(&host.state, uint64_t{launch.number} << 32 | CancellableLaunch::cancelled,
                     __ATOMIC_RELEASE);
  return !cancelled;
}

}  // namespace emucuda
