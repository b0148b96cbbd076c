// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/context.hpp"

#include <string>

#include "device/context_guard.hpp"

namespace weft::device::cuda {

bool context_exists(Context context, Address probe) {
  Context owner = nullptr;
  return driver().pointer_get_attribute(&owner, kAttributeContext, probe) == kSuccess && owner == context;
}

CurrentContext::CurrentContext(Context context) {
  Context current = nullptr;
  code_ = driver().ctx_get_current(&current);
  if (code_ != kSuccess || current == context) return;
  code_ = driver().ctx_push_current(context);
  pushed_ = code_ == kSuccess;
}

CurrentContext::~CurrentContext() {
  Context popped = nullptr;
  if (pushed_) driver().ctx_pop_current(&popped);
}

Result<Context> context_of(const Memory& memory) {
  if (memory.context != nullptr) return memory.context;
  return memory.home != nullptr ? memory.home : home_of(memory);
}

Result<Context> home_of(const Memory& memory) {
  if (memory.fault != 0)
    return failure(memory.fault, "cuPointerGetAttributes", "the buffer cannot be classified");
  Context context = nullptr;
  unsigned flags = 0;
  int active = 0;
  if (memory.device >= 0 && driver().primary_ctx_get_state(memory.device, &flags, &active) == kSuccess &&
      active != 0) {
    WEFT_CUDA_TRY(primary_ctx_retain, "the primary context of a GPU cannot be used", &context, memory.device);
    driver().primary_ctx_release(memory.device);
    return context;
  }
  Ordinal current_device = -1;
  if (driver().ctx_get_current(&context) == kSuccess && context != nullptr &&
      driver().ctx_get_device(&current_device) == kSuccess && current_device == memory.device)
    return context;
  return Error(Errc::unsupported,
               "the buffer's GPU " + std::to_string(memory.device) +
                   " has no active context in this process (it is pool or mapped memory, or its context was "
                   "destroyed): select the device before calling MPI");
}

Code stream_fault(Context context, Stream stream) {
  const CurrentContext current(context);
  if (current.code() != kSuccess) return current.code();
  const RelaxedCapture relaxed;
  const Code code = driver().stream_query(stream);
  return code == kNotReady ? kSuccess : code;
}

}  // namespace weft::device::cuda

namespace weft::device {

void ContextGuard::push(const Memory& memory) {
  const auto context = cuda::context_of(memory);
  cuda::Context current = nullptr;
  if (!context || cuda::driver().ctx_get_current(&current) != cuda::kSuccess || current == *context) return;
  pushed_ = cuda::driver().ctx_push_current(*context) == cuda::kSuccess;
}

void ContextGuard::pop() {
  cuda::Context popped = nullptr;
  cuda::driver().ctx_pop_current(&popped);
}

}  // namespace weft::device
