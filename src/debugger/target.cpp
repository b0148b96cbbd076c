// SPDX-License-Identifier: BSD-3-Clause
#include "debugger/target.hpp"

#include <algorithm>
#include <cstring>

namespace weft::debugger {
namespace {

constexpr uint64_t kVersion = 1;
constexpr int kMaxNames = 64;
constexpr uint32_t kLive = 0x7765'6674;                        // Slab::kLive
constexpr uint64_t kMaxObjects = 1 << 20, kMaxText = 1 << 12;  // a damaged process ends no debugger

struct Entry {
  char name[40];
  uint64_t value;
};

}  // namespace

bool Target::load(uint64_t address) {
  names_.clear();
  for (int i = 0; i < kMaxNames; ++i) {
    const Entry entry = value<Entry>(address + static_cast<uint64_t>(i) * sizeof(Entry));
    if (entry.name[0] == 0) break;
    names_[std::string(entry.name, strnlen(entry.name, sizeof entry.name))] = entry.value;
  }
  const auto version = names_.find("version");
  return version != names_.end() && version->second == kVersion;
}

std::string Target::text(uint64_t address) const {
  std::string found(std::min(word(address + 8), kMaxText), 0);
  fetch(word(address), found.size(), found.data());
  return found;
}

std::string Target::characters(uint64_t address, size_t n) const {
  std::string found(n, 0);
  fetch(address, n, found.data());
  return found.c_str();
}

std::vector<uint32_t> Target::processes(uint64_t group) const {
  const uint64_t first = word(group + (*this)["group.processes"]),
                 last = word(group + (*this)["group.processes"] + 8);
  std::vector<uint32_t> found(std::min((last - first) / sizeof(uint32_t), kMaxObjects));
  fetch(first, found.size() * sizeof(uint32_t), found.data());
  return found;
}

std::vector<uint64_t> Target::objects(const std::string& slab) const {
  const uint64_t start = names_.at(slab), stride = names_.at(slab + ".stride"),
                 live = names_.at(slab + ".live");
  const uint64_t ranges = word(start + (*this)["slab.range_count"]),
                 used = word(start + (*this)["slab.used"]);
  std::vector<uint64_t> found;
  for (uint64_t i = 0; i < ranges; ++i) {
    const uint64_t range = start + (*this)["slab.ranges"] + 16 * i, cells = word(range);
    const uint64_t count = std::min(i + 1 == ranges ? used : word(range + 8), kMaxObjects);
    for (uint64_t n = 0; n < count; ++n)
      if (value<uint32_t>(cells + n * stride + live) == kLive) found.push_back(cells + n * stride);
  }
  return found;
}

std::vector<uint64_t> Target::nodes(const char* queue) const {
  const uint64_t first = word((*this)[queue]), last = word((*this)[queue] + 8);
  std::vector<uint64_t> found;
  for (uint64_t chain = first; chain < last; chain += 16)
    for (uint64_t node = word(chain); node != 0 && found.size() < kMaxObjects;
         node = word(node + (*this)["node.next"]))
      found.push_back(node);
  return found;
}

}  // namespace weft::debugger
