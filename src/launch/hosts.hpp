// SPDX-License-Identifier: BSD-3-Clause
// Hosts: which processes of a job share a host, for launchers that say it and for those that do not.
#pragma once
#include "base/result.hpp"
#include "launch/launch.hpp"

namespace weft::launch {

/// Sets local_rank and local_size from host_of_rank, which is complete.
void place_among_neighbours(Job& job);

/// Sets host_of_rank and what follows from it by asking every process for the name of its host: as many gets
/// as there are ranks. Collective. For launchers that do not say where the ranks are.
[[nodiscard]] Status exchange_hosts(Exchange& exchange, Job& job);

}  // namespace weft::launch
