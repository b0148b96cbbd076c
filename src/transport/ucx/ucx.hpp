// SPDX-License-Identifier: BSD-3-Clause
// UCX network: active messages of libucp, opened at run time. Messages are eager; for a get, the owner
// answers a request with a rendezvous message that UCX transfers directly into the destination buffer.
#pragma once
#include <memory>

#include "launch/launch.hpp"
#include "transport/network.hpp"

namespace weft::transport::ucx {

/// Opens UCX; an error with the reason if UCX cannot be used.
[[nodiscard]] Result<std::unique_ptr<Network>> open(const launch::Job& job);

}  // namespace weft::transport::ucx
