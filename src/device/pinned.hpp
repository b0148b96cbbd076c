// SPDX-License-Identifier: BSD-3-Clause
// Pinned host memory: staging chunks leased from a capped pool per GPU context, and registration of memory of
// other owners (shared-memory regions), verified by a GPU write. Threading: any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// A leased chunk; returns to its pool on destruction. Must not outlive close().
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    PinnedBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~PinnedBuffer();
  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }  ///< gpu.staging_chunk
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
  [[nodiscard]] Memory memory() const;  ///< like classify(data()), without a query

 private:
  friend struct PinnedAccess;
  void swap(PinnedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(queue_, other.queue_);
  }
  char* data_ = nullptr;
  size_t size_ = 0;
  void* queue_ = nullptr;
};

/// Leases a chunk for the context of `near`. Errc::again if all gpu.staging_bytes are leased;
/// Errc::unsupported if `near` has no usable context.
[[nodiscard]] Result<PinnedBuffer> lease_pinned(const Memory& near);

/// Registration of host memory of another owner; ends on destruction.
class HostRegistration {
 public:
  HostRegistration() = default;
  HostRegistration(HostRegistration&& other) noexcept { swap(other); }
  HostRegistration& operator=(HostRegistration&& other) noexcept {
    HostRegistration(std::move(other)).swap(*this);
    return *this;
  }
  ~HostRegistration();
  [[nodiscard]] explicit operator bool() const { return address_ != nullptr; }

 private:
  friend struct PinnedAccess;
  void swap(HostRegistration& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(queue_, other.queue_);
  }
  void* address_ = nullptr;
  void* queue_ = nullptr;
};

/// Registers [address, address + bytes) (page aligned) for DMA in the context of `near` and verifies the
/// registration: the GPU writes `*proof`, a word of the caller inside the range, and the CPU reads the value.
/// Errc::unsupported with the reason on failure: use lease_pinned() and report a slow path.
[[nodiscard]] Result<HostRegistration> register_host(void* address, size_t bytes, uint32_t* proof,
                                                     const Memory& near);

}  // namespace weft::device
