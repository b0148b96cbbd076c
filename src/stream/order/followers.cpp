// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/followers.hpp"

#include "base/slab.hpp"
#include "core/reference.hpp"
#include "stream/order/order.hpp"

namespace weft::stream::order {

struct Follower {
  core::Ref<core::Communicator> own;
  const core::Communicator* from;  ///< null: it has been freed
};

namespace {

Slab<Follower>& followers() {
  static auto& all = *new Slab<Follower>(size_t{1} << 21);  // as many as windows and files
  return all;
}

}  // namespace

void EndFollower::operator()(Follower* follower) const { followers().destroy(follower); }

Result<Following> follow_order(core::Communicator& own, const core::Communicator& from) {
  Following made(followers().create(core::Ref<core::Communicator>::share(&own), &from));
  if (made == nullptr) return Error(Errc::no_mem, "too many windows and open files: free or close some");
  own.order = from.order;
  return made;
}

void renew_orders(const core::Communicator& from) {
  followers().for_each([&](Follower& follower) {
    if (follower.from == &from) follower.own->order = from.order;
  });
}

void keep_orders(const core::Communicator& from) {
  if (Order* const order = Order::of(from); order != nullptr) order->freed = true;
  followers().for_each([&](Follower& follower) {
    if (follower.from == &from) follower.from = nullptr;
  });
}

}  // namespace weft::stream::order
