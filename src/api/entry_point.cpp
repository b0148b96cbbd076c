// SPDX-License-Identifier: BSD-3-Clause
// EntryPoint: the cold paths.
#include "api/entry_point.hpp"

#include <mutex>
#include <string>

#include "api/error_codes.hpp"
#include "api/file_errhandler.hpp"

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
  if (instance_locked_) g_instance->release();
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

int EntryPoint::fail(Error error) {
  const int code = code_of(error);
  // Keep a reference: another thread may free the communicator while the handler runs without the lock.
  core::Ref<core::Communicator> comm = take_error_communicator();
  if (comm_ != nullptr) comm = core::Ref<core::Communicator>::share(comm_);
  const auto session = core::Ref<core::Session>::share(session_);
  if (!comm && !session && handler_ == nullptr && g_instance != nullptr && !file_)
    comm = core::Ref<core::Communicator>::share(default_error_communicator(*g_instance));
  core::Ref<core::Errhandler> handler;
  void* handle = MPI_COMM_NULL;
  if (handler_ != nullptr) {
    handler = core::Ref<core::Errhandler>::share(handler_);
    handle = handler_->target == core::Errhandler::Target::session ? static_cast<void*>(MPI_SESSION_NULL)
                                                                   : static_cast<void*>(MPI_COMM_NULL);
  } else if (session) {
    handler = session->errhandler;
    handle = session.get();
  } else if (comm) {
    handler = comm->errhandler;
    handle = reinterpret_cast<void*>(comm->handle);
  } else if (file_) {
    handler = file_null_errhandler();
    handle = MPI_FILE_NULL;
  }
  if (!handler)
    handler = core::Ref<core::Errhandler>::share(comm ? core::Errhandler::fatal() : initial_errhandler());
  remember_error(std::string(call_) + ": " + error.message());
  const bool relock = instance_locked_;
  unlock();
  run_handler(*handler, handle, code, call_, error.message());
  if (relock) {  // references are released under the lock
    g_instance->lock.lock();
    instance_locked_ = true;
  }
  return code;
}

int EntryPoint::unsupported() {
  return fail(Error(Errc::unsupported, "not implemented: see share/weft/coverage.md of the installation"));
}

}  // namespace weft::api
