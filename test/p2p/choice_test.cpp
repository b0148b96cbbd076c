// SPDX-License-Identifier: BSD-3-Clause
// Eager limits of host messages on measured machines (bench/results/host-limits.json), and the selection of
// the receiver's protocol from the table.
#include "p2p/engine/choice.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "p2p/protocol/all.hpp"
#include "p2p/protocol/table.hpp"

namespace weft::p2p {
namespace {

TEST(EagerBreakEven, CoresWithoutACommonCache) {
  EXPECT_NEAR(static_cast<double>(eager_break_even(500, 850)), 8192,
              1500);                             // 8 KiB: both protocols equal; 16 KiB: single copy
  EXPECT_EQ(eager_break_even(2000, 300), 4096);  // lower bound
}

TEST(EagerBreakEven, CoresThatShareACache) {
  EXPECT_EQ(eager_break_even(80, 1500), UINT64_MAX);
  EXPECT_EQ(eager_break_even(0, 0), UINT64_MAX);
}

TEST(EagerBreakEven, CostsOfTheCallDecide) {
  EXPECT_LT(eager_break_even(400, 600), eager_break_even(400, 1200));
  EXPECT_GT(eager_break_even(300, 900), eager_break_even(600, 900));
}

using device::MemoryKind;
constexpr MemoryKind kKinds[] = {MemoryKind::host, MemoryKind::host_pinned, MemoryKind::cuda_device,
                                 MemoryKind::cuda_managed};

/// The rules inside a host, as nested conditions.
std::string staged_protocol(const MessageInfo& message) {
  const bool reads = message.device && !device_side(message.to) && message.bytes >= 32 << 10;
  return reads ? "announced" : "fragments";
}

std::string expected_protocol(const MessageInfo& message) {
  if (!message.device) {
    if (!message.contiguous) return "fragments";
    return device_side(message.to) ? "upload" : "single copy";
  }
  if (!message.region) return staged_protocol(message);
  if (!device_side(message.to))
    return message.bounce || message.strided || message.to != MemoryKind::host_pinned
               ? staged_protocol(message)
               : "mapped";
  if (message.bounce) return message.eager_pack ? "eager pack" : "bounce";
  return message.strided ? "strided" : "mapped";
}

/// Every message that a peer of this host can announce.
std::vector<MessageInfo> local_messages() {
  std::vector<MessageInfo> messages;
  for (const MemoryKind to : kKinds)
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{1} << 20})
      for (unsigned bits = 0; bits < 64; ++bits) {
        const auto bit = [&](unsigned i) { return (bits >> i & 1) != 0; };
        MessageInfo message;
        message.to = to;
        message.bytes = bytes;
        message.device = bit(0);
        message.contiguous = bit(1);
        message.region = bit(2);
        message.bounce = bit(3) && message.device && message.region;
        message.strided = bit(4) && message.device && message.region && !message.bounce;
        message.eager_pack = bit(5) && message.bounce;
        messages.push_back(message);
      }
  return messages;
}

TEST(Selection, ChoosesTheFastestProtocolInsideAHost) {
  for (const MessageInfo& message : local_messages()) {
    const Protocol* const selected = protocol_table().select(message);
    ASSERT_NE(selected, nullptr);
    EXPECT_EQ(selected->name, expected_protocol(message))
        << static_cast<int>(message.to) << message.device << message.region << message.bounce;
  }
}

TEST(Selection, FallsBackToFragmentsOfAnyMessage) {
  for (const MessageInfo& message : local_messages()) {
    uint32_t tried = 0;
    unsigned last_cost = 0;
    const Protocol* last = nullptr;
    while (const Protocol* const selected = protocol_table().select(message, tried)) {
      EXPECT_EQ(tried >> protocol_table().index_of(*selected) & 1, 0u);
      EXPECT_GE(cost_of(*selected, message), last_cost);
      last_cost = cost_of(*selected, message);
      last = selected;
      tried |= uint32_t{1} << protocol_table().index_of(*selected);
    }
    EXPECT_EQ(last, &kFragments);
  }
}

TEST(Selection, ChoosesOneProtocolBetweenHosts) {
  MessageInfo message{.remote = true, .rkey = true, .contiguous = true, .bytes = 1 << 20};
  for (const MemoryKind to : kKinds)
    for (const bool device : {false, true}) {
      message.to = to;
      message.device = device;
      message.rkey = true;
      EXPECT_EQ(protocol_table().select(message), &kRmaGet);
      message.rkey = false;
      EXPECT_EQ(protocol_table().select(message), device ? &kRmaFragments : &kFragments);
    }
}

TEST(ProtocolTable, HasEveryProtocolOnce) {
  std::set<std::string> names;
  for (const Protocol* const protocol : protocol_table().all()) {
    EXPECT_TRUE(names.insert(protocol->name).second) << protocol->name;
    EXPECT_EQ(protocol_table().at(protocol_table().index_of(*protocol)), protocol);
    // A protocol that the receiver selects can be started, and one with a CTS can be polled.
    EXPECT_EQ(protocol->applicable != nullptr, protocol->init != nullptr) << protocol->name;
    EXPECT_EQ(protocol->applicable != nullptr, protocol->copies != 0) << protocol->name;
    EXPECT_EQ(protocol->applicable != nullptr, protocol->received != nullptr) << protocol->name;
    EXPECT_TRUE(protocol->accept == nullptr || protocol->progress != nullptr) << protocol->name;
  }
  EXPECT_LE(names.size(), 32u);  // a set of protocols is 32 bits
}

}  // namespace
}  // namespace weft::p2p
