// SPDX-License-Identifier: BSD-3-Clause
// Allocations and pointer attributes. The next allocation of the same size reuses a freed device
// address, with a new buffer id.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "world.hpp"

namespace emucuda {
namespace {

constexpr size_t kAllocationGranularity = 64 << 10;
constexpr size_t kMaxPoisonedBytes = 4 << 20;

size_t rounded(size_t size) {
  return (size + kAllocationGranularity - 1) / kAllocationGranularity * kAllocationGranularity;
}

char* map_private(size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

Code allocate_device(Kind kind, ContextObject& context, size_t size, Address* address) {
  if (size == 0) return kInvalidValue;
  Device& device = *device_at(context.device);
  const size_t reserved = rounded(size);
  const int fd = create_memory(reserved, device);
  if (fd < 0) return kOutOfMemory;
  const uintptr_t at = take_address(device, reserved);
  char* alias = map_alias(at, fd, 0, reserved);
  if (alias == nullptr) {
    ::close(fd);
    return kOutOfMemory;
  }
  insert({kind, at, size, reserved, alias, fd, 0, context.device, &context, {}});
  *address = at;
  return kSuccess;
}

Code allocate_host(Kind kind, ContextObject& context, size_t size, char** memory) {
  if (size == 0) return kInvalidValue;
  const size_t reserved = rounded(size);
  *memory = map_private(reserved);
  if (*memory == nullptr) return kOutOfMemory;
  insert({kind,
          reinterpret_cast<uintptr_t>(*memory),
          size,
          reserved,
          *memory,
          -1,
          0,
          context.device,
          &context,
          {}});
  return kSuccess;
}

/// The allocation that starts at an address.
bool on_device(Kind kind) {
  return kind == Kind::device || kind == Kind::pool || kind == Kind::imported || kind == Kind::mapped;
}

template <class T>
void put(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
}

/// The address reservation that contains a mapping.
std::map<uintptr_t, size_t>::const_iterator reservation_of(uintptr_t address) {
  return std::prev(world().reservations.upper_bound(address));
}

/// Writes one attribute; false: unknown attribute.
bool write_attribute(const Allocation* allocation, int attribute, void* data) {
  const Allocation none{Kind::registered, 0, 0, 0, nullptr, -1, 0, -2, nullptr, {}};
  const bool known = allocation != nullptr;
  const Allocation& a = known ? *allocation : none;
  switch (attribute) {
    case kAttributeContext:
      put<Context>(data, a.kind == Kind::pool || a.kind == Kind::mapped ? nullptr : a.context);
      return true;
    case kAttributeMemoryType:
      put<unsigned>(data, !known                                         ? 0
                          : on_device(a.kind) || a.kind == Kind::managed ? kMemoryDevice
                                                                         : kMemoryHost);
      return true;
    case kAttributeSyncMemops:
      put<unsigned>(data, a.sync_memops ? 1 : 0);
      return true;
    case kAttributeBufferId:
      put<unsigned long long>(data, a.id);
      return true;
    case kAttributeIsManaged:
      put<unsigned>(data, known && a.kind == Kind::managed ? 1 : 0);
      return true;
    case kAttributeDeviceOrdinal:
      put<int>(data, a.device);
      return true;
    case kAttributeLegacyIpc:
      put<unsigned>(data, known && a.kind == Kind::device ? 1 : 0);
      return true;
    case kAttributeRangeStart:
      put<uintptr_t>(data, a.kind == Kind::mapped ? reservation_of(a.address)->first : a.address);
      return true;
    case kAttributeRangeSize:
      put<size_t>(data, a.kind == Kind::mapped ? reservation_of(a.address)->second : a.size);
      return true;
    case kAttributePool:
      put<const void*>(data, known && a.kind == Kind::pool ? a.context : nullptr);
      return true;
    case kAttributeMappingBase:
      put<uintptr_t>(data, a.address);
      return true;
    case kAttributeMappingSize:
      put<size_t>(data, a.size);
      return true;
    case kAttributeBlockId:
      put<unsigned long long>(data, a.kind == Kind::mapped ? a.physical->id : a.id);
      return true;
    default:
      return false;
  }
}

bool inside(uintptr_t address, const Allocation& allocation) {
  return address >= allocation.address && address - allocation.address < allocation.size;
}

/// Waits for the copies and fills of an allocation in stream 0 of its context, not for kernels behind them.
void finish_copies(const Allocation& allocation) {
  StreamObject& stream = *allocation.context->legacy;
  for (size_t behind = stream.queue.size(); behind != 0; --behind) {
    const Operation& last = stream.queue[behind - 1];
    const bool moves = last.type == Operation::Type::copy || last.type == Operation::Type::fill;
    if (!moves || (!inside(last.dst, allocation) && !inside(last.src, allocation))) continue;
    drain(stream, nullptr, stream.queue.size() - behind);
    return;
  }
}

}  // namespace

std::map<uintptr_t, Allocation>::iterator starting_at(uintptr_t address, std::initializer_list<Kind> kinds) {
  const auto at = world().allocations.find(address);
  if (at == world().allocations.end()) return at;
  for (const Kind kind : kinds)
    if (at->second.kind == kind) return at;
  return world().allocations.end();
}

Allocation* find_allocation(uintptr_t address) {
  auto at = world().allocations.upper_bound(address);
  if (at == world().allocations.begin()) return nullptr;
  --at;
  return address - at->second.address < at->second.size ? &at->second : nullptr;
}

bool in_device_region(uintptr_t address) {
  for (const auto& device : world().devices)
    if (address >= device->region && address < device->region + kRegion) return true;
  return false;
}

char* translate(uintptr_t address, size_t n) {
  const Allocation* allocation = find_allocation(address);
  if (allocation == nullptr) return in_device_region(address) ? nullptr : reinterpret_cast<char*>(address);
  char* alias = allocation->alias + (address - allocation->address);
  if (allocation->kind == Kind::registered) return alias;
  // A buffer may span several contiguous mappings.
  for (uintptr_t end = address; end < address + n; allocation = find_allocation(end)) {
    if (allocation == nullptr || (allocation->kind == Kind::mapped && allocation->access == 0))
      return nullptr;
    end = allocation->address + allocation->size;
  }
  return alias;
}

int local_ordinal(int physical) {
  for (size_t i = 0; i < world().devices.size(); ++i)
    if (world().devices[i]->physical == physical) return static_cast<int>(i);
  return -1;
}

char* translate_for(const ContextObject& context, uintptr_t address, size_t n) {
  for (uintptr_t at = address; at < address + n;) {
    const Allocation* allocation = find_allocation(at);
    if (allocation == nullptr) return nullptr;
    const bool seen = allocation->kind == Kind::mapped ? (allocation->access >> context.device & 1) != 0
                      : !on_device(allocation->kind)
                          ? true
                          : allocation->context == &context || allocation->device == context.device ||
                                context.peers.count(allocation->context) != 0;
    if (!seen) return nullptr;
    at = allocation->address + allocation->size;
  }
  return translate(address, n);
}

uintptr_t take_address(Device& device, size_t reserved) {
  auto& freed = device.freed[reserved];
  if (!freed.empty()) {
    const uintptr_t address = freed.back();
    freed.pop_back();
    return address;
  }
  const uintptr_t address = device.bump;
  device.bump += reserved + kAllocationGranularity;  // a gap detects overruns
  return address;
}

char* map_alias(uintptr_t address, int fd, size_t offset, size_t size) {
  for (const auto& device : world().devices) {
    if (address - device->region >= kRegion) continue;
    void* at = reinterpret_cast<void*>(device->mirror + (address - device->region));
    void* alias =
        ::mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset));
    return alias == MAP_FAILED ? nullptr : static_cast<char*>(alias);
  }
  return nullptr;
}

