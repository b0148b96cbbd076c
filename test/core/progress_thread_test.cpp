// SPDX-License-Identifier: BSD-3-Clause
// ProgressThread: polls what is in flight, rests otherwise, leaves the lock to callers, and ends at once.
#include "core/progress_thread.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>

#include "base/clock.hpp"
#include "solo.hpp"

namespace weft::core {
namespace {

struct Counting final : Poller {
  bool poll() override {
    ++polls;
    if (fails.exchange(false)) throw std::bad_alloc();
    return false;
  }
  [[nodiscard]] bool idle() const override { return !busy; }
  bool busy = false;  // under the lock
  std::atomic<bool> fails{false};
  std::atomic<int> polls{0};
};

class ProgressThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    solo().threaded = true;
    solo().add(poller_);
    solo().progress_thread = ProgressThread::start(solo());
    ASSERT_NE(solo().progress_thread, nullptr);
  }
  void TearDown() override {
    const uint64_t before = monotonic_ns();
    solo().progress_thread.reset();
    EXPECT_LT(monotonic_ns() - before, 1'000'000'000u);
    solo().remove(poller_);
    solo().threaded = false;
  }
  /// An MPI call that starts or ends an operation.
  void call(bool busy) {
    solo().lock.lock();
    poller_.busy = busy;
    solo().leave();
  }
  bool await_polls(int count) const {
    const uint64_t end = monotonic_ns() + 2'000'000'000;
    const int before = poller_.polls;
    while (poller_.polls - before < count && monotonic_ns() < end) ::usleep(100);
    return poller_.polls - before >= count;
  }
  [[nodiscard]] int polls_in_50_ms() const {
    const int before = poller_.polls;
    ::usleep(50'000);
    return poller_.polls - before;
  }
  Counting poller_;
};

TEST_F(ProgressThreadTest, PollsAtIntervalsWhileAnOperationIsInFlight) {
  call(true);
  EXPECT_TRUE(await_polls(20));
  EXPECT_LT(polls_in_50_ms(), 200);  // about 100: it never spins
}

TEST_F(ProgressThreadTest, RestsWhileNothingIsInFlightAndIsWoken) {
  EXPECT_TRUE(await_polls(1));
  EXPECT_LT(polls_in_50_ms(), 15);  // about 5
  for (int i = 0; i < 20; ++i) {
    call(true);
    EXPECT_TRUE(await_polls(3));
    call(false);
  }
  ::usleep(2'000);
  EXPECT_LT(polls_in_50_ms(), 15);
}

TEST_F(ProgressThreadTest, DoesNotPollWhileACallerHoldsTheLock) {
  call(true);
  const std::lock_guard guard(solo().lock);
  EXPECT_EQ(polls_in_50_ms(), 0);
}

TEST_F(ProgressThreadTest, GoesOnAfterMemoryHasRunOut) {
  poller_.fails = true;
  call(true);
  EXPECT_TRUE(await_polls(20));
  EXPECT_TRUE(solo().progress_interrupted());
}

}  // namespace
}  // namespace weft::core
