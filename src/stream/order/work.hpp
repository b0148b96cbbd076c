// SPDX-License-Identifier: BSD-3-Clause
// Work that a GPU starts and the host executes, and the queues from GPU to CPU that name it. The executor
// (executor.hpp) polls the queues and knows nothing of what their work means.
#pragma once

namespace weft::stream::order {

/// One operation of the host.
class Work {
 public:
  virtual ~Work() = default;
  /// Executes the operation and tells the GPU. Under the instance lock, which it may release while it waits.
  virtual void run() = 0;
  /// The same, instead of run(): ends the operation without executing it, since an earlier operation is
  /// overdue.
  virtual void skip() { run(); }
};

/// A queue from GPU to CPU. It starts one work at a time. All functions but abandon() run under the
/// executor's mutex, and call neither MPI nor the driver.
class Queue {
 public:
  virtual ~Queue() = default;
  /// Returns the work that the GPU has started, or null. Not called again until finished().
  [[nodiscard]] virtual Work* started() = 0;
  virtual void finished(Work& work) = 0;
  /// While a work runs: returns further work that the GPU has started, which the caller skips; null: none.
  [[nodiscard]] virtual Work* started_behind() { return nullptr; }
  /// Returns whether nothing can start until the host adds work.
  [[nodiscard]] virtual bool idle() const = 0;
  /// Returns whether nothing can start any more: the executor drops the queue.
  [[nodiscard]] virtual bool ended() const { return false; }

  /// Under the instance lock, when the executor has ended: destroys the work.
  virtual void abandon() {}

 private:
  friend class Executor;
  bool running_ = false;  // between started() and finished()
};

}  // namespace weft::stream::order
