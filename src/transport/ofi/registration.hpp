// SPDX-License-Identifier: BSD-3-Clause
// Registrations: cache of memory registrations, bounded in count and bytes. Weft has no allocator hooks, so
// an idle registration is kept only if the provider pins no pages (no FI_MR_ALLOCATED: sockets, shared
// memory). Other providers have registration caches of their own, which observe freed memory. A registration
// is one with each adapter that may move its bytes, counted once.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "transport/ofi/adapters.hpp"

namespace weft::transport::ofi {

struct Region {
  uintptr_t start;
  size_t length;
  uint64_t buffer_id;  ///< of device memory: an address may be reused by another allocation
  /// One for each adapter, in their order; of a small region the first only.
  std::array<Object<abi::Mr>, kMaxAdapters> mrs = {};
  size_t mr_count = 0;
  uint32_t users = 0;
  std::list<Region*>::iterator idle = {};  ///< valid if users is 0
};

class Registrations {
 public:
  /// `access`: libfabric access flags of the registrations.
  Registrations(const Adapters& adapters, uint64_t access);
  ~Registrations() { clear(); }
  Registrations(const Registrations&) = delete;

  /// Returns a region that covers [start, start + length), valid until release().
  [[nodiscard]] Result<Region*> acquire(const std::byte* start, size_t length, const device::Memory& memory);
  void release(Region* region);
  /// Returns the number of regions in use that are registered with several adapters.
  [[nodiscard]] size_t striped_in_use() const { return striped_in_use_; }
  /// From now on no idle registration is kept.
  void keep_none();
  void clear();

 private:
  [[nodiscard]] Region* find(uintptr_t start, size_t length, uint64_t buffer_id);
  void use(Region& region);
  void drop(Region* region);

  const Adapters& adapters_;
  const uint64_t access_;
  bool keep_;
  std::multimap<uintptr_t, std::unique_ptr<Region>> regions_;  // by start address
  std::list<Region*> idle_;                                    // most recently used last
  size_t bytes_ = 0;                                           // of all regions
  size_t striped_in_use_ = 0;
};

}  // namespace weft::transport::ofi
