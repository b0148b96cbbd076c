// SPDX-License-Identifier: BSD-3-Clause
// UCX network: active messages of libucp, opened at run time. Messages are eager; for a get, the owner
// answers a request with a rendezvous message that UCX transfers directly into the destination buffer.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "launch/launch.hpp"
#include "transport/network.hpp"

namespace weft::transport::ucx {

/// Opens UCX; an error with the reason if UCX cannot be used.
[[nodiscard]] Result<std::unique_ptr<Network>> open(const launch::Job& job);

/// Describes the copies of UCX on this host that are not used; empty if UCX cannot be opened.
[[nodiscard]] std::vector<std::string> other_libraries();

}  // namespace weft::transport::ucx
