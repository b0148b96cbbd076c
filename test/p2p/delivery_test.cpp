// SPDX-License-Identifier: BSD-3-Clause
// Delivery alone: matching of messages that arrive before and after their receives, credit, truncation,
// cancel, revocation; and against Outgoing, in random interleavings.
#include "p2p/engine/delivery.hpp"

#include <deque>
#include <random>

#include "parts.hpp"

namespace weft::p2p {
namespace {

/// The other parts, which note what Delivery asks of them.
struct NotedPaths final : ReceivePaths {
  void start_rendezvous(Transfer& t, uint32_t, const ReadyToSend& rts) override {
    rendezvous.push_back(&t);
    last = rts.sender;
  }
  void upload_eager(Transfer&, const std::byte*, size_t) override { ADD_FAILURE(); }
  void posted_on_device(Transfer&) override { ADD_FAILURE(); }
  void receive_on_device(Transfer&, UnexpectedMessage&) override { ADD_FAILURE(); }
  bool retract(Transfer& t) override {
    if (may_retract) t.advertised = 0;
    return may_retract;
  }
  bool retract_matched(Transfer& t) override { return retract(t); }
  bool usable(Transfer&) override { return true; }
  bool source_alive(Transfer&) override { return true; }
  void store_region(uint32_t, const ReadyToSend&) override { ADD_FAILURE(); }
  void refuse(uint32_t, const ReadyToSend& rts) override { refused.push_back(rts.sender); }

  std::vector<Transfer*> rendezvous;
  core::RequestId last = core::kNoRequest;
  std::vector<core::RequestId> refused;
  bool may_retract = true;
};

class DeliveryAlone : public Parts {
 protected:
  DeliveryAlone() : delivery_(instance_, peers_, requests_, outgoing_, paths_) {}

  Transfer& receive(int source, int tag, size_t bytes = 64) {
    Received& made = receives_.emplace_back(bytes);
    prepare(made.t, made.buffer.data(), bytes, kPeer, tag);
    made.t.rank = source;
    made.t.key = {kContext, source == kAnySource ? match::kAny : source, tag == kAnyTag ? match::kAny : tag};
    delivery_.receive(made.t);
    return made.t;
  }
  void arrive(int tag, const Bytes& payload, core::ContextId context = kContext) {
    Header header{Type::eager};
    header.context = context;
    header.source = kPeer;
    header.tag = tag;
    header.length = static_cast<uint32_t>(payload.size());
    delivery_.on_observed_eager(kPeer, header, payload.data(), core::kNoRequest);
  }
  void announce(int tag, uint64_t bytes, core::RequestId sender) {
    ReadyToSend rts{};
    rts.type = Type::ready_to_send;
    rts.context = kContext;
    rts.source = kPeer;
    rts.tag = tag;
    rts.sender = sender;
    rts.bytes = bytes;
    delivery_.on_rts(kPeer, rts, sizeof rts);
  }
  static Bytes filled(size_t bytes, int value) { return Bytes(bytes, static_cast<std::byte>(value)); }

