// SPDX-License-Identifier: BSD-3-Clause
// Traffic: messages of this process so far, for tools. Sums over the peers, whose state counts for each
// message anyway. Threading: under the instance lock.
#pragma once
#include "core/instance.hpp"
#include "p2p/engine/peers.hpp"
#include "p2p/message/traffic.hpp"

namespace weft::p2p {

/// With one process, by its index in the process table.
[[nodiscard]] Traffic traffic_with(core::Instance& instance, uint32_t process);
/// With all processes of that distance.
[[nodiscard]] Traffic traffic(const core::Instance& instance, Distance distance);
[[nodiscard]] Traffic traffic(const core::Instance& instance);
/// Messages sent from host memory to other processes, and from managed memory without GPU protocols. Only
/// `sent` and `sent_bytes` are set.
[[nodiscard]] Traffic traffic_from_host(const core::Instance& instance);
/// Messages that have arrived after their receive was posted.
[[nodiscard]] uint64_t matched_on_arrival(const core::Instance& instance);

}  // namespace weft::p2p
