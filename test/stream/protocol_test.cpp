// SPDX-License-Identifier: BSD-3-Clause
// The protocol of enqueued operations with one thread per block, so that blocks interleave arbitrarily, as on
// a GPU: two ranks in plain memory, windows of messages, operations left for the next launch.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "device/kernel/enqueue_protocol.hpp"
#include "emulator/enqueue_memory.hpp"

namespace weft::device::kernel::enqueue {
namespace {

struct Env : emucuda::EnqueueMemory {
  template <class T>
  static T* at(uint64_t address) {
    return reinterpret_cast<T*>(address);
  }
};

void perform(const Step& step, Protocol<Env>& protocol) {
  auto* packets = reinterpret_cast<LLPacket*>(step.packets);
  auto* to = reinterpret_cast<char*>(step.to);
  const auto* from = reinterpret_cast<const char*>(step.from);
  if (step.what == Step::move) {
    std::memcpy(to, from, step.bytes);
    return;
  }
  if (step.what == Step::write_inline) protocol.write_header(step);
  for (uint64_t at = 0; at < step.bytes; at += 8) {
    const uint64_t n = std::min<uint64_t>(8, step.bytes - at);
    uint64_t data = 0;
    if (step.what == Step::write_inline) {
      std::memcpy(&data, from + at, n);
      Env::put(&packets[at / 8], step.flag, data);
      continue;
    }
    while (!Env::get(&packets[at / 8], step.flag, data)) std::this_thread::yield();
    std::memcpy(to + at, &data, n);
  }
}

/// The loop of a kernel block, as in enqueue.cu.
void block(const Batch& batch, uint32_t i) {
  Env env;
  Protocol<Env> protocol(env, batch.head, batch.ops);
  const bool leads = i < batch.head.count;
  uint32_t phase = leads ? protocol.begin(i) : 0;
  DrawnChunk held;
  for (;;) {
    const Step step = leads ? protocol.next(i, phase, held) : protocol.help(held);
    if (step.what == Step::finish) {
      protocol.count(i);
      break;
    }
    if (step.what == Step::nothing) {
      if (leads ? protocol.may_leave(i) : protocol.all_finished()) break;
      std::this_thread::yield();
      continue;
    }
    perform(step, protocol);
    protocol.performed(step);
    phase = protocol.phase_after(step);
  }
  protocol.leave();
}

void launch(const Batch& batch) {
  std::vector<std::thread> blocks;
  for (uint32_t i = 0; i < uint32_t{batch.head.count} + batch.head.helpers; ++i)
    blocks.emplace_back([&batch, i] { block(batch, i); });
  for (std::thread& one : blocks) one.join();
}

/// The region of one of two ranks.
class Rank {
 public:
  explicit Rank(uint32_t rank) : memory_(MailboxRegion::bytes(2) + 256), rank_(rank) {
    for (uint32_t peer = 0; peer < 2; ++peer) {
      auto* at = reinterpret_cast<Peer*>(region() + MailboxRegion::peer(peer));
      at->next_send = at->next_receive = kFirstNumber;
      at->next_in_pair = kFirstInPair;
    }
  }
  [[nodiscard]] uint64_t region() const {
    return (reinterpret_cast<uint64_t>(memory_.data()) + 255) / 256 * 256;
  }
  Batch begin(const Rank& peer) {
    Batch batch{};
    batch.head.region = region();
    batch.head.fault = reinterpret_cast<uint64_t>(&fault);
    batch.head.rank = static_cast<uint16_t>(rank_);
    batch.head.ranks = 2;
    remote_ = peer.region();
    return batch;
  }
  /// As in Queue::launch.
  void add(Batch& batch, Op::Kind kind, void* address, uint64_t bytes, int32_t tag) const {
    const uint32_t i = batch.head.count++;
    ++batch.head.required;
    Op& op = batch.ops[i];
    op = {};
    op.address = reinterpret_cast<uint64_t>(address);
    op.bytes = bytes;
    op.remote = remote_;
    op.tag = tag;
    op.peer = static_cast<uint16_t>(1 - rank_);
    op.state = static_cast<uint16_t>(i);
    op.before = Op::kNone;
    op.kind = kind;
    op.flags = Op::is_fresh | Op::is_required;
    for (uint32_t j = i; j-- != 0;) {
      if (batch.ops[j].kind != kind) continue;
      batch.ops[j].flags |= Op::has_successor;
      if (kind == Op::receive) continue;
      op.before = static_cast<uint16_t>(j);
      break;
    }
  }
  [[nodiscard]] uint32_t sent_in_pair(uint32_t peer) const {
    return reinterpret_cast<const Peer*>(region() + MailboxRegion::peer(peer))->next_in_pair - kFirstInPair;
  }
  Fault fault{};

