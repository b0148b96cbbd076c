// SPDX-License-Identifier: BSD-3-Clause
#include "device/remote_writes.hpp"

#include "device/cuda/context.hpp"
#include "device/cuda/driver.hpp"

namespace weft::device {

RemoteWrites order_of_remote_writes(const Memory& memory) {
  if (!available() || !memory.on_device() || memory.device < 0) return RemoteWrites::ordered;
  const auto attribute = [&](int which) {
    int value = 0;
    const auto code = cuda::driver().device_get_attribute(&value, which, memory.device);
    return code == cuda::kSuccess ? value : 0;
  };
  if (attribute(cuda::kDeviceGpuDirect) == 0 ||
      attribute(cuda::kDeviceRemoteWriteOrder) >= cuda::kRemoteWritesForOwner)
    return RemoteWrites::ordered;
  const bool by_host = (attribute(cuda::kDeviceRemoteWriteFlush) & cuda::kFlushByHost) != 0;
  return by_host && cuda::driver().flush_remote_writes != nullptr ? RemoteWrites::flushed
                                                                  : RemoteWrites::unordered;
}

Status flush_remote_writes(const Memory& memory) {
  const auto context = cuda::context_of(memory);
  if (!context) return context.error().copy();
  const cuda::CurrentContext current(*context);
  if (current.code() != cuda::kSuccess)
    return cuda::failure(current.code(), "cuCtxPushCurrent", "the GPU's context cannot be used");
  const cuda::RelaxedCapture relaxed;
  WEFT_CUDA_TRY(flush_remote_writes, "data of a network adapter cannot be made visible to kernels",
                cuda::kFlushCurrentContext, cuda::kRemoteWritesForOwner);
  return {};
}

}  // namespace weft::device
