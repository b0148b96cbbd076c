// SPDX-License-Identifier: BSD-3-Clause
// Claims of shared copies: they cover the copy, and each byte is claimed once, by racing threads.
#include "transport/shm/shared_copy.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace weft::transport::shm {
namespace {

using Side = SharedCopy::Side;

TEST(SharedCopy, PartsCoverTheCopy) {
  constexpr uint64_t kMin = SharedCopy::kMinBytes, kMiB = 1 << 20;
  for (const uint64_t bytes :
       {kMin, kMin + 1, 2 * kMin - 1, kMiB, kMiB + 5, 4 * kMiB, kMiB << 12, kMiB << 20}) {
    EXPECT_EQ(SharedCopy::chunk_of(bytes) % 4096, 0U);
    SharedCopy copy{};
    copy.open(1, bytes);
    uint64_t begin = 0, end = bytes;
    uint32_t helper_chunks = 0;
    for (int turn = 0;; ++turn) {
      const Side side = turn % 3 == 0 ? Side::helper : Side::opener;
      const auto part = copy.claim(1, side, bytes);
      if (!part) break;
      ASSERT_GT(part->bytes, 0U);
      if (side == Side::helper) {
        EXPECT_EQ(part->offset + part->bytes, end);
        end = part->offset;
        helper_chunks += part->chunks;
      } else {
        EXPECT_EQ(part->offset, begin);
        begin += part->bytes;
      }
    }
    EXPECT_EQ(begin, end);
    EXPECT_EQ(copy.close(bytes), helper_chunks);
  }
}

TEST(SharedCopy, ALoneOpenerTakesFewParts) {
  constexpr uint64_t kBytes = 4 << 20;
  SharedCopy copy{};
  copy.open(7, kBytes);
  int parts = 0;
  while (copy.claim(7, Side::opener, kBytes)) ++parts;
  EXPECT_LE(parts, 6);
}

TEST(SharedCopy, NothingIsClaimedOfAClosedOrOtherCopy) {
  constexpr uint64_t kBytes = 1 << 20;
  SharedCopy copy{};
  copy.open(1, kBytes);
  EXPECT_FALSE(copy.claim(2, Side::helper, kBytes));
  const auto part = copy.claim(1, Side::helper, kBytes);
  ASSERT_TRUE(part);
  EXPECT_EQ(copy.close(kBytes), part->chunks);
  EXPECT_FALSE(copy.claim(1, Side::helper, kBytes));
  EXPECT_FALSE(copy.claim(1, Side::opener, kBytes));
  copy.finish(*part, false);
  EXPECT_EQ(copy.helper_chunks.load(), part->chunks);
  EXPECT_EQ(copy.refused.load(), 1U);
  copy.open(2, kBytes);
  EXPECT_EQ(copy.refused.load(), 0U);
  EXPECT_FALSE(copy.claim(1, Side::helper, kBytes));
}

/// A helper that looks at any time, with the number of any copy, gets parts of the current copy only.
TEST(SharedCopy, EachByteIsClaimedOnce) {
  constexpr uint32_t kCopies = 20000;
  constexpr uint64_t kBytes = 4 << 20, kChunks = 16;
  ASSERT_EQ(SharedCopy::chunk_of(kBytes) * kChunks, kBytes);
  SharedCopy copy{};
  std::vector<std::atomic<int>> claimed((kCopies + 1) * kChunks);
  const auto count = [&](uint32_t number, const SharedCopy::Part& part) {
    const uint64_t first = part.offset / SharedCopy::chunk_of(kBytes);
    for (uint64_t i = first; i < first + part.chunks; ++i) claimed[number * kChunks + i].fetch_add(1);
  };
  std::atomic<bool> end{false};
  std::thread helper([&] {
    while (!end.load()) {
      const auto number = static_cast<uint32_t>(copy.claims.load(std::memory_order_acquire) >> 32);
      if (const auto part = copy.claim(number, Side::helper, kBytes)) {
        count(number, *part);
        copy.finish(*part, true);
      }
    }
  });
  for (uint32_t number = 1; number <= kCopies; ++number) {
    copy.open(number, kBytes);
    while (const auto part = copy.claim(number, Side::opener, kBytes)) count(number, *part);
    const uint32_t helped = copy.close(kBytes);
    while (copy.helper_chunks.load(std::memory_order_acquire) != helped) std::this_thread::yield();
  }
  end.store(true);
  helper.join();
  for (size_t i = kChunks; i < claimed.size(); ++i) ASSERT_EQ(claimed[i].load(), 1);
}

}  // namespace
}  // namespace weft::transport::shm
