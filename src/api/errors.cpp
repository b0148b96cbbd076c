// SPDX-License-Identifier: BSD-3-Clause
// Errors: mapping of Errc, last error message, error handlers, abort.
#include "api/errors.hpp"

#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>

#include "api/crash.hpp"
#include "api/entry_point.hpp"
#include "api/error_codes.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/recorder.hpp"
#include "launch/launch.hpp"

namespace weft::api {

namespace {

config::Choice initial{
    "errors.initial",
    0,
    {"mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"},
    "Initial error handler of the predefined communicators (mpiexec -initial-errhandler).",
    "a program that does not set error handlers is to receive error codes instead of being aborted"};

thread_local LastError t_last_error;
thread_local core::Ref<core::Communicator> t_error_communicator;
thread_local core::Ref<io::File> t_error_file;
thread_local core::Ref<rma::Window> t_error_window;

/// Time from the death of a process in which the launcher ends the job, in ns.
constexpr uint64_t kLauncherTimeoutNs = 2'000'000'000;
constexpr useconds_t kLauncherPollUs = 10'000;

/// After the death of a process of this host the launcher ends the job and names that process. Nothing that
/// this process prints or does about it may come first.
void await_launcher(bool fatal) {
  const uint64_t death = g_instance != nullptr ? g_instance->failures.first_death_ns() : 0;
  if (death == 0 || (!fatal && launch::continues_on_failure())) [[likely]]
    return;
  while (monotonic_ns() < death + kLauncherTimeoutNs) ::usleep(kLauncherPollUs);
}

}  // namespace

Error mpi_error(int code, std::string message) { return {Errc::other, std::move(message), code}; }

int code_of(const Error& error) {
  if (error.mpi_code() != 0) return error.mpi_code();
  switch (error.code()) {
    case Errc::buffer:
      return MPI_ERR_BUFFER;
    case Errc::count:
      return MPI_ERR_COUNT;
    case Errc::type:
      return MPI_ERR_TYPE;
    case Errc::tag:
      return MPI_ERR_TAG;
    case Errc::comm:
      return MPI_ERR_COMM;
    case Errc::rank:
      return MPI_ERR_RANK;
    case Errc::root:
      return MPI_ERR_ROOT;
    case Errc::group:
      return MPI_ERR_GROUP;
    case Errc::op:
      return MPI_ERR_OP;
    case Errc::arg:
      return MPI_ERR_ARG;
    case Errc::truncate:
      return MPI_ERR_TRUNCATE;
    case Errc::other:
      return MPI_ERR_OTHER;
    case Errc::intern:
    case Errc::again:  // handled below api/
      return MPI_ERR_INTERN;
    case Errc::request:
      return MPI_ERR_REQUEST;
    case Errc::pending:
      return MPI_ERR_PENDING;
    case Errc::no_mem:
      return MPI_ERR_NO_MEM;
    case Errc::keyval:
      return MPI_ERR_KEYVAL;
    case Errc::info:
      return MPI_ERR_INFO;
    case Errc::info_key:
      return MPI_ERR_INFO_KEY;
    case Errc::info_value:
      return MPI_ERR_INFO_VALUE;
    case Errc::errhandler:
      return MPI_ERR_ERRHANDLER;
    case Errc::topology:
      return MPI_ERR_TOPOLOGY;
    case Errc::dims:
      return MPI_ERR_DIMS;
    case Errc::name:
      return MPI_ERR_NAME;
    case Errc::session:
      return MPI_ERR_SESSION;
    case Errc::value_too_large:
      return MPI_ERR_VALUE_TOO_LARGE;
    case Errc::unsupported:
      return MPI_ERR_UNSUPPORTED_OPERATION;
    case Errc::window:
      return MPI_ERR_WIN;
    case Errc::file:
      return MPI_ERR_FILE;
    case Errc::io:
      return MPI_ERR_IO;
    case Errc::proc_aborted:
      return launch::continues_on_failure() ? MPIX_ERR_PROC_FAILED : MPI_ERR_PROC_ABORTED;
    case Errc::proc_failed_pending:
      return MPIX_ERR_PROC_FAILED_PENDING;
    case Errc::revoked:
      return MPIX_ERR_REVOKED;
    case Errc::abi:
      return MPI_ERR_ABI;
    case Errc::port:
      return MPI_ERR_PORT;
    case Errc::service:
      return MPI_ERR_SERVICE;
    case Errc::spawn:
      return MPI_ERR_SPAWN;
  }
  return MPI_ERR_UNKNOWN;
}

void set_error_communicator(core::Communicator& comm) {
  t_error_communicator = core::Ref<core::Communicator>::share(&comm);
}

core::Ref<core::Communicator> take_error_communicator() { return std::move(t_error_communicator); }

void set_error_file(io::File& file) { t_error_file = core::Ref<io::File>::share(&file); }

core::Ref<io::File> take_error_file() { return std::move(t_error_file); }

void keep_error_window(core::Ref<rma::Window> window) { t_error_window = std::move(window); }

core::Ref<rma::Window> take_error_window() { return std::move(t_error_window); }

const LastError& last_error() { return t_last_error; }

void remember_error(int code, std::string message) { t_last_error = {code, std::move(message)}; }

void run_handler(const core::Errhandler& handler, void* handle, int code, const char* call,
                 const std::string& message, const char* remedy) {
  using Kind = core::Errhandler::Kind;
  await_launcher(handler.kind == Kind::fatal || handler.kind == Kind::abort);
  switch (handler.kind) {
    case Kind::ret:
      return;
    case Kind::user:
      handler.function(&handle, &code, message.c_str());
      return;
    case Kind::fatal:
    case Kind::abort:
      abort_job(code, std::string(call) + " failed: " + message + " (" + code_name(code) +
                          "). The error handler aborts; " + remedy + " returns errors.");
  }
}

core::Errhandler* initial_errhandler() {
  if (initial.is("mpi_errors_abort")) return core::Errhandler::abort();
  return initial.is("mpi_errors_return") ? core::Errhandler::ret() : core::Errhandler::fatal();
}

std::string initial_errhandler_name() { return initial.value_text(); }

void abort_job(int code, const std::string& message) {
  // An exit status has 8 bits: 0 would look like success.
  const int status = (code & 0xff) == 0 ? 1 : code & 0xff;
  std::fflush(stdout);
  print_caller();
  recorder::flush();
  core::Instance* instance = g_state.load() == State::running ? g_instance : nullptr;
  std::string line = "weft: " + message + "\n";
  bool reported = false;
  if (instance != nullptr) {
    line = "weft[" + std::to_string(instance->self) + "]: " + message + "\n";
    reported = instance->exchange->abort_is_reported();
    if (reported) instance->exchange->abort(status, line.substr(0, line.size() - 1));
  }
  if (!reported) {
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
    if (instance != nullptr) instance->exchange->abort(status, message);
  }
  ::_exit(status);
}

}  // namespace weft::api
