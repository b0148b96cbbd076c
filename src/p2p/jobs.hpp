// SPDX-License-Identifier: BSD-3-Clause
// Connections to processes of other jobs. coll/construct/connect.hpp builds intercommunicators on them.
// Threading: under the instance lock, outside of progress(). Blocking calls make progress.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "core/communicator.hpp"
#include "core/instance.hpp"

namespace weft::p2p {

/// The processes that use an address: of the same host only, or of any host.
enum class Reach { host, anywhere };

/// A connection between one process of each job, for the exchange of what the others need.
struct JobConnection {
  core::ProcessId process;
  core::ContextId context;  ///< the same at both processes, used by no communicator
};

/// Returns the address by which processes of other jobs connect to this one (ProcessAddress::text), and
/// accepts their requests from now on. `Reach::anywhere` opens the network if none is open; an error names
/// the networks that were tried.
[[nodiscard]] Result<std::string> job_address(core::Instance& instance, Reach reach);
/// Accepts no more requests. The address becomes invalid.
void close_job_address(core::Instance& instance);

/// Connects to the process that has published `address`, which has to call accept_process(). Each connection
/// holds a reference to its process until disconnect(). Errors: an invalid address, the process is gone, no
/// answer within jobs.connect_timeout_s.
[[nodiscard]] Result<JobConnection> connect_process(core::Instance& instance, const std::string& address);
/// Accepts the next process that has called connect_process(), with its address; no value: none has.
[[nodiscard]] Result<std::optional<JobConnection>> accept_process(core::Instance& instance);

/// Makes a process of another job known, without a message to it. Both processes add each other before one
/// sends to the other.
[[nodiscard]] Result<core::ProcessId> add_process(core::Instance& instance, const std::string& address);

/// Lets messages to the processes use rings. All of them know this process.
void allow_rings(core::Instance& instance, std::span<const core::ProcessId> processes);

/// Ends one connection to each of the processes. With the last one, messages in flight are completed on both
/// sides and the process is forgotten. The other side makes the same call. Communicators with these processes
/// are freed before. An error names a process that has not answered within jobs.connect_timeout_s; it is
/// forgotten all the same.
[[nodiscard]] Status disconnect(core::Instance& instance, std::span<const core::ProcessId> processes);

}  // namespace weft::p2p
