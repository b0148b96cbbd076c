// SPDX-License-Identifier: BSD-3-Clause
#include "transport/generations.hpp"

#include <algorithm>

#include "base/counters.hpp"

namespace weft::transport {
namespace {

counters::Counter stale_messages("net.stale_messages", counters::Unit::events,
                                 "network messages of former connections between jobs, dropped");

constexpr uint64_t kNumberMask = (uint64_t{1} << Generations::kShift) - 1;

}  // namespace

Generations::Action Generations::check(const Source& source, uint64_t sequence, bool notice,
                                       uint64_t* expected) {
  const uint64_t generation = sequence >> kShift;
  const uint64_t current = expected != nullptr ? *expected >> kShift : 0;
  if (generation != 0 && generation == current) [[likely]]
    return Action::take;
  Entry& entry = entries_[source];
  bool stale = true;
  if (generation > std::max(current, entry.ended)) {
    const bool pending = entry.unknown >> kShift == generation;
    const uint64_t first = pending ? entry.unknown : generation << kShift;
    // A connection without messages before its notice has ended already.
    if (expected != nullptr && current == 0 && !(notice && sequence == first && !pending)) {
      *expected = first;
      entry.unknown = 0;
      erase_if_empty(source);
      return Action::take;
    }
    // The process has connected again, and this one has not yet forgotten or does not know it.
    if (!notice && sequence == first && (sequence & kNumberMask) < kMaxUnknown) {
      entry.unknown = sequence + 1;
      return Action::unknown;
    }
    stale = !notice;
    if (notice && pending) entry.unknown = 0;
  } else if (notice && generation == entry.ended && generation != 0) {
    entry.ended = 0;
    stale = false;
  }
  if (stale) stale_messages.add();
  erase_if_empty(source);
  return Action::drop;
}

void Generations::renew(const Source& source, uint64_t sequence, bool notified, uint64_t& expected) {
  removed(source, expected, notified);
  entries_[source].unknown = 0;
  erase_if_empty(source);
  expected = sequence;
}

void Generations::removed(const Source& source, uint64_t expected, bool notified) {
  if (expected >> kShift == 0) return;  // no message has arrived
  entries_[source].ended = notified ? 0 : expected >> kShift;
  erase_if_empty(source);
}

void Generations::erase_if_empty(const Source& source) {
  const auto entry = entries_.find(source);
  if (entry != entries_.end() && entry->second.ended == 0 && entry->second.unknown == 0)
    entries_.erase(entry);
}

}  // namespace weft::transport
