// SPDX-License-Identifier: BSD-3-Clause
// Legacy IPC: handles name a file descriptor of the exporting process, which the importer opens through
// /proc.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "world.hpp"

namespace emucuda {
namespace {

constexpr uint32_t kMagic = 0x43504945;

/// Content of an IPC handle; 64 bytes.
struct Handle {
  uint32_t magic;
  int32_t pid, fd, physical;
  uint64_t size, reserved, inode, id;
  char uuid[16];
};
static_assert(sizeof(Handle) == sizeof(IpcMemHandle));

bool already_opened(const std::string& handle) {
  for (const auto& [address, allocation] : world().allocations)
    if (allocation.kind == Kind::imported && allocation.handle == handle) return true;
  return false;
}

/// Maps the exporter's file; null if closed or replaced by another file.
char* map_exported(const Handle& handle, uintptr_t at) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat status {};
  char* alias = ::fstat(fd, &status) == 0 && status.st_ino == handle.inode
                    ? map_alias(at, fd, 0, handle.reserved)
                    : nullptr;
  ::close(fd);
  return alias;
}

}  // namespace

extern "C" {

Code cuIpcGetMemHandle(IpcMemHandle* result, Address address) {
  EMUCUDA_CONTEXT();
  const Allocation* allocation = find_allocation(address);
  if (allocation == nullptr || allocation->kind != Kind::device) return kInvalidValue;
  struct stat status {};
  if (::fstat(allocation->fd, &status) != 0) return kMapFailed;
  Handle handle{};
  handle.magic = kMagic;
  handle.pid = ::getpid();
  handle.fd = allocation->fd;
  handle.physical = device_at(allocation->device)->physical;
  handle.size = allocation->size;
  handle.reserved = allocation->reserved;
  handle.inode = status.st_ino;
  handle.id = allocation->id;
  std::memcpy(handle.uuid, uuid_of(handle.physical).data(), sizeof handle.uuid);
  std::memcpy(result, &handle, sizeof handle);
  return kSuccess;
}

Code cuIpcOpenMemHandle_v2(Address* address, IpcMemHandle raw, unsigned) {
  EMUCUDA_CONTEXT();
  forbid_unsafe("cuIpcOpenMemHandle outside relaxed capture mode");
  Handle handle;
  std::memcpy(&handle, &raw, sizeof handle);
  if (handle.magic != kMagic) return kInvalidHandle;
  if (handle.pid == ::getpid()) return kInvalidContext;
  sleep_for("EMUCUDA_IPC_OPEN_US");
  wait_for_kernels(context->device);
  const std::string bytes(reinterpret_cast<const char*>(&handle), sizeof handle);
  if (already_opened(bytes)) return kAlreadyMapped;
  const auto [ordinal, reach] = mapper_of(handle.physical, context);
  if (reach == Mapper::Reach::cut_off)
    return kInvalidValue;  // as the real driver under Slurm's ConstrainDevices
  if (reach == Mapper::Reach::no_peer_access) return kPeerAccessUnsupported;
  const uintptr_t at = take_address(*device_at(ordinal), handle.reserved);
  char* alias = map_exported(handle, at);
  if (alias == nullptr) {
    device_at(ordinal)->freed[handle.reserved].push_back(at);
    return kInvalidHandle;
  }
  insert({Kind::imported, at, handle.size, handle.reserved, alias, -1, 0, ordinal, context, bytes});
  *address = at;
  return kSuccess;
}

Code cuIpcCloseMemHandle(Address address) {
  EMUCUDA_CONTEXT();
  forbid_unsafe("cuIpcCloseMemHandle outside relaxed capture mode");
  const auto at = starting_at(address, {Kind::imported});
  if (at == world().allocations.end()) return kInvalidValue;
  sleep_for("EMUCUDA_IPC_CLOSE_US");
  wait_for_kernels(context->device);
  drain_all();
  free_allocation(at);
  return kSuccess;
}

}  // extern "C"
}  // namespace emucuda
