// SPDX-License-Identifier: BSD-3-Clause
// Clocks: measures the offsets between the monotonic clocks of the hosts of a job, for traces.
#pragma once
#include "core/communicator.hpp"

namespace weft::coll {

/// Collective over `world`, the communicator of all ranks of the job: the first rank of each host exchanges
/// messages with rank 0, and records the offset of rank 0's clock (recorder::add_clock). The error is half of
/// the shortest round trip (Cristian, Probabilistic clock synchronization, 1989). No effect on one host.
[[nodiscard]] Status record_clocks(core::Communicator& world);

}  // namespace weft::coll
