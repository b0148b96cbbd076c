// SPDX-License-Identifier: BSD-3-Clause
// The beginning of a launch that can be taken back, as device/kernel/launch.hpp describes it.
#pragma once
#include "device/kernel/launch.hpp"

namespace emucuda {

/// What the first block does; false: the launch was taken back.
inline bool enter_launch(const weft::device::kernel::Launch& launch, weft::device::kernel::Launch::Line& line,
                         weft::device::kernel::Launch::Memory& memory) {
  using weft::device::kernel::Launch;
  Launch::Words& words = memory.words[launch.number & 1];
  ++words.next;
  const bool cancelled = words.cancel == launch.number;
  memory.words[~launch.number & 1] = {};
  words.state = cancelled ? Launch::left : Launch::runs;
  if (cancelled)
    __atomic_store_n(&line.state, uint64_t{launch.number} << 32 | Launch::left, __ATOMIC_RELEASE);
  return !cancelled;
}

}  // namespace emucuda
