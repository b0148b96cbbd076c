// SPDX-License-Identifier: BSD-3-Clause
// Intercommunicators between jobs: the roots of the two sides connect by an address, then all processes of
// both sides learn the addresses of the other side. Collective over the local communicator.
#pragma once
#include <string>

#include "coll/construct/communicators.hpp"

namespace weft::coll {

/// Accepts a connection at the root's p2p::job_address(). Waits for a connector.
[[nodiscard]] NewCommunicator accept_job(core::Communicator& local, int root);
/// Connects to the job whose root has published `address`, which is significant at the root only.
[[nodiscard]] NewCommunicator connect_job(core::Communicator& local, int root, const std::string& address);
/// Completes all messages between the sides and frees the intercommunicator; collective over both sides. Jobs
/// with no other intercommunicator forget each other.
[[nodiscard]] Status disconnect_job(core::Communicator* intercomm);

}  // namespace weft::coll
