// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/pool.hpp"

#include <csignal>
#include <system_error>
#include <utility>

#include "base/config.hpp"
#include "base/futex.hpp"

namespace weft::io {
namespace {

config::Size threads{
    "io.threads", 4, 1, 64,
    "Largest number of threads of a process that access files for nonblocking and collective "
    "calls. More threads keep more accesses in flight."};

}  // namespace

std::shared_ptr<Pool> Pool::shared() {
  static std::mutex lock;
  static std::weak_ptr<Pool> current;
  const std::lock_guard guard(lock);
  std::shared_ptr<Pool> pool = current.lock();
  if (pool == nullptr) current = pool = std::make_shared<Pool>();
  return pool;
}

Pool::~Pool() {
  {
    const std::lock_guard guard(lock_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::submit(Job& job, Runner runner, std::function<void()> run, std::function<void()> notify) {
  job.run_ = std::move(run);
  job.state_.store(Job::kQueued, std::memory_order_relaxed);
  bool threadless = false;
  {
    const std::lock_guard guard(lock_);
    queue_.push_back({&job, std::move(notify)});
    if (runner == Runner::waiter) return;
    if (idle_ < queue_.size() && threads_.size() < threads) {
      sigset_t all, before;  // the program's signals are delivered to its own threads
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        threadless = threads_.empty();
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
  }
  if (threadless) return help(job, 0);
  wake_.notify_one();
}

void Pool::finish(Job& job) {
  job.run_();
  job.state_.store(Job::kDone, std::memory_order_release);
  futex_wake(job.state_);
}

void Pool::work() {
  std::unique_lock guard(lock_);
  for (;;) {
    ++idle_;
    wake_.wait(guard, [this] { return ending_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    entry.job->state_.store(Job::kRunning, std::memory_order_relaxed);
    guard.unlock();
    finish(*entry.job);  // the job may be gone now
    if (entry.notify) entry.notify();
    guard.lock();
  }
}

void Pool::help(Job& job, long nanoseconds) {
  {
    std::unique_lock guard(lock_);
    for (auto entry = queue_.begin(); entry != queue_.end(); ++entry) {
      if (entry->job != &job) continue;
      queue_.erase(entry);
      job.state_.store(Job::kRunning, std::memory_order_relaxed);
      guard.unlock();
      finish(job);
      return;
    }
  }
  if (!job.done()) futex_wait(job.state_, Job::kRunning, nanoseconds);
}

}  // namespace weft::io
