// SPDX-License-Identifier: BSD-3-Clause
// Host memory of messages between hosts: staging buffers of fragments, and registrations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "copy/host_chunk.hpp"
#include "device/memory.hpp"
#include "transport/network.hpp"

namespace weft::p2p {

/// Host memory for one fragment: pinned, for copies by the GPU, unless the pinned pool is exhausted.
[[nodiscard]] copy::HostChunk lease_staging(const device::Memory& near, size_t bytes);

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
