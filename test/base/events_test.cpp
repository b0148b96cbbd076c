// SPDX-License-Identifier: BSD-3-Clause
// Events: registry, wanted() and its hook, values that arrive. Settings that a tool has written.
#include "base/events.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/scope.hpp"

namespace weft::events {
namespace {

Event second("test.second", "The second event", {{"bytes", Type::amount}}, Binding::communicator);
Event first("test.first", "The first event", {{"rank", Type::number}, {"bytes", Type::amount}});

struct Received {
  const Event* event;
  std::vector<uint64_t> values;
  uint64_t object;
};
std::vector<Received> received;

TEST(Events, AreSortedAndReachTheSink) {
  const auto known = all();
  const auto at = std::find(known.begin(), known.end(), &first);
  ASSERT_NE(at, known.end());
  EXPECT_EQ(at[1], &second);
  second.raise({1});  // without a sink
  set_sink([](const Event& event, std::initializer_list<uint64_t> values, uint64_t object) {
    received.push_back({&event, values, object});
  });
  second.raise({5}, 77);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].event, &second);
  EXPECT_EQ(received[0].values, std::vector<uint64_t>{5});
  EXPECT_EQ(received[0].object, 77u);
}

TEST(Events, CallTheHookWhenWantedChanges) {
  int calls = 0;
  first.set_hook([&] { ++calls; });
  EXPECT_FALSE(first.wanted());
  first.set_wanted(false);
  EXPECT_EQ(calls, 0);
  first.set_wanted(true);
  first.set_wanted(true);
  EXPECT_TRUE(first.wanted());
  EXPECT_EQ(calls, 1);
  first.set_wanted(false);
  EXPECT_EQ(calls, 2);
  first.set_hook({});
}

counters::Counter level("test.level", counters::Unit::bytes, "A level", counters::Kind::level);
counters::Counter objects("test.objects", counters::Unit::objects, "Objects");
counters::Counter total("test.total", counters::Unit::bytes, "A total");
counters::Counter high("test.high", counters::Unit::objects, "A high-water mark", counters::Kind::high_water);

TEST(Counters, HaveAKind) {
  EXPECT_EQ(level.kind(), counters::Kind::level);
  EXPECT_EQ(objects.kind(), counters::Kind::level);
  EXPECT_EQ(total.kind(), counters::Kind::total);
  for (const uint64_t value : {3, 7, 5}) high.raise_to(value);
  EXPECT_EQ(high.value(), 7u);
}

config::Size setting("test.events_number", 1, 0, 100, "A number of a test.");
config::Size fixed("test.events_fixed", 1, 0, 100, "A number of a test.");
const config::Adjustable may_change{"test.events_number"};

TEST(Settings, KeepWhatAToolHasWritten) {
  EXPECT_TRUE(config::adjustable(setting));
  EXPECT_FALSE(config::adjustable(fixed));
  ASSERT_TRUE(setting.parse("7"));
  setting.origin = config::Origin::tool;
  ::setenv("WEFT_TEST_EVENTS_NUMBER", "9", 1);
  ::setenv("WEFT_TEST_EVENTS_FIXED", "9", 1);
  ::setenv("WEFT_PROFILE", "off", 1);
  ASSERT_TRUE(config::load());
  EXPECT_EQ(setting, 7u);
  EXPECT_EQ(fixed, 9u);
  EXPECT_STREQ(config::name_of(setting.origin), "tool");
}

}  // namespace
}  // namespace weft::events
