// SPDX-License-Identifier: BSD-3-Clause
// Writes of network adapters into device memory. EMUCUDA_RDMA_ORDER: CUGPUDirectRDMAWritesOrdering of the
// devices (200); below 100, data of an adapter wait for a flush. EMUCUDA_RDMA_FLUSH=0: there is no flush.
#include <cstring>

#include "emucuda.h"
#include "world.hpp"

namespace emucuda {
namespace {

void store(const World::RemoteWrite& write) {
  if (char* const to = translate(write.address, write.data.size()); to != nullptr)
    std::memcpy(to, write.data.data(), write.data.size());
}

}  // namespace

int remote_write_order() { return static_cast<int>(number("EMUCUDA_RDMA_ORDER", 200)); }
int remote_write_flush() { return static_cast<int>(number("EMUCUDA_RDMA_FLUSH", kFlushByHost)); }

extern "C" {

Code cuFlushGPUDirectRDMAWrites(int target, int scope) {
  EMUCUDA_CONTEXT();
  constexpr int kAllDevices = 200;
  if (target != kFlushCurrentContext || (scope != kRemoteWritesForOwner && scope != kAllDevices))
    return kInvalidValue;
  if ((remote_write_flush() & kFlushByHost) == 0) return kNotSupported;
  std::erase_if(world().remote_writes, [&](const World::RemoteWrite& write) {
    const Allocation* const memory = find_allocation(write.address);
    if (memory != nullptr && memory->device != context->device) return false;
    store(write);
    return true;
  });
  return kSuccess;
}

__attribute__((visibility("default"))) int emucuda_remote_write(unsigned long address, const void* data,
                                                                unsigned long size) {
  const auto lock = lock_world();
  if (!in_device_region(address) || translate(address, size) == nullptr) return 0;
  const World::RemoteWrite write{address, {static_cast<const char*>(data), size}};
  if (remote_write_order() < kRemoteWritesForOwner)
    world().remote_writes.push_back(write);
  else
    store(write);
  return 1;
}

}  // extern "C"
}  // namespace emucuda
