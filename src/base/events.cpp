// SPDX-License-Identifier: BSD-3-Clause
#include "base/events.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace weft::events {
namespace {

std::vector<Event*>& registry() {
  static std::vector<Event*> events;
  return events;
}

std::atomic<Sink> sink{nullptr};

}  // namespace

Event::Event(const char* name, const char* help, std::initializer_list<Field> fields, Binding binding)
    : name_(name), help_(help), fields_(fields), binding_(binding) {
  registry().push_back(this);
}

void Event::raise(std::initializer_list<uint64_t> values, uint64_t object) const {
  WEFT_ASSERT(values.size() == fields_.size());
  if (const Sink to = sink.load(std::memory_order_acquire); to != nullptr) to(*this, values, object);
}

void Event::set_wanted(bool wanted) {
  if (wanted_.exchange(wanted) != wanted && hook_) hook_();
}

std::vector<Event*> all() {
  auto sorted = registry();
  std::sort(sorted.begin(), sorted.end(),
            [](const Event* a, const Event* b) { return std::string_view(a->name()) < b->name(); });
  return sorted;
}

void set_sink(Sink to) { sink.store(to, std::memory_order_release); }

}  // namespace weft::events
