// SPDX-License-Identifier: BSD-3-Clause
// Wakeup: no notification is lost, and the counter of sleepers returns to zero.
#include "transport/shm/wakeup.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace weft::transport::shm {
namespace {

constexpr long kSleepNs = 900'000'000;  // a lost notification takes this long
constexpr uint32_t kRounds = 3000;

struct Side {
  Wakeup wakeup;
  std::atomic<uint32_t> value{0};

  /// Returns false if a sleep timed out although the value had been stored.
  bool wait(uint32_t expected, Wakeup::Counter& sleepers) {
    while (value.load(std::memory_order_acquire) != expected) {
      wakeup.arm(sleepers);
      if (value.load(std::memory_order_acquire) == expected) break;
      if (!wakeup.sleep(kSleepNs, sleepers) && value.load(std::memory_order_acquire) == expected)
        return false;
    }
    return true;
  }
  void store(uint32_t stored, Wakeup::Counter& sleepers) {
    value.store(stored, std::memory_order_release);
    wakeup.notify(sleepers);
  }
};

TEST(Wakeup, NoNotificationIsLost) {
  Side first, second;
  Wakeup::Counter sleepers{0};
  uint32_t lost = 0;
  std::thread answers([&] {
    for (uint32_t i = 1; i <= kRounds; ++i) {
      lost += second.wait(i, sleepers) ? 0 : 1;
      first.store(i, sleepers);
    }
  });
  for (uint32_t i = 1; i <= kRounds; ++i) {
    second.store(i, sleepers);
    EXPECT_TRUE(first.wait(i, sleepers)) << i;
  }
  answers.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(sleepers.load(), 0);
}

TEST(Wakeup, TimesOutWithoutNotification) {
  Wakeup wakeup;
  Wakeup::Counter sleepers{0};
  wakeup.arm(sleepers);
  EXPECT_FALSE(wakeup.sleep(1000, sleepers));
  EXPECT_TRUE(wakeup.awake());
  EXPECT_EQ(sleepers.load(), 0);
}

TEST(Wakeup, NotificationBeforeTheSleepEndsIt) {
  Wakeup wakeup;
  Wakeup::Counter sleepers{0};
  wakeup.arm(sleepers);
  wakeup.notify(sleepers);
  EXPECT_TRUE(wakeup.sleep(kSleepNs, sleepers));
  EXPECT_EQ(sleepers.load(), 0);
}

TEST(Wakeup, ATimeOutOfOneThreadLosesNoNotificationOfAnother) {
  Side side;
  Wakeup::Counter sleepers{0};
  const auto start = std::chrono::steady_clock::now();
  for (uint32_t i = 1; i <= 20; ++i) {
    std::thread patient([&] { EXPECT_TRUE(side.wait(i, sleepers)) << i; });
    std::thread impatient([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the other thread sleeps by then
      side.wakeup.arm(sleepers);
      side.wakeup.sleep(1000, sleepers);
    });
    impatient.join();
    side.store(i, sleepers);
    patient.join();
    EXPECT_EQ(sleepers.load(), 0) << i;
  }
  const auto limit = std::chrono::nanoseconds(10 * kSleepNs);  // half of what 20 lost notifications take
  EXPECT_LT(std::chrono::steady_clock::now() - start, limit);
}

TEST(Wakeup, TwoThreadsOfARankAreWokenAndCountedOnce) {
  Wakeup wakeup;
  Wakeup::Counter sleepers{0};
  std::atomic<bool> done{false};
  const auto sleep = [&] {
    while (!done) {
      wakeup.arm(sleepers);
      if (!done) wakeup.sleep(kSleepNs, sleepers);
    }
  };
  std::thread first(sleep), second(sleep);
  for (int i = 0; i < 3000; ++i) {
    wakeup.notify(sleepers);
    std::this_thread::yield();
  }
  done = true;
  wakeup.notify(sleepers);
  first.join();
  second.join();
  EXPECT_EQ(sleepers.load(), 0);
}

}  // namespace
}  // namespace weft::transport::shm
