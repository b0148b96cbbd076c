// SPDX-License-Identifier: BSD-3-Clause
// Request: something that completes later (MPI 5.0 section 3.7). Base of point-to-point transfers, collective
// schedules, generalized and partitioned requests; each kind lives in a slab of its own.
// Threading: changed under the instance lock; `complete()` may be read by any thread.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/result.hpp"

namespace weft::core {

class Communicator;

/// What MPI_Status shows. `error` is kept in Request::outcome.
struct Completion {
  int source = -1;  ///< MPI_ANY_SOURCE in an empty status
  int tag = -2;     ///< MPI_ANY_TAG in an empty status
  uint64_t bytes = 0;
  bool cancelled = false;
};

/// Requests that a program never completes add up.
[[nodiscard]] inline Error no_more_requests() {
  return {Errc::no_mem, "no room for another request: complete some"};
}

class Request {
 public:
  enum class Kind : uint8_t { send, receive, collective, generalized, partitioned, enqueued, none };

  explicit Request(Kind request_kind) : kind(request_kind) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  [[nodiscard]] bool complete() const { return complete_.load(std::memory_order_acquire); }
  /// Marks it complete; a request the user has freed meanwhile is given back to its slab at once.
  void finish() {
    ++finished_;
    complete_.store(true, std::memory_order_release);
    if (detached) destroy();
  }
  void finish(Error error) {
    outcome = std::move(error);
    finish();
  }
  /// How many have been completed so far.
  [[nodiscard]] static uint64_t finished() { return finished_; }
  /// Starts a persistent request (MPI_Start); `active` is set and `complete` cleared by rearm().
  virtual Status start() { return Error(Errc::request, "MPI_Start on a request that is not persistent"); }
  /// Asks for cancellation (MPI_Cancel); may have no effect.
  virtual Status cancel() {
    return Error(
        Errc::request,
        "request is not of a send, a receive or a generalized operation: only those can be cancelled");
  }
  /// What a send or receive was called with, for those who look on.
  struct Operands {
    int rank = -1, tag = -1;
    uint64_t bytes = 0;
  };
  [[nodiscard]] virtual Operands operands() const { return {}; }
  /// Called by Wait/Test before the status is read (generalized requests run their query function here).
  virtual Status query() { return {}; }
  /// Called once before destroy() (generalized requests run their free function here).
  virtual Status conclude() { return {}; }
  /// Gives the object back to its slab; no-op for requests embedded in another object.
  virtual void destroy() {}

  Kind kind;
  bool persistent = false;
  bool active = true;     ///< false: an inactive persistent request, complete with an empty status
  bool detached = false;  ///< freed by MPI_Request_free while still active
  Completion completion;
  Status outcome;                ///< the error the operation ended with
  Communicator* comm = nullptr;  ///< retained while the request lives; may be null (generalized)

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
