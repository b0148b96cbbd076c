// SPDX-License-Identifier: BSD-3-Clause
// Errors: mapping of Errc to MPI error classes, error handlers, abort (MPI 5.0 chapter 9).
// Threading: under the instance lock; the last error message is per thread.
#pragma once
#include <mpi.h>

#include <string>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/errhandler.hpp"

namespace weft::io {
class File;
}

namespace weft::api {

/// An error with an MPI error class that Errc lacks, or with a code returned by a user callback.
[[nodiscard]] Error mpi_error(int code, std::string message);
/// The MPI error code of an error.
[[nodiscard]] int code_of(const Error& error);
/// The code that a call returns for an error of `code` with this message: holds the error class and a number
/// by which MPI_Error_string finds the message, as long as fewer than 256 errors followed. User-defined
/// codes, and MPI_ERR_IN_STATUS and MPI_ERR_PENDING, which the standard names as values, are returned
/// unchanged. Any thread.
[[nodiscard]] int code_with_message(int code, const std::string& message);
/// "MPI_ERR_RANK: MPI_Send: dest = 7 ...": the text of MPI_Error_string; empty if there is no such code.
[[nodiscard]] std::string error_text(int code);
/// "MPI_ERR_RANK", or "user error code 16384".
[[nodiscard]] std::string code_name(int code);
/// The error class of a code; MPI_ERR_UNKNOWN if there is no such code.
[[nodiscard]] int class_of(int code);
/// The value of the attribute MPI_LASTUSEDCODE.
[[nodiscard]] int last_used_code();

/// Sets the communicator whose error handler gets the error that this call is about to return, for calls
/// without a communicator argument (the communicator of a request). Holds a reference until then.
void set_error_communicator(core::Communicator& comm);
/// The same for the error handler of a file (the file of a request).
void set_error_file(io::File& file);
/// Returns `status`; calls set_error_communicator() if it is an error and `comm` is not null.
[[nodiscard]] inline Status with_error_communicator(core::Communicator* comm, Status status) {
  if (!status && comm != nullptr) set_error_communicator(*comm);
  return status;
}

/// Message and code of the last error of this thread ("MPI_Send: dest = 7 ..."); empty if there was none.
struct LastError {
  int code = MPI_SUCCESS;
  std::string message;
};
[[nodiscard]] const LastError& last_error();
void remember_error(int code, std::string message);

/// Calls an error handler for the error `code` of `call`. Returns for MPI_ERRORS_RETURN and user functions;
/// otherwise aborts the job. `handle`: MPI handle that the error belongs to; `remedy`: the call that would
/// have returned the error instead. Precondition: no lock is held.
void run_handler(const core::Errhandler& handler, void* handle, int code, const char* call,
                 const std::string& message,
                 const char* remedy = "MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)");

/// Initial error handler of MPI_COMM_WORLD and MPI_COMM_SELF, also for errors without an object (MPI 5.0
/// section 9.3). Set by mpiexec -initial-errhandler.
[[nodiscard]] core::Errhandler* initial_errhandler();
[[nodiscard]] std::string initial_errhandler_name();

/// Aborts the job: reports `message`, asks the launcher to terminate all processes, exits with `code`.
[[noreturn]] void abort_job(int code, const std::string& message);

}  // namespace weft::api
