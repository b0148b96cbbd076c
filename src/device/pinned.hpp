// SPDX-License-Identifier: BSD-3-Clause
// Pinned host memory: staging chunks leased from a small capped pool of each GPU context, and registration
// of memory that others own (shared-memory regions), proved by a write of the GPU. Threading: any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// One leased chunk; goes back to its pool on destruction. Must not outlive close().
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
  [[nodiscard]] size_t size() const { return size_; }  ///< the setting gpu.staging_chunk
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
  [[nodiscard]] Memory memory() const;  ///< what classify(data()) would say, without asking

 private:
  friend struct PinnedAccess;
  void swap(PinnedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(state_, other.state_);
  }
  char* data_ = nullptr;
  size_t size_ = 0;
  void* state_ = nullptr;
};

/// Leases a chunk usable with `near`'s context. Errc::again when gpu.staging_bytes are all leased;
/// Errc::unsupported when `near` has no usable context.
[[nodiscard]] Result<PinnedBuffer> lease_pinned(const Memory& near);

/// A registration of somebody else's host memory; ends on destruction.
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
    std::swap(state_, other.state_);
  }
  void* address_ = nullptr;
  void* state_ = nullptr;
};

/// Registers [address, address + bytes) (page aligned) for DMA in `near`'s context and proves it: the GPU
/// writes `*proof` (a word inside the range that the caller owns) and the CPU must see the value.
/// Errc::unsupported with the reason when any of that fails: bounce through lease_pinned() then, by name.
[[nodiscard]] Result<HostRegistration> register_host(void* address, size_t bytes, uint32_t* proof,
                                                     const Memory& near);

}  // namespace weft::device
