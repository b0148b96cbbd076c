// SPDX-License-Identifier: BSD-3-Clause
// Who holds the locks that this process waits for, for readers of its waits.
#include <algorithm>

#include "rma/control.hpp"
#include "rma/messages.hpp"

namespace weft::rma {

LockHolder holder_of(Control& control, int known, int ranks) {
  const uint32_t held = control.lock.load(std::memory_order_relaxed);
  if (held >= Control::kExclusive) return {static_cast<int>(held - Control::kExclusive), 0};
  if (held == 0) return {};
  const auto shares = [&](int rank) { return control.of(rank).shared.load(std::memory_order_relaxed) != 0; };
  if (known >= 0 && shares(known)) return {known, held};
  for (int rank = 0; rank < ranks; ++rank)
    if (shares(rank)) return {rank, held};
  return {};
}

LockHolder Messages::reported_holder(core::ContextId window, int target) const {
  for (const HeldLock& lock : held_)
    if (lock.window == window && lock.target == target) return lock.holder;
  return {};
}

void Messages::note_holder(core::ContextId window, int target, const LockHolder& holder) {
  std::erase_if(held_, [&](const HeldLock& lock) { return lock.window == window && lock.target == target; });
  if (holder.rank >= 0) held_.push_back({window, target, holder});
}

}  // namespace weft::rma
