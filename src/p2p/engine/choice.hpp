// SPDX-License-Identifier: BSD-3-Clause
// Rules of eager messages, which explain_send() evaluates for hypothetical messages, too.
#pragma once
#include <cstdint>

#include "device/memory.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

/// Returns the largest eager payload in bytes for a transport that accepts messages of `max_message`. The
/// engine may lower it per peer to eager_break_even(), which explain_send() does not know.
[[nodiscard]] uint64_t eager_limit_of(uint64_t max_message);
/// Returns the size in bytes above which one copy by the kernel is faster than two copies through shared
/// memory. `copy_ns`: time of a copy of 8 KiB into the peer's memory; `call_ns`: time of the system call.
[[nodiscard]] uint64_t eager_break_even(uint64_t copy_ns, uint64_t call_ns);
/// Returns whether a message is sent eagerly, credit permitting.
[[nodiscard]] inline bool sends_eagerly(device::MemoryKind from, uint64_t bytes, uint64_t limit) {
  return !device_side(from) && bytes <= limit;
}

}  // namespace weft::p2p
