// SPDX-License-Identifier: BSD-3-Clause
// Progress thread (progress.thread=on, or auto and a window that messages reach): makes progress while the
// program computes outside of MPI. Its process takes the instance lock in every call, at any thread level.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/instance.hpp"

namespace weft::core {

/// Whether the program makes progress itself, seen without the instance lock: a thread that spins for the
/// lock keeps the calls of the program from it.
class ProgramActivity {
 public:
  /// Time without a call of the program, or without a poll, after which the progress thread polls.
  static constexpr uint64_t kQuietNs = 10'000;
  /// Returns true if the program was in MPI within the last kQuietNs, and somebody has polled within that
  /// time. `rounds`: number of polls of all threads; `calls`: of MPI calls of the program; `now`: ns of
  /// monotonic_ns().
  [[nodiscard]] bool polls(uint64_t now, uint32_t rounds, uint64_t calls) {
    if (rounds != rounds_) polled_ns_ = now;
    if (rounds != rounds_ || calls != calls_) active_ns_ = now;
    rounds_ = rounds;
    calls_ = calls;
    return now < active_ns_ + kQuietNs && now < polled_ns_ + kQuietNs;
  }
  /// The progress thread has polled, and `rounds` counts that.
  void polled(uint64_t now, uint32_t rounds) {
    rounds_ = rounds;
    polled_ns_ = now;
  }

 private:
  uint32_t rounds_ = 0;
  uint64_t calls_ = 0;
  uint64_t active_ns_ = 0;  ///< last time that the program was in MPI
  uint64_t polled_ns_ = 0;  ///< last poll of any thread
};

class ProgressThread final : private Poller {
 public:
  /// Whether the setting asks for a thread from the start.
  [[nodiscard]] static bool wanted();
  /// Starts the thread of progress.thread=auto, which makes the following calls take the lock. Called at the
  /// end of a call that may hold no lock: the caller touches the instance no more.
  static void start_for_windows(Instance& instance);
  /// Starts the thread; null, with a slow path, if the system refuses. Precondition: Instance::threaded.
  [[nodiscard]] static std::unique_ptr<ProgressThread> start(Instance& instance);
  /// Ends the thread. The caller does not hold the instance lock.
  ~ProgressThread() override;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Under the instance lock: a queue that kernels write exists, or exists no more. Such queues are polled
  /// more often.
  void add_kernel_queue() { kernel_queues_.fetch_add(1, std::memory_order_relaxed); }
  void remove_kernel_queue() { kernel_queues_.fetch_sub(1, std::memory_order_relaxed); }
  /// Under the instance lock: a request or message of a kernel has been executed, others may follow soon.
  void note_kernel_event() {
    kernel_events_.store(kernel_events_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Under the instance lock, at the end of an MPI call: wakes the thread if it rests and something is in
  /// flight.
  void wake_if_busy();

 private:
  enum State : uint32_t { polling, resting, ending };
  explicit ProgressThread(Instance& instance) : instance_(instance) {}
  void run();
  /// Polls once, unless another thread is inside of MPI. Returns whether anything progressed.
  bool poll_instance();
  /// Counts the polls of all threads.
  bool poll() override;
  [[nodiscard]] bool idle() const override { return true; }
  void give_way() const;
  [[nodiscard]] bool program_polls(uint64_t now);

  Instance& instance_;
  std::atomic<uint32_t> kernel_queues_{0};
  std::atomic<uint32_t> kernel_events_{0};
  std::atomic<uint32_t> rounds_{0};  ///< polls of all threads; changed under the instance lock
  ProgramActivity program_;
  bool added_ = false;                    ///< to the pollers of the instance; under the instance lock
  std::atomic<uint32_t> state_{polling};  ///< futex; `resting` is entered under the instance lock
  pthread_t thread_{};
};

}  // namespace weft::core
