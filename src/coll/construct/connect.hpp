// SPDX-License-Identifier: BSD-3-Clause
// Intercommunicators between jobs: the roots of the two sides connect by an address, then all processes of
// both sides learn the addresses of the other side. Collective over the local communicator.
#pragma once
#include <functional>
#include <string>

#include "coll/construct/communicators.hpp"
#include "p2p/engine/jobs.hpp"

namespace weft::coll {

/// Called while the root waits for a connector: an error ends the wait.
using StillAwaited = std::function<Status()>;

/// Accepts a connection at a port of the root (p2p::open_port). Waits for a connector, as long as `go_on`, if
/// given, returns no error. `port` and `go_on` are significant at the root only.
[[nodiscard]] NewCommunicator accept_job(core::Communicator& local, int root, p2p::PortNumber port,
                                         const StillAwaited& go_on = {});
/// Connects to the job whose root has opened the port. Significant at the root only: `port_name`, `timeout_s`
/// (0: jobs.connect_timeout_s).
[[nodiscard]] NewCommunicator connect_job(core::Communicator& local, int root, const std::string& port_name,
                                          size_t timeout_s = 0);
/// A communicator through which the roots of the two sides exchange messages; significant at the root.
struct Bridge {
  core::Communicator* comm = nullptr;
  int remote = 0;  ///< rank of the other root in `comm`, or in its remote group
  int tag = 0;
};
/// MPI_Intercomm_create of groups with processes of several jobs, which may not know each other.
[[nodiscard]] NewCommunicator connect_groups(core::Communicator& local, int root, const Bridge& bridge);
/// The root's call instead of the two above if it cannot make them: all ranks of `local` return an error.
[[nodiscard]] NewCommunicator fail_job(core::Communicator& local, int root, Error why);
/// Completes all messages between processes of different jobs that have no other communicator in common, and
/// frees the communicator; collective over both sides. These processes forget each other.
[[nodiscard]] Status disconnect_job(core::Communicator* comm);

}  // namespace weft::coll
