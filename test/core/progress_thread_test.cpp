// SPDX-License-Identifier: BSD-3-Clause
// ProgressThread: polls what is in flight, rests otherwise, leaves the lock to callers, and ends at once.
#include "core/progress_thread.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "solo.hpp"

namespace weft::core {
namespace {

struct Counting final : Poller {
  bool poll() override {
    ++polls;
    if (solo().lock.awaited()) ++awaited_polls;
    const bool of_program = ::pthread_equal(::pthread_self(), program) != 0;
    if (!of_program && monotonic_ns() < program_ns + ProgramActivity::kQuietNs) ++close_polls;
    for (const uint64_t begin = monotonic_ns(); monotonic_ns() < begin + poll_ns;) {
    }
    if (fails.exchange(false)) throw std::bad_alloc();
    if (of_program) program_ns = monotonic_ns();
    return progresses;
  }
  [[nodiscard]] bool idle() const override { return !busy; }
  bool busy = false;        // under the lock
  uint64_t poll_ns = 0;     // under the lock
  bool progresses = false;  // under the lock
  int awaited_polls = 0;    // under the lock: polls while another thread sleeps for it
  pthread_t program = ::pthread_self();
  uint64_t program_ns = 0;  // under the lock: end of the last poll by the program
  int close_polls = 0;      // under the lock: polls of the progress thread soon after that
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

// A thread that always progresses takes the lock again at once. It polls at most once in 50 us while another
// thread sleeps for the lock, however late the system runs that thread.
TEST_F(ProgressThreadTest, GivesWayToThreadsThatSleepForTheLock) {
  constexpr int kCalls = 200;
  constexpr uint64_t kPauseNs = 50'000;
  {
    const std::lock_guard guard(solo().lock);
    poller_.progresses = poller_.busy = true;
    poller_.poll_ns = 2'000;
  }
  solo().progress_thread->wake_if_busy();
  ASSERT_TRUE(await_polls(20));
  uint64_t waited = 0;
  for (int i = 0; i < kCalls; ++i) {
    const uint64_t begin = monotonic_ns();
    solo().lock.lock();
    waited += monotonic_ns() - begin;
    solo().leave();
    ::usleep(100);
  }
  const std::lock_guard guard(solo().lock);
  poller_.progresses = false;
  EXPECT_GT(poller_.awaited_polls, 0);
  EXPECT_LE(static_cast<uint64_t>(poller_.awaited_polls), kCalls + waited / kPauseNs);
}

// A thread that spins, since something progresses all the time, does not take the lock between the polls of a
// program that waits in MPI. Polls after the program has lost its core for kQuietNs do not count.
TEST_F(ProgressThreadTest, LeavesTheLockToAProgramThatPolls) {
  constexpr int kRounds = 100'000;
  constexpr uint64_t kPauseNs = 1'000;  // without the lock
  {
    const std::lock_guard guard(solo().lock);
    poller_.progresses = poller_.busy = true;
  }
  solo().progress_thread->wake_if_busy();
  ASSERT_TRUE(await_polls(20));
  for (int i = 0; i < kRounds; ++i) {
    {
      const std::lock_guard guard(solo().lock);
      solo().progress_thread->note_kernel_event();
      solo().progress();
    }
    for (const uint64_t begin = monotonic_ns(); monotonic_ns() < begin + kPauseNs;) {
    }
  }
  const std::lock_guard guard(solo().lock);
  poller_.progresses = false;
  EXPECT_LT(poller_.close_polls, kRounds / 50);
}

TEST(ProgramActivity, EndsWithTheCallsOrWithoutPolls) {
  constexpr uint64_t kQuiet = ProgramActivity::kQuietNs;
  ProgramActivity program;
  uint64_t now = 1'000'000;
  EXPECT_TRUE(program.polls(now, 1, 1));
  EXPECT_TRUE(program.polls(now + kQuiet - 1, 1, 1));
  EXPECT_FALSE(program.polls(now + kQuiet, 1, 1)) << "the program is outside of MPI";
  EXPECT_TRUE(program.polls(now += kQuiet, 2, 1)) << "it waits in a call";
  for (uint64_t calls = 2; calls < 7; ++calls) EXPECT_TRUE(program.polls(now += kQuiet / 5 - 1, 2, calls));
  EXPECT_FALSE(program.polls(now += kQuiet / 5, 2, 7)) << "its calls do not poll";
  program.polled(now, 3);
  EXPECT_TRUE(program.polls(now + 1, 3, 8));
  EXPECT_FALSE(program.polls(now + kQuiet + 1, 3, 8));
  EXPECT_FALSE(program.polls(now + kQuiet + 2, 3, 8));
}

TEST(InstanceLock, CountsThreadsThatSleep) {
  InstanceLock lock;
  lock.lock();
  EXPECT_FALSE(lock.awaited());
  std::thread other([&] { const std::lock_guard guard(lock); });
  while (!lock.awaited()) ::usleep(100);
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  other.join();
  EXPECT_FALSE(lock.awaited());
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(InstanceLock, ExcludesOtherThreadsAndLosesNoWakeUp) {
  constexpr int kThreads = 4, kTurns = 2000;
  InstanceLock lock;
  uint64_t turns = 0, copy = 0;  // under the lock
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const std::lock_guard guard(lock);
        EXPECT_EQ(turns, copy);
        ++turns;
        if (turn % 64 == 0) ::sched_yield();
        ++copy;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, uint64_t{kThreads} * kTurns);
  EXPECT_FALSE(lock.awaited());
}

}  // namespace
}  // namespace weft::core
