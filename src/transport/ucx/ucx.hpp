// SPDX-License-Identifier: BSD-3-Clause
// UCX as a network: active messages of libucp, which is opened at run time. Messages are eager; a fetch asks
// the owner (pull), who answers with a rendezvous message that UCX moves straight into the buffer.
#pragma once
#include <memory>

#include "launch/launch.hpp"
#include "transport/network.hpp"

namespace weft::transport::ucx {

/// An error says why UCX cannot be used here.
[[nodiscard]] Result<std::unique_ptr<Network>> open(const launch::Job& job);

}  // namespace weft::transport::ucx
