// SPDX-License-Identifier: BSD-3-Clause
#include "device/pinned.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/queue/time_sliced_copy.hpp"
#include "device/queue/work_queue.hpp"

namespace weft::device {

struct PinnedAccess {
  static PinnedBuffer buffer(char* data, size_t size, cuda::WorkQueue& queue) {
    PinnedBuffer result;
    result.data_ = data;
    result.size_ = size;
    result.queue_ = &queue;
    return result;
  }
  static HostRegistration registration(void* address, cuda::WorkQueue& queue) {
    HostRegistration result;
    result.address_ = address;
    result.queue_ = &queue;
    return result;
  }
};

namespace {

config::Size setting_bytes(
    "gpu.staging_bytes", size_t{8} << 20, size_t{64} << 10, size_t{1} << 30,
    "Maximum pinned host memory in bytes for staged GPU transfers, per GPU context; allocated on first use.",
    "staged GPU messages are slow because they wait for staging memory (larger), or pinned memory is "
    "scarce (smaller)");
config::Size setting_chunk(
    "gpu.staging_chunk", size_t{512} << 10, size_t{4} << 10, size_t{16} << 20,
    "Size in bytes of one staging chunk, the pipeline granularity of staged transfers; larger chunks "
    "overlap less");

constexpr auto kProofTimeout = std::chrono::milliseconds(200);

cuda::WorkQueue& as_queue(void* queue) { return *static_cast<cuda::WorkQueue*>(queue); }

Error no_registration(const std::string& reason) {
  return Error(Errc::unsupported, "shared memory is not usable by the GPU's copy engine (" + reason +
                                      "): transfers bounce through pinned chunks");
}

/// Submits a GPU write of the word; returns whether the CPU reads the value in time.
bool gpu_write_arrives(cuda::TrackedStream& tracked, uint32_t* proof, cuda::Address proof_address) {
  const uint32_t value = __atomic_load_n(proof, __ATOMIC_RELAXED) ^ 0x57656674u;
  if (cuda::driver().stream_write_value32(tracked.stream, proof_address, value, cuda::kWriteValueDefault) !=
      cuda::kSuccess)
    return false;
  const auto deadline = std::chrono::steady_clock::now() + kProofTimeout;
  while (__atomic_load_n(proof, __ATOMIC_ACQUIRE) != value) {
    const cuda::Code code = cuda::driver().stream_query(tracked.stream);
    if ((code != cuda::kSuccess && code != cuda::kNotReady) || std::chrono::steady_clock::now() > deadline)
      return false;
    ::sched_yield();
  }
  return true;
}

}  // namespace

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  cuda::WorkQueue& queue = as_queue(queue_);
  const std::lock_guard lock(queue.mutex);
  queue.free_chunks.push_back(data_);
}

Memory PinnedBuffer::memory() const {
  Memory memory;
  if (data_ == nullptr) return memory;
  memory.kind = MemoryKind::host_pinned;
  memory.staging = true;
  memory.device = as_queue(queue_).device;
  memory.context = as_queue(queue_).context;
  memory.base = reinterpret_cast<uintptr_t>(data_);
  memory.size = size_;
  return memory;
}

Result<PinnedBuffer> lease_pinned(const Memory& near) {
  if (!available() || !near.known_to_driver())
    return Error(Errc::unsupported,
                 "pinned staging memory needs a GPU buffer's context (the buffer is on the host)");
  auto found = cuda::queue_of(near);
  if (!found) return std::move(found).error();
  return cuda::lease_spare(**found, 0);
}

Result<PinnedBuffer> cuda::lease_spare(WorkQueue& queue, size_t spare) {
  const std::lock_guard lock(queue.mutex);
  // One chunk is always granted, so that a chunk larger than the cap cannot stop every transfer.
  const size_t most = std::max<size_t>(1, setting_bytes / setting_chunk);
  const size_t leased = queue.chunks.size() - queue.free_chunks.size();
  if (leased + 1 + spare > most) return Error(Errc::again, "all pinned staging chunks are in use");
  if (!queue.free_chunks.empty()) {
    char* chunk = queue.free_chunks.back();
    queue.free_chunks.pop_back();
    return PinnedAccess::buffer(chunk, setting_chunk, queue);
  }
  const cuda::CurrentContext current(queue.context);
  const cuda::RelaxedCapture relaxed;
  if (current.code() != cuda::kSuccess)
    return cuda::failure(current.code(), "cuCtxPushCurrent", "pinned staging memory cannot be allocated");
  void* chunk = nullptr;
  WEFT_CUDA_TRY(mem_host_alloc, "pinned staging memory cannot be allocated", &chunk, setting_chunk,
                cuda::kHostAllocPortable);
  queue.chunks.push_back(static_cast<char*>(chunk));
  return PinnedAccess::buffer(static_cast<char*>(chunk), setting_chunk, queue);
}

HostRegistration::~HostRegistration() {
  if (address_ == nullptr || !available()) return;
  const cuda::CurrentContext current(as_queue(queue_).context);
  if (current.code() != cuda::kSuccess) return;
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = cuda::driver().mem_host_unregister(address_);
  if (code != cuda::kSuccess && !cuda::gone(code))
    log::write(log::Level::warn, "shared memory stays registered with the GPU (%s)",
               cuda::describe(code).c_str());
}

Result<HostRegistration> register_host(void* address, size_t bytes, uint32_t* proof, const Memory& near) {
  if (!available() || !near.known_to_driver()) return no_registration("the buffer is on the host");
  auto found = cuda::queue_of(near);
  if (!found) return std::move(found).error();
  cuda::WorkQueue& queue = **found;
  cuda::TrackedStream& tracked = queue.streams[static_cast<size_t>(StreamRole::aux)];
  const std::lock_guard lock(tracked.mutex);
  const cuda::CurrentContext current(queue.context);
  if (current.code() != cuda::kSuccess) return no_registration(cuda::describe(current.code()));
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = cuda::driver().mem_host_register(
      address, bytes, cuda::kHostRegisterPortable | cuda::kHostRegisterDeviceMap);
  if (code != cuda::kSuccess) return no_registration("cuMemHostRegister: " + cuda::describe(code));
  auto registration = PinnedAccess::registration(address, queue);
  cuda::Address proof_address = 0;
  if (cuda::driver().mem_host_get_device_pointer(&proof_address, proof, 0) != cuda::kSuccess)
    return no_registration("it is registered but not mapped for the GPU");
  if (!gpu_write_arrives(tracked, proof, proof_address))
    return no_registration("it is registered, but a GPU write did not become visible");
  return registration;
}

}  // namespace weft::device
