// SPDX-License-Identifier: BSD-3-Clause
#include "core/recent_handles.hpp"

#include <gtest/gtest.h>

namespace weft::core {
namespace {

const void* handle(uintptr_t value) { return reinterpret_cast<const void*>(value); }

TEST(RecentHandles, ContainsWhatIsRememberedUntilItIsForgotten) {
  RecentHandles recent;
  EXPECT_FALSE(recent.contains(handle(0x10000)));
  recent.remember(handle(0x10000));
  EXPECT_TRUE(recent.contains(handle(0x10000)));
  EXPECT_FALSE(recent.contains(handle(0x10008)));  // of the same slot
  recent.forget(handle(0x10008));
  EXPECT_TRUE(recent.contains(handle(0x10000)));
  recent.forget(handle(0x10000));
  EXPECT_FALSE(recent.contains(handle(0x10000)));
}

TEST(RecentHandles, NeverContainsNull) {
  RecentHandles recent;
  EXPECT_FALSE(recent.contains(nullptr));
  recent.remember(handle(0x1ff));
  recent.forget(handle(0x1ff));
  EXPECT_FALSE(recent.contains(nullptr));
}

TEST(RecentHandles, SeveralObjectsHaveSlots) {
  RecentHandles recent;
  for (uintptr_t i = 0; i < 16; ++i) recent.remember(handle(0x10000 + i * 512));
  for (uintptr_t i = 0; i < 16; ++i) EXPECT_TRUE(recent.contains(handle(0x10000 + i * 512))) << i;
  recent.remember(handle(0x10000 + 16 * 512));  // takes the slot of the first
  EXPECT_FALSE(recent.contains(handle(0x10000)));
  EXPECT_TRUE(recent.contains(handle(0x10000 + 16 * 512)));
}

}  // namespace
}  // namespace weft::core
