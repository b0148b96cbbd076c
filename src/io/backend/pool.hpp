// SPDX-License-Identifier: BSD-3-Clause
// Pool: threads that access files while the threads of the program communicate or compute. Jobs never take
// the instance lock and touch no MPI objects. The threads start with the first job.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::io {

/// A function that runs once, in a thread of the pool or in a thread that waits for it.
class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  [[nodiscard]] bool done() const { return state_.load(std::memory_order_acquire) == kDone; }

 private:
  friend class Pool;
  static constexpr uint32_t kIdle = 0, kQueued = 1, kRunning = 2, kDone = 3;
  std::function<void()> run_;
  std::atomic<uint32_t> state_{kIdle};
};

/// Which thread runs a job.
enum class Runner {
  pool,    ///< a thread of the pool, or a thread that helps
  waiter,  ///< a thread that will wait for the job: no thread of the pool is woken
};

class Pool {
 public:
  /// The pool of the process; it ends with its last user.
  [[nodiscard]] static std::shared_ptr<Pool> shared();
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Precondition: all jobs are done.
  ~Pool();

  /// `run` must not throw. `job` must stay valid until it is done; `notify`, if any, is called after that.
  void submit(Job& job, Runner runner, std::function<void()> run, std::function<void()> notify = {});
  /// Runs the job in this thread if no other thread has begun it, else waits up to `nanoseconds` for its end.
  void help(Job& job, long nanoseconds);

 private:
  struct Entry {
    Job* job;
    std::function<void()> notify;
  };
  void work();
  void finish(Job& job);

  std::mutex lock_;
  std::condition_variable wake_;
  std::deque<Entry> queue_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;  ///< threads that wait for a job
  bool ending_ = false;
};

}  // namespace weft::io
