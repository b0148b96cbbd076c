// SPDX-License-Identifier: BSD-3-Clause
// Operation: the request of a file access. It polls its task until the task is done.
// Threading: under the instance lock.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "base/assert.hpp"
#include "base/slab.hpp"
#include "core/instance.hpp"
#include "core/reference.hpp"
#include "core/request.hpp"
#include "datatype/datatype.hpp"
#include "io/backend/pool.hpp"
#include "io/task/events.hpp"
#include "io/task/task.hpp"

namespace weft::io {

class Operation final : public core::Request, public core::Poller {
 public:
  /// Operations of one file that run one after the other, in the order of the calls.
  using Queue = std::deque<Operation*>;

  /// Retains the file and the datatype. `queue`: null for an operation that runs beside others.
  Operation(core::Instance& instance, core::Counted& file, datatype::Datatype& type, Queue* queue);
  ~Operation() override;
  static Slab<Operation>& slab();
  static HandleState check(const void* handle) { return slab().check(handle); }

  /// Starts the task, which may complete at once.
  void run(Task task);
  /// Waits until the operation is complete; runs its file accesses in this thread where it would wait for
  /// them.
  void wait(Pool& pool);

  bool poll() override;
  Status query() override;
  void destroy() override { slab().destroy(this); }

  /// Keeps memory of the access while the operation exists.
  void keep(std::shared_ptr<std::byte[]> memory) { kept_ = std::move(memory); }
  /// Reserves the tags of a collective access. Called in the order of the program's calls, which is equal on
  /// all ranks, unlike the order in which tasks and blocking collectives go on.
  void reserve_tags(core::Communicator& communicator);
  /// The next of the reserved tags.
  [[nodiscard]] int next_tag() {
    WEFT_ASSERT(tags_used_ < kTags);
    return tags_[tags_used_++];
  }
  /// Waits for the turn in the queue.
  [[nodiscard]] Event& turn() { return turn_; }

  core::Instance& instance;
  const core::Ref<core::Counted> file;
  /// Runs in the call that completes the request: conversions by user functions.
  std::function<Status()> epilogue;
  /// The call that makes the operation waits for it.
  bool blocking = false;
  /// The job that the task waits for, if it waits for nothing else.
  std::shared_ptr<FileJob::State> awaited;

 private:
  struct Turn final : Event {
    explicit Turn(Operation& owner) : operation(owner) {}
    [[nodiscard]] bool ready() override {
      return operation.queue_ == nullptr || operation.queue_->front() == &operation;
    }
    Operation& operation;
  };
  void end();

  datatype::Datatype& type_;
  Queue* const queue_;
  static constexpr size_t kTags = 5;
  int tags_[kTags]{};
  size_t tags_used_ = kTags;
  std::shared_ptr<std::byte[]> kept_;
  Turn turn_{*this};
  Task task_;
  Task::Context context_;
  bool stepping_ = false, polled_ = false;
};

}  // namespace weft::io
