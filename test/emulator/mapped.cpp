// SPDX-License-Identifier: BSD-3-Clause
// cuMemCreate memory, mapped with cuMemMap: one buffer can span several contiguous allocations. Exported as
// file descriptors, never by legacy IPC.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "world.hpp"

namespace emucuda {
namespace {

constexpr size_t kMappedGranularity = 2 << 20;

std::set<PhysicalObject*>& physicals() {
  static auto& instance = *new std::set<PhysicalObject*>;
  return instance;
}

PhysicalObject* find_physical(MemoryHandle handle) {
  auto* physical = reinterpret_cast<PhysicalObject*>(handle);
  return physicals().count(physical) != 0 && physical->handles != 0 ? physical : nullptr;
}

MemoryHandle add(PhysicalObject* physical) {
  physicals().insert(physical);
  return reinterpret_cast<MemoryHandle>(physical);
}

bool aligned(size_t value) { return value % kMappedGranularity == 0; }

/// Whether a reservation contains [address, address + size).
bool reserved(uintptr_t address, size_t size) {
  auto at = world().reservations.upper_bound(address);
  if (at == world().reservations.begin()) return false;
  --at;
  return address - at->first <= at->second && size <= at->second - (address - at->first);
}

/// The mappings that cover [address, address + size) exactly; empty if there are gaps.
std::vector<uintptr_t> mappings_in(uintptr_t address, size_t size) {
  std::vector<uintptr_t> found;
  for (uintptr_t at = address; at < address + size;) {
    const auto mapping = world().allocations.find(at);
    if (mapping == world().allocations.end() || mapping->second.kind != Kind::mapped ||
        mapping->second.size > address + size - at)
      return {};
    found.push_back(at);
    at += mapping->second.size;
  }
  return found;
}

/// Physical device of an exported file; -1 for other files.
int exporting_device(int fd) {
  char link[64], name[64] = "";
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int physical = -1;
  if (::readlink(link, name, sizeof name - 1) < 0 || std::sscanf(name, "/memfd:emucuda%d", &physical) != 1)
    return -1;
  return physical;
}

Device& device_of(uintptr_t address) {
  return **std::find_if(world().devices.begin(), world().devices.end(),
                        [&](const auto& device) { return address - device->region < kRegion; });
}

}  // namespace

size_t open_handles() {
  size_t count = 0;
  for (const PhysicalObject* physical : physicals()) count += physical->handles;
  return count;
}

void release_physical(PhysicalObject* physical) {
  if (physical->handles != 0 || physical->mappings != 0) return;
  ::close(physical->fd);
  physicals().erase(physical);
  delete physical;
}

/// These calls need no current context.
#define EMUCUDA_READY()           \
  const auto lock = lock_world(); \
  if (const Code code = ready(); code != kSuccess) return code
#define EMUCUDA_PHYSICAL(handle)                    \
  EMUCUDA_READY();                                  \
  PhysicalObject* physical = find_physical(handle); \
  if (physical == nullptr) return kInvalidValue

extern "C" {

Code cuMemAddressReserve(Address* address, size_t size, size_t alignment, Address, unsigned long long flags) {
  EMUCUDA_READY();
  if (size == 0 || !aligned(size) || !aligned(alignment) || flags != 0) return kInvalidValue;
  ContextObject* context = nullptr;  // selects the device region
  Device& device = *device_at(current(&context) == kSuccess ? context->device : 0);
  // Reuses the last freed aligned address; addresses of other allocations may be unaligned.
  auto& freed = device.freed[size];
  const auto last = std::find_if(freed.rbegin(), freed.rend(), aligned);
  if (last != freed.rend()) {
    std::iter_swap(last, freed.rbegin());
  } else {
    device.bump = (device.bump + kMappedGranularity - 1) / kMappedGranularity * kMappedGranularity;
    freed.push_back(std::exchange(device.bump, device.bump + size));
  }
  const uintptr_t at = take_address(device, size);
  world().reservations[at] = size;
  *address = at;
  return kSuccess;
}

Code cuMemAddressFree(Address address, size_t size) {
  EMUCUDA_READY();
  const auto at = world().reservations.find(address);
  if (at == world().reservations.end() || at->second != size) return kInvalidValue;
  const auto inside = world().allocations.lower_bound(address);
  if (inside != world().allocations.end() && inside->first < address + size) return kInvalidValue;
  world().reservations.erase(at);
  device_of(address).freed[size].push_back(address);
  return kSuccess;
}

Code cuMemCreate(MemoryHandle* handle, size_t size, const MemoryProperties* properties, unsigned long long) {
  EMUCUDA_READY();
  if (size == 0 || !aligned(size) || properties->type != 1 || properties->location.type != kLocationDevice ||
      (properties->handle_types & ~kPosixDescriptor) != 0)
    return kInvalidValue;
  const Device* device = device_at(properties->location.id);
  if (device == nullptr) return kInvalidDevice;
  wait_for_kernels(properties->location.id);
  const int fd = create_memory(size, *device);
  if (fd < 0) return kOutOfMemory;
  *handle = add(new PhysicalObject{fd, size, properties->location.id,
                                   properties->handle_types == kPosixDescriptor, world().next_id++});
  return kSuccess;
}

Code cuMemRelease(MemoryHandle handle) {
  EMUCUDA_PHYSICAL(handle);
  --physical->handles;
  release_physical(physical);
  return kSuccess;
}

Code cuMemMap(Address address, size_t size, size_t offset, MemoryHandle handle, unsigned long long flags) {
  EMUCUDA_PHYSICAL(handle);
  if (flags != 0 || !reserved(address, size)) return kInvalidValue;
  // Like the real driver: only whole allocations can be mapped.
  if (size != physical->size || offset != 0) return kNotSupported;
  const auto inside = world().allocations.lower_bound(address);
  if (inside != world().allocations.end() && inside->first < address + size) return kInvalidValue;
  char* alias = map_alias(address, physical->fd, 0, size);
  if (alias == nullptr) return kMapFailed;
  ++physical->mappings;
  insert({Kind::mapped, address, size, size, alias, -1, 0, physical->device, nullptr, {}, physical});
  return kSuccess;
}

Code cuMemUnmap(Address address, size_t size) {
  EMUCUDA_READY();
  forbid_unsafe("cuMemUnmap outside relaxed capture mode");
  drain_all();
  const std::vector<uintptr_t> mappings = mappings_in(address, size);
  if (mappings.empty()) return kInvalidValue;
  for (const uintptr_t at : mappings) free_allocation(world().allocations.find(at));
  return kSuccess;
}

Code cuMemSetAccess(Address address, size_t size, const MemoryAccess* access, size_t count) {
  EMUCUDA_READY();
  const std::vector<uintptr_t> mappings = mappings_in(address, size);
  if (mappings.empty() || count == 0) return kInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    if (access[i].location.type != kLocationDevice || device_at(access[i].location.id) == nullptr)
      return kInvalidDevice;
    const uint32_t bit = 1u << access[i].location.id;
    for (const uintptr_t at : mappings) {
      Allocation& mapping = world().allocations.find(at)->second;
      const bool remote = mapping.device != access[i].location.id || mapping.physical->hidden;
      if (remote && !peer_access()) return kPeerAccessUnsupported;
      mapping.access = access[i].flags == kReadWrite ? mapping.access | bit : mapping.access & ~bit;
    }
  }
  return kSuccess;
}

Code cuMemRetainAllocationHandle(MemoryHandle* handle, void* memory) {
  EMUCUDA_READY();
  const Allocation* allocation = find_allocation(reinterpret_cast<uintptr_t>(memory));
  if (allocation == nullptr || allocation->kind != Kind::mapped) return kInvalidValue;
  ++allocation->physical->handles;
  *handle = reinterpret_cast<MemoryHandle>(allocation->physical);
  return kSuccess;
}

Code cuMemGetAllocationPropertiesFromHandle(MemoryProperties* properties, MemoryHandle handle) {
  EMUCUDA_PHYSICAL(handle);
  *properties = {
      1, physical->exportable ? kPosixDescriptor : 0, {kLocationDevice, physical->device}, nullptr, {}};
  return kSuccess;
}

Code cuMemExportToShareableHandle(void* result, MemoryHandle handle, int type, unsigned long long flags) {
  EMUCUDA_PHYSICAL(handle);
  if (type != kPosixDescriptor || flags != 0 || !physical->exportable) return kInvalidValue;
  const int fd = ::fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return kMapFailed;
  std::memcpy(result, &fd, sizeof fd);
  return kSuccess;
}

/// Like the real driver: the descriptor value is passed as a pointer, and the caller keeps ownership.
/// Imported memory cannot be exported again.
Code cuMemImportFromShareableHandle(MemoryHandle* handle, void* descriptor, int type) {
  EMUCUDA_READY();
  if (type != kPosixDescriptor) return kInvalidValue;
  struct stat status {};
  const int fd = ::fcntl(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
  const int physical = exporting_device(fd);
  if (physical < 0 || !in_cgroup(physical) || ::fstat(fd, &status) != 0) {
    if (fd >= 0) ::close(fd);
    return physical >= 0 ? kInvalidDevice : kInvalidValue;
  }
  ContextObject* context = nullptr;
  const int device = mapper_of(physical, current(&context) == kSuccess ? context : nullptr).ordinal;
  wait_for_kernels(device);
  *handle = add(new PhysicalObject{fd, static_cast<size_t>(status.st_size), device, false, world().next_id++,
                                   local_ordinal(physical) < 0});
  return kSuccess;
}

}  // extern "C"
}  // namespace emucuda
