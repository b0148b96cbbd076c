// SPDX-License-Identifier: BSD-3-Clause
// Host memory of messages between hosts: staging buffers of fragments, and registrations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "device/memory.hpp"
#include "device/pinned.hpp"
#include "transport/network.hpp"

namespace weft::p2p {

/// Host memory for one fragment: pinned, for copies by the GPU, unless the pinned pool is exhausted.
class StagingBuffer {
 public:
  [[nodiscard]] static StagingBuffer lease(const device::Memory& near, size_t bytes);
  [[nodiscard]] std::byte* data() const {
    return heap_ ? heap_.get() : reinterpret_cast<std::byte*>(pinned_.data());
  }
  [[nodiscard]] device::Memory memory() const { return heap_ ? device::Memory{} : pinned_.memory(); }
  [[nodiscard]] explicit operator bool() const { return size_ != 0; }

 private:
  device::PinnedBuffer pinned_;
  std::unique_ptr<std::byte[]> heap_;
  size_t size_ = 0;
};

/// Memory that is registered until destruction.
class Registration {
 public:
  Registration() = default;
  Registration(transport::Network& network, uint64_t id) : network_(&network), id_(id) {}
  Registration(Registration&& other) noexcept : network_(other.network_), id_(std::exchange(other.id_, 0)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(network_, other.network_);
    std::swap(id_, other.id_);
    return *this;
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    if (id_ != 0) network_->deregister(id_);
  }
  [[nodiscard]] explicit operator bool() const { return id_ != 0; }

 private:
  transport::Network* network_ = nullptr;
  uint64_t id_ = 0;
};

}  // namespace weft::p2p
