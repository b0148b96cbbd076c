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
    for (Vote& own : votes_) {
      own.bytes = own.largest = 8;
      own.location = Location::device;
      own.state = State::open;
    }
  }
  /// The decision of every rank.
  Agreement agreed(bool queued) {
    std::vector<std::vector<std::byte>> published;
    for (const Vote& own : votes_) {
      published.emplace_back(sizeof own);
      std::memcpy(published.back().data(), &own, own.size(call_));
    }
    VoteReduction reduction(call_, queued);
    for (int rank = 0; rank < call_.size; ++rank)
      reduction.add(rank, published[static_cast<size_t>(rank)].data());
    return reduction.result();
  }
  void all(State state) {
    for (Vote& own : votes_) own.state = state;
  }

  Call call_;
  Vote votes_[3];
};

TEST_F(AgreementTest, OpenDomainsUseKernels) {
  EXPECT_EQ(agreed(false).path, AgreedPath::kernels);
  EXPECT_EQ(agreed(true).path, AgreedPath::kernels);
}

TEST_F(AgreementTest, UnknownDomainsAreOpened) {
  all(State::unknown);
  EXPECT_EQ(agreed(false).path, AgreedPath::kernels);
  EXPECT_EQ(agreed(true).path, AgreedPath::kernels);
}

TEST_F(AgreementTest, OneUnopenedDomainMakesAllRanksUseMessages) {
  for (Vote& unopened : votes_) {
    all(State::open);
    unopened.state = State::unknown;
    for (const uint32_t busy : {0u, 1u}) {
      unopened.busy = busy;
      EXPECT_EQ(agreed(false).path, AgreedPath::messages);
      EXPECT_EQ(agreed(true).path, AgreedPath::messages);
    }
    unopened.busy = 0;
  }
}

TEST_F(AgreementTest, UnfinishedCallsPreventOpening) {
  all(State::unknown);
  votes_[1].busy = 1;
  EXPECT_EQ(agreed(false).path, AgreedPath::messages);
  EXPECT_EQ(agreed(true).path, AgreedPath::messages);
}

TEST_F(AgreementTest, UnfinishedCallsPreventBlockingKernelsOnly) {
  votes_[2].busy = 1;
  EXPECT_EQ(agreed(false).path, AgreedPath::messages);
  EXPECT_EQ(agreed(true).path, AgreedPath::kernels);
  EXPECT_FALSE(agreed(true).idle);
}

TEST_F(AgreementTest, RefusedDomainsAreNotUsed) {
  all(State::refused);
  EXPECT_EQ(agreed(false).path, AgreedPath::messages);
  EXPECT_EQ(agreed(true).path, AgreedPath::messages);
}

TEST_F(AgreementTest, MismatchNamesTheRanks) {
  votes_[2].bytes = 12;
  const Agreement agreement = agreed(false);
  EXPECT_EQ(agreement.path, AgreedPath::mismatch);
  EXPECT_EQ(agreement.to, 2);
  EXPECT_EQ(agreement.expected, 12u);
}

}  // namespace
}  // namespace weft::coll::gpu
