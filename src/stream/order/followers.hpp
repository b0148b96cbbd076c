// SPDX-License-Identifier: BSD-3-Clause
// Windows and files in stream order: their own communicators have the order of the communicator from which
// they were made, also if that gets its first stream later. Threading: under the instance lock.
#pragma once
#include <memory>

#include "base/result.hpp"
#include "core/communicator.hpp"

namespace weft::stream::order {

struct Follower;
struct EndFollower {
  void operator()(Follower* follower) const;
};
using Following = std::unique_ptr<Follower, EndFollower>;

/// `own`, of a window or file, has the order of `from`, from which it is made, while the result exists.
/// Error: no memory.
[[nodiscard]] Result<Following> follow_order(core::Communicator& own, const core::Communicator& from);
/// After a communicator has got its order.
void renew_orders(const core::Communicator& from);
/// Before a communicator is freed: its followers keep its order.
void keep_orders(const core::Communicator& from);

}  // namespace weft::stream::order
