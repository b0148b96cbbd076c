// SPDX-License-Identifier: BSD-3-Clause
// Requests of ordinary calls that kernels execute: made, started, and completed by blocking calls.
// Threading: under the instance lock.
#pragma once
#include <mpi.h>

#include <memory>
#include <span>

#include "base/result.hpp"
#include "stream/queue.hpp"

namespace weft::api::kernels {

using stream::Part;

/// Creates a request of a call; Errc::no_mem: there are too many.
[[nodiscard]] Result<stream::Request*> create(const char* call, core::Communicator& comm);
/// The queue of a communicator whose ordinary calls kernels execute.
[[nodiscard]] stream::Queue& queue_of(core::Communicator& comm);

/// Executes messages, blocking: in the stream, or, if the program wants a status, while the host waits.
[[nodiscard]] Status run(const char* call, core::Communicator& comm, std::span<const Part> parts,
                         MPI_Status* status);
/// Ends a blocking call whose request has been started.
[[nodiscard]] Status complete(stream::Queue& queue, stream::Request& request, MPI_Status* status);
/// Error if the host would have to wait in a capture. Counts the wait of the host otherwise.
[[nodiscard]] Status allow_status(core::Communicator& comm, const MPI_Status* status);
/// Starts messages, nonblocking.
[[nodiscard]] Status start(const char* call, core::Communicator& comm, std::span<const Part> parts,
                           MPI_Request* handle);
/// Creates an inactive persistent request.
[[nodiscard]] Status prepare(const char* call, core::Communicator& comm, std::span<const Part> parts,
                             MPI_Request* handle);
/// The same for collectives, which `enqueue` puts into the stream.
[[nodiscard]] Status start(const char* call, core::Communicator& comm,
                           std::unique_ptr<stream::order::Call> enqueue, MPI_Request* handle);
[[nodiscard]] Status prepare(const char* call, core::Communicator& comm,
                             std::unique_ptr<stream::order::Call> enqueue, MPI_Request* handle);
/// `outcome`, or, if it is success, the error of an earlier call that the host has executed in the stream.
[[nodiscard]] Status with_earlier_error(core::Communicator& comm, Status outcome);

}  // namespace weft::api::kernels
