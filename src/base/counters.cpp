// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace weft::counters {
namespace {

std::vector<const Counter*>& registry() {
  static std::vector<const Counter*> counters;
  return counters;
}

}  // namespace

const char* name_of(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "bytes";
    case Unit::nanoseconds:
      return "ns";
    case Unit::objects:
      return "objects";
    case Unit::events:
      break;
  }
  return "events";
}

Counter::Counter(const char* name, Unit unit, const char* help, Kind kind)
    : name_(name), help_(help), unit_(unit), kind_(kind) {
  WEFT_ASSERT(find(name) == nullptr);
  registry().push_back(this);
}

std::vector<const Counter*> all() {
  auto sorted = registry();
  std::sort(sorted.begin(), sorted.end(),
            [](const Counter* a, const Counter* b) { return std::string_view(a->name()) < b->name(); });
  return sorted;
}

const Counter* find(std::string_view name) {
  for (const Counter* counter : registry())
    if (name == counter->name()) return counter;
  return nullptr;
}

}  // namespace weft::counters
