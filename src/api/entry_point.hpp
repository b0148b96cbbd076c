// SPDX-License-Identifier: BSD-3-Clause
// EntryPoint: prologue and epilogue of every MPI function. Checks that MPI is running, holds the instance
// lock under MPI_THREAD_MULTIPLE, and calls the error handler that an error belongs to.
#pragma once
#include <mpi.h>

#include <atomic>
#include <utility>

#include "api/errors.hpp"
#include "base/result.hpp"
#include "base/trace.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "io/file/file.hpp"
#include "rma/window.hpp"

#define WEFT_HIDDEN [[gnu::visibility("hidden")]]

namespace weft::api {

enum class State : int { before_init, running, finalized, forked };

/// The Instance of the process; null before MPI_Init or the first session. Defined in instance.cpp.
WEFT_HIDDEN extern core::Instance* g_instance;
/// `running` while the world model or a session is open, `finalized` after the last one was closed, `forked`
/// in a child of fork(), which must not use MPI.
WEFT_HIDDEN extern std::atomic<State> g_state;

/// One MPI call; lives on the stack of its entry point.
class EntryPoint {
 public:
  /// For functions that require a running MPI.
  explicit EntryPoint(const char* call) : call_(call), range_(call) {
    if (g_state.load(std::memory_order_relaxed) != State::running) [[unlikely]]
      abort_not_running();
    if (g_instance->threaded) [[unlikely]] {
      g_instance->lock.lock();
      instance_locked_ = true;
      g_instance->waits.count_thread();
    }
    g_instance->waits.enter(call_);
    published_ = true;
  }
  /// For functions that MPI allows at any time from any thread (MPI 5.0 section 11.4.1).
  struct AnyTime {};
  EntryPoint(const char* call, AnyTime);
  /// For functions that create or destroy the instance, or only read an atomic: takes no lock.
  /// `allow_outside`: allowed before MPI_Init and after MPI_Finalize.
  struct Unlocked {
    bool allow_outside;
  };
  EntryPoint(const char* call, Unlocked mode) : call_(call), range_(call) {
    if (!mode.allow_outside && g_state.load(std::memory_order_relaxed) != State::running) [[unlikely]]
      abort_not_running();
  }
  ~EntryPoint() {
    if (published_) [[likely]]
      g_instance->waits.leave(call_);
    if (instance_locked_ || early_locked_) [[unlikely]]
      unlock();
  }
  EntryPoint(const EntryPoint&) = delete;
  EntryPoint& operator=(const EntryPoint&) = delete;

  /// From now on errors go to the error handler of `comm`. Default: MPI_COMM_SELF.
  void set_error_owner(core::Communicator& comm) {
    comm_ = &comm;
    if (published_) [[likely]]
      g_instance->waits.set_communicator(comm);
  }
  void set_error_owner(core::Session& session) { session_ = &session; }
  void set_error_owner(rma::Window& window) {
    window_ = &window;
    if (published_) [[likely]]
      g_instance->waits.set_communicator(*window.comm);
  }
  void set_error_owner(io::File& file) {
    file_ = &file;
    if (published_) [[likely]]
      g_instance->waits.set_communicator(*file.comm);
  }
  /// Errors go to an error handler that is an argument of the call (MPI_Session_init).
  void set_error_owner(core::Errhandler& handler) { handler_ = &handler; }
  /// Errors go to the error handler of MPI_FILE_NULL (default MPI_ERRORS_RETURN).
  void set_error_owner_file() { without_file_ = true; }

  /// Returns MPI_SUCCESS, or calls the error handler and returns the error code.
  [[nodiscard]] int finish(Status status) {
    if (status.ok()) [[likely]]
      return MPI_SUCCESS;
    return fail(std::move(status).error());
  }
  [[nodiscard]] int fail(Error error);
  /// Result of a call in which an allocation failed: MPI_ERR_NO_MEM. Entry points catch std::bad_alloc and
  /// std::length_error, which costs nothing unless thrown; exceptions of user callbacks pass through.
  [[nodiscard]] int out_of_memory();
  /// For functions without an implementation.
  [[nodiscard]] int unsupported();
  [[nodiscard]] const char* call() const { return call_; }

 private:
  [[noreturn]] void abort_not_running();
  void unlock();
  struct ErrorTarget;
  ErrorTarget error_target();
  const char* const call_;
  const trace::Range range_;
  core::Communicator* comm_ = nullptr;
  core::Session* session_ = nullptr;
  rma::Window* window_ = nullptr;
  io::File* file_ = nullptr;
  core::Errhandler* handler_ = nullptr;
  bool instance_locked_ = false;
  bool early_locked_ = false;
  bool without_file_ = false;
  bool published_ = false;
};

/// EntryPoint::fail() and out_of_memory() of a call that has no EntryPoint.
[[nodiscard, gnu::cold]] int fail(const char* call, core::Communicator& comm, Error error);
[[nodiscard, gnu::cold]] int out_of_memory(const char* call, core::Communicator& comm);

}  // namespace weft::api
