// SPDX-License-Identifier: BSD-3-Clause
// Fake hosts: splits the ranks of one machine into several simulated hosts, so that inter-host paths can be
// tested on a single machine.
#pragma once
#include <memory>
#include <string>

#include "launch/launch.hpp"

namespace weft::launch {

/// Wraps the exchange so that its job has as many hosts as the setting fake_hosts; returns it unchanged
/// for 1.
[[nodiscard]] Result<std::unique_ptr<Exchange>> split_hosts(std::unique_ptr<Exchange> exchange);

/// Returns the name of this process's host: processes of all jobs with equal names share memory if they
/// belong to one user.
[[nodiscard]] std::string host_name(const Job& job);

/// Returns the host of a rank: contiguous blocks, the first size % hosts blocks one rank longer.
[[nodiscard]] int fake_host_of(int rank, int size, int hosts);

}  // namespace weft::launch
