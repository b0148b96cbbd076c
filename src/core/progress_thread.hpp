// SPDX-License-Identifier: BSD-3-Clause
// Progress thread (progress.thread=on, or auto and a window that messages reach): makes progress while the
// program computes outside of MPI. Its process takes the instance lock in every call, at any thread level.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace weft::core {

class Instance;

class ProgressThread {
 public:
  /// Whether the setting asks for a thread from the start.
  [[nodiscard]] static bool wanted();
  /// Starts the thread of progress.thread=auto, which makes the following calls take the lock. Called at the
  /// end of a call that may hold no lock: the caller touches the instance no more.
  static void start_for_windows(Instance& instance);
  /// Starts the thread; null, with a slow path, if the system refuses. Precondition: Instance::threaded.
  [[nodiscard]] static std::unique_ptr<ProgressThread> start(Instance& instance);
  /// Ends the thread. The caller does not hold the instance lock.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Under the instance lock: a queue that kernels write exists, or exists no more. Such queues are polled
  /// more often.
  void add_kernel_queue() { kernel_queues_.fetch_add(1, std::memory_order_relaxed); }
  void remove_kernel_queue() { kernel_queues_.fetch_sub(1, std::memory_order_relaxed); }
  /// Under the instance lock, at the end of an MPI call: wakes the thread if it rests and something is in
  /// flight.
  void wake_if_busy();

 private:
  enum State : uint32_t { polling, resting, ending };
  explicit ProgressThread(Instance& instance) : instance_(instance) {}
  void run();
  /// Polls once, unless another thread is inside of MPI. Returns whether anything progressed.
  bool poll();
  void give_way() const;

  Instance& instance_;
  std::atomic<uint32_t> kernel_queues_{0};
  std::atomic<uint32_t> state_{polling};  ///< futex; `resting` is entered under the instance lock
  pthread_t thread_{};
};

}  // namespace weft::core
