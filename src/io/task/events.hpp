// SPDX-License-Identifier: BSD-3-Clause
// Events that tasks wait for: messages, jobs of the pool, requests of collectives.
// Threading: under the instance lock.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "coll/dispatch/operation.hpp"
#include "coll/schedule/records.hpp"
#include "core/request.hpp"
#include "io/backend/pool.hpp"
#include "io/task/task.hpp"
#include "p2p/p2p.hpp"

namespace weft::io {

/// Messages of one tag on the collective channel of a communicator. Destroyed only when ready().
class Messages final : public Event {
 public:
  Messages(core::Communicator& comm, int tag) : comm_(comm), tag_(tag) {}
  ~Messages() override { WEFT_ASSERT(Messages::ready()); }
  void send(const p2p::Buffer& buffer, int dest);
  void receive(const p2p::Buffer& buffer, int source);
  [[nodiscard]] bool ready() override;
  /// Forgets the messages, which are complete. Returns the first error of them.
  [[nodiscard]] Status take();

 private:
  [[nodiscard]] bool gives_up(int peer);
  void post_send(const p2p::Buffer& buffer, int dest);
  core::Communicator& comm_;
  const int tag_;
  Status failed_;        ///< a process of the communicator has failed
  size_t complete_ = 0;  ///< the first messages that are known to be complete
  std::deque<p2p::Transfer> transfers_;
};

/// A file access in the pool. `run` returns its outcome; it touches no MPI objects.
class FileJob final : public Event {
 public:
  ~FileJob() override { WEFT_ASSERT(!running()); }
  void submit(Pool& pool, core::Instance& instance, std::function<Status()> run,
              Runner runner = Runner::pool);
  [[nodiscard]] bool running() const { return state_ != nullptr && !state_->job.done(); }
  [[nodiscard]] bool ready() override { return !running(); }
  /// The outcome of the last job.
  [[nodiscard]] Status take() {
    WEFT_ASSERT(!running());
    return state_ == nullptr ? Status() : std::move(state_->outcome);
  }
  struct State {
    Job job;
    Status outcome;
  };
  /// Shared with a thread that helps.
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// A nonblocking collective with a tag of its own.
class Collective final : public Event {
 public:
  Collective(const coll::Call& call, int tag);
  ~Collective() override;
  [[nodiscard]] bool ready() override { return request_ == nullptr || request_->complete(); }
  [[nodiscard]] Status take();

 private:
  coll::Operation* request_ = nullptr;
  Status failed_;
};

/// The outcome of a rank, as published to the others; 0: success.
[[nodiscard]] int64_t failure_code(const Status& own);
/// The common outcome, by the codes of all ranks: success, or on every rank an error with the class of the
/// first rank that has failed. A rank with an error keeps its own text. `path`: of the file.
[[nodiscard]] Status agree(Status own, const std::vector<int64_t>& codes, const std::string& path);

}  // namespace weft::io
