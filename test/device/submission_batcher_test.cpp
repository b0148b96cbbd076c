// SPDX-License-Identifier: BSD-3-Clause
// Each rule of SubmissionBatcher and InstancePolicy, with times and counts as arguments.
#include "device/queue/submission_batcher.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weft::device {
namespace {

using Batcher = SubmissionBatcher;
using Policy = InstancePolicy;

/// Posts receives without progress between them, then waits.
void post_burst(Batcher& batcher, uint32_t receives) {
  for (uint32_t i = 0; i < receives; ++i) {
    batcher.begin_post();
    batcher.progress();
    batcher.end_post();
  }
  batcher.progress();
}

TEST(SubmissionBatcher, ExpectsABurstAfterALongOne) {
  Batcher batcher;
  EXPECT_FALSE(batcher.expects_burst());
  post_burst(batcher, Batcher::kMinBurstReceives - 1);
  EXPECT_FALSE(batcher.expects_burst());
  post_burst(batcher, Batcher::kMinBurstReceives);
  EXPECT_TRUE(batcher.expects_burst());
  batcher.progress();  // rounds without receives change nothing
  EXPECT_TRUE(batcher.expects_burst());
  post_burst(batcher, 1);
  EXPECT_FALSE(batcher.expects_burst());
}

TEST(SubmissionBatcher, CollectsUntilTheBurstIsAsLongAsTheLastOne) {
  constexpr uint32_t kReceives = 20;
  Batcher batcher;
  post_burst(batcher, kReceives);
  for (uint32_t i = 1; i <= kReceives; ++i) {
    batcher.begin_post();
    EXPECT_EQ(batcher.collects(i, 8), i < kReceives) << i;
    batcher.end_post();
    EXPECT_FALSE(batcher.collects(i, 8)) << "while the program waits";
  }
}

TEST(SubmissionBatcher, CollectsFewSmallCopies) {
  Batcher batcher;
  post_burst(batcher, 100);
  batcher.begin_post();
  EXPECT_TRUE(batcher.collects(Batcher::kMaxCollectedCopies - 1, Batcher::kMaxCollectedBytes));
  EXPECT_FALSE(batcher.collects(Batcher::kMaxCollectedCopies, 8));
  EXPECT_FALSE(batcher.collects(1, Batcher::kMaxCollectedBytes + 1));
}

TEST(SubmissionBatcher, DoesNotCollectShortBursts) {
  Batcher batcher;
  post_burst(batcher, Batcher::kMinBurstReceives - 1);
  batcher.begin_post();
  EXPECT_FALSE(batcher.collects(1, 8));
}

TEST(SubmissionBatcher, DeliversFewMessagesWithinABurst) {
  Batcher batcher;
  batcher.begin_post();
  EXPECT_EQ(batcher.max_messages(), Batcher::kMaxMessages);
  batcher.end_post();
  post_burst(batcher, Batcher::kMinBurstReceives);
  EXPECT_EQ(batcher.max_messages(), Batcher::kMaxMessages);
  batcher.begin_post();
  EXPECT_EQ(batcher.max_messages(), Batcher::kMaxMessagesInBurst);
}

TEST(SubmissionBatcher, PollsRarelyWhileReceivesArePosted) {
  Batcher batcher;
  EXPECT_TRUE(batcher.poll_due());
  EXPECT_TRUE(batcher.poll_due());
  batcher.begin_post();
  uint32_t polls = 0;
  for (uint32_t i = 0; i < 10 * Batcher::kPostsPerPoll; ++i) polls += batcher.poll_due() ? 1 : 0;
  EXPECT_EQ(polls, 10u);
}

TEST(SubmissionBatcher, KeepsTheResidentKernelRunningEveryFewPolls) {
  Batcher batcher;
  uint32_t due = 0;
  for (uint32_t i = 0; i < 10 * Batcher::kPollsPerKeepRunning; ++i) due += batcher.keep_running_due() ? 1 : 0;
  EXPECT_EQ(due, 10u);
}

TEST(SubmissionBatcher, AlternatesStreamsWhileASubmissionIsInFlight) {
  Batcher batcher;
  EXPECT_FALSE(batcher.alternates(false));
  EXPECT_FALSE(batcher.alternates(false));
  EXPECT_TRUE(batcher.alternates(true));
  EXPECT_FALSE(batcher.alternates(true));
  EXPECT_TRUE(batcher.alternates(true));
  EXPECT_FALSE(batcher.alternates(false));
}

size_t batch_size(const std::vector<uint64_t>& bytes, size_t different = SIZE_MAX, uint64_t in_flight = 0) {
  return Batcher::batch_size(
      bytes.size(), [&](size_t i) { return bytes[i]; }, [&](size_t i) { return i != different; },
      [&] { return in_flight; });
}

TEST(SubmissionBatcher, LimitsABatch) {
  EXPECT_EQ(batch_size({8}), 1u);
  EXPECT_EQ(batch_size(std::vector<uint64_t>(200, 8)), Batcher::kMaxBatchCopies);
  EXPECT_EQ(batch_size(std::vector<uint64_t>(40, 8), 7), 7u) << "the eighth copy needs another context";
  EXPECT_EQ(batch_size({Batcher::kMaxBatchBytes - 8, 8, 1}), 2u);
  EXPECT_EQ(batch_size({2 * Batcher::kMaxBatchBytes, 8}), 1u) << "a large copy is a batch of its own";
}

TEST(SubmissionBatcher, MakesABatchAsLargeAsTheCopiesInFlight) {
  constexpr uint64_t kHalf = Batcher::kMaxBatchBytes / 2;
  const std::vector<uint64_t> copies(9, kHalf);
  EXPECT_EQ(batch_size(copies), 2u);
  EXPECT_EQ(batch_size(copies, SIZE_MAX, kHalf), 2u);
  EXPECT_EQ(batch_size(copies, SIZE_MAX, 6 * kHalf), 6u);
}

class InstancePolicyTest : public testing::Test {
 protected:
  static constexpr uint64_t kMaxGap = 100'000, kIdleTimeout = 13'000;
  InstancePolicyTest() { policy_.configure(kMaxGap, kIdleTimeout); }
  /// `count` arrivals `gap` ns apart.
  void arrive(uint32_t count, uint64_t gap, uint32_t blocks = 1) {
    for (uint32_t i = 0; i < count; ++i) policy_.arrived(now_ += gap, blocks);
  }
  /// An instance that executes `commands` commands.
  void run(uint32_t commands) {
    (void)policy_.started();
    policy_.ended(commands);
  }
  Policy policy_;
  uint64_t now_ = 1'000'000'000;
};

TEST_F(InstancePolicyTest, StartsAfterArrivalsInQuickSuccession) {
  arrive(1, 0);
  arrive(Policy::kMinStreak - 1, kMaxGap);
  EXPECT_FALSE(policy_.start_due());
  arrive(1, kMaxGap);
  EXPECT_TRUE(policy_.start_due());
  arrive(1, kMaxGap + 1);
  EXPECT_FALSE(policy_.start_due()) << "a long gap ends the streak";
}

TEST_F(InstancePolicyTest, HasTheBlocksThatRecentArrivalsWant) {
  arrive(4, 1000);
  arrive(1, 1000, 8);
  arrive(4, 1000, 2);
  EXPECT_EQ(policy_.started(), 8u);
  EXPECT_EQ(policy_.started(), 1u);
}

TEST_F(InstancePolicyTest, SendsNoOpsOnlyIfCommandsAreFartherApartThanTheIdleTimeout) {
  arrive(10, kIdleTimeout);
  EXPECT_EQ(policy_.next_no_op(now_), Policy::kNever);
  arrive(1, kIdleTimeout + 2000);
  EXPECT_EQ(policy_.next_no_op(now_), now_ + kIdleTimeout - Policy::kNoOpLeadNs);
  arrive(100, 1000);
  EXPECT_EQ(policy_.next_no_op(now_), Policy::kNever) << "the long gap is forgotten";
}

TEST_F(InstancePolicyTest, SendsNoOpsHalfwayThroughAShortTimeout) {
  policy_.configure(kMaxGap, 1000);
  arrive(2, 5000);
  EXPECT_EQ(policy_.next_no_op(now_), now_ + 500);
}

TEST_F(InstancePolicyTest, BacksOffAfterTwoUnusedInstances) {
  arrive(10, 1000);
  run(Policy::kMinCommands - 1);
  EXPECT_TRUE(policy_.start_due()) << "one unused instance may be chance";
  run(0);
  EXPECT_FALSE(policy_.start_due());
  // The pause begins with the last arrival before the end.
  arrive(Policy::kMinBackoffNs / kMaxGap - 1, kMaxGap);
  EXPECT_FALSE(policy_.start_due());
  arrive(1, kMaxGap);
  EXPECT_TRUE(policy_.start_due());
}

TEST_F(InstancePolicyTest, DoublesTheBackOffUpToALimit) {
  arrive(10, 1000);
  run(0);
  for (uint64_t pause = Policy::kMinBackoffNs; pause <= 4 * Policy::kMaxBackoffNs; pause *= 2) {
    run(0);
    const uint64_t expected = std::min(pause, Policy::kMaxBackoffNs);
    Policy early = policy_, late = policy_;
    early.arrived(now_ + 1000, 1);
    for (uint64_t at = now_; at < now_ + expected;) late.arrived(at += kMaxGap, 1);
    EXPECT_FALSE(early.start_due());
    EXPECT_TRUE(late.start_due()) << pause;
    arrive(static_cast<uint32_t>(expected / kMaxGap) + 1, kMaxGap);
  }
}

TEST_F(InstancePolicyTest, EndsTheBackOffAfterAUsedInstance) {
  arrive(10, 1000);
  for (int i = 0; i < 4; ++i) run(0);
  EXPECT_FALSE(policy_.start_due());
  run(Policy::kMinCommands);
  run(0);
  arrive(2000, kMaxGap);
  EXPECT_TRUE(policy_.start_due());
  run(0);
  arrive(Policy::kMinBackoffNs / kMaxGap, kMaxGap);
  EXPECT_TRUE(policy_.start_due()) << "the shortest pause again";
}

TEST_F(InstancePolicyTest, DoesNotCountNoOps) {
  arrive(10, 1000);
  for (int i = 0; i < 2; ++i) {
    (void)policy_.started();
    for (int k = 0; k < 5; ++k) policy_.no_op_sent();
    policy_.ended(5 + Policy::kMinCommands - 1);
  }
  EXPECT_FALSE(policy_.start_due());
}

TEST_F(InstancePolicyTest, PausesLongAfterAFailedLaunch) {
  arrive(10, 1000);
  policy_.launch_failed();
  arrive(static_cast<uint32_t>(Policy::kMaxBackoffNs / kMaxGap) - 1, kMaxGap);
  EXPECT_FALSE(policy_.start_due());
  arrive(1, kMaxGap);
  EXPECT_TRUE(policy_.start_due());
}

}  // namespace
}  // namespace weft::device
