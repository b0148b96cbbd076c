// SPDX-License-Identifier: BSD-3-Clause
// The emulated driver: words that streams write and await, hardware queues, captures of words, user objects.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "cuda_test_support.hpp"
#include "device/cuda/driver_types.hpp"
#include "emulator_calls.hpp"

namespace weft::test {
namespace {

using device::cuda::BatchMemOp;
using device::cuda::Graph;
using device::cuda::GraphNode;

class Order : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cuda().loaded);
    cuda().cuCtxSetCurrent(cuda().primary[0]);
    ASSERT_EQ(cuda().cuMemHostAlloc(&memory_, 4096, 3), 0);
    words = static_cast<uint32_t*>(memory_);
    for (size_t i = 0; i < 1024; ++i) words[i] = 0;
    stream = create();
  }
  void TearDown() override {
    for (Stream one : streams_) EXPECT_EQ(cuda().cuStreamDestroy_v2(one), 0);
    EXPECT_EQ(cuda().cuMemFreeHost(memory_), 0);
  }
  Stream create() {
    Stream made = nullptr;
    EXPECT_EQ(cuda().cuStreamCreate(&made, 1), 0);
    streams_.push_back(made);
    return made;
  }
  /// Writes words[0], awaits words[1], clears it.
  void enqueue(Stream to) {
    BatchMemOp operations[] = {{2, address_of(&words[0]), 1, 0, 0, 0},
                               {1, address_of(&words[1]), 1, 0, 0, 0},
                               {2, address_of(&words[1]), 0, 0, 0, 0}};
    ASSERT_EQ(call("cuStreamBatchMemOp_v2", to, 3U, operations, 0U), 0);
  }
  void set(size_t index, uint32_t value) { __atomic_store_n(&words[index], value, __ATOMIC_RELEASE); }
  [[nodiscard]] uint32_t get(size_t index) const { return __atomic_load_n(&words[index], __ATOMIC_ACQUIRE); }
  void await(size_t index, uint32_t value) const {
    while (get(index) != value) ::usleep(100);
  }
  /// Whether the stream still has work after some ms.
  static bool busy(Stream of) {
    ::usleep(5000);
    return cuda().cuStreamQuery(of) == device::cuda::kNotReady;
  }
  uint32_t* words = nullptr;
  Stream stream = nullptr;

 private:
  void* memory_ = nullptr;
  std::vector<Stream> streams_;
};

TEST_F(Order, AStreamWaitsForAValue) {
  enqueue(stream);
  ASSERT_EQ(call("cuStreamWriteValue32_v2", stream, address_of(&words[2]), 7U, 0U), 0);
  await(0, 1);
  EXPECT_TRUE(busy(stream));
  EXPECT_EQ(get(2), 0U);
  set(1, 1);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), 0);
  EXPECT_EQ(get(1), 0U);
  EXPECT_EQ(get(2), 7U);
}

TEST_F(Order, WaitsAreForValuesThatAreAtLeastAsLarge) {
  ASSERT_EQ(call("cuStreamWaitValue32_v2", stream, address_of(&words[0]), 5U, 0U), 0);
  EXPECT_TRUE(busy(stream));
  set(0, 4);
  EXPECT_TRUE(busy(stream));
  set(0, 6);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), 0);
  constexpr unsigned kEqual = 1;
  EXPECT_NE(call("cuStreamWaitValue32_v2", stream, address_of(&words[0]), 5U, kEqual), 0);
  EXPECT_NE(call("cuStreamWaitValue32_v2", stream, address_of(&words[0]) + 1, 5U, 0U), 0);
}

