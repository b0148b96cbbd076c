// SPDX-License-Identifier: BSD-3-Clause
// Ports (MPI 5.0 section 11.9): jobs that find each other by the name of a port, or by a socket.
// Threading: under the instance lock, which waits release.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "coll/construct/connect.hpp"

namespace weft::spawn {

/// The processes that may connect to a port of this process if its info object does not tell: jobs.reach.
[[nodiscard]] p2p::Reach default_reach(const core::Instance& instance);
/// "host" or "anywhere".
[[nodiscard]] std::optional<p2p::Reach> parse_reach(std::string_view text);

/// MPI_Comm_join: `socket` is connected to a process that makes the same call. nullptr: the two processes
/// cannot connect.
[[nodiscard]] coll::NewCommunicator join(core::Communicator& self, int socket);

}  // namespace weft::spawn
