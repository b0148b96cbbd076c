// SPDX-License-Identifier: BSD-3-Clause
// RaceCheck: queued work that changes a buffer, parts of large buffers, the time limit, old drivers.
#include "device/race_check.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <thread>

#include "base/counters.hpp"
#include "cuda_test_support.hpp"
#include "emulator_calls.hpp"

namespace weft::test {
namespace {

using device::RaceCheck;
using State = RaceCheck::State;

constexpr size_t kBytes = 1 << 20;  // WEFT_CHECK_GPU_BYTES is 64 KiB: 64 parts of 1 KiB
constexpr size_t kSmall = 4096;

uint64_t count(std::string_view name) {
  for (const counters::Counter* counter : counters::all())
    if (name == counter->name()) return counter->value();
  return 0;
}

class RaceCheckTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    cuda().cuCtxSetCurrent(cuda().primary[0]);
    ASSERT_EQ(cuda().cuStreamCreate(&stream_, 1), 0);
    ASSERT_EQ(cuda().cuModuleLoadData(&module_, "an image"), 0);
    ASSERT_EQ(cuda().cuModuleGetFunction(&spin_, module_, "emucuda_spin"), 0);
    release();
    hold();  // the first launch loads the kernel
    release();
    buffer_.write(pattern(kBytes, 1));
    other_.write(pattern(kBytes, 2));
    cuda().cuCtxSetCurrent(cuda().primary[0]);
  }
  void TearDown() override {
    release();
    EXPECT_EQ(cuda().cuStreamDestroy_v2(stream_), 0);
    EXPECT_EQ(cuda().cuModuleUnload(module_), 0);
    CudaTest::TearDown();
  }
  /// Queues a kernel that runs until release().
  void hold() {
    __atomic_store_n(reinterpret_cast<uint32_t*>(flag_.data()), 0u, __ATOMIC_RELEASE);
    auto flag = reinterpret_cast<Address>(flag_.data());
    uint32_t value = 1;
    void* parameters[] = {&flag, &value};
    ASSERT_EQ(cuda().cuLaunchKernel(spin_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr), 0);
  }
  void release() {
    __atomic_store_n(reinterpret_cast<uint32_t*>(flag_.data()), 1u, __ATOMIC_RELEASE);
    ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  }
  /// Queues a copy of n bytes of other data at an offset.
  void change(size_t offset, size_t n) {
    ASSERT_EQ(cuda().cuMemcpyDtoDAsync_v2(reinterpret_cast<Address>(buffer_.data() + offset),
                                          reinterpret_cast<Address>(other_.data() + offset), n, stream_),
              0);
  }
  static State finish(RaceCheck& check) {
    State state = State::waiting;
    while ((state = check.poll()) == State::waiting) std::this_thread::yield();
    return state;
  }
  /// The first change that the check finds in the first `bytes` bytes when queued work writes n bytes at
  /// `offset`.
  size_t first_change(size_t bytes, size_t offset, size_t n) {
    buffer_.write(pattern(kBytes, 1));
    cuda().cuCtxSetCurrent(cuda().primary[0]);
    hold();
    change(offset, n);
    RaceCheck check;
    EXPECT_TRUE(check.start(buffer_.memory(), buffer_.data(), bytes));
    EXPECT_EQ(check.poll(), State::waiting);
    release();
    EXPECT_EQ(finish(check), State::compared);
    return check.first_change(0, bytes);
  }

  Buffer buffer_{Buffer::Kind::device, kBytes}, other_{Buffer::Kind::device, kBytes},
      flag_{Buffer::Kind::pinned, 4};
  Stream stream_ = nullptr;
  void *module_ = nullptr, *spin_ = nullptr;
};

TEST_F(RaceCheckTest, NothingQueued) {
  RaceCheck check;
  EXPECT_FALSE(check.start(buffer_.memory(), buffer_.data(), kSmall));
  EXPECT_EQ(check.poll(), State::idle);
}

TEST_F(RaceCheckTest, QueuedWorkThatChangesTheBuffer) {
  EXPECT_EQ(first_change(kSmall, 100, 8), 100u);
  EXPECT_EQ(first_change(kSmall, 0, kSmall), 0u);
  EXPECT_EQ(first_change(kSmall, kSmall - 1, 1), kSmall - 1);
  EXPECT_EQ(first_change(kSmall, kSmall, 1), kSmall);  // behind it
}

