// SPDX-License-Identifier: BSD-3-Clause
// Mappings of a file in memory that stay: parts, the limit, files that shrink and grow, threads; copies.
#include "io/backend/mapping_cache.hpp"

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
using weft::io::MappingCache;
using weft::io::Range;

constexpr int64_t kBlock = MappingCache::kBlockBytes, kWindow = MappingCache::kWindowBytes;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = "/dev/shm/weft-mapping-cache-" + std::to_string(::getpid());
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
      EXPECT_TRUE(setting->name != std::string("io.mapping_cache_bytes") || setting->parse(text).ok());
  }
  bool equal(const std::byte* at, const Range& range) {
    return std::memcmp(at, data_.data() + range.first, static_cast<size_t>(range.bytes())) == 0;
  }
  std::string path_;
  Descriptor file_;
  std::vector<char> data_;
};

TEST_F(Cache, KeepsWhatWasProvided) {
  MappingCache cache(file_);
  const Range first{100, kBlock + 1}, all{0, 3 * kWindow};
  EXPECT_FALSE(cache.has(first));
  std::byte* const at = cache.provide(first);
  ASSERT_NE(at, nullptr);
  EXPECT_TRUE(equal(at, first));
  EXPECT_TRUE(cache.has(first));
  EXPECT_TRUE(cache.has({0, 2 * kBlock}));
  EXPECT_FALSE(cache.has({0, 2 * kBlock + 1}));
  EXPECT_EQ(cache.provide({101, 200}), at + 1);
  for (int64_t window = 0; window < all.end; window += kWindow) {
    EXPECT_FALSE(cache.has(all));
    ASSERT_NE(cache.provide({window, window + kWindow}), nullptr);
  }
  EXPECT_TRUE(cache.has(all));
  std::memset(at, 42, 10);  // the bytes of the file
  char back[10];
  ASSERT_EQ(*file_.read(back, 10, 100), 10);
  EXPECT_EQ(back[9], 42);
  cache.clear();
  EXPECT_FALSE(cache.has(first));
  EXPECT_NE(cache.provide(first), nullptr);
}

TEST_F(Cache, KeepsNoMoreThanTheLimit) {
  set_limit("128k");
  MappingCache cache(file_);
  EXPECT_NE(cache.provide({0, 1}), nullptr);
  EXPECT_EQ(cache.provide({kWindow, kWindow + 2 * kBlock}), nullptr);
  EXPECT_NE(cache.provide({kWindow, kWindow + kBlock}), nullptr);
  EXPECT_EQ(cache.provide({2 * kWindow, 2 * kWindow + 1}), nullptr);
  EXPECT_NE(cache.provide({10, 20}), nullptr);
  set_limit("0");
  MappingCache none(file_);
  EXPECT_EQ(none.provide({0, 1}), nullptr);
}

TEST_F(Cache, RefusesPagesOutsideOfTheFile) {
  MappingCache cache(file_);
  EXPECT_EQ(cache.provide({3 * kWindow, 4 * kWindow}), nullptr);
  EXPECT_FALSE(cache.has({3 * kWindow, 4 * kWindow}));
}

TEST_F(Cache, FollowsAFileThatShrinksAndGrows) {
  MappingCache cache(file_);
  const Range range{0, kWindow};
  std::byte* const at = cache.provide(range);
  ASSERT_NE(at, nullptr);
  ASSERT_TRUE(file_.resize(0).ok());
  EXPECT_FALSE(file_.filled(range));
  ASSERT_TRUE(file_.write(data_.data() + 1, kWindow, 0).ok());
  EXPECT_TRUE(file_.filled(range));
  EXPECT_EQ(std::memcmp(at, data_.data() + 1, static_cast<size_t>(kWindow)), 0);
}

TEST_F(Cache, ServesThreads) {
  MappingCache cache(file_);
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < 3 * kWindow / kBlock; ++i) {
        const int64_t first = (i * 5 + thread) % (3 * kWindow / kBlock) * kBlock;
        const std::byte* const at = cache.provide({first, first + kBlock});
        ASSERT_NE(at, nullptr);
        EXPECT_TRUE(equal(at, {first, first + kBlock}));
        EXPECT_TRUE(cache.has({first, first + kBlock}));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(cache.has({0, 3 * kWindow}));
}

TEST_F(Cache, CopiesAnyLengthAndAlignment) {
  std::vector<std::byte> out(100000);
  const auto* const from = reinterpret_cast<const std::byte*>(data_.data());
  for (size_t method = 0; method < weft::io::kCopyMethods; ++method)
    for (const size_t n : {0, 1, 63, 64, 4095, 4096, 4097, 16383, 16384, 16385, 70000, 98304})
      for (const size_t to : {0, 1, 17, 63, 64}) {
        std::fill(out.begin(), out.end(), std::byte{0});
        weft::io::copy(static_cast<weft::io::CopyMethod>(method), out.data() + to, from + 3, n);
        EXPECT_EQ(std::memcmp(out.data() + to, from + 3, n), 0) << method << ' ' << n << ' ' << to;
        EXPECT_EQ(out[to + n], std::byte{0});
        EXPECT_TRUE(to == 0 || out[to - 1] == std::byte{0});
      }
}

}  // namespace