  struct Received {
    explicit Received(size_t bytes) : buffer(bytes) {}
    Bytes buffer;
    Transfer t{core::Request::Kind::receive};
  };
  NotedPaths paths_;
  Delivery delivery_;
  std::deque<Received> receives_;
};

TEST_F(DeliveryAlone, AMessageCompletesThePostedReceive) {
  Transfer& t = receive(kPeer, 5);
  EXPECT_FALSE(t.complete());
  EXPECT_EQ(delivery_.posted().size(), 1u);
  arrive(4, filled(8, 1));
  EXPECT_FALSE(t.complete());
  arrive(5, filled(8, 2));
  ASSERT_TRUE(t.complete());
  EXPECT_EQ(t.completion.bytes, 8u);
  EXPECT_EQ(t.completion.tag, 5);
  EXPECT_EQ(receives_[0].buffer[7], std::byte{2});
  EXPECT_EQ(receives_[0].buffer[8], std::byte{0});
  EXPECT_EQ(delivery_.unexpected().size(), 1u);
  (void)receive(kAnySource, kAnyTag);
  EXPECT_EQ(receives_[1].buffer[7], std::byte{1});
}

TEST_F(DeliveryAlone, UnexpectedMessagesMatchInTheirOrder) {
  for (int i = 1; i <= 3; ++i) arrive(9, filled(600, i));  // larger than what a message holds inline
  const UnexpectedMessage* const probed = delivery_.find({kContext, match::kAny, 9});
  ASSERT_NE(probed, nullptr);
  EXPECT_EQ(probed->completion.bytes, 600u);
  EXPECT_EQ(delivery_.find({kContext, kPeer, 8}), nullptr);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(receive(kPeer, 9, 600).complete());
    EXPECT_EQ(receives_.back().buffer[599], static_cast<std::byte>(i));
  }
  EXPECT_EQ(delivery_.unexpected().size(), 0u);
}

TEST_F(DeliveryAlone, AMessageLongerThanItsReceiveIsTruncated) {
  Transfer& posted = receive(kPeer, 1, 4);
  arrive(1, filled(8, 1));
  ASSERT_TRUE(posted.complete());
  EXPECT_EQ(posted.outcome.error().code(), Errc::truncate);
  arrive(2, filled(8, 1));
  EXPECT_EQ(receive(kPeer, 2, 4).outcome.error().code(), Errc::truncate);
}

TEST_F(DeliveryAlone, CreditIsReturnedWhenAMessageIsReceivedNotWhenItArrives) {
  constexpr size_t kBytes = 32 << 10;
  uint64_t arrived = 0;
  for (; arrived + kBytes + kEntryChargeBytes <= credit; arrived += kBytes + kEntryChargeBytes)
    arrive(0, filled(kBytes, 1));
  EXPECT_TRUE(wire_.sent.empty());
  while (delivery_.unexpected().size() != 0) ASSERT_TRUE(receive(kPeer, 0, kBytes).complete());
  ASSERT_FALSE(wire_.sent.empty());
  EXPECT_LE(wire_.sent.size(), 2u);  // in steps of half the limit
  EXPECT_EQ(type_of(wire_.sent.back()), Type::credit);
  const uint64_t returned = header_of<Credit>(wire_.sent.back()).bytes;
  EXPECT_LE(returned, arrived);
  EXPECT_LT(arrived - returned, credit / 2);
}

TEST_F(DeliveryAlone, AnAnnouncedMessageIsHandedOverOnceMatched) {
  Transfer& posted = receive(kPeer, 1);
  announce(1, 64, 11);
  ASSERT_EQ(paths_.rendezvous, std::vector<Transfer*>{&posted});
  EXPECT_EQ(paths_.last, 11u);
  EXPECT_EQ(posted.state, Transfer::State::matched);
  EXPECT_EQ(posted.expected, 64u);
  announce(2, 100, 12);
  EXPECT_EQ(delivery_.find({kContext, kPeer, 2})->completion.bytes, 100u);
  Transfer& late = receive(kPeer, 2);
  EXPECT_EQ(paths_.rendezvous.back(), &late);
  EXPECT_EQ(paths_.last, 12u);
  for (Transfer* t : paths_.rendezvous) requests_.complete(*t);
}

TEST_F(DeliveryAlone, ASenderCancelsOnlyWhatIsUnmatched) {
  announce(1, 64, 11);
  Reply request{};
  request.context = kContext;
  request.sender = 12;
  EXPECT_FALSE(delivery_.remove_cancelled(kPeer, request));
  request.sender = 11;
  EXPECT_FALSE(delivery_.remove_cancelled(kPeer + 1, request));  // of another process
  EXPECT_TRUE(delivery_.remove_cancelled(kPeer, request));
  EXPECT_FALSE(delivery_.remove_cancelled(kPeer, request));
  EXPECT_EQ(delivery_.unexpected().size(), 0u);
}

TEST_F(DeliveryAlone, AReceiveThatItsSenderHasClaimedIsNeitherCancelledNorMatched) {
  Transfer& claimed = receive(kPeer, 1);
  claimed.advertised = 1;
  paths_.may_retract = false;
  delivery_.cancel(claimed);
  EXPECT_FALSE(claimed.complete());
  EXPECT_EQ(delivery_.posted().size(), 1u);
  Transfer& second = receive(kPeer, 1);
  arrive(1, filled(8, 1));
  EXPECT_TRUE(second.complete());
  EXPECT_FALSE(claimed.complete());  // ends by the put of its sender
  claimed.advertised = 0;
  requests_.complete(claimed);
  Transfer& cancelled = receive(kPeer, 1);
  delivery_.cancel(cancelled);
  EXPECT_TRUE(cancelled.complete() && cancelled.completion.cancelled);
  EXPECT_EQ(delivery_.posted().size(), 0u);
}

TEST_F(DeliveryAlone, ARevokedCommunicatorKeepsNoEagerMessages) {
  arrive(1, filled(8, 1));
  announce(2, 64, 11);
  const uint64_t consumed = peers_[kPeer].consumed;
  delivery_.revoke(*world_);
  EXPECT_EQ(delivery_.unexpected().size(), 1u);  // its sender cancels it
  EXPECT_EQ(peers_[kPeer].consumed, consumed + 8 + kEntryChargeBytes);
  arrive(3, filled(8, 1));
  EXPECT_EQ(delivery_.unexpected().size(), 1u);
  arrive(3, filled(8, 1), kContext + core::kContextStep);  // of another communicator
  EXPECT_EQ(delivery_.unexpected().size(), 2u);
  delivery_.forget(kPeer);
  EXPECT_EQ(delivery_.unexpected().size(), 0u);
}

TEST_F(DeliveryAlone, ReceivesWhatOutgoingSends) {
  std::mt19937 random(5);
  std::deque<Transfer> sends;
  Bytes payload(3000);
  std::vector<int> sent(4), received(4);  // messages by tag
  size_t read = 0;
  const auto deliver = [&] {  // what this process sends, as if its peer had sent it
    const Bytes message = wire_.sent[read++];
    if (type_of(message) != Type::eager) return;
    const auto& header = header_of<EagerHeader>(message);
    Header expanded = header.expanded(message.size());
    expanded.source = kPeer;
    delivery_.on_observed_eager(kPeer, expanded, header.payload(message.size()), core::kNoRequest);
  };
  const auto check = [&] {
    while (!receives_.empty() && receives_.front().t.complete()) {
      const Received& first = receives_.front();
      int number = 0;
      std::memcpy(&number, first.buffer.data(), sizeof number);
      ASSERT_EQ(number, received[static_cast<size_t>(first.t.completion.tag)]++);
      receives_.pop_front();
    }
  };
  for (int step = 0; step < 20000; ++step) {
    const size_t tag = random() % sent.size();
    wire_.capacity = static_cast<int>(random() % 4);
    std::memcpy(payload.data(), &sent[tag], sizeof(int));
    if (random() % 2 == 0 && outgoing_.send_now(payload.data(), sizeof(int) + random() % 2000, kPeer,
                                                static_cast<int>(tag), *world_, core::Channel::user))
      ++sent[tag];
    (void)outgoing_.poll();
    if (random() % 2 == 0 && read < wire_.sent.size()) deliver();
    if (random() % 2 == 0) (void)receive(kPeer, static_cast<int>(random() % sent.size()), 3000);
    outgoing_.on_credit(kPeer, {{Type::credit}, std::min(peers_[kPeer].consumed, peers_[kPeer].eager_sent)});
    check();
  }
  wire_.capacity = INT_MAX;
  (void)outgoing_.poll();
  while (read < wire_.sent.size()) deliver();
  for (size_t tag = 0; tag < sent.size(); ++tag) EXPECT_GT(sent[tag], 1000);
  for (Received& left : receives_)
    if (!left.t.complete()) delivery_.cancel(left.t);
  delivery_.forget(kPeer);
}

}  // namespace
}  // namespace weft::p2p
