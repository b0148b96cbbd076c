// SPDX-License-Identifier: BSD-3-Clause
// Mappings of a file in memory that stay: parts, the limit, files that shrink and grow, threads; copies.
#include "io/backend/kept.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/config.hpp"
#include "io/backend/copy.hpp"

namespace {

using weft::io::Descriptor;
using weft::io::KeptMappings;
using weft::io::Range;

constexpr int64_t kBlock = KeptMappings::kBlockBytes, kWindow = KeptMappings::kWindowBytes;

class Kept : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = "/dev/shm/weft-kept-" + std::to_string(::getpid());
    ASSERT_EQ(file_.open(path_, O_RDWR | O_CREAT | O_EXCL), 0);
    data_.resize(static_cast<size_t>(3 * kWindow));
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<char>(i * 7 + i / 251);
    ASSERT_TRUE(file_.write(data_.data(), static_cast<int64_t>(data_.size()), 0).ok());
  }
  void TearDown() override {
    ::unlink(path_.c_str());
    set_limit("1g");
  }
  static void set_limit(const char* text) {
    for (weft::config::Setting* setting : weft::config::all())
      EXPECT_TRUE(setting->name != std::string("io.kept_bytes") || setting->parse(text).ok());
  }
  bool equal(const std::byte* at, const Range& range) {
    return std::memcmp(at, data_.data() + range.first, static_cast<size_t>(range.bytes())) == 0;
  }
  std::string path_;
  Descriptor file_;
  std::vector<char> data_;
};

TEST_F(Kept, KeepsWhatWasProvided) {
  KeptMappings kept(file_);
  const Range first{100, kBlock + 1}, all{0, 3 * kWindow};
  EXPECT_FALSE(kept.has(first));
  std::byte* const at = kept.provide(first);
  ASSERT_NE(at, nullptr);
  EXPECT_TRUE(equal(at, first));
  EXPECT_TRUE(kept.has(first));
  EXPECT_TRUE(kept.has({0, 2 * kBlock}));
  EXPECT_FALSE(kept.has({0, 2 * kBlock + 1}));
  EXPECT_EQ(kept.provide({101, 200}), at + 1);
  for (int64_t window = 0; window < all.end; window += kWindow) {
    EXPECT_FALSE(kept.has(all));
    ASSERT_NE(kept.provide({window, window + kWindow}), nullptr);
  }
  EXPECT_TRUE(kept.has(all));
  std::memset(at, 42, 10);  // the bytes of the file
  char back[10];
  ASSERT_EQ(*file_.read(back, 10, 100), 10);
  EXPECT_EQ(back[9], 42);
  kept.clear();
  EXPECT_FALSE(kept.has(first));
  EXPECT_NE(kept.provide(first), nullptr);
}

TEST_F(Kept, KeepsNoMoreThanTheLimit) {
  set_limit("128k");
  KeptMappings kept(file_);
  EXPECT_NE(kept.provide({0, 1}), nullptr);
  EXPECT_EQ(kept.provide({kWindow, kWindow + 2 * kBlock}), nullptr);
  EXPECT_NE(kept.provide({kWindow, kWindow + kBlock}), nullptr);
  EXPECT_EQ(kept.provide({2 * kWindow, 2 * kWindow + 1}), nullptr);
  EXPECT_NE(kept.provide({10, 20}), nullptr);
  set_limit("0");
  KeptMappings none(file_);
  EXPECT_EQ(none.provide({0, 1}), nullptr);
}

TEST_F(Kept, RefusesPagesOutsideOfTheFile) {
  KeptMappings kept(file_);
  EXPECT_EQ(kept.provide({3 * kWindow, 4 * kWindow}), nullptr);
  EXPECT_FALSE(kept.has({3 * kWindow, 4 * kWindow}));
}

TEST_F(Kept, FollowsAFileThatShrinksAndGrows) {
  KeptMappings kept(file_);
  const Range range{0, kWindow};
  std::byte* const at = kept.provide(range);
  ASSERT_NE(at, nullptr);
  ASSERT_TRUE(file_.resize(0).ok());
  EXPECT_FALSE(file_.filled(range));
  ASSERT_TRUE(file_.write(data_.data() + 1, kWindow, 0).ok());
  EXPECT_TRUE(file_.filled(range));
  EXPECT_EQ(std::memcmp(at, data_.data() + 1, static_cast<size_t>(kWindow)), 0);
}

TEST_F(Kept, ServesThreads) {
  KeptMappings kept(file_);
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < 3 * kWindow / kBlock; ++i) {
        const int64_t first = (i * 5 + thread) % (3 * kWindow / kBlock) * kBlock;
        const std::byte* const at = kept.provide({first, first + kBlock});
        ASSERT_NE(at, nullptr);
        EXPECT_TRUE(equal(at, {first, first + kBlock}));
        EXPECT_TRUE(kept.has({first, first + kBlock}));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(kept.has({0, 3 * kWindow}));
}

TEST_F(Kept, CopiesAnyLengthAndAlignment) {
  std::vector<std::byte> out(100000);
  const auto* const from = reinterpret_cast<const std::byte*>(data_.data());
  for (size_t way = 0; way < weft::io::kCopyWays; ++way)
    for (const size_t n : {0, 1, 63, 64, 4095, 4096, 4097, 16383, 16384, 16385, 70000, 98304})
      for (const size_t to : {0, 1, 17, 63, 64}) {
        std::fill(out.begin(), out.end(), std::byte{0});
        weft::io::copy(static_cast<weft::io::CopyWay>(way), out.data() + to, from + 3, n);
        EXPECT_EQ(std::memcmp(out.data() + to, from + 3, n), 0) << way << ' ' << n << ' ' << to;
        EXPECT_EQ(out[to + n], std::byte{0});
        EXPECT_TRUE(to == 0 || out[to - 1] == std::byte{0});
      }
}

}  // namespace