TEST_F(RaceCheckTest, OnlyTheAskedRangeCounts) {
  hold();
  change(1000, 100);
  RaceCheck check;
  ASSERT_TRUE(check.start(buffer_.memory(), buffer_.data(), kSmall));
  release();
  ASSERT_EQ(finish(check), State::compared);
  EXPECT_EQ(check.first_change(0, 1000), 1000u);
  EXPECT_EQ(check.first_change(1100, 100), 1200u);
  EXPECT_EQ(check.first_change(1050, 100), 1050u);
}

TEST_F(RaceCheckTest, LargeBuffersInParts) {
  EXPECT_EQ(first_change(kBytes, kBytes - 1, 1), kBytes - 1);
  EXPECT_EQ(first_change(kBytes, 0, 1), 0u);
  EXPECT_EQ(first_change(kBytes, 2048, 1024), kBytes);  // between the first two parts
  EXPECT_LT(first_change(kBytes, kBytes / 2, kBytes / 4), kBytes * 3 / 4);
}

TEST_F(RaceCheckTest, WorkOfAnotherContext) {
  if (cuda().devices < 2) GTEST_SKIP() << "one GPU";
  const Context other = cuda().primary[1];
  cuda().cuCtxSetCurrent(other);
  void *module = nullptr, *spin = nullptr;
  Stream stream = nullptr;
  ASSERT_EQ(cuda().cuStreamCreate(&stream, 1), 0);
  ASSERT_EQ(cuda().cuModuleLoadData(&module, "an image"), 0);
  ASSERT_EQ(cuda().cuModuleGetFunction(&spin, module, "emucuda_spin"), 0);
  auto flag = reinterpret_cast<Address>(flag_.data());
  uint32_t value = 1;
  void* parameters[] = {&flag, &value};
  ASSERT_EQ(cuda().cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream), 0);
  __atomic_store_n(reinterpret_cast<uint32_t*>(flag_.data()), 0u, __ATOMIC_RELEASE);
  ASSERT_EQ(cuda().cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), 0);
  cuda().cuCtxSetCurrent(cuda().primary[0]);
  RaceCheck check;
  EXPECT_TRUE(check.start(buffer_.memory(), buffer_.data(), kSmall));
  EXPECT_EQ(check.poll(), State::waiting);
  release();
  EXPECT_EQ(finish(check), State::compared);
  EXPECT_EQ(check.first_change(0, kSmall), kSmall);
  cuda().cuCtxSetCurrent(other);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), 0);
  EXPECT_EQ(cuda().cuStreamDestroy_v2(stream), 0);
  EXPECT_EQ(cuda().cuModuleUnload(module), 0);
  cuda().cuCtxSetCurrent(cuda().primary[0]);
}

TEST_F(RaceCheckTest, EndlessWorkIsUndecided) {
  const uint64_t before = count("check.gpu_undecided");
  hold();
  RaceCheck check;
  ASSERT_TRUE(check.start(buffer_.memory(), buffer_.data(), kSmall));
  EXPECT_EQ(finish(check), State::undecided);  // WEFT_CHECK_GPU_WAIT_NS
  EXPECT_EQ(count("check.gpu_undecided"), before + 1);
  release();
}

TEST_F(RaceCheckTest, FaultIsUndecided) {
  hold();
  RaceCheck check;
  ASSERT_TRUE(check.start(buffer_.memory(), buffer_.data(), kSmall));
  ASSERT_EQ(cuda().fail("cuEventQuery:1:700"), 0);
  EXPECT_EQ(check.poll(), State::undecided);
  ASSERT_EQ(cuda().fail("cuMemcpyAsync:1:700"), 0);
  RaceCheck second;
  EXPECT_FALSE(second.start(buffer_.memory(), buffer_.data(), kSmall));
  EXPECT_EQ(second.poll(), State::undecided);
  release();
}

TEST_F(RaceCheckTest, EventsAreUsedAgain) {
  device::prepare_race_checks();
  (void)first_change(kSmall, 0, 1);
  const unsigned long before = cuda().calls("cuEventCreate");
  for (int i = 0; i < 20; ++i) (void)first_change(kSmall, 0, 1);
  EXPECT_EQ(cuda().calls("cuEventCreate"), before);
}

class RaceCheckOldDriver : public CudaTest {};

TEST_F(RaceCheckOldDriver, IsCountedAndChecksNothing) {
  const Buffer buffer(Buffer::Kind::device, kSmall);
  const uint64_t before = count("check.gpu_skipped");
  RaceCheck check;
  EXPECT_FALSE(check.start(buffer.memory(), buffer.data(), kSmall));
  EXPECT_EQ(count("check.gpu_skipped"), before + 1);
}

}  // namespace
}  // namespace weft::test
