// SPDX-License-Identifier: BSD-3-Clause
#include "core/mapping_rule.hpp"

#include "base/clock.hpp"
#include "base/config.hpp"

namespace weft::core {
namespace {

enum Mapping { automatic, always, by_cost };
config::Choice setting_mapping{
    "gpu.mapping",
    automatic,
    {"auto", "always", "by_cost"},
    "When GPU memory of the program is mapped by other processes: auto (for messages when earlier messages "
    "through bounce buffers have cost as much time as a mapping, for collectives at once unless such "
    "mappings take more than a fiftieth of the time), always (the memory of both sides at once), by_cost "
    "(as for messages, for collectives too)."};

constexpr size_t kMaxEntries = 8192;

// Memory that a program allocates once is mapped within the first part. Memory that comes and goes would be
// mapped in each call: the second part bounds what that costs.
constexpr uint64_t kAdvanceNs = 100'000'000, kElapsedPerAdvance = 50;

}  // namespace

bool MappingRule::maps_at_once() { return setting_mapping.index() == always; }

bool MappingRule::Advance::grant(uint64_t mapping_ns) {
  const uint64_t now = monotonic_ns();
  if (since_ns == 0) since_ns = now;
  if (spent_ns + mapping_ns > kAdvanceNs + (now - since_ns) / kElapsedPerAdvance) return false;
  spent_ns += mapping_ns;
  return true;
}

bool MappingRule::bought(const Key& key) {
  if (maps_at_once() || key == last_bought_) [[likely]]
    return true;
  const auto at = spent_ns_.find(key);
  if (at == spent_ns_.end() || at->second != kBought) return false;
  last_bought_ = key;
  return true;
}

bool MappingRule::pays(const Key& key, uint64_t extra_ns, uint64_t mapping_ns, Alternative alternative) {
  if (bought(key)) return true;
  if (spent_ns_.size() >= kMaxEntries) make_room();
  uint64_t& spent = spent_ns_[key];
  const bool at_once = alternative == Alternative::collective && setting_mapping.index() != by_cost;
  if (spent >= mapping_ns || extra_ns >= mapping_ns - spent || (at_once && advance_.grant(mapping_ns))) {
    spent = kBought;
    last_bought_ = key;
    return true;
  }
  spent += extra_ns;
  return false;
}

/// Allocations that came and went leave entries. Bought mappings are kept as long as they are few.
void MappingRule::make_room() {
  std::erase_if(spent_ns_, [](const auto& entry) { return entry.second != kBought; });
  if (spent_ns_.size() <= kMaxEntries / 2) return;
  spent_ns_.clear();
  last_bought_ = {};
}

void MappingRule::forget(ProcessId peer) {
  std::erase_if(spent_ns_, [&](const auto& entry) { return entry.first.peer == peer; });
  last_bought_ = {};
}

}  // namespace weft::core
