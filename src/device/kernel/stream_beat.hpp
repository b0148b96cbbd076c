// SPDX-License-Identifier: BSD-3-Clause
// Beat of enqueued collectives: a word in pinned memory that changes while a kernel waits, for readers from
// outside (base/queued_table.hpp). The call has its address in Collective::status, and the id of the
// collective in Collective::launch, which enqueued calls do not use otherwise.
#pragma once
#include <cstdint>

#include "device/kernel/collective.hpp"

namespace weft::device::kernel {

struct StreamBeat {
  uint64_t address;
  uint32_t id;
  /// The word while the kernel waits; kernels write it when they read the cancel word. `time` changes.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t value(uint64_t time) const {
    return uint64_t{id} << 32 | static_cast<uint32_t>(time);
  }
  void store(Collective& call) const {
    call.status = address;
    call.launch = id;
  }
  [[nodiscard]] WEFT_HOST_DEVICE static StreamBeat of(const Collective& call) {
    return {call.status, call.launch};
  }
};

}  // namespace weft::device::kernel
