// SPDX-License-Identifier: BSD-3-Clause
#include "core/mapping_rule.hpp"

#include "base/config.hpp"

namespace weft::core {
namespace {

config::Choice setting_mapping{
    "gpu.mapping",
    1,
    {"auto", "always"},
    "When GPU memory of the program is mapped by other processes: always (with its first message), auto "
    "(when the messages that were copied through bounce buffers have cost as much time as a mapping)."};

constexpr size_t kMaxEntries = 8192;

}  // namespace

bool MappingRule::maps_at_once() { return setting_mapping.is("always"); }

bool MappingRule::bought(const Key& key) {
  if (maps_at_once() || key == last_bought_) [[likely]]
    return true;
  const auto at = spent_ns_.find(key);
  if (at == spent_ns_.end() || at->second != kBought) return false;
  last_bought_ = key;
  return true;
}

bool MappingRule::pays(const Key& key, uint64_t extra_ns, uint64_t mapping_ns) {
  if (bought(key)) return true;
  if (spent_ns_.size() >= kMaxEntries) make_room();
  uint64_t& spent = spent_ns_[key];
  if (spent >= mapping_ns || extra_ns >= mapping_ns - spent) {
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
