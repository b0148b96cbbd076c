// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/executor.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/relax_core.hpp"
#include "base/service_thread.hpp"
#include "core/progress_thread.hpp"

namespace weft::stream::order {
namespace {

config::Size setting_spin_us(
    "stream.spin_us", 1000, 0, 1'000'000,
    "Time in microseconds for which a thread polls without pauses for the start of an operation in stream "
    "order after the call that enqueues it. Larger values lower the latency, smaller ones leave the core.");

log::SlowPath no_thread("stream.no_thread", "operations in stream order do not start");

constexpr uint64_t kCrowdedSpinNs = 20'000;  // with more ranks than cores
// Time between two polls without a start: the first is the shortest, each next one twice as long.
constexpr uint64_t kFirstIntervalNs = 5'000, kMaxIntervalNs = 100'000;
constexpr int kSpinPauses = 8;  // between two polls: 0.2 us
constexpr unsigned long kTimerSlackNs = 1'000;

}  // namespace

void Executor::end() {
  std::vector<pthread_t> threads;
  {
    const std::lock_guard lock(mutex);
    ending_ = true;
    threads.swap(threads_);
  }
  idle_threads_.notify_all();
  wake_leader();
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
}

void Executor::abandon() {
  for (const auto& queue : queues_) queue->abandon();
  queues_.clear();
}

void Executor::add(std::shared_ptr<Queue> queue) { queues_.push_back(std::move(queue)); }

void Executor::notify(const Queue& queue) {
  const uint64_t spin =
      instance_.oversubscribed || instance_.cores < 2 ? kCrowdedSpinNs : setting_spin_us * uint64_t{1000};
  spin_until_ns_ = monotonic_ns() + spin;
  interval_ns_ = kFirstIntervalNs;
  if (leading_) return wake_leader();
  if (!queue.running_) wake_or_create();
}

void Executor::skip_started(Queue& queue) {
  for (;;) {
    Work* work = nullptr;
    {
      const std::lock_guard lock(mutex);
      work = queue.started_behind();
    }
    if (work == nullptr) return;
    work->skip();
  }
}

bool Executor::something_may_start() const {
  if (in_flight_.load(std::memory_order_relaxed) != 0) return true;
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return !queue->running_ && !queue->idle(); });
}

void Executor::wake_or_create() {
  if (std::exchange(coming_, true)) return;
  if (idle_ != 0) return idle_threads_.notify_one();
  pthread_t thread;
  const int failed = start_service_thread(
      thread, "weft-stream",
      [](void* self) -> void* {
        static_cast<Executor*>(self)->serve();
        return nullptr;
      },
      this);
  if (failed == 0) return threads_.push_back(thread);
  coming_ = false;
  no_thread.hit("pthread_create failed: raise the limit of threads (ulimit -u)");
}

void Executor::serve() {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  Lock lock(mutex);
  coming_ = false;
  while (!ending_) {
    if (!leading_ && something_may_start()) {
      lead(lock);
      continue;
    }
    ++idle_;
    idle_threads_.wait(lock);
    --idle_;
    coming_ = false;
  }
}

Work* Executor::find(Queue*& queue) {
  for (size_t i = 0; i < queues_.size(); ++i) {
    Queue& at = *queues_[i];
    if (at.running_ || at.idle()) continue;
    Work* const work = at.started();
    if (work == nullptr) continue;
    queue = &at;
    return work;
  }
  return nullptr;
}

/// Polls until some work starts, and executes it.
void Executor::lead(Lock& lock) {
  leading_ = true;
  Queue* queue = nullptr;
  Work* work = nullptr;
  while (!ending_ && something_may_start() && (work = find(queue)) == nullptr) {
    if (in_flight_.load(std::memory_order_relaxed) != 0) progress(lock);
    pause(lock);
  }
  leading_ = false;
  if (work != nullptr) execute(lock, *queue, *work);
}

void Executor::execute(Lock& lock, Queue& queue, Work& work) {
  queue.running_ = true;
  if (something_may_start()) wake_or_create();
  lock.unlock();
  {
    const std::lock_guard instance_lock(instance_.lock);
    work.run();
    if (instance_.progress_thread != nullptr) instance_.progress_thread->wake_if_busy();
    instance_.wake_others();
  }
  lock.lock();
  queue.running_ = false;
  queue.finished(work);
  if (queue.ended()) std::erase_if(queues_, [&](const auto& entry) { return entry.get() == &queue; });
  interval_ns_ = kFirstIntervalNs;
  spin_until_ns_ = std::max(spin_until_ns_, monotonic_ns() + kCrowdedSpinNs);
}

/// Makes progress, unless another thread is inside of MPI.
void Executor::progress(Lock& lock) {
  lock.unlock();
  if (instance_.lock.try_lock()) {
    instance_.progress();
    instance_.release();
  }
  lock.lock();
}

void Executor::wake_leader() {
  leader_wakes_.fetch_add(1, std::memory_order_relaxed);
  futex_wake(leader_wakes_);
}

void Executor::pause(Lock& lock) {
  if (monotonic_ns() < spin_until_ns_) {
    lock.unlock();
    if (instance_.oversubscribed || instance_.cores < 2) ::sched_yield();
    for (int i = 0; i < kSpinPauses; ++i) relax_core();  // others take the mutex meanwhile
    lock.lock();
    return;
  }
  interval_ns_ = std::clamp(interval_ns_, kFirstIntervalNs, kMaxIntervalNs);
  const uint32_t seen = leader_wakes_.load(std::memory_order_relaxed);
  lock.unlock();
  futex_wait(leader_wakes_, seen, static_cast<long>(interval_ns_));
  lock.lock();
  interval_ns_ *= 2;
}

}  // namespace weft::stream::order
