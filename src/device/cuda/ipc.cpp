// SPDX-License-Identifier: BSD-3-Clause
#include "device/ipc.hpp"

#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/deferred.hpp"
#include "device/cuda/mapped.hpp"
#include "device/cuda/peer.hpp"

namespace weft::device {
namespace {

std::mutex imported_mutex;
std::map<uintptr_t, size_t> imported;      // base and size of mapped memory of other processes
std::map<uintptr_t, std::string> handles;  // of those with an IPC handle

Error no_context(cuda::Code code) {
  return cuda::failure(code, "cuCtxPushCurrent", "the GPU buffer's context cannot be used");
}

void note_handle(uintptr_t base, const cuda::IpcMemHandle& raw) {
  const std::lock_guard lock(imported_mutex);
  handles[base].assign(raw.reserved, sizeof raw.reserved);
}

Status close_import(const Memory& mapped) {
  if (!available()) return {};
  if (mapped.mapped) return cuda::unmap(mapped);
  if (!cuda::context_exists(mapped.context, mapped.base)) return {};
  if (mapped.buffer_id != 0 && !alive(mapped)) return {};  // another allocation has its address
  const cuda::CurrentContext current(mapped.context);
  if (cuda::gone(current.code())) return {};
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = cuda::driver().ipc_close_mem_handle(mapped.base);
  if (code == cuda::kSuccess || cuda::gone(code)) return {};
  return cuda::failure(code, "cuIpcCloseMemHandle", "a peer's GPU buffer cannot be unmapped");
}

const char* why_no_handle(const Memory& memory) {
  if (memory.kind == MemoryKind::cuda_managed) return "it is managed memory";
  if (memory.kind != MemoryKind::cuda_device) return "it is host memory";
  if (memory.context == nullptr)
    return memory.mapped ? "it comes from cuMemMap" : "it comes from a stream-ordered pool";
  return "the driver does not share this allocation";
}

}  // namespace

Result<IpcHandle> export_ipc(const Memory& memory) {
  if (!memory.legacy_ipc)
    return Error(Errc::unsupported, std::string("the GPU buffer cannot be mapped by another process (") +
                                        why_no_handle(memory) + "): cudaMalloc memory can");
  auto context = cuda::context_of(memory);
  if (!context) return std::move(context).error();
  const cuda::CurrentContext current(*context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  cuda::IpcMemHandle raw{};
  const cuda::Code code = cuda::driver().ipc_get_mem_handle(&raw, memory.base);
  if (code != cuda::kSuccess)
    return Error(Errc::unsupported,
                 "the GPU buffer cannot be shared (cuIpcGetMemHandle: " + cuda::describe(code) + ")");
  IpcHandle handle;
  std::memcpy(handle.data(), raw.reserved, handle.size());
  return handle;
}

Result<Memory> open_ipc(const IpcHandle& handle, size_t size, const GpuId& owner, const Memory& local) {
  auto device = cuda::check_peer(owner, local);
  if (!device) return std::move(device).error();
  auto context = cuda::context_of(local);
  if (!context) return std::move(context).error();
  const cuda::CurrentContext current(*context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  cuda::IpcMemHandle raw{};
  std::memcpy(raw.reserved, handle.data(), handle.size());
  if (auto kept = cuda::revive(std::string(raw.reserved, sizeof raw.reserved), *context)) {
    cuda::note_imported(*kept);
    note_handle(kept->base, raw);
    return *kept;
  }
  cuda::Address address = 0;
  const cuda::Code code = cuda::driver().ipc_open_mem_handle(&address, raw, cuda::kIpcLazyEnablePeerAccess);
  if (code == cuda::kSuccess) {
    Memory mapped;
    mapped.kind = MemoryKind::cuda_device;
    mapped.device = *device;
    mapped.context = *context;
    mapped.base = address;
    mapped.size = size;
    if (unsigned long long id = 0;
        cuda::driver().pointer_get_attribute(&id, cuda::kAttributeBufferId, address) == cuda::kSuccess)
      mapped.buffer_id = id;
    cuda::note_imported(mapped);
    note_handle(address, raw);
    return mapped;
  }
  return cuda::not_mapped("cuIpcOpenMemHandle", code, owner, local);
}

void cuda::note_imported(Memory& mapped) {
  mapped.imported = true;
  const std::lock_guard lock(imported_mutex);
  imported.insert_or_assign(mapped.base, mapped.size);
}

bool is_imported(uintptr_t address) {
  const std::lock_guard lock(imported_mutex);
  const auto after = imported.upper_bound(address);
  return after != imported.begin() && address - std::prev(after)->first < std::prev(after)->second;
}

Status close_ipc(const Memory& mapped) {
  std::string handle;
  {
    const std::lock_guard lock(imported_mutex);
    imported.erase(mapped.base);
    if (const auto at = handles.find(mapped.base); at != handles.end()) {
      handle = std::move(at->second);
      handles.erase(at);
    }
  }
  auto result = std::make_shared<Status>();  // success if it is deferred
  cuda::close_or_defer(mapped, std::move(handle), [mapped, result] { *result = close_import(mapped); });
  return std::move(*result);
}

bool alive(const Memory& memory) {
  if (!available()) return false;
  if (memory.mapped) return cuda::still_mapped(memory);
  unsigned long long id = 0;
  return cuda::driver().pointer_get_attribute(&id, cuda::kAttributeBufferId, memory.base) == cuda::kSuccess &&
         id == memory.buffer_id;
}

}  // namespace weft::device
