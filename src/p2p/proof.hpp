// SPDX-License-Identifier: BSD-3-Clause
// Whether the network reaches the memory of a GPU (GPUDirect), proved by moving bytes: a peer fetches a test
// block out of it, and this process fetches one of the peer's into it.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "device/memory.hpp"
#include "transport/network.hpp"

namespace weft::p2p {

class Engine;

inline constexpr size_t kProofWords = 512;
using ProofBlock = std::array<uint64_t, kProofWords>;

/// Of one device of this process.
struct DirectProof : transport::Completion {
  enum class State { asking, reading, good, bad };
  Engine* engine = nullptr;
  State state = State::asking;
  std::string reason;    ///< of bad
  device::Memory block;  ///< on the device
  uint64_t seed = 0;
  uint64_t exposed = 0;
  uint32_t peer = 0;     ///< that helps
  uint64_t peer_id = 0;  ///< its help
};

/// For a peer: what was fetched from its device, and what it is to fetch.
struct ProofHelp : transport::Completion {
  Engine* engine = nullptr;
  uint64_t id = 0;
  uint32_t peer = 0;
  int64_t device = 0;  ///< the peer's
  uint64_t seed = 0;
  uint64_t exposed = 0;
  ProofBlock block{};
};

}  // namespace weft::p2p
