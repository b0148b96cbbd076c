// SPDX-License-Identifier: BSD-3-Clause
// Executor: threads that execute the work which GPUs start. One thread, the leader, polls the queues. When
// work starts, the leader executes it, and another thread leads if other queues may start work meanwhile:
// work that waits for a peer never keeps other work from starting.
#pragma once
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/instance.hpp"
#include "stream/order/work.hpp"

namespace weft::stream::order {

class Executor {
 public:
  explicit Executor(core::Instance& instance) : instance_(instance) {}
  ~Executor() { end(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Guards the queues. Taken with or without the instance lock, never before it.
  std::mutex mutex;
  /// Under `mutex`: adds a queue.
  void add(std::shared_ptr<Queue> queue);
  /// Under the instance lock, while a work of `queue` runs, which is overdue: skips the work behind it that
  /// the GPU has started.
  void skip_started(Queue& queue);
  /// Under `mutex`: work has been added to the queue, and the GPU may start it.
  void notify(const Queue& queue);
  /// Under the instance lock: nonblocking operations in flight, for which the threads make progress.
  void operation_begins() { ++in_flight_; }
  void operation_ends() { --in_flight_; }
  /// Ends the threads. The caller does not hold the instance lock, and no work runs.
  void end();
  /// Under the instance lock, after end(): destroys the work.
  void abandon();
  /// In a child of fork(): the threads do not exist.
  void forget_threads() { threads_.clear(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  void serve();
  void lead(Lock& lock);
  void execute(Lock& lock, Queue& queue, Work& work);
  [[nodiscard]] Work* find(Queue*& queue);
  [[nodiscard]] bool something_may_start() const;
  void wake_or_create();
  void pause(Lock& lock);
  void wake_leader();
  void progress(Lock& lock);

  core::Instance& instance_;
  std::vector<std::shared_ptr<Queue>> queues_;
  std::vector<pthread_t> threads_;
  std::condition_variable idle_threads_;
  std::atomic<uint32_t> leader_wakes_{0};  // under `mutex`; a futex, since the leader sleeps with a limit
  std::atomic<uint32_t> in_flight_{0};
  unsigned idle_ = 0;    // threads that wait for work
  bool coming_ = false;  // a thread has been woken or created, and has not looked for work yet
  bool leading_ = false, ending_ = false;
  uint64_t spin_until_ns_ = 0;  // polled without a pause until then
  uint64_t interval_ns_ = 0;    // of the next sleep
};

}  // namespace weft::stream::order
