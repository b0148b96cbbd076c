// SPDX-License-Identifier: BSD-3-Clause
// Claims on operation slots by racing threads.
#include "rma/operation_slot.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace weft::rma {
namespace {

TEST(OperationSlot, OneSideExecutes) {
  constexpr int kRounds = 20000;
  OperationSlot slot{};
  std::atomic<int> executed{0};
  std::atomic<bool> end{false};
  std::thread owner([&] {
    while (!end.load()) {
      if (!slot.is_posted() || !slot.begin()) continue;
      executed.fetch_add(1);
      slot.state.store(OperationSlot::done, std::memory_order_release);
    }
  });
  int retracted = 0;
  for (int i = 0; i < kRounds; ++i) {
    slot.state.store(OperationSlot::posted, std::memory_order_release);
    for (int spins = i % 300; spins > 0 && !slot.executed(); --spins) {
    }
    if (slot.retract())
      ++retracted;
    else
      while (!slot.executed()) std::this_thread::yield();
  }
  end.store(true);
  owner.join();
  EXPECT_EQ(executed.load() + retracted, kRounds);
}

}  // namespace
}  // namespace weft::rma