TEST_F(Order, AWaitHoldsTheOtherStreamsOfItsHardwareQueue) {
  std::vector<Stream> others;
  for (int i = 0; i < 8; ++i) others.push_back(create());  // the last one shares the queue of `stream`
  enqueue(stream);
  await(0, 1);
  for (size_t i = 0; i < others.size(); ++i) {
    if (i < 7) {  // the stream keeps its queue until the last one has got one
      ASSERT_EQ(call("cuStreamWaitValue32_v2", others[i], address_of(&words[2]), 1U, 0U), 0);
    }
    ASSERT_EQ(call("cuStreamWriteValue32_v2", others[i], address_of(&words[10 + i]), 1U, 0U), 0);
  }
  set(2, 1);
  for (size_t i = 0; i < 7; ++i) await(10 + i, 1);
  EXPECT_TRUE(busy(others[7]));
  Stream urgent = nullptr;  // another priority has queues of its own
  ASSERT_EQ(call("cuStreamCreateWithPriority", &urgent, 1U, -5), 0);
  ASSERT_EQ(call("cuStreamWriteValue32_v2", urgent, address_of(&words[20]), 1U, 0U), 0);
  EXPECT_EQ(cuda().cuStreamSynchronize(urgent), 0);
  set(1, 1);
  EXPECT_EQ(cuda().cuStreamSynchronize(others[7]), 0);
  EXPECT_EQ(cuda().cuStreamDestroy_v2(urgent), 0);
}

TEST_F(Order, CapturedWordsAndUserObjects) {
  static std::atomic<int> destroyed{0};
  int status = 0;
  uint64_t id = 0, second = 0;
  Graph during = nullptr, graph = nullptr, executable = nullptr, copy = nullptr;
  const GraphNode** none = nullptr;
  size_t* no_count = nullptr;
  ASSERT_EQ(call("cuStreamGetCaptureInfo_v2", stream, &status, &id, &during, none, no_count), 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(cuda().cuStreamBeginCapture_v2(stream, 0), 0);
  ASSERT_EQ(call("cuStreamGetCaptureInfo_v2", stream, &status, &id, &during, none, no_count), 0);
  EXPECT_EQ(status, 1);
  EXPECT_NE(during, nullptr);
  void* object = nullptr;
  void* state = words;
  void (*destroy)(void*) = [](void*) { ++destroyed; };
  ASSERT_EQ(call("cuUserObjectCreate", &object, state, destroy, 1U, 1U), 0);
  ASSERT_EQ(call("cuGraphRetainUserObject", during, object, 1U, 1U), 0);
  enqueue(stream);
  ASSERT_EQ(cuda().cuStreamEndCapture(stream, &graph), 0);
  EXPECT_EQ(get(0), 0U);
  ASSERT_EQ(cuda().cuGraphInstantiateWithFlags(&executable, graph, 0), 0);
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_EQ(cuda().cuGraphLaunch(executable, stream), 0);
    await(0, 1);
    EXPECT_TRUE(busy(stream));
    set(0, 0);
    set(1, 1);
    EXPECT_EQ(cuda().cuStreamSynchronize(stream), 0);
    EXPECT_EQ(get(1), 0U);
  }
  ASSERT_EQ(cuda().cuGraphInstantiateWithFlags(&copy, graph, 0), 0);
  ASSERT_EQ(cuda().cuGraphLaunch(copy, stream), 0);
  EXPECT_EQ(cuda().cuGraphDestroy(graph), 0);
  EXPECT_EQ(cuda().cuGraphExecDestroy(executable), 0);
  EXPECT_EQ(cuda().cuGraphExecDestroy(copy), 0);
  EXPECT_EQ(destroyed, 0);  // the launch has not ended
  set(1, 1);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), 0);
  EXPECT_EQ(destroyed, 1);
  ASSERT_EQ(cuda().cuStreamBeginCapture_v2(stream, 0), 0);
  ASSERT_EQ(call("cuStreamGetCaptureInfo_v2", stream, &status, &second, &during, none, no_count), 0);
  EXPECT_NE(id, second);
  ASSERT_EQ(cuda().cuStreamEndCapture(stream, &graph), 0);
  EXPECT_EQ(cuda().cuGraphDestroy(graph), 0);
}

}  // namespace
}  // namespace weft::test
