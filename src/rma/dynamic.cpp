// SPDX-License-Identifier: BSD-3-Clause
// Memory of dynamic windows (MPI 5.0 section 12.2.4). A displacement is an address of the target. The origin
// asks the target for the key of the attached memory at the first access, and caches it until the target
// attaches or detaches memory; it asks targets of other hosts at each access, and caches the attachment.
#include <algorithm>
#include <string>

#include "core/remote_memory.hpp"
#include "rma/messages.hpp"
#include "rma/window.hpp"

namespace weft::rma {

Status Window::attach(void* address, uint64_t length) {
  if (flavor != Flavor::dynamic)
    return error(ErrorClass::flavor, "the window is not dynamic: create it with MPI_Win_create_dynamic");
  if (length == 0) return {};
  const auto first = reinterpret_cast<uintptr_t>(address);
  auto next = own_.lower_bound(first);
  const bool overlaps_next = next != own_.end() && next->first - first < length;
  const bool overlaps_last =
      next != own_.begin() && first - std::prev(next)->first < std::prev(next)->second.length;
  if (overlaps_next || overlaps_last)
    return error(ErrorClass::attach,
                 "the memory overlaps memory that is attached already: detach that first");
  const device::Memory memory = device::widened(device::classify(address), address, length);
  auto region = rma().register_memory(static_cast<std::byte*>(address), length, memory);
  if (!region) return error(ErrorClass::attach, region.error().message());
  own_.emplace(first, OwnMemory{length, memory, *region});
  control->version.fetch_add(1);
  return {};
}

Status Window::detach(const void* address) {
  if (flavor != Flavor::dynamic)
    return error(ErrorClass::flavor, "the window is not dynamic: create it with MPI_Win_create_dynamic");
  const auto found = own_.find(reinterpret_cast<uintptr_t>(address));
  if (found == own_.end()) return error(ErrorClass::attach, "base is not the address of attached memory");
  if (instance.failures.revoked(*comm)) await_detached();
  const uintptr_t first = found->first, end = first + found->second.length;
  std::erase_if(spans_, [&](const auto& span) {
    if (span.first >= end || span.first + span.second.length <= first) return false;
    rma().deregister(span.second.region);
    return true;
  });
  rma().deregister(found->second.region);
  own_.erase(found);
  control->version.fetch_add(1);
  return {};
}

/// Registers attached memory that is adjacent, for operations across its borders; null if it has a gap or is
/// not on the host.
const OwnMemory* Window::span_of(uintptr_t first, uint64_t length) {
  if (length > UINTPTR_MAX - first) return nullptr;
  auto at = std::prev(own_.upper_bound(first));
  const uintptr_t start = at->first;
  uintptr_t end = start;
  device::Memory memory;  // one managed part decides the path of all
  for (; at != own_.end() && at->first == end && end < first + length; ++at) {
    if (at->second.memory.on_device()) return nullptr;
    if (at->second.memory.kind == device::MemoryKind::cuda_managed) memory = at->second.memory;
    end += at->second.length;
  }
  if (end < first + length) return nullptr;
  const auto [from, to] = spans_.equal_range(start);
  for (auto known = from; known != to; ++known)
    if (known->second.length == end - start) return &known->second;
  auto region = rma().register_memory(reinterpret_cast<std::byte*>(start), end - start, memory);
  if (!region) return nullptr;
  return &spans_.emplace(start, OwnMemory{end - start, memory, *region})->second;
}

void Window::drop_regions(Peer& peer) {
  for (RemoteRegion& region : peer.regions) {
    core::wait_until(instance, [&] { return region.target->pending() == 0; });
    rma().detach(std::move(region.target));
  }
  peer.regions.clear();
}

Result<RemoteRegion*> Window::find_region(Peer& peer, int rank, uint64_t first, uint64_t end) {
  // The version is read before the query: a later change makes the answer stale. A peer of another host,
  // whose version this process cannot read, is asked at each access.
  if (peer.control != nullptr) {
    const uint32_t version = peer.control->version.load(std::memory_order_acquire);
    if (version != peer.version) {
      drop_regions(peer);
      peer.version = version;
    }
    for (RemoteRegion& region : peer.regions)
      if (first >= region.address && end <= region.address + region.length) return &region;
  }
  const Error outside = error(ErrorClass::range, "no memory that rank " + std::to_string(rank) +
                                                     " has attached contains the access at address " +
                                                     std::to_string(first) + ": attach it first");
  transport::rma::Key key{};
  bool gpu_atomics = false;
  if (peer.process == instance.self) {
    std::byte* address = nullptr;
    const OwnMemory* memory = own_memory(first, end - first, address);
    if (memory == nullptr) return outside.copy();
    auto own = rma().key(memory->region, peer.process);
    if (!own) return std::move(own).error();
    key = *own;
    gpu_atomics = device::can_accumulate(memory->memory);
  } else {
    peer.queried = false;
    peer.answer.reset();
    Messages::of(instance).send_query(*this, peer, first, end - first);
    WEFT_TRY(wait_for_target([&] { return peer.queried; }, peer, operations_at(peer)));
    if (peer.answer == nullptr) return outside.copy();
    key = *peer.answer;
    gpu_atomics = peer.answer_gpu_atomics;
  }
  for (RemoteRegion& region : peer.regions)
    if (region.region == key.region) return &region;
  const device::Memory near = own_.empty() ? device::Memory{} : own_.begin()->second.memory;
  auto target = rma().attach(peer.process, key, near);
  if (!target) return std::move(target).error();
  peer.regions.push_back(
      {key.region, key.address, key.length, key.on_device != 0, gpu_atomics, std::move(*target)});
  return &peer.regions.back();
}

Status Window::locate_region(const Area& area, Place& place) {
  if (place.bytes == 0) return {};
  const auto start = static_cast<uint64_t>(area.disp);  // an address
  const __int128 last = static_cast<__int128>(area.count - 1) * area.type.extent();
  const __int128 first = static_cast<__int128>(start) + area.type.true_lb() + std::min<__int128>(last, 0);
  const __int128 end = static_cast<__int128>(start) + area.type.true_ub() + std::max<__int128>(last, 0);
  if (first < 0 || end > UINTPTR_MAX)
    return error(ErrorClass::range, "target_disp = " + std::to_string(area.disp) +
                                        ", target_count = " + std::to_string(area.count) +
                                        ": the access exceeds the address space: pass an address that "
                                        "MPI_Get_address has returned at the target");
  auto found = find_region(*place.peer, area.rank, static_cast<uint64_t>(first), static_cast<uint64_t>(end));
  if (!found) return std::move(found).error();
  const RemoteRegion& region = **found;
  place.window_offset = start;
  place.target = region.target.get();
  place.offset = start - region.address;
  place.on_device = region.on_device;
  place.gpu_atomics = region.gpu_atomics;
  if (!region.on_device && region.target->direct() != nullptr)
    place.host =
        reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(region.target->direct()) + place.offset);
  return {};
}

}  // namespace weft::rma
