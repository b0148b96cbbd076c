// SPDX-License-Identifier: BSD-3-Clause
// EntryPoint: the cold paths.
#include "api/entry_point.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>

#include "api/error_codes.hpp"
#include "api/file_errhandler.hpp"
#include "base/log.hpp"

namespace weft::api {

namespace {

// Serialises calls that MPI allows before the instance and its lock exist.
std::mutex early_lock;

}  // namespace

EntryPoint::EntryPoint(const char* call, AnyTime) : call_(call), range_(call) {
  early_lock.lock();
  early_locked_ = true;
  if (g_instance != nullptr && g_instance->threaded) {
    g_instance->lock.lock();
    instance_locked_ = true;
  }
}

void EntryPoint::unlock() {
  if (instance_locked_) g_instance->leave();
  if (early_locked_) early_lock.unlock();
  instance_locked_ = early_locked_ = false;
}

void EntryPoint::abort_not_running() {
  const State state = g_state.load();
  const char* why = " was called after MPI_Finalize: MPI is finalized";
  if (state == State::before_init)
    why = " was called before MPI_Init: call MPI_Init or MPI_Session_init first";
  if (state == State::forked)
    why = " was called in a child of fork(): MPI belongs to the process that called MPI_Init";
  abort_job(MPI_ERR_OTHER, std::string(call_) + why);
}

namespace {

/// The communicator whose handler gets errors of calls without a communicator: MPI_COMM_SELF (MPI 5.0
/// section 9.3). Programs of MPI 3 set the handler of MPI_COMM_WORLD only, which serves while MPI_COMM_SELF
/// has its initial one.
core::Communicator* default_error_communicator(const core::Instance& instance) {
  const bool self = !instance.world || (instance.self_comm && instance.self_comm->errhandler_set);
  return self ? instance.self_comm.get() : instance.world.get();
}

}  // namespace

/// The handler of an error and the MPI handle that it belongs to. Holds references: another thread may free
/// the object while the handler runs without the lock.
struct EntryPoint::ErrorTarget {
  core::Ref<core::Communicator> comm;
  core::Ref<core::Session> session;
  core::Ref<rma::Window> window;
  core::Ref<io::File> file;
  core::Ref<core::Errhandler> handler;
  void* handle = MPI_COMM_NULL;
};

EntryPoint::ErrorTarget EntryPoint::error_target() {
  ErrorTarget target;
  target.comm = take_error_communicator();
  if (comm_ != nullptr) target.comm = core::Ref<core::Communicator>::share(comm_);
  target.session = core::Ref<core::Session>::share(session_);
  target.window = take_error_window();
  if (!target.window && window_ != nullptr && rma::Window::slab().check(window_) == HandleState::live)
    target.window = core::Ref<rma::Window>::share(window_);
  target.file = take_error_file();
  if (file_ != nullptr && io::File::slab().check(file_) == HandleState::live)  // else MPI_File_close failed
    target.file = core::Ref<io::File>::share(file_);
  if (!target.comm && !target.session && !target.window && !target.file && handler_ == nullptr &&
      g_instance != nullptr && !without_file_)
    target.comm = core::Ref<core::Communicator>::share(default_error_communicator(*g_instance));
  if (handler_ != nullptr) {
    target.handler = core::Ref<core::Errhandler>::share(handler_);
    if (handler_->target == core::Errhandler::Target::session) target.handle = MPI_SESSION_NULL;
  } else if (target.file) {
    target.handler = target.file->errhandler;
    target.handle = target.file.get();
  } else if (target.window) {
    target.handler = target.window->errhandler;
    target.handle = target.window.get();
  } else if (target.session) {
    target.handler = target.session->errhandler;
    target.handle = target.session.get();
  } else if (target.comm) {
    target.handler = target.comm->errhandler;
    target.handle = reinterpret_cast<void*>(target.comm->handle);
  } else if (without_file_) {
    target.handler = file_null_errhandler();
    target.handle = MPI_FILE_NULL;
  }
  if (!target.handler)
    target.handler =
        core::Ref<core::Errhandler>::share(target.comm ? core::Errhandler::fatal() : initial_errhandler());
  return target;
}

namespace {

/// Writes the message of a handle of another interface if it is the first one. Programs whose error handler
/// returns, as mpi4py's does, rarely look at the codes, and would go on without messages.
void report_foreign_handle(const std::string& message) {
  static std::atomic<bool> reported{false};
  if (!reported.exchange(true)) log::write(log::Level::error, "%s", message.c_str());
}

}  // namespace

int EntryPoint::fail(Error error) {
  std::string message = std::string(call_) + ": " + error.message();
  const int code = code_with_message(code_of(error), message);
  ErrorTarget target = error_target();
  remember_error(code, std::move(message));
  const bool relock = instance_locked_;
  unlock();
  if (target.window)
    run_handler(*target.handler, target.handle, code, call_, error.message(),
                "MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN)");
  else
    run_handler(*target.handler, target.handle, code, call_, error.message());
  if (error.code() == Errc::abi && error.mpi_code() != 0)
    report_foreign_handle(std::string(call_) + ": " + error.message());
  if (relock) {  // references are released under the lock
    g_instance->lock.lock();
    instance_locked_ = true;
  }
  return code;
}

int EntryPoint::out_of_memory() {
  const bool lost = g_instance != nullptr && g_instance->progress_interrupted();
  try {
    if (lost)
      abort_job(MPI_ERR_NO_MEM,
                std::string(call_) +
                    " failed: out of memory while messages of other calls were processed (their "
                    "state is lost): use less memory, or fewer messages in flight");
    return fail(Error(Errc::no_mem,
                      "out of memory (an allocation failed): free memory, or make the call with less data"));
  } catch (const std::bad_alloc&) {  // no memory for the message either
  }
  const ErrorTarget target = error_target();
  const auto kind = target.handler->kind;
  if (!lost && kind != core::Errhandler::Kind::fatal && kind != core::Errhandler::Kind::abort)
    return MPI_ERR_NO_MEM;
  std::fputs("weft: out of memory\n", stderr);
  ::_exit(MPI_ERR_NO_MEM);
}

int fail(const char* call, core::Communicator& comm, Error error) {
  EntryPoint entry(call);
  entry.set_error_owner(comm);
  return entry.fail(std::move(error));
}

int out_of_memory(const char* call, core::Communicator& comm) {
  EntryPoint entry(call);
  entry.set_error_owner(comm);
  return entry.out_of_memory();
}

int EntryPoint::unsupported() {
  return fail(Error(Errc::unsupported, "not implemented: see share/weft/coverage.md of the installation"));
}

}  // namespace weft::api
