// SPDX-License-Identifier: BSD-3-Clause
#include "ft/agreement.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace weft::ft {

void Value::add_failed(uint32_t rank) {
  uint32_t* const end = failed + failed_count;
  uint32_t* const at = std::lower_bound(failed, end, rank);
  if (at != end && *at == rank) return;
  if (failed_count == kMaxFailed) {
    more_failed = 1;
    if (at == end) return;
    std::copy_backward(at, end - 1, end);
  } else {
    std::copy_backward(at, end, end + 1);
    ++failed_count;
  }
  *at = rank;
}

void Value::combine(const Value& other) {
  flags &= other.flags;
  unacknowledged |= other.unacknowledged;
  lowest_mark = std::min(lowest_mark, other.lowest_mark);
  highest_mark = std::max(highest_mark, other.highest_mark);
  if (other.proposer < proposer) {
    proposer = other.proposer;
    context = other.context;
  }
  settled = std::min(settled, other.settled);
  more_failed |= other.more_failed;
  for (uint32_t i = 0; i < other.failed_count; ++i) add_failed(other.failed[i]);
}

bool Value::operator==(const Value& other) const {
  return flags == other.flags && unacknowledged == other.unacknowledged && lowest_mark == other.lowest_mark &&
         highest_mark == other.highest_mark && context == other.context && proposer == other.proposer &&
         settled == other.settled && more_failed == other.more_failed &&
         std::equal(failed, failed + failed_count, other.failed, other.failed + other.failed_count);
}

/// Sends the values of the subtree up when all are there; at the root, decides.
void Agreement::advance(Outbox& outbox) {
  if (decided_) return;
  bool missing = false;
  for_each_missing([&](int) { missing = true; });
  if (missing) return;
  const int parent = tree_.parent();
  if (parent == tree_.rank()) return decide(value_, outbox);
  if (sent_to_ == parent) return;
  sent_to_ = parent;
  outbox.send(parent, Kind::contribution, value_);
}

void Agreement::decide(const Value& value, Outbox& outbox) {
  WEFT_ASSERT(!decided_);
  decided_ = true;
  value_ = value;
  for (int rank = 0; rank < tree_.size(); ++rank)
    if (reported(rank) && !tree_.failed(rank)) outbox.send(rank, Kind::decision, value_);
}

void Agreement::receive(int from, Kind kind, const Value& value, Outbox& outbox) {
  if (tree_.failed(from)) return;
  switch (kind) {
    case Kind::contribution:
      if (decided_) return outbox.send(from, Kind::decision, value_);
      value_.combine(value);
      reported_[static_cast<size_t>(from)] = 1;
      return advance(outbox);
    case Kind::decision:
      // Only the present parent decides for this rank: a decision of a former one may be unknown to the
      // others.
      if (!decided_ && from == sent_to_) decide(value, outbox);
      return;
    case Kind::known:
      WEFT_ASSERT(!decided_ || value == value_);
      if (!decided_) decide(value, outbox);
      return;
  }
}

void Agreement::fail(int rank, Outbox& outbox) {
  if (tree_.failed(rank)) return;
  const bool lost_parent = tree_.parent() == rank;
  tree_.fail(rank);
  if (!decided_) {
    // The decision names all failures that the deciding rank has noticed.
    value_.add_failed(static_cast<uint32_t>(rank));
    value_.unacknowledged = 1;
    return advance(outbox);
  }
  if (lost_parent && tree_.parent() != tree_.rank()) outbox.send(tree_.parent(), Kind::known, value_);
}

}  // namespace weft::ft
