// SPDX-License-Identifier: BSD-3-Clause
// Fake hosts: the ranks of one machine split into several hosts, so that all of Weft believes it: the paths
// between hosts then run on a machine alone.
#pragma once
#include <memory>

#include "launch/launch.hpp"

namespace weft::launch {

/// The same exchange with a job on as many hosts as the setting fake_hosts says; itself when that is 1.
[[nodiscard]] Result<std::unique_ptr<Exchange>> split_hosts(std::unique_ptr<Exchange> exchange);

/// Rank `rank` of `size` is on this one of `hosts` hosts: equal blocks, the first ones one rank longer.
[[nodiscard]] int fake_host_of(int rank, int size, int hosts);

}  // namespace weft::launch