void unmap_alias(uintptr_t address, size_t size) {
  for (const auto& device : world().devices)
    if (address - device->region < kRegion)
      ::mmap(reinterpret_cast<void*>(device->mirror + (address - device->region)), size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

int create_memory(size_t size, const Device& device) {
  char name[32];
  std::snprintf(name, sizeof name, "emucuda%d", device.physical);
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return -1;
  const size_t poisoned = std::min(size, kMaxPoisonedBytes);  // makes reads of uninitialised memory visible
  void* begin = ::ftruncate(fd, static_cast<off_t>(size)) == 0
                    ? ::mmap(nullptr, poisoned, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
  if (begin == MAP_FAILED) {
    ::close(fd);
    return -1;
  }
  std::memset(begin, 0xA5, poisoned);
  ::munmap(begin, poisoned);
  return fd;
}

Allocation& insert(Allocation allocation) {
  allocation.id = world().next_id++;
  return world().allocations.emplace(allocation.address, std::move(allocation)).first->second;
}

void free_allocation(std::map<uintptr_t, Allocation>::iterator at) {
  const Allocation allocation = at->second;
  world().allocations.erase(at);
  if (on_device(allocation.kind))
    unmap_alias(allocation.address, allocation.reserved);
  else if (allocation.kind != Kind::registered)
    ::munmap(allocation.alias, allocation.reserved);
  if (allocation.fd >= 0) ::close(allocation.fd);
  if (allocation.kind == Kind::mapped) {
    --allocation.physical->mappings;
    release_physical(allocation.physical);
  } else if (on_device(allocation.kind)) {
    device_at(allocation.device)->freed[allocation.reserved].push_back(allocation.address);
  }
}

extern "C" {

Code cuMemAlloc_v2(Address* address, size_t size) {
  EMUCUDA_CONTEXT();
  forbid_unsafe("cuMemAlloc outside relaxed capture mode");
  wait_for_kernels(context->device);
  return allocate_device(Kind::device, *context, size, address);
}

Code cuMemFree_v2(Address address) {
  EMUCUDA_CONTEXT();
  forbid_unsafe("cuMemFree outside relaxed capture mode");
  if (address == 0) return kSuccess;
  const auto at = starting_at(address, {Kind::device, Kind::pool, Kind::managed});
  if (at == world().allocations.end()) return kInvalidValue;
  wait_for_kernels(context->device);
  drain_all();  // cuMemFree synchronises the device
  free_allocation(at);
  return kSuccess;
}

Code cuMemAllocManaged(Address* address, size_t size, unsigned) {
  EMUCUDA_CONTEXT();
  wait_for_kernels(context->device);
  char* memory = nullptr;
  const Code code = allocate_host(Kind::managed, *context, size, &memory);
  *address = reinterpret_cast<Address>(memory);
  return code;
}

Code cuMemAllocAsync(Address* address, size_t size, Stream) {
  EMUCUDA_CONTEXT();
  return allocate_device(Kind::pool, *context, size, address);
}

Code cuMemFreeAsync(Address address, Stream handle) {
  EMUCUDA_CONTEXT();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code;
  const auto at = starting_at(address, {Kind::pool});
  if (at == world().allocations.end()) return kInvalidValue;
  drain(*stream);
  free_allocation(at);
  return kSuccess;
}

Code cuMemHostAlloc(void** memory, size_t size, unsigned) {
  EMUCUDA_CONTEXT();
  forbid_unsafe("cuMemHostAlloc outside relaxed capture mode");
  wait_for_kernels(context->device);
  char* result = nullptr;
  const Code code = allocate_host(Kind::pinned, *context, size, &result);
  *memory = result;
  return code;
}

Code cuMemAllocHost_v2(void** memory, size_t size) { return cuMemHostAlloc(memory, size, 0); }

Code cuMemFreeHost(void* memory) {
  EMUCUDA_CONTEXT();
  forbid_unsafe("cuMemFreeHost outside relaxed capture mode");
  const auto at = starting_at(reinterpret_cast<uintptr_t>(memory), {Kind::pinned});
  if (at == world().allocations.end()) return kInvalidValue;
  drain_all();
  free_allocation(at);
  return kSuccess;
}

Code cuMemHostRegister_v2(void* memory, size_t size, unsigned) {
  EMUCUDA_CONTEXT();
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (size == 0) return kInvalidValue;
  wait_for_kernels(context->device);
  if (find_allocation(address) != nullptr || find_allocation(address + size - 1) != nullptr)
    return kHostMemoryAlreadyRegistered;
  insert({Kind::registered,
          address,
          size,
          size,
          static_cast<char*>(memory),
          -1,
          0,
          context->device,
          context,
          {}});
  return kSuccess;
}

Code cuMemHostUnregister(void* memory) {
  EMUCUDA_CONTEXT();
  const auto at = starting_at(reinterpret_cast<uintptr_t>(memory), {Kind::registered});
  if (at == world().allocations.end()) return kHostMemoryNotRegistered;
  wait_for_kernels(context->device);
  drain_all();
  free_allocation(at);
  return kSuccess;
}

Code cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned) {
  EMUCUDA_CONTEXT();
  const Allocation* allocation = find_allocation(reinterpret_cast<uintptr_t>(memory));
  if (allocation == nullptr || (allocation->kind != Kind::pinned && allocation->kind != Kind::registered))
    return kInvalidValue;
  *address = reinterpret_cast<Address>(memory);
  return kSuccess;
}

Code cuMemGetAddressRange_v2(Address* base, size_t* size, Address address) {
  EMUCUDA_CONTEXT();
  const Allocation* allocation = find_allocation(address);
  if (allocation == nullptr) return kInvalidValue;
  if (base != nullptr) *base = allocation->address;
  if (size != nullptr) *size = allocation->size;
  return kSuccess;
}

Code cuPointerGetAttribute(void* data, int attribute, Address address) {
  const auto lock = lock_world();
  if (const Code code = ready(); code != kSuccess) return code;
  const Allocation* allocation = find_allocation(address);
  return allocation != nullptr && write_attribute(allocation, attribute, data) ? kSuccess : kInvalidValue;
}

Code cuPointerGetAttributes(unsigned count, int* attributes, void** data, Address address) {
  const auto lock = lock_world();
  if (const Code code = ready(); code != kSuccess) return code;
  const Allocation* allocation = find_allocation(address);
  for (unsigned i = 0; i < count; ++i)
    if (!write_attribute(allocation, attributes[i], data[i])) return kInvalidValue;
  return kSuccess;
}

/// Only CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. As measured on H200 (driver 580.159): cuMemAlloc memory waits for
/// copies that are under way, pool memory does not, and cuMemMap memory is refused.
Code cuPointerSetAttribute(const void* value, int attribute, Address address) {
  const auto lock = lock_world();
  if (const Code code = ready(); code != kSuccess) return code;
  Allocation* const allocation = find_allocation(address);
  if (allocation == nullptr || attribute != kAttributeSyncMemops) return kInvalidValue;
  if (allocation->kind == Kind::mapped) return kNotSupported;
  unsigned on = 0;
  std::memcpy(&on, value, sizeof on);
  allocation->sync_memops = on != 0;
  if (allocation->kind == Kind::device || allocation->kind == Kind::managed) finish_copies(*allocation);
  return kSuccess;
}

}  // extern "C"
}  // namespace emucuda
