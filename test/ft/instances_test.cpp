// SPDX-License-Identifier: BSD-3-Clause
// Two instances in a process share no state of the layers above core: each owns its own.
#include <gtest/gtest.h>

#include <memory>

#include "../core/solo.hpp"
#include "ft/service.hpp"
#include "rma/messages.hpp"
#include "rma/now.hpp"
#include "stream/streams.hpp"

namespace weft {
namespace {

class Pair final : public core::SoloExchange {
 public:
  Pair() { job_.size = 2; }
};

struct Instances : testing::Test {
  core::Instance first{std::make_unique<Pair>()}, second{std::make_unique<Pair>()};
};

TEST_F(Instances, AReportedFailureIsThatOfTheReceiver) {
  ft::Service::start(first);
  ft::Service::start(second);
  const ft::FailureMessage message{ft::MessageId::failure, {}, 1};
  first.handlers.deliver(1, reinterpret_cast<const std::byte*>(&message), sizeof message);
  EXPECT_FALSE(ft::Service::of(first).idle());
  EXPECT_TRUE(ft::Service::of(second).idle());
  EXPECT_FALSE(first.nothing_in_flight());
  EXPECT_TRUE(second.nothing_in_flight());
}

TEST_F(Instances, EachHasMessagesOfWindows) {
  EXPECT_NE(&rma::Messages::of(first), &rma::Messages::of(second));
  EXPECT_EQ(&rma::Messages::of(first), &rma::Messages::of(first));
  EXPECT_NE(&rma::Messages::of(first).slots(), &rma::Messages::of(second).slots());
}

TEST_F(Instances, EachHasQueues) {
  EXPECT_NE(&stream::Streams::of(first), &stream::Streams::of(second));
  EXPECT_EQ(&stream::Streams::of(first), &stream::Streams::of(first));
}

TEST_F(Instances, AFenceOrdersTheStoresOfItsInstance) {
  first.stores_unfenced = second.stores_unfenced = true;
  rma::fence_stores(first);
  EXPECT_FALSE(first.stores_unfenced);
  EXPECT_TRUE(second.stores_unfenced);
}

}  // namespace
}  // namespace weft
