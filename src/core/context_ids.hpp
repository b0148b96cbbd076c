// SPDX-License-Identifier: BSD-3-Clause
// Sets of context ids of which each matters for a while only, such as those of revoked communicators.
#pragma once
#include <unordered_set>

#include "core/communicator.hpp"

namespace weft::core {

/// Adds an id; returns false if the set has it. At times forgets ids that the creator of `id` has made long
/// before it: a creator's ids grow, and a program revokes few of its latest communicators.
inline bool remember_context(std::unordered_set<ContextId>& ids, ContextId id) {
  constexpr size_t kIdsPerLook = 1024;
  constexpr ContextId kKeptDistance = kIdsPerLook * kContextStep;
  if (!ids.insert(id).second) return false;
  if (ids.size() % kIdsPerLook != 0) return true;
  std::erase_if(ids, [id](ContextId other) {
    return other >> kCreatorShift == id >> kCreatorShift && other < id && id - other > kKeptDistance;
  });
  return true;
}

}  // namespace weft::core
