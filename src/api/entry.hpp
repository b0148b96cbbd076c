// SPDX-License-Identifier: BSD-3-Clause
// Entry: what every generated entry point does first and last. Checks that MPI is running, holds the instance
// lock while MPI_THREAD_MULTIPLE is granted, and hands an error to the right error handler.
#pragma once
#include <mpi.h>

#include <atomic>
#include <utility>

#include "api/errors.hpp"
#include "base/result.hpp"
#include "base/trace.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"

#define WEFT_HIDDEN [[gnu::visibility("hidden")]]

namespace weft::api {

enum class State : int { before_init, running, finalized, forked };

/// The one Instance of the process, null until MPI_Init or the first session. Defined in instance.cpp.
WEFT_HIDDEN extern core::Instance* g_instance;
/// `running` while the world model or a session is open; `finalized` when all that were are closed; `forked`
/// in a child of fork(): MPI belongs to its parent.
WEFT_HIDDEN extern std::atomic<State> g_state;

/// One MPI call, on the stack of its entry point.
class Entry {
 public:
  /// A call that needs MPI to be running.
  explicit Entry(const char* call) : call_(call), range_(call) {
    if (g_state.load(std::memory_order_relaxed) != State::running) [[unlikely]]
      refuse_outside();
    if (g_instance->threaded) [[unlikely]] {
      g_instance->lock.lock();
      instance_locked_ = true;
    }
  }
  /// A call that MPI allows at any time (MPI 5.0 section 11.4.1), from any thread.
  struct AnyTime {};
  Entry(const char* call, AnyTime);
  /// A call that makes or destroys the instance, or only reads an atomic: takes no lock. `allow_outside` as
  /// AnyTime.
  struct Unlocked {
    bool allow_outside;
  };
  Entry(const char* call, Unlocked mode) : call_(call), range_(call) {
    if (!mode.allow_outside && g_state.load(std::memory_order_relaxed) != State::running) [[unlikely]]
      refuse_outside();
  }
  ~Entry() {
    if (instance_locked_ || early_locked_) [[unlikely]]
      unlock();
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  /// Errors from here on belong to this communicator; without one, to MPI_COMM_SELF.
  void owner(core::Communicator& comm) { comm_ = &comm; }
  void owner(core::Session& session) { session_ = &session; }
  /// Errors of the call go to an error handler that is its argument: MPI_Session_init.
  void owner(core::Errhandler& handler) { handler_ = &handler; }
  /// Errors belong to MPI_FILE_NULL's handler, MPI_ERRORS_RETURN unless changed.
  void owner_file() { file_ = true; }

  /// Success, or the code that is left after the error handler has run.
  [[nodiscard]] int finish(Status status) {
    if (status.ok()) [[likely]]
      return MPI_SUCCESS;
    return fail(std::move(status).error());
  }
  [[nodiscard]] int fail(Error error);
  /// For calls that have no implementation yet.
  [[nodiscard]] int unsupported();
  [[nodiscard]] const char* call() const { return call_; }

 private:
  [[noreturn]] void refuse_outside();
  void unlock();
  const char* call_;
  const trace::Range range_;
  core::Communicator* comm_ = nullptr;
  core::Session* session_ = nullptr;
  core::Errhandler* handler_ = nullptr;
  bool instance_locked_ = false;
  bool early_locked_ = false;
  bool file_ = false;
};

}  // namespace weft::api
