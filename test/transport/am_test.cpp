// SPDX-License-Identifier: BSD-3-Clause
// The handler table: messages reach the handler of their id with the sender and size; unknown ids and
// truncated messages are dropped and counted.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/counters.hpp"
#include "transport/am/handlers.hpp"

namespace weft::transport::am {
namespace {

struct Greeting {
  HandlerId handler;
  uint8_t unused[7];
  uint64_t value;
};

struct Owner {
  Peer source = 0;
  uint64_t value = 0;
  size_t size = 0, calls = 0;
};

constexpr HandlerId kId = 200;

uint64_t count(const char* name) { return counters::find(name)->value(); }

void add_greeting(HandlerTable& table, Owner& owner, HandlerId id = kId) {
  table.add<Greeting>(id, owner, [](Owner& self, Peer source, const Greeting& message, size_t size) {
    self = {source, message.value, size, self.calls + 1};
  });
}

void deliver(HandlerTable& table, const Greeting& message, size_t size) {
  const std::unique_ptr<uint64_t[]> exact(new uint64_t[size / 8 + 1]);  // ASan finds reads beyond it
  std::memcpy(exact.get(), &message, std::min(size, sizeof message));
  table.deliver(3, reinterpret_cast<const std::byte*>(exact.get()), size);
}

TEST(Handlers, MessagesReachTheHandlerOfTheirId) {
  HandlerTable table;
  Owner first, second;
  add_greeting(table, first);
  add_greeting(table, second, 255);
  deliver(table, {kId, {}, 7}, sizeof(Greeting));
  deliver(table, {255, {}, 8}, sizeof(Greeting) + 5);
  EXPECT_EQ(first.calls, 1u);
  EXPECT_EQ(first.source, 3u);
  EXPECT_EQ(first.value, 7u);
  EXPECT_EQ(second.calls, 1u);
  EXPECT_EQ(second.value, 8u);
  EXPECT_EQ(second.size, sizeof(Greeting) + 5);
}

TEST(Handlers, UnknownIdsAreDroppedAndCounted) {
  HandlerTable table;
  Owner owner;
  const uint64_t before = count("am.unknown_handlers");
  for (int id = 0; id < 256; ++id) deliver(table, {static_cast<HandlerId>(id), {}, 0}, sizeof(Greeting));
  EXPECT_EQ(count("am.unknown_handlers"), before + 256);
  add_greeting(table, owner);
  EXPECT_TRUE(table.registered(kId));
  deliver(table, {kId, {}, 1}, sizeof(Greeting));
  table.remove(kId);
  EXPECT_FALSE(table.registered(kId));
  deliver(table, {kId, {}, 1}, sizeof(Greeting));
  EXPECT_EQ(owner.calls, 1u);
  EXPECT_EQ(count("am.unknown_handlers"), before + 257);
}

TEST(Handlers, TruncatedMessagesAreDroppedAndCounted) {
  HandlerTable table;
  Owner owner;
  add_greeting(table, owner);
  const uint64_t before = count("am.truncated_messages");
  for (size_t size = 0; size < sizeof(Greeting); ++size) deliver(table, {kId, {}, 1}, size);
  EXPECT_EQ(owner.calls, 0u);
  EXPECT_EQ(count("am.truncated_messages"), before + sizeof(Greeting));
}

TEST(Handlers, LostPeersAreReported) {
  HandlerTable table;
  Owner owner;
  table.lost(5, Error(Errc::proc_aborted, "unobserved"));
  table.set_lost([&](Peer peer, const Error&) { owner.source = peer; });
  table.lost(5, Error(Errc::proc_aborted, "killed"));
  EXPECT_EQ(owner.source, 5u);
}

}  // namespace
}  // namespace weft::transport::am
