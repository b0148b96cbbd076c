// SPDX-License-Identifier: BSD-3-Clause
// RecentHandles: handles that a check has found valid, so that the next calls with them need no other check.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::core {

/// The address of an object is its handle, which selects a slot, so that a few objects in turn have one each.
/// An object must be forgotten before it is destroyed.
class RecentHandles {
 public:
  void remember(const void* handle) { slot(handle) = handle; }
  void forget(const void* handle) {
    if (slot(handle) == handle) slot(handle) = nullptr;
  }
  /// False for null.
  [[nodiscard]] bool contains(const void* handle) const {
    return slots_[index(handle)] == handle && handle != nullptr;
  }

 private:
  static constexpr size_t kSlots = 16, kObjectBytes = 512;  // objects are rarely smaller
  static size_t index(const void* handle) {
    return reinterpret_cast<uintptr_t>(handle) / kObjectBytes % kSlots;
  }
  const void*& slot(const void* handle) { return slots_[index(handle)]; }
  const void* slots_[kSlots] = {};
};

}  // namespace weft::core
