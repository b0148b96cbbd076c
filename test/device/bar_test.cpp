// SPDX-License-Identifier: BSD-3-Clause
// The BAR path with the emulated gdrcopy: transfers, rejected ranges, and no access to freed memory (the
// emulation aborts).
#include "device/bar.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "cuda_test_support.hpp"

namespace weft::test {
namespace {

using Kind = Buffer::Kind;

class BarTest : public CudaTest {
 protected:
  /// The path is disabled by EMUGDR_FAIL or by the setting.
  static bool broken() {
    const char* setting = std::getenv("WEFT_GPU_GDRCOPY");
    return std::getenv("EMUGDR_FAIL") != nullptr || (setting != nullptr && std::strcmp(setting, "off") == 0);
  }
};

TEST_F(BarTest, ReadsAndWrites) {
  Buffer buffer(Kind::device, 200'000);
  const Memory memory = buffer.memory();
  auto expected = pattern(200'000, 1);
  buffer.write(expected);
  for (const size_t at : {size_t{0}, size_t{3}, size_t{65'530}, size_t{131'000}}) {
    const auto sent = pattern(5000, static_cast<unsigned>(at));
    EXPECT_EQ(device::bar_write(buffer.data() + at, memory, sent.data(), sent.size()), !broken());
    if (!broken()) std::copy(sent.begin(), sent.end(), expected.begin() + static_cast<long>(at));
    std::vector<char> seen(200);
    EXPECT_EQ(device::bar_read(buffer.data() + at + 100, memory, seen.data(), seen.size()), !broken());
    if (!broken()) {
      EXPECT_TRUE(std::equal(seen.begin(), seen.end(), expected.begin() + static_cast<long>(at) + 100)) << at;
    }
  }
  EXPECT_EQ(buffer.read(), expected);
}

TEST_F(BarTest, RejectsUnsupportedRanges) {
  Buffer plain(Kind::device, 100'000), pool(Kind::pool, 1000), managed(Kind::managed, 1000),
      mapped(Kind::mapped, 1000);
  std::vector<char> bytes(20'000);
  EXPECT_FALSE(device::bar_read(plain.data(), plain.memory(), bytes.data(), 300)) << "reading much is slow";
  EXPECT_FALSE(device::bar_write(plain.data(), plain.memory(), bytes.data(), 9000));
  EXPECT_FALSE(device::bar_write(plain.data() + 99'999, plain.memory(), bytes.data(), 2)) << "past the end";
  for (Buffer* other : {&pool, &managed, &mapped})
    EXPECT_FALSE(device::bar_write(other->data(), other->memory(), bytes.data(), 8)) << "cannot be pinned";
}

TEST_F(BarTest, FreedAndReallocatedMemory) {
  if (broken()) GTEST_SKIP() << "the BAR path is disabled";
  for (unsigned round = 0; round < 200; ++round) {
    Buffer buffer(Kind::device, 1000);
    const auto sent = pattern(100, round);
    ASSERT_TRUE(device::bar_write(buffer.data(), buffer.memory(), sent.data(), sent.size()));
    std::vector<char> seen(100);
    ASSERT_TRUE(device::bar_read(buffer.data(), buffer.memory(), seen.data(), seen.size()));
    ASSERT_EQ(seen, sent);
  }
  EXPECT_LE(counters::find("gpu.gdrcopy_mappings")->value(), 64u);
}

TEST_F(BarTest, MappingsAreBounded) {
  if (broken()) GTEST_SKIP() << "the BAR path is disabled";
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (unsigned i = 0; i < 100; ++i) {
    buffers.push_back(std::make_unique<Buffer>(Kind::device, 1000));
    const char byte = static_cast<char>(i);
    ASSERT_TRUE(device::bar_write(buffers[i]->data(), buffers[i]->memory(), &byte, 1));
  }
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(buffers[i]->read(0, 1)[0], static_cast<char>(i));
  EXPECT_LE(counters::find("gpu.gdrcopy_mappings")->value(), 64u);
}

}  // namespace
}  // namespace weft::test
