// SPDX-License-Identifier: BSD-3-Clause
// How ranks agree on the path of a collective on GPU buffers: a function of what all ranks have published.
#include "coll/gpu/agreement.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/op.hpp"
#include "datatype/predefined.hpp"

namespace weft::coll::gpu {
namespace {

using State = Domain::State;

constexpr uintptr_t kInt = 0x209, kSum = 0x21;  // handles in the ABI

class AgreementTest : public ::testing::Test {
 protected:
  AgreementTest() {
    call_.what = Collective::allreduce;
    call_.size = 3;
    call_.op = core::Op::predefined(kSum);
    call_.send.type = call_.recv.type = datatype::predefined(kInt);
    call_.send.count = call_.recv.count = 2;
    call_.bytes = 8;
    for (Statement& own : statements_) {
      own.bytes = own.largest = 8;
      own.side = Side::device;
      own.state = State::open;
    }
  }
  /// What every rank concludes.
  Agreement agreed(bool later) {
    std::vector<std::vector<std::byte>> published;
    for (const Statement& own : statements_) {
      published.emplace_back(sizeof own);
      std::memcpy(published.back().data(), &own, Statement::size(call_));
    }
    Judge judge(call_, later);
    for (int rank = 0; rank < call_.size; ++rank)
      judge.hear(rank, published[static_cast<size_t>(rank)].data());
    return judge.verdict();
  }
  void all(State state) {
    for (Statement& own : statements_) own.state = state;
  }

  Call call_;
  Statement statements_[3];
};

TEST_F(AgreementTest, AllOpenGoByKernels) {
  EXPECT_EQ(agreed(false).way, Way::kernels);
  EXPECT_EQ(agreed(true).way, Way::kernels);
}

TEST_F(AgreementTest, AllUnknownOpenTheDomain) {
  all(State::unknown);
  EXPECT_EQ(agreed(false).way, Way::kernels);
  EXPECT_EQ(agreed(true).way, Way::kernels);
}

TEST_F(AgreementTest, OneRankThatKnowsLessSendsAllToMessages) {
  for (Statement& late : statements_) {
    all(State::open);
    late.state = State::unknown;
    for (const uint32_t busy : {0u, 1u}) {
      late.busy = busy;
      EXPECT_EQ(agreed(false).way, Way::messages);
      EXPECT_EQ(agreed(true).way, Way::messages);
    }
    late.busy = 0;
  }
}

TEST_F(AgreementTest, CallsUnderWayLeaveOpeningToThem) {
  all(State::unknown);
  statements_[1].busy = 1;
  EXPECT_EQ(agreed(false).way, Way::messages);
  EXPECT_EQ(agreed(true).way, Way::messages);
}

TEST_F(AgreementTest, CallsUnderWayHoldUpBlockingOnesOnly) {
  statements_[2].busy = 1;
  EXPECT_EQ(agreed(false).way, Way::messages);
  EXPECT_EQ(agreed(true).way, Way::kernels);
  EXPECT_FALSE(agreed(true).idle);
}

TEST_F(AgreementTest, RefusedDomainsAreNotUsed) {
  all(State::refused);
  EXPECT_EQ(agreed(false).way, Way::messages);
  EXPECT_EQ(agreed(true).way, Way::messages);
}

TEST_F(AgreementTest, MismatchNamesTheRanks) {
  statements_[2].bytes = 12;
  const Agreement agreement = agreed(false);
  EXPECT_EQ(agreement.way, Way::mismatch);
  EXPECT_EQ(agreement.to, 2);
  EXPECT_EQ(agreement.awaited, 12u);
}

}  // namespace
}  // namespace weft::coll::gpu
