// SPDX-License-Identifier: BSD-3-Clause
// GPUDirect RDMA check: verifies that the network reads and writes the memory of a GPU. A peer gets a test
// block from it, and this process gets a block of the peer into it.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "device/memory.hpp"
#include "transport/network.hpp"

namespace weft::p2p {

class Engine;

inline constexpr size_t kCheckWords = 512;
using CheckBlock = std::array<uint64_t, kCheckWords>;

/// The check of one device of this process.
struct GpuDirectCheck : transport::Completion {
  enum class State { requested, getting, passed, failed };
  Engine* engine = nullptr;
  State state = State::requested;
  std::string reason;    ///< why it failed
  device::Memory block;  ///< on the device
  uint64_t seed = 0;
  uint64_t registration = 0;
  uint32_t peer = 0;     ///< the responder
  uint64_t peer_id = 0;  ///< id of its response
};

/// The response to a peer's check.
struct GpuDirectResponse : transport::Completion {
  Engine* engine = nullptr;
  uint64_t id = 0;
  uint32_t peer = 0;
  int64_t device = 0;  ///< ordinal at the peer
  uint64_t seed = 0;
  uint64_t registration = 0;
  bool replied = false;  ///< the get has ended
  CheckBlock block{};
};

}  // namespace weft::p2p
