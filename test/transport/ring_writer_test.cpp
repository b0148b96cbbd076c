// SPDX-License-Identifier: BSD-3-Clause
// Records of a ring: two small ones in a cache line, larger ones at the start of a line, none wraps around,
// and none is written over bytes that the consumer has not released.
#include "transport/shm/ring_writer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace weft::transport::shm {
namespace {

constexpr size_t kLargestSmall = kSmallRecord - kRecordHeader;

/// The consumer as layout.hpp describes it.
struct Reader {
  /// Returns the next message, or null; `size`: its size.
  const std::byte* next(uint32_t& size) {
    for (;;) {
      const std::byte* const at = ring.data + position % kRingBytes;
      uint32_t word = 0;
      std::memcpy(&word, at, sizeof word);
      size = size_in(word, position);
      if (size == 0) return nullptr;
      if (size < kNextLine) return at + kRecordHeader;
      const size_t block = size == kWrap ? kRingBytes : kCacheLine;
      position += block - position % block;
      ++skips;
    }
  }
  void release(uint32_t size) {
    position += record_bytes(size);
    ring.consumed.store(position);
  }
  SpscRing& ring;
  uint64_t position = 0;
  int skips = 0;
};

struct RingWriterTest : testing::Test {
  std::byte* send(size_t size, std::byte content) {
    std::byte* const slot = writer.reserve(size);
    if (slot == nullptr) return nullptr;
    std::memset(slot, static_cast<int>(content), size);
    writer.commit(size);
    return slot;
  }
  [[nodiscard]] size_t offset(const std::byte* slot) const {
    return static_cast<size_t>(slot - kRecordHeader - ring->data);
  }
  std::unique_ptr<SpscRing> ring = std::make_unique<SpscRing>();
  RingWriter writer{*ring};
  Reader reader{*ring};
};

TEST_F(RingWriterTest, PutsTwoSmallRecordsIntoALine) {
  EXPECT_EQ(offset(send(kLargestSmall, std::byte{1})), 0u);
  EXPECT_EQ(offset(send(1, std::byte{2})), kSmallRecord);
  EXPECT_EQ(offset(send(8, std::byte{3})), kCacheLine);
}

TEST_F(RingWriterTest, BeginsLargerRecordsAtALine) {
  send(8, std::byte{1});
  EXPECT_EQ(offset(send(kLargestSmall + 1, std::byte{2})), kCacheLine);
  EXPECT_EQ(offset(send(100, std::byte{3})), 2 * kCacheLine);
  for (const size_t size : {size_t{8}, kLargestSmall + 1, size_t{100}}) {
    uint32_t found = 0;
    ASSERT_NE(reader.next(found), nullptr);
    EXPECT_EQ(found, size);
    reader.release(found);
  }
  EXPECT_EQ(reader.skips, 1);
}

TEST_F(RingWriterTest, RefusesRecordsUntilTheConsumerHasReleasedOthers) {
  for (size_t i = 0; i < kRingBytes / kSmallRecord - 1; ++i) ASSERT_NE(send(8, std::byte{1}), nullptr);
  EXPECT_EQ(writer.reserve(100), nullptr);  // half a line is left
  EXPECT_NE(send(8, std::byte{2}), nullptr);
  EXPECT_EQ(writer.reserve(8), nullptr);
  uint32_t size = 0;
  ASSERT_NE(reader.next(size), nullptr);
  reader.release(size);
  EXPECT_NE(writer.reserve(8), nullptr);
  EXPECT_EQ(writer.reserve(100), nullptr);
}

TEST_F(RingWriterTest, KeepsOrderAndContentOfRandomSizes) {
  std::mt19937 random(7);
  size_t sent = 0, received = 0;
  std::vector<uint32_t> sizes;
  while (received < 20'000) {
    const uint32_t size = 1 + random() % (random() % 4 == 0 ? 8000 : 40);
    if (random() % 2 == 0 && send(size, static_cast<std::byte>(sent)) != nullptr) {
      sizes.push_back(size);
      ++sent;
      continue;
    }
    uint32_t found = 0;
    const std::byte* const message = reader.next(found);
    ASSERT_EQ(message != nullptr, received < sent);
    if (message == nullptr) continue;
    ASSERT_EQ(found, sizes[received]);
    ASSERT_LE(static_cast<size_t>(message - ring->data) + found, kRingBytes);
    for (uint32_t i = 0; i < found; ++i) ASSERT_EQ(message[i], static_cast<std::byte>(received));
    ++received;
    reader.release(found);
  }
}

}  // namespace
}  // namespace weft::transport::shm
