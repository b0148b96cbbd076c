// SPDX-License-Identifier: BSD-3-Clause
// Registrations: memory registered with the endpoint, found again while it is in use, and kept after that
// where this is safe. There are no allocator hooks, so Weft does not learn when memory is freed: an idle
// registration is kept only with providers whose registrations hold addresses and no pages (those that do not
// ask for FI_MR_ALLOCATED: sockets, shared memory). The others have caches of their own, with the kernel's or
// the allocator's notice of what is freed, so that registering again is quick. Bounded in count and bytes.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "transport/ofi/endpoint.hpp"

namespace weft::transport::ofi {

struct Region {
  uintptr_t start;
  size_t length;
  uint64_t buffer_id;  ///< of device memory: an address may come again with another allocation
  Object<abi::Mr> mr;
  uint32_t users = 0;
  std::list<Region*>::iterator idle;  ///< valid while users is 0
};

class Registrations {
 public:
  /// `access`: what the endpoint does with the memory, as libfabric's capabilities say it.
  Registrations(Endpoint& endpoint, uint64_t access);
  ~Registrations() { clear(); }
  Registrations(const Registrations&) = delete;

  /// A region that holds [start, start + length), until release().
  [[nodiscard]] Result<Region*> acquire(const std::byte* start, size_t length, const device::Memory& memory);
  void release(Region* region);
  void clear();

  struct Counters {
    uint64_t hits = 0, misses = 0, evictions = 0;
    size_t count = 0, bytes = 0;  ///< registered now
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  [[nodiscard]] Region* find(uintptr_t start, size_t length, uint64_t buffer_id);
  void drop(Region* region);

  Endpoint& endpoint_;
  const uint64_t access_;
  const bool keep_;
  std::multimap<uintptr_t, std::unique_ptr<Region>> regions_;  // by start
  std::list<Region*> idle_;                                    // the one used last at the end
  Counters counters_;
};

}  // namespace weft::transport::ofi
