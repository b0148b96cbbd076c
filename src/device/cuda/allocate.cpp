// SPDX-License-Identifier: BSD-3-Clause
#include "device/allocate.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/deferred.hpp"
#include "device/ipc.hpp"
#include "device/pool.hpp"

namespace weft::device {
namespace {

cuda::Code free_memory(const Memory& memory) {
  return memory.kind == MemoryKind::host_pinned
             ? cuda::driver().mem_free_host(reinterpret_cast<void*>(memory.base))
             : cuda::driver().mem_free(memory.base);
}

void free_allocation(const Memory& memory) {
  if (!alive(memory)) return;
  const cuda::CurrentContext current(memory.context);
  if (current.code() != cuda::kSuccess) return;
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = free_memory(memory);
  if (code != cuda::kSuccess && !cuda::gone(code))
    log::write(log::Level::warn, "%s memory was not freed (%s)", name(memory.kind),
               cuda::describe(code).c_str());
}

}  // namespace

Result<Memory> current_context() {
  if (!available()) return Error(Errc::unsupported, absence());
  cuda::Context context = nullptr;
  cuda::Ordinal device = -1;
  const cuda::Code code = cuda::driver().ctx_get_current(&context);
  if (code != cuda::kSuccess || context == nullptr ||
      cuda::driver().ctx_get_device(&device) != cuda::kSuccess)
    return Error(Errc::unsupported,
                 "the calling thread has no current CUDA context: select a GPU (cudaSetDevice, then "
                 "cudaFree(0)) first");
  Memory memory;
  memory.kind = MemoryKind::host_pinned;
  memory.device = device;
  memory.context = context;
  return memory;
}

Result<Allocation> Allocation::create(MemoryKind kind, size_t bytes) {
  WEFT_ASSERT(kind != MemoryKind::host);
  auto context = current_context();
  if (!context) return std::move(context).error();
  const cuda::RelaxedCapture relaxed;
  bytes = std::max<size_t>(bytes, 1);
  cuda::Address address = 0;
  if (kind == MemoryKind::cuda_device) {
    WEFT_CUDA_TRY(mem_alloc, "GPU memory cannot be allocated", &address,
                  std::max(bytes, Workspace::kMappable));
  } else if (kind == MemoryKind::cuda_managed) {
    WEFT_CUDA_TRY(mem_alloc_managed, "managed memory cannot be allocated", &address, bytes,
                  cuda::kMemAttachGlobal);
  } else {
    void* pinned = nullptr;
    WEFT_CUDA_TRY(mem_host_alloc, "pinned memory cannot be allocated", &pinned, bytes,
                  cuda::kHostAllocPortable | cuda::kHostAllocDeviceMap);
    address = reinterpret_cast<cuda::Address>(pinned);
  }
  Allocation made;
  made.memory_ = classify(reinterpret_cast<void*>(address));
  if (made.memory_.kind == kind && made.memory_.base == address) return made;
  made.memory_.kind = kind;
  made.memory_.base = static_cast<uintptr_t>(address);  // freed by the destructor
  made.memory_.context = context->context;
  return Error(Errc::intern, std::string("memory is not recognised as ") + name(kind) + " memory");
}

Allocation::~Allocation() {
  if (memory_.base != 0) cuda::release_or_defer([memory = memory_] { free_allocation(memory); });
}

}  // namespace weft::device
