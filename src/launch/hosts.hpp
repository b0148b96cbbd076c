// SPDX-License-Identifier: BSD-3-Clause
// Hosts: which processes of a job share a host, from the launcher's mapping or by a key-value exchange.
#pragma once
#include <string>

#include "base/result.hpp"
#include "launch/launch.hpp"

namespace weft::launch {

/// The boot id and the host name: containers of one machine share no memory.
[[nodiscard]] std::string this_host();

/// Sets local_rank and local_size from host_of_rank, which must be complete.
void set_local_rank(Job& job);

/// Collective: sets host_of_rank, local_rank and local_size by exchanging host names, with one get per rank.
/// For launchers that publish no mapping.
[[nodiscard]] Status gather_hosts(Exchange& exchange, Job& job);

}  // namespace weft::launch
