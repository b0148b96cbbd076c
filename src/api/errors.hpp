// SPDX-License-Identifier: BSD-3-Clause
// Errors: from Weft's Errc to MPI's error classes, codes the user adds, and what an error handler does
// (MPI 5.0 chapter 9). Threading: under the instance lock; the last message is kept for each thread.
#pragma once
#include <mpi.h>

#include <string>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/errhandler.hpp"

namespace weft::api {

/// An error with an MPI error class that Errc does not have, or with a code that a user's callback returned.
[[nodiscard]] Error mpi_error(int code, std::string message);
/// The MPI error code of an error.
[[nodiscard]] int code_of(const Error& error);
/// "MPI_ERR_RANK", or "user error code 16384".
[[nodiscard]] std::string code_name(int code);
/// The class of a code; MPI_ERR_UNKNOWN when there is no such code.
[[nodiscard]] int class_of(int code);
/// The value of the attribute MPI_LASTUSEDCODE.
[[nodiscard]] int last_used_code();

/// Names the communicator whose error handler gets the next error of this call, when the arguments do not
/// say: the communicator of a request. Only right before the error is returned: until then it is kept alive.
void blame(core::Communicator& comm);
/// The status; its error, if it is one, is this communicator's (null: nobody's).
[[nodiscard]] inline Status blaming(core::Communicator* comm, Status status) {
  if (!status && comm != nullptr) blame(*comm);
  return status;
}

/// The message of the last error in this thread ("MPI_Send: dest = 7 ..."); empty when there was none.
[[nodiscard]] const std::string& last_error_message();
void remember_error(std::string message);

/// Runs an error handler for a code that `call` ends with: returns (MPI_ERRORS_RETURN, a user's function) or
/// ends the job. `handle`: the MPI handle the error belongs to, as a pointer-sized value. No lock may be
/// held.
void run_handler(const core::Errhandler& handler, void* handle, int code, const char* call,
                 const std::string& message);

/// The handler of MPI_COMM_WORLD and MPI_COMM_SELF at first, and of errors that belong to nothing (MPI 5.0
/// section 9.3): mpiexec -initial-errhandler.
[[nodiscard]] core::Errhandler* initial_errhandler();
[[nodiscard]] std::string initial_errhandler_name();

/// Ends the job: reports `message`, asks the launcher to end all processes, exits with `code`.
[[noreturn]] void abort_job(int code, const std::string& message);

}  // namespace weft::api
