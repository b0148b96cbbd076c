// SPDX-License-Identifier: BSD-3-Clause
#include "coll/algorithm/order.hpp"

#include "base/config.hpp"
#include "coll/schedule/hints.hpp"

namespace weft::coll::algorithm {
namespace {

config::Choice order{
    "coll.order",
    0,
    {"any", "rank"},
    "Order of the terms of reductions. any: one order for each number of ranks, the same on all paths of "
    "host memory; "
    "rank: from rank 0 upwards, also for commutative and user-defined operations, with slower algorithms.",
    "results must be those of a sum in rank order (rank)"};

}  // namespace

bool rank_order(const Call& call) { return call.reduction() && value_for(call, order) == 1; }

}  // namespace weft::coll::algorithm
