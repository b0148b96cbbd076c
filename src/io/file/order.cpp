// SPDX-License-Identifier: BSD-3-Clause
#include "io/file/order.hpp"

#include "base/slab.hpp"
#include "core/reference.hpp"

namespace weft::io {
namespace {

struct Follower {
  core::Ref<core::Communicator> own;
  const core::Communicator* from;  ///< null: it has been freed
};

Slab<Follower>& followers() {
  static auto& all = *new Slab<Follower>(size_t{1} << 20);  // as many as files
  return all;
}

}  // namespace

Status join_order(core::Communicator& own, const core::Communicator& from) {
  if (followers().create(core::Ref<core::Communicator>::share(&own), &from) == nullptr)
    return Error(Errc::no_mem, "too many open files: close some");
  own.order = from.order;
  return {};
}

void leave_order(const core::Communicator& own) {
  Follower* found = nullptr;
  followers().for_each([&](Follower& follower) {
    if (follower.own.get() == &own) found = &follower;
  });
  if (found != nullptr) followers().destroy(found);
}

void renew_orders(const core::Communicator& from) {
  followers().for_each([&](Follower& follower) {
    if (follower.from == &from) follower.own->order = from.order;
  });
}

void keep_orders(const core::Communicator& from) {
  followers().for_each([&](Follower& follower) {
    if (follower.from == &from) follower.from = nullptr;
  });
}

}  // namespace weft::io
