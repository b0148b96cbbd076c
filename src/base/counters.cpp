// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/assert.hpp"
#include "base/counter_table.hpp"
#include "base/published.hpp"

namespace weft::counters {
namespace {

std::vector<Counter*>& registry() {
  static std::vector<Counter*> counters;
  return counters;
}

/// The published memory; null: none yet.
counter_table::Directory*& directory() {
  static counter_table::Directory* begin = nullptr;
  return begin;
}

template <size_t N>
void copy(char (&to)[N], const std::string& from) {
  std::snprintf(to, N, "%s", from.c_str());
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
  WEFT_ASSERT(find(name) == nullptr && std::strlen(name) < sizeof(counter_table::Name::text));
  registry().push_back(this);
}

// The descriptor stays open: readers find the memory by it.
void publish() {
  if (directory() != nullptr) return;
  using namespace counter_table;
  const size_t count = registry().size();
  const size_t values_offset = sizeof(Directory), names_offset = values_offset + count * sizeof(uint64_t);
  const size_t bytes = names_offset + count * sizeof(Name);
  const int fd = ::memfd_create(kName, MFD_CLOEXEC);
  if (fd < 0) return;
  void* base = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0)
    base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    ::close(fd);
    return;
  }
  auto* const start = static_cast<std::byte*>(base);
  auto* const values = reinterpret_cast<std::atomic<uint64_t>*>(start + values_offset);
  auto* const names = reinterpret_cast<Name*>(start + names_offset);
  for (size_t i = 0; i < count; ++i) {
    Counter& counter = *registry()[i];
    std::strncpy(names[i].text, counter.name(), sizeof names[i].text - 1);
    names[i].unit = static_cast<uint8_t>(counter.unit());
    names[i].kind = static_cast<uint8_t>(counter.kind());
    values[i].store(counter.value(), std::memory_order_relaxed);
    counter.cell_.store(&values[i], std::memory_order_relaxed);
  }
  auto& begin = *static_cast<Directory*>(base);
  begin.count = static_cast<uint32_t>(count);
  begin.values_offset = static_cast<uint32_t>(values_offset);
  begin.names_offset = static_cast<uint32_t>(names_offset);
  begin.magic.store(kMagic, std::memory_order_release);
  directory() = &begin;
}

std::vector<const Counter*> all() {
  std::vector<const Counter*> sorted(registry().begin(), registry().end());
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

namespace weft::published {

void set_identity(const std::string& job, const std::string& host, const std::string& launcher) {
  counter_table::Directory* const to = counters::directory();
  if (to == nullptr) return;
  to->identified.store(0, std::memory_order_release);
  counters::copy(to->job, job);
  counters::copy(to->host, host);
  counters::copy(to->launcher, launcher);
  to->identified.store(1, std::memory_order_release);
}

void add_queue(queued_table::Head& queue) {
  if (counters::directory() == nullptr) return;
  std::atomic<uint64_t>& first = counters::directory()->queues;
  queue.next = first.load(std::memory_order_relaxed);
  first.store(reinterpret_cast<uint64_t>(&queue), std::memory_order_release);
}

void remove_queue(const queued_table::Head& queue) {
  if (counters::directory() == nullptr) return;
  std::atomic<uint64_t>& first = counters::directory()->queues;
  const auto own = reinterpret_cast<uint64_t>(&queue);
  if (first.load(std::memory_order_relaxed) == own) first.store(queue.next);
  for (auto at = first.load(std::memory_order_relaxed); at != 0;) {
    auto& other = *reinterpret_cast<queued_table::Head*>(at);
    if (other.next == own) other.next = queue.next;
    at = other.next;
  }
}

}  // namespace weft::published
