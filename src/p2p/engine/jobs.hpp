// SPDX-License-Identifier: BSD-3-Clause
// Connections to processes of other jobs. coll/construct/connect.hpp builds intercommunicators on them.
// Threading: under the instance lock, outside of progress(). Blocking calls make progress.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/communicator.hpp"
#include "core/instance.hpp"

namespace weft::p2p {

/// The processes that use an address: of the same host only, of any host, or of any host if this process can
/// open a network.
enum class Reach { host, anywhere, available };

/// A connection between one process of each job, for the exchange of what the others need.
struct JobConnection {
  core::ProcessId process;
  core::ContextId context;  ///< the same at both processes, used by no communicator
};

/// Returns the address by which other processes reach this one (ProcessAddress::text), and lets them fetch
/// the segment until release_job_address(). `Reach::anywhere` and `available` open the network if none is
/// open. An error, which `available` only logs (info), names the networks that were tried.
[[nodiscard]] Result<std::string> job_address(core::Instance& instance, Reach reach);
void release_job_address(core::Instance& instance);

/// A port at which a process awaits connect requests: its address and a number, which no other port of it
/// ever has.
using PortNumber = uint32_t;
struct Port {
  PortNumber number;
  std::string name;  ///< printable characters without white space
};
[[nodiscard]] Result<Port> open_port(core::Instance& instance, Reach reach);
/// Drops the requests that wait at the port: they time out at their processes. False: it is not open.
bool close_port(core::Instance& instance, PortNumber number);
/// Returns the number of an open port of this process; Errc::port for other names.
[[nodiscard]] Result<PortNumber> find_port(core::Instance& instance, const std::string& name);

/// Connects to the process that has opened a port, which has to call accept_process(). It may belong to this
/// job. Each connection holds its process until release() or disconnect(). Errors (Errc::port): an invalid
/// name, the process is gone, no answer within `timeout_s`; 0: jobs.connect_timeout_s.
[[nodiscard]] Result<JobConnection> connect_process(core::Instance& instance, const std::string& port_name,
                                                    size_t timeout_s = 0);
/// Accepts the next process that has called connect_process() for that port, with its address; no value: none
/// has.
[[nodiscard]] Result<std::optional<JobConnection>> accept_process(core::Instance& instance, PortNumber port);

/// Makes a process known, and holds it, without a message to it. Both processes add each other before one
/// sends to the other. A process of this job is returned as it is.
[[nodiscard]] Result<core::ProcessId> add_process(core::Instance& instance, const std::string& address);

/// Learns the names of hosts from addresses of processes, a line each. All processes of a communicator then
/// group its processes by host alike, also where processes of this job and of others share hosts.
void learn_hosts(core::Instance& instance, const std::string& addresses);

/// Ends one hold on each of the processes, without a message. They stay connected as long as a communicator
/// has them, and afterwards until disconnect() or their end.
void release(core::Instance& instance, std::span<const core::ProcessId> processes);

/// Lets messages to the processes use rings. All of them know this process.
void allow_rings(core::Instance& instance, std::span<const core::ProcessId> processes);

/// Disconnects from those of the processes that nothing holds and no communicator has: messages in flight are
/// completed on both sides and the process is forgotten. The other side makes the same call. Processes of
/// this job are ignored. An error names a process that has not answered within jobs.connect_timeout_s; it is
/// forgotten all the same.
[[nodiscard]] Status disconnect(core::Instance& instance, std::span<const core::ProcessId> processes);

/// Ends one hold on each of the processes, to which this one has sent nothing since add_process(): they are
/// forgotten without a message, unless something else holds them or a communicator has them.
void give_up(core::Instance& instance, std::span<const core::ProcessId> processes);

/// Ends one hold on each of the processes, which may count on a connection that this one has not completed.
/// Without another hold or communicator this one is disconnected for them: their disconnect notices are
/// answered, and they are forgotten later.
void abandon(core::Instance& instance, std::span<const core::ProcessId> processes);

}  // namespace weft::p2p
