// SPDX-License-Identifier: BSD-3-Clause
// IdTable: names objects in messages by index and generation. A stale or forged id finds nothing.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.hpp"

namespace weft::transport::rma {

/// Generation in the upper, index in the lower 32 bits; kNoId is never a live id.
using Id = uint64_t;
inline constexpr Id kNoId = 0;

template <class T>
class IdTable {
 public:
  [[nodiscard]] Id insert(T& object) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(entries_.size()));
      entries_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    entries_[index].object = &object;
    ++entries_[index].generation;
    return Id{entries_[index].generation} << 32 | index;
  }
  [[nodiscard]] T* find(Id id) const {
    const auto index = static_cast<uint32_t>(id);
    return index < entries_.size() && entries_[index].generation == id >> 32 ? entries_[index].object
                                                                             : nullptr;
  }
  void erase(Id id) {
    WEFT_ASSERT(find(id) != nullptr);  // R4
    entries_[static_cast<uint32_t>(id)].object = nullptr;
    free_.push_back(static_cast<uint32_t>(id));
  }
  [[nodiscard]] size_t size() const { return entries_.size() - free_.size(); }
  /// Calls function(T&) for the live objects. The function may erase any of them and insert none.
  template <class F>
  void for_each(F&& function) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].object != nullptr) function(*entries_[i].object);
  }

 private:
  struct Entry {
    T* object = nullptr;
    uint32_t generation = 0;
  };
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace weft::transport::rma
