// SPDX-License-Identifier: BSD-3-Clause
// Request: an operation that completes later (MPI 5.0 section 3.7). Base of point-to-point transfers,
// collective schedules, generalized and partitioned requests; each kind has its own slab.
// Threading: changed under the instance lock; complete() may be called by any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/wait_table.hpp"

namespace weft::core {

class Communicator;

/// The content of an MPI_Status; the error is Request::outcome.
struct Completion {
  int source = -1;  ///< MPI_ANY_SOURCE in an empty status
  int tag = -2;     ///< MPI_ANY_TAG in an empty status
  uint64_t bytes = 0;
  bool cancelled = false;
};

/// Arguments of an operation as passed by the program, for WaitPublisher.
struct Operands {
  wait_table::What what = wait_table::What::other;
  int rank = -1, tag = -1;  ///< negative: a wildcard
  int64_t count = 0;
  uint64_t bytes = 0;
  const char* operation = nullptr;  ///< name of a collective
};

/// The error of a full slab: the program leaves requests uncompleted.
[[nodiscard]] inline Error no_more_requests() {
  return {Errc::no_mem, "too many active requests: complete some"};
}

class Request {
 public:
  enum class Kind : uint8_t { send, receive, collective, generalized, partitioned, enqueued, ordered, none };

  explicit Request(Kind request_kind) : kind(request_kind) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  [[nodiscard]] bool complete() const { return complete_.load(std::memory_order_acquire); }
  /// Marks the request complete. A request without a handle is destroyed at once.
  void finish() {
    ++finished_;
    complete_.store(true, std::memory_order_release);
    if (detached) destroy();
  }
  void finish(Error error) {
    outcome = std::move(error);
    finish();
  }
  /// Ends waits for a request that stays active: Errc::proc_failed_pending.
  void interrupt(std::string why) {
    outcome = Error(Errc::proc_failed_pending, std::move(why));
    ++finished_;
    complete_.store(true, std::memory_order_release);
  }
  /// The next waits for an interrupted request last until it completes.
  void resume() {
    outcome = {};
    complete_.store(false, std::memory_order_relaxed);
  }
  [[nodiscard]] bool interrupted() const {
    return !outcome.ok() && outcome.error().code() == Errc::proc_failed_pending;
  }
  /// Returns how many requests have completed so far, or were interrupted.
  [[nodiscard]] static uint64_t finished() { return finished_; }
  /// Starts a persistent request (MPI_Start). Implementations call rearm().
  virtual Status start() { return Error(Errc::request, "MPI_Start on a request that is not persistent"); }
  /// Requests cancellation (MPI_Cancel); may have no effect.
  virtual Status cancel() {
    return Error(
        Errc::request,
        "request is not of a send, a receive or a generalized operation: only those can be cancelled");
  }
  [[nodiscard]] virtual Operands operands() const { return {}; }
  /// Called by Wait and Test before the status is read; generalized requests run their query function here.
  virtual Status query() { return {}; }
  /// Called once before destroy(); generalized requests run their free function here.
  virtual Status conclude() { return {}; }
  /// Returns the object to its slab; no-op for requests embedded in another object.
  virtual void destroy() {}

  Kind kind;
  bool persistent = false;
  bool active = true;     ///< false: an inactive persistent request, complete with an empty status
  bool detached = false;  ///< has no handle: freed while active, or a part of another request
  uint64_t listed = 0;    ///< number of the last list of handles that named it
  Completion completion;
  Status outcome;                ///< error of the completed operation, or success
  Communicator* comm = nullptr;  ///< retained while the request exists; may be null (generalized)

 protected:
  virtual ~Request() = default;
  void rearm() {
    active = true;
    completion = {};
    outcome = {};
    complete_.store(false, std::memory_order_relaxed);
  }
  std::atomic<bool> complete_{false};

 private:
  inline static uint64_t finished_ = 0;
};

}  // namespace weft::core
