// SPDX-License-Identifier: BSD-3-Clause
// Small copies that come close together, by the copier and around it: sources that change between bells,
// lives that end at any time.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "../reference/draw.hpp"
#include "base/clock.hpp"
#include "cuda_test_support.hpp"
#include "device/pinned.hpp"

namespace weft::test {
namespace {

using Kind = Buffer::Kind;

constexpr size_t kSlots = 200, kMost = 512;

class CopierTest : public CudaTest {};

/// Up to kSlots copies under way, each from its own part of one buffer to its own part of another.
class Window {
 public:
  Window() : from_(Kind::device, kSlots * kMost), to_(Kind::device, kSlots * kMost) {}

  /// New content for all parts, then all copies, close together; every byte is looked at.
  void round(unsigned seed, randomized::Draw& draw) {
    const auto sent = pattern(kSlots * kMost, seed);
    from_.write(sent);
    auto expected = to_.read();
    const Memory dst = to_.memory(), src = from_.memory();
    std::vector<device::Ticket> tickets;
    for (size_t i = 0; i < kSlots; ++i) {
      const size_t n = 1 + draw.number() % kMost, at = i * kMost;
      auto ticket = device::copy_async(to_.data() + at, dst, from_.data() + at, src, n, device::Lane::in);
      ASSERT_OK(ticket);
      tickets.push_back(std::move(*ticket));
      std::copy_n(sent.begin() + static_cast<long>(at), n, expected.begin() + static_cast<long>(at));
    }
    for (device::Ticket& ticket : tickets) ASSERT_OK(device::wait(ticket));
    EXPECT_EQ(to_.read(), expected) << "round " << seed;
  }
  [[nodiscard]] device::CopierCounters counters() const { return device::copier_counters(to_.memory()); }

 private:
  Buffer from_, to_;
};

TEST_F(CopierTest, CopiesCloseTogether) {
  Window window;
  randomized::Draw draw(1);
  for (unsigned i = 0; i < 100; ++i) window.round(i, draw);
  const auto counters = window.counters();
  RecordProperty("served", std::to_string(counters.served));
  RecordProperty("lives", std::to_string(counters.lives));
  if (cuda().emulated() && std::getenv("WEFT_GPU_COPIER") != nullptr) {
    EXPECT_GT(counters.lives, 0u);
    EXPECT_GT(cuda().copier_commands(), 0u);
  }
}

/// Lists of copies of all sizes and alignments, one after the other without waiting.
class Lists {
 public:
  Lists() : from_(Kind::device, kBytes), to_(Kind::device, kBytes) {}

  void round(unsigned seed, randomized::Draw& draw) {
    const auto sent = pattern(kBytes, seed);
    from_.write(sent);
    auto expected = to_.read();
    const Memory dst = to_.memory(), src = from_.memory();
    std::vector<device::Ticket> tickets;
    for (size_t list = 0, at = 0; list < 4; ++list) {
      const size_t most = draw.of({size_t{64}, size_t{2000}, size_t{16384}, size_t{70'000}});
      std::vector<device::Piece> pieces;
      for (size_t i = 2 + draw.number() % 62; i != 0 && at + most + 64 < kBytes; --i) {
        const size_t n = 1 + draw.number() % most, shift = draw.one_in(3) ? draw.number() % 17 : 0;
        pieces.push_back({to_.data() + at, from_.data() + at + shift, n});
        std::copy_n(sent.begin() + static_cast<long>(at + shift), n,
                    expected.begin() + static_cast<long>(at));
        at += (n + 31) / 16 * 16;
      }
      auto ticket = device::copy_pieces_async(pieces.data(), pieces.size(), dst, src, device::Lane::in);
      ASSERT_OK(ticket);
      tickets.push_back(std::move(*ticket));
    }
    for (device::Ticket& ticket : tickets) ASSERT_OK(device::wait(ticket));
    EXPECT_EQ(to_.read(), expected) << "round " << seed;
  }
  [[nodiscard]] device::CopierCounters counters() const { return device::copier_counters(to_.memory()); }

 private:
  static constexpr size_t kBytes = 8 << 20;
  Buffer from_, to_;
};

TEST_F(CopierTest, ListsCloseTogether) {
  Lists lists;
  randomized::Draw draw(2);
  for (unsigned i = 0; i < 40; ++i) lists.round(i, draw);
  RecordProperty("served", std::to_string(lists.counters().served));
}

/// A few bytes from staging memory, which travel with the command, and some more, which do not.
TEST_F(CopierTest, FewBytesFromStagingMemory) {
  constexpr size_t kPart = 32, kParts = 16, kRounds = 100;
  const Buffer to(Kind::device, kParts * kPart);
  const Memory dst = to.memory();
  auto pinned = device::lease_pinned(dst);
  ASSERT_OK(pinned);
  randomized::Draw draw(3);
  for (unsigned i = 0; i < kRounds; ++i) {
    auto expected = to.read();
    const auto sent = pattern(kParts * kPart, i);
    std::memcpy(pinned->data(), sent.data(), sent.size());
    std::vector<device::Ticket> tickets;
    for (size_t part = 0; part < kParts; ++part) {
      const size_t n = 1 + draw.number() % 12, at = part * kPart + draw.number() % (kPart - n);
      std::copy_n(sent.begin() + static_cast<long>(at), n, expected.begin() + static_cast<long>(at));
      auto ticket =
          device::copy_async(to.data() + at, dst, pinned->data() + at, pinned->memory(), n, device::Lane::in);
      ASSERT_OK(ticket);
      tickets.push_back(std::move(*ticket));
    }
    for (device::Ticket& ticket : tickets) ASSERT_OK(device::wait(ticket));
    ASSERT_EQ(to.read(), expected) << "round " << i;
  }
  if (cuda().emulated() && std::getenv("WEFT_GPU_COPIER") != nullptr) {
    EXPECT_GT(device::copier_counters(dst).served, 0u);
  }
}

/// Who waits in MPI longer than a life would stay keeps it by commands that copy nothing.
TEST_F(CopierTest, StaysForThoseWhoWait) {
  if (!cuda().emulated() || std::getenv("TEST_COPIER_STAYS") == nullptr)
    GTEST_SKIP() << "nobody counts commands here, or lives are short";
  constexpr uint64_t kPatience = 30'000'000'000;  // ns: lives end, and this process is put aside, at any time
  const Buffer from(Kind::device, 64), to(Kind::device, 64);
  const Memory dst = to.memory(), src = from.memory();
  unsigned long empty = 0;
  for (const uint64_t end = monotonic_ns() + kPatience; monotonic_ns() < end && empty == 0;) {
    for (int k = 0; k < 8; ++k) ASSERT_OK(device::copy(to.data(), dst, from.data(), src, 64));
    const unsigned long before = cuda().copier_commands();
    for (const uint64_t until = monotonic_ns() + 400'000; monotonic_ns() < until;) device::keep_awake(dst);
    empty = cuda().copier_commands() - before;
  }
  EXPECT_GT(empty, 0u);
}

}  // namespace
}  // namespace weft::test
