// SPDX-License-Identifier: BSD-3-Clause
// Instance::progress(): an exception is recorded and does not disable progress.
#include <gtest/gtest.h>

#include <new>

#include "solo.hpp"

namespace weft::core {
namespace {

struct Failing final : Poller {
  bool poll() override {
    if (fails) throw std::bad_alloc();
    return ++calls > 0;
  }
  bool fails = true;
  int calls = 0;
};

TEST(Progress, ContinuesAfterAnException) {
  Failing poller;
  solo().add(poller);
  EXPECT_FALSE(solo().progress_interrupted());
  EXPECT_THROW(solo().progress(), std::bad_alloc);
  EXPECT_TRUE(solo().progress_interrupted());
  poller.fails = false;
  EXPECT_TRUE(solo().progress());
  EXPECT_EQ(poller.calls, 1);
  solo().remove(poller);
  EXPECT_FALSE(solo().progress());
  EXPECT_EQ(poller.calls, 1);
}

}  // namespace
}  // namespace weft::core
