// SPDX-License-Identifier: BSD-3-Clause
// Outgoing alone: order of messages, capacity and the backlog, credit of the sender, loss of the peer.
#include "p2p/engine/outgoing.hpp"

#include <deque>
#include <random>

#include "base/counters.hpp"
#include "parts.hpp"

namespace weft::p2p {
namespace {

class OutgoingAlone : public Parts {
 protected:
  Transfer& send(void* address, size_t bytes, int tag, SendMode mode = SendMode::standard) {
    Transfer& t = sends_.emplace_back(core::Request::Kind::send);
    prepare(t, address, bytes, kPeer, tag, mode);
    outgoing_.send(t);
    return t;
  }
  [[nodiscard]] bool send_now(const void* from, size_t bytes, int tag) {
    return outgoing_.send_now(from, bytes, kPeer, tag, *world_, core::Channel::user);
  }
  Bytes payload_{64 << 10, std::byte{7}};
  std::deque<Transfer> sends_;
};

TEST_F(OutgoingAlone, AnEagerSendIsCompleteOnReturn) {
  EXPECT_TRUE(send(payload_.data(), 8, 3).complete());
  ASSERT_EQ(wire_.sent.size(), 1u);
  EXPECT_EQ(type_of(wire_.sent[0]), Type::eager);
  const auto& header = header_of<EagerHeader>(wire_.sent[0]);
  EXPECT_EQ(header.tag, 3);
  EXPECT_EQ(header.source(), 0);
  EXPECT_EQ(*header.payload(wire_.sent[0].size()), std::byte{7});
  EXPECT_EQ(requests_.size(), 0u);
}

TEST_F(OutgoingAlone, FirstSendsAreCompleteWhenTheyHaveLeft) {
  peers_[kPeer].unreached = true;
  wire_.connected = false;
  EXPECT_FALSE(send_now(payload_.data(), 8, 3));
  Transfer &first = send(payload_.data(), 8, 0), &second = send(payload_.data(), 8, 1);
  EXPECT_EQ(wire_.sent.size(), 2u);
  EXPECT_FALSE(outgoing_.poll());
  EXPECT_FALSE(first.complete() || second.complete());
  wire_.connected = true;
  EXPECT_TRUE(outgoing_.poll());
  EXPECT_TRUE(first.complete() && second.complete());
  EXPECT_EQ(requests_.size(), 0u);
  EXPECT_TRUE(send_now(payload_.data(), 8, 3));
}

TEST_F(OutgoingAlone, FirstSendsToAPeerThatDoesNotAnswer) {
  wire_.connected = false;
  for (int i = 0; i < 20; ++i) {  // 0.2 s altogether
    peers_[kPeer].unreached = true;
    const Transfer& first = send(payload_.data(), 8, 0);
    while (!first.complete()) outgoing_.poll();
  }
  EXPECT_TRUE(send_now(payload_.data(), 8, 3));
}

TEST_F(OutgoingAlone, MessagesLeaveInTheOrderOfTheirSends) {
  wire_.capacity = 0;
  Transfer& first = send(payload_.data(), 8, 0);
  wire_.capacity = 1;  // whatever leaves now would overtake
  const Credit control{{Type::credit}, 0};
  outgoing_.post_control(kPeer, &control, sizeof control);
  Transfer& second = send(payload_.data(), 8, 1);
  EXPECT_FALSE(first.complete() || second.complete());
  EXPECT_FALSE(send_now(payload_.data(), 8, 2));
  EXPECT_EQ(outgoing_.reserve(kPeer, 8), nullptr);
  EXPECT_TRUE(wire_.sent.empty());
  EXPECT_TRUE(outgoing_.poll());
  EXPECT_TRUE(first.complete());
  EXPECT_FALSE(second.complete());
  wire_.capacity = INT_MAX;
  EXPECT_TRUE(outgoing_.poll());
  EXPECT_TRUE(second.complete());
  EXPECT_TRUE(outgoing_.backlog().empty());
  EXPECT_FALSE(outgoing_.poll());
  ASSERT_EQ(wire_.sent.size(), 3u);
  EXPECT_EQ(header_of<EagerHeader>(wire_.sent[0]).tag, 0);
  EXPECT_EQ(type_of(wire_.sent[1]), Type::credit);
  EXPECT_EQ(header_of<EagerHeader>(wire_.sent[2]).tag, 1);
}

TEST_F(OutgoingAlone, RandomCapacityKeepsOrder) {
  std::mt19937 random(3);
  int sent = 0;  // messages, which carry their number
  for (int step = 0; step < 5000; ++step) {
    wire_.capacity = static_cast<int>(random() % 3);
    const unsigned what = random() % 3;
    if (what == 0) {
      (void)send(payload_.data(), random() % 100, sent++);
    } else if (what == 1) {
      const Credit control{{Type::credit}, static_cast<uint64_t>(sent++)};
      outgoing_.post_control(kPeer, &control, sizeof control);
    } else if (send_now(payload_.data(), 8, sent)) {
      ++sent;
    }
    (void)outgoing_.poll();
    outgoing_.on_credit(kPeer, {{Type::credit}, peers_[kPeer].eager_sent});
  }
  wire_.capacity = INT_MAX;
  (void)outgoing_.poll();
  ASSERT_EQ(wire_.sent.size(), static_cast<size_t>(sent));
  for (int i = 0; i < sent; ++i) {
    const Bytes& message = wire_.sent[static_cast<size_t>(i)];
    ASSERT_EQ(type_of(message) == Type::credit ? static_cast<int>(header_of<Credit>(message).bytes)
                                               : header_of<EagerHeader>(message).tag,
              i);
  }
  for (const Transfer& t : sends_) EXPECT_TRUE(t.complete());
}

TEST_F(OutgoingAlone, WithoutCreditSendsUseRendezvous) {
  constexpr size_t kBytes = 32 << 10;
  const uint64_t fit = credit / (kBytes + kEntryChargeBytes);
  for (uint64_t i = 0; i < fit; ++i) ASSERT_TRUE(send(payload_.data(), kBytes, 0).complete());
  EXPECT_FALSE(send_now(payload_.data(), kBytes, 0));
  const Transfer& announced = send(payload_.data(), kBytes, 0);
  EXPECT_EQ(announced.state, Transfer::State::rts_sent);
  EXPECT_EQ(type_of(wire_.sent.back()), Type::ready_to_send);
  EXPECT_EQ(
      requests_.find(header_of<ReadyToSend>(wire_.sent.back()).sender, kPeer, Transfer::State::rts_sent),
      &announced);
  // A forged credit is more than was sent.
  const uint64_t malformed = counters::find("p2p.malformed_messages")->value();
  outgoing_.on_credit(kPeer, {{Type::credit}, peers_[kPeer].eager_sent + 1});
  EXPECT_EQ(counters::find("p2p.malformed_messages")->value(), malformed + 1);
  EXPECT_FALSE(send_now(payload_.data(), kBytes, 0));
  outgoing_.on_credit(kPeer, {{Type::credit}, kBytes + kEntryChargeBytes});
  EXPECT_TRUE(send_now(payload_.data(), kBytes, 0));
  EXPECT_FALSE(send_now(payload_.data(), kBytes, 0));
  requests_.complete(sends_.back());
}

TEST_F(OutgoingAlone, ASynchronousSendCompletesByItsAcknowledgement) {
  Transfer& t = send(payload_.data(), 8, 0, SendMode::synchronous);
  EXPECT_EQ(t.state, Transfer::State::rts_sent);
  ASSERT_EQ(type_of(wire_.sent.back()), Type::eager_sync);
  const core::RequestId id = header_of<EagerSync>(wire_.sent.back()).sender;
  EXPECT_EQ(requests_.find(id, kPeer, Transfer::State::rts_sent), &t);
  EXPECT_EQ(requests_.find(id, kPeer + 1, Transfer::State::rts_sent), nullptr);  // of another process
  requests_.complete(t);
  EXPECT_EQ(requests_.find(id, kPeer, Transfer::State::rts_sent), nullptr);
}

TEST_F(OutgoingAlone, ASendOfACollectiveThatLostAProcessIsCancelled) {
  instance_.failures.report(kPeer + 1, Error(Errc::proc_aborted, "killed"));
  Transfer& of_program = send(payload_.data(), payload_.size() + (256 << 10), 0);
  EXPECT_TRUE(protocols_.cancelled.empty());
  Transfer& t = sends_.emplace_back(core::Request::Kind::send);
  prepare(t, payload_.data(), payload_.size() + (256 << 10), kPeer, 0);
  t.context = world_->context(core::Channel::collective);
  outgoing_.send(t);
  EXPECT_EQ(type_of(wire_.sent.back()), Type::ready_to_send);
  EXPECT_EQ(protocols_.cancelled, std::vector<Transfer*>{&t});
  requests_.complete(of_program);
  requests_.complete(t);
}

TEST_F(OutgoingAlone, NothingIsSentToALostPeer) {
  wire_.capacity = 0;
  Transfer& queued = send(payload_.data(), 8, 0);
  outgoing_.withdraw(queued);
  requests_.complete(queued, Error(Errc::proc_aborted, "lost"));
  (void)send(payload_.data(), 8, 1);
  outgoing_.lose(peers_[kPeer]);
  requests_.complete(sends_.back(), Error(Errc::proc_aborted, "lost"));
  wire_.capacity = INT_MAX;
  const Credit control{{Type::credit}, 0};
  outgoing_.post_control(kPeer, &control, sizeof control);
  EXPECT_FALSE(send_now(payload_.data(), 8, 0));
  (void)outgoing_.poll();
  EXPECT_TRUE(wire_.sent.empty());
  EXPECT_TRUE(outgoing_.backlog().empty());
}

}  // namespace
}  // namespace weft::p2p
