// SPDX-License-Identifier: BSD-3-Clause
// Messages that are held back: each peer's stay in order, those of different peers do not, and none is lost.
#include "transport/am/late_delivery.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace weft::transport::am {
namespace {

constexpr Peer kPeers = 3;
constexpr uint64_t kMessages = 200, kLongNs = 3'600'000'000'000;

struct Recorder final : Receiver {
  void deliver(Peer source, const std::byte* message, size_t size) override {
    uint64_t value = 0;
    ASSERT_EQ(size, sizeof value);
    std::memcpy(&value, message, sizeof value);
    got[source].push_back(value);
    order.push_back(source);
  }
  void lost(Peer peer, const Error&) override { got_before_loss = got[peer].size(); }
  void left(Peer peer) override { got_before_notice = got[peer].size(); }
  Peer find(uint32_t job_tag, uint32_t rank) override { return job_tag + rank; }
  std::vector<uint64_t> got[kPeers];
  std::vector<Peer> order;
  size_t got_before_loss = 0, got_before_notice = 0;
};

struct Late : testing::Test {
  Late() {
    for (uint64_t i = 0; i < kMessages; ++i)
      for (Peer peer = 0; peer < kPeers; ++peer)
        late.deliver(peer, reinterpret_cast<const std::byte*>(&i), sizeof i);
  }
  void expect_all_of(Peer peer) {
    ASSERT_EQ(recorder.got[peer].size(), kMessages);
    for (uint64_t i = 0; i < kMessages; ++i) EXPECT_EQ(recorder.got[peer][i], i);
  }
  Recorder recorder;
  LateDelivery late{recorder, kLongNs, 1};
};

TEST_F(Late, AllArriveInTheOrderOfTheirPeer) {
  EXPECT_LT(recorder.order.size(), kPeers * kMessages);
  EXPECT_TRUE(late.deliver_due(UINT64_MAX));
  EXPECT_FALSE(late.deliver_due(UINT64_MAX));
  for (Peer peer = 0; peer < kPeers; ++peer) expect_all_of(peer);
}

TEST_F(Late, PeersOvertakeEachOther) {
  late.deliver_all();
  std::vector<Peer> in_turn;
  for (uint64_t i = 0; i < kPeers * kMessages; ++i) in_turn.push_back(static_cast<Peer>(i % kPeers));
  EXPECT_NE(recorder.order, in_turn);
}

TEST_F(Late, APeerIsLostAfterItsMessages) {
  late.lost(1, Error(Errc::proc_aborted, "gone"));
  EXPECT_EQ(recorder.got_before_loss, kMessages);
  expect_all_of(1);
}

TEST_F(Late, APeerLeavesAfterItsMessages) {
  late.left(1);
  EXPECT_EQ(recorder.got_before_notice, kMessages);
  expect_all_of(1);
}

TEST_F(Late, AForgottenPeerSendsNothing) {
  const size_t before = recorder.got[2].size();
  ASSERT_LT(before, kMessages);
  late.forget(2);
  late.deliver_all();
  EXPECT_EQ(recorder.got[2].size(), before);
  EXPECT_EQ(late.find(4, 5), 9u);
}

}  // namespace
}  // namespace weft::transport::am