 private:
  std::vector<char> memory_;
  const uint32_t rank_;
  uint64_t remote_ = 0;
};

/// Both sides send and receive `count` messages at once, alternating large and small, for several rounds.
/// Returns the messages that took pair buffers, of at most `pair_kib` KiB.
uint32_t windows(int count, uint16_t helpers, size_t large, int rounds, uint16_t pair_kib = 0) {
  Rank ranks[2] = {Rank(0), Rank(1)};
  const auto size = [&](int i) { return i % 2 == 0 ? large : size_t{64}; };
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<char>> out[2], in[2];
    Batch batches[2];
    for (int r = 0; r < 2; ++r) {
      batches[r] = ranks[r].begin(ranks[1 - r]);
      batches[r].head.helpers = helpers;
      batches[r].head.pair_kib = pair_kib;
      out[r].resize(static_cast<size_t>(count));
      in[r].resize(static_cast<size_t>(count));
      for (int i = 0; i < count; ++i) {
        auto& sent = out[r][static_cast<size_t>(i)];
        sent.resize(size(i));
        for (size_t b = 0; b < sent.size(); ++b)
          sent[b] = static_cast<char>(round * 7 + i * 3 + r + static_cast<int>(b));
        in[r][static_cast<size_t>(i)].resize(size(i));
        ranks[r].add(batches[r], Op::receive, in[r][static_cast<size_t>(i)].data(), size(i), 7);
        ranks[r].add(batches[r], Op::send, sent.data(), size(i), 7);
      }
    }
    std::thread other([&] { launch(batches[1]); });
    launch(batches[0]);
    other.join();
    for (int r = 0; r < 2; ++r)
      for (int i = 0; i < count; ++i)
        EXPECT_EQ(in[r][static_cast<size_t>(i)], out[1 - r][static_cast<size_t>(i)])
            << "round " << round << ", message " << i << " to rank " << r;
    if (::testing::Test::HasFailure()) break;
  }
  return ranks[0].sent_in_pair(1) + ranks[1].sent_in_pair(0);
}

TEST(EnqueueProtocol, WindowsOfSmallMessages) { EXPECT_EQ(windows(8, 0, 100, 200), 0u); }
TEST(EnqueueProtocol, WindowsWithAnnouncedMessages) { EXPECT_EQ(windows(30, 0, 5000, 60), 0u); }
TEST(EnqueueProtocol, WindowsWithBlocksThatHelp) { EXPECT_EQ(windows(4, 6, 3000000, 20), 0u); }
// The first two messages find free buffers in every round; others do if earlier ones have been received.
TEST(EnqueueProtocol, WindowsByPairBuffers) {
  EXPECT_EQ(windows(2, 0, kChunk, 50, 64), 100u);
  EXPECT_GE(windows(30, 0, 5000, 15, 64), 2u * 2 * 15);
  EXPECT_GE(windows(8, 6, kChunk, 15, 64), 2u * 2 * 15);
}
TEST(EnqueueProtocol, WindowsBeyondPairBuffers) { EXPECT_EQ(windows(8, 0, 40'001, 20, 39), 0u); }

/// Messages longer than their receives: by a pair buffer like by others.
TEST(EnqueueProtocol, TruncatedInPairBuffers) {
  Rank ranks[2] = {Rank(0), Rank(1)};
  for (int round = 0; round < 20; ++round) {
    std::vector<char> out(30'000, static_cast<char>(round + 1)), in(30'000);
    Batch send = ranks[0].begin(ranks[1]), receive = ranks[1].begin(ranks[0]);
    send.head.pair_kib = receive.head.pair_kib = 64;
    ranks[0].add(send, Op::send, out.data(), out.size(), 7);
    ranks[1].add(receive, Op::receive, in.data(), 20'000, 7);
    std::thread other([&] { launch(send); });
    launch(receive);
    other.join();
    EXPECT_EQ(ranks[1].fault.seen, 1u);
    EXPECT_EQ(ranks[1].fault.bytes, 30'000u);
    EXPECT_EQ(ranks[1].fault.capacity, 20'000u);
    EXPECT_TRUE(std::equal(in.begin(), in.begin() + 20'000, out.begin()));
    EXPECT_EQ(in[20'000], 0);
    ranks[1].fault = {};
  }
  EXPECT_EQ(ranks[0].sent_in_pair(1), 20u);
}

/// A synchronous send ends only after its receive has begun.
TEST(EnqueueProtocol, SynchronousSendsTakeNoPairBuffer) {
  Rank ranks[2] = {Rank(0), Rank(1)};
  std::vector<char> out(30'000, 3), in(30'000);
  Batch send = ranks[0].begin(ranks[1]), receive = ranks[1].begin(ranks[0]);
  send.head.pair_kib = 64;
  ranks[0].add(send, Op::send, out.data(), out.size(), 7);
  send.ops[0].flags |= Op::is_synchronous;
  ranks[1].add(receive, Op::receive, in.data(), in.size(), 7);
  std::thread other([&] { launch(send); });
  launch(receive);
  other.join();
  EXPECT_EQ(in, out);
  EXPECT_EQ(ranks[0].sent_in_pair(1), 0u);
}

}  // namespace
}  // namespace weft::device::kernel::enqueue
