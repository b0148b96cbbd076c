// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/counter_table.hpp"

namespace weft::counters {
namespace {

std::vector<Counter*>& registry() {
  static std::vector<Counter*> counters;
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
  WEFT_ASSERT(find(name) == nullptr && std::strlen(name) < sizeof(counter_table::Name));
  registry().push_back(this);
}

// The descriptor stays open: readers find the memory by it.
void publish() {
  static bool published = false;
  if (published) return;
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
    values[i].store(counter.value(), std::memory_order_relaxed);
    counter.cell_.store(&values[i], std::memory_order_relaxed);
  }
  auto& directory = *static_cast<Directory*>(base);
  directory.count = static_cast<uint32_t>(count);
  directory.values_offset = static_cast<uint32_t>(values_offset);
  directory.names_offset = static_cast<uint32_t>(names_offset);
  directory.magic.store(kMagic, std::memory_order_release);
  published = true;
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
