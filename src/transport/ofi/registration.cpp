// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/registration.hpp"

#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/events.hpp"

namespace weft::transport::ofi {
namespace {

config::Size max_idle{
    "net.ofi_cached_registrations", 1024, 0, 1 << 20,
    "Largest number of idle registrations kept for reuse, with providers that pin no pages."};
config::Size max_bytes{
    "net.ofi_cached_registration_bytes",
    size_t{4} << 30,
    0,
    size_t{1} << 44,
    "Largest total bytes of registrations while idle ones are kept.",
    "registered memory is scarce (smaller), or the program sends from more memory than the limit "
    "(larger)"};

counters::Counter hits("net.ofi_registration_hits", counters::Unit::events,
                       "Buffers found in the registration cache");
counters::Counter misses("net.ofi_registration_misses", counters::Unit::events,
                         "Buffers that had to be registered with libfabric");
counters::Counter evictions("net.ofi_registration_evictions", counters::Unit::events,
                            "Idle registrations that left the cache because of its limits");
counters::Counter registered("net.ofi_registrations", counters::Unit::objects,
                             "Registrations with libfabric, in use or idle");
counters::Counter registered_bytes("net.ofi_registered_bytes", counters::Unit::bytes,
                                   "Bytes of registrations with libfabric", counters::Kind::level);
events::Event eviction("net.ofi_registration_eviction",
                       "An idle registration with libfabric is closed because of the limits of the cache",
                       {{"bytes", events::Type::amount}});

constexpr int kMaxCandidates = 8;  // regions starting before a buffer that are checked for covering it

}  // namespace

Registrations::Registrations(const Adapters& adapters, uint64_t access)
    : adapters_(adapters), access_(access), keep_(!adapters.wants(abi::kMrAllocated)) {}

Region* Registrations::find(uintptr_t start, size_t length, uint64_t buffer_id) {
  auto at = regions_.upper_bound(start);
  for (int looked = 0; looked < kMaxCandidates && at != regions_.begin(); ++looked) {
    Region& region = *(--at)->second;
    if (start + length <= region.start + region.length && region.buffer_id == buffer_id) return &region;
  }
  return nullptr;
}

Result<Region*> Registrations::acquire(const std::byte* start, size_t length, const device::Memory& memory) {
  const auto address = reinterpret_cast<uintptr_t>(start);
  if (Region* region = find(address, length, memory.buffer_id)) {
    if (region->users == 0) idle_.erase(region->idle);
    use(*region);
    hits.add();
    return region;
  }
  misses.add();
  auto region = std::make_unique<Region>(Region{address, length, memory.buffer_id});
  for (size_t i = 0; i < adapters_.used_by(length); ++i) {
    auto mr = adapters_.endpoint(i).add_memory(start, length, access_, memory);
    if (!mr) return std::move(mr).error();
    region->mrs[region->mr_count++] = std::move(*mr);
  }
  use(*region);
  Region* out = region.get();
  regions_.emplace(address, std::move(region));
  registered.add();
  registered_bytes.add(length);
  bytes_ += length;
  return out;
}

void Registrations::use(Region& region) {
  if (region.users++ == 0 && region.mr_count > 1) ++striped_in_use_;
}

void Registrations::release(Region* region) {
  if (--region->users != 0) return;
  if (region->mr_count > 1) --striped_in_use_;
  region->idle = idle_.insert(idle_.end(), region);
  if (!keep_ || region->buffer_id != 0) return drop(region);
  while (idle_.size() > max_idle || (bytes_ > max_bytes && !idle_.empty())) {
    evictions.add();
    if (eviction.wanted()) [[unlikely]]
      eviction.raise({idle_.front()->length});
    drop(idle_.front());
  }
}

void Registrations::keep_none() {
  keep_ = false;
  while (!idle_.empty()) drop(idle_.front());
}

void Registrations::drop(Region* region) {
  idle_.erase(region->idle);
  registered.subtract();
  registered_bytes.subtract(region->length);
  bytes_ -= region->length;
  const auto [first, last] = regions_.equal_range(region->start);
  for (auto at = first; at != last; ++at)
    if (at->second.get() == region) {
      regions_.erase(at);
      return;
    }
}

void Registrations::clear() {
  registered.subtract(regions_.size());
  registered_bytes.subtract(bytes_);
  bytes_ = striped_in_use_ = 0;
  idle_.clear();
  regions_.clear();
}

}  // namespace weft::transport::ofi
