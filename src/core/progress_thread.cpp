// SPDX-License-Identifier: BSD-3-Clause
#include "core/progress_thread.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/relax_core.hpp"
#include "base/service_thread.hpp"
#include "core/instance.hpp"

namespace weft::core {
namespace {

config::Choice mode{"progress.thread",
                    0,
                    {"auto", "on", "off"},
                    "Thread that makes progress while the program computes outside of MPI; auto: from the "
                    "creation of a window that other processes reach by messages. It costs a lock per call "
                    "and 2 to 3 percent of a core while operations are in flight or such a window exists.",
                    "large messages and nonblocking collectives are to overlap with long computations "
                    "without MPI calls (on)"};

log::SlowPath not_started{"core.no_progress_thread", "operations progress inside of MPI calls only"};

constexpr uint64_t kSpinNs = 20'000;  // polled without a pause after progress
// Time between two polls without progress: the first is the shortest, each next one twice as long.
constexpr long kFirstIntervalNs = 10'000;
constexpr long kMaxIntervalNs = 500'000;       // bounds the delay of one-sided operations by messages
constexpr uint64_t kKernelSpinNs = 1'000'000;  // after an event of kernels: their next request follows soon
constexpr long kMaxKernelIntervalNs = 50'000;
constexpr uint64_t kMaxAwaitedPauseNs =
    50'000;                           // for a thread that sleeps for the lock to wake up and get it
constexpr long kRestNs = 10'000'000;  // nothing in flight: peers may still wait for credit or a connection
constexpr unsigned long kTimerSlackNs = 1'000;

}  // namespace

bool ProgressThread::wanted() { return mode.is("on"); }

void ProgressThread::start_for_windows(Instance& instance) {
  if (instance.progress_thread != nullptr || mode.is("off")) return;
  if (instance.in_unlocked_callback())
    return not_started.hit(
        "the first window that messages reach was created in a callback: create it outside, or set "
        "WEFT_PROGRESS_THREAD=on");
  instance.threaded = true;
  instance.waits.set_state(false, true);
  instance.progress_thread = start(instance);
}

std::unique_ptr<ProgressThread> ProgressThread::start(Instance& instance) {
  std::unique_ptr<ProgressThread> made(new ProgressThread(instance));
  const int failed = start_service_thread(
      made->thread_, "weft-progress",
      [](void* self) -> void* {
        static_cast<ProgressThread*>(self)->run();
        return nullptr;
      },
      made.get());
  if (failed == 0) return made;
  not_started.hit(std::string("pthread_create: ") + std::strerror(failed));
  made->state_.store(ending, std::memory_order_relaxed);
  return nullptr;
}

ProgressThread::~ProgressThread() {
  if (state_.exchange(ending) == ending) return;  // never started
  futex_wake(state_);
  // A program that calls exit() in a callback of this thread ends it with the process.
  if (::pthread_equal(thread_, ::pthread_self()) == 0) ::pthread_join(thread_, nullptr);
  const std::lock_guard guard(instance_.lock);
  if (added_) instance_.remove(*this);
}

void ProgressThread::wake_if_busy() {
  if (state_.load(std::memory_order_relaxed) != resting || instance_.nothing_in_flight()) return;
  uint32_t expected = resting;
  if (state_.compare_exchange_strong(expected, polling)) futex_wake(state_);
}

bool ProgressThread::poll() {
  rounds_.store(rounds_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return false;
}

bool ProgressThread::poll_instance() {
  if (!instance_.lock.try_lock()) return false;
  if (!added_) instance_.add(*this);
  added_ = true;
  bool progressed = false;
  try {
    progressed = instance_.progress();
  } catch (const std::bad_alloc&) {  // recorded: later calls report it (Instance::progress_interrupted)
  } catch (const std::length_error&) {
  }
  uint32_t expected = polling;
  if (!progressed && instance_.nothing_in_flight()) state_.compare_exchange_strong(expected, resting);
  program_.polled(monotonic_ns(), rounds_.load(std::memory_order_relaxed));
  instance_.release();
  give_way();
  return progressed;
}

/// Lets a thread that sleeps for the lock wake up and get it.
void ProgressThread::give_way() const {
  for (const uint64_t begin = monotonic_ns();
       instance_.lock.awaited() && monotonic_ns() < begin + kMaxAwaitedPauseNs;)
    relax_core();
}

bool ProgressThread::program_polls(uint64_t now) {
  return program_.polls(now, rounds_.load(std::memory_order_relaxed),
                        instance_.waits.table().calls.load(std::memory_order_relaxed));
}

void ProgressThread::run() {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  uint64_t spin_until = 0;  // fragments follow each other closely
  for (long interval = kFirstIntervalNs;;) {
    const uint64_t begin = monotonic_ns();
    if (begin < spin_until && program_polls(begin)) {
      if (state_.load(std::memory_order_acquire) == ending) return;
      relax_core();
      continue;
    }
    const uint32_t events = kernel_events_.load(std::memory_order_relaxed);
    const bool progressed = poll_instance();
    const uint64_t now = monotonic_ns();
    const bool kernels = kernel_queues_.load(std::memory_order_relaxed) != 0;
    if (progressed) {
      interval = kFirstIntervalNs;
      const bool by_kernel = kernel_events_.load(std::memory_order_relaxed) != events;
      const uint64_t spin = by_kernel && !instance_.oversubscribed ? kKernelSpinNs : kSpinNs;
      spin_until = std::max(spin_until, now + spin);
    } else if (now >= spin_until) {
      const uint32_t state = state_.load(std::memory_order_acquire);
      if (state == ending) return;
      futex_wait(state_, state, state == resting ? kRestNs : interval);
      interval = state == resting ? kFirstIntervalNs
                                  : std::min(2 * interval, kernels ? kMaxKernelIntervalNs : kMaxIntervalNs);
      uint32_t expected = resting;
      state_.compare_exchange_strong(expected, polling);
    }
    if (state_.load(std::memory_order_acquire) == ending) return;
  }
}

}  // namespace weft::core
