// SPDX-License-Identifier: BSD-3-Clause
// State of device-memory transfers in flight: copies, submissions, and bounce buffers.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <vector>

#include "device/copy.hpp"
#include "p2p/bounce.hpp"
#include "p2p/header.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

class Transfer;

/// One device copy on behalf of a request: a receive's get, or a send's put.
struct DeviceCopy {
  Transfer* request = nullptr;
  uint32_t peer = 0;
  core::RequestId sender = core::kNoRequest;  ///< get: the sender, which awaits a FIN; none: no FIN is due
  transport::cuda_ipc::Mapping* mapping = nullptr;
  std::byte* remote = nullptr;                    ///< address in `mapping`
  transport::shm::ReadyToReceive* rtr = nullptr;  ///< put: the claimed RTR; null: a get
  bool bounce = false;                            ///< put: into a bounce buffer of the receiver
};

/// A submission in flight and the copies it serves.
struct CopySubmission {
  device::Ticket ticket;
  DeviceCopy copy;
  std::vector<DeviceCopy> rest;    ///< of a batch
  device::Ticket second_ticket{};  ///< upload of the other staging chunk
};

/// A staged receive into device memory, waiting for its turn and a pinned chunk.
struct WaitingStaged {
  Transfer* receiver;
  uint32_t source;
  core::RequestId sender;
};

/// A get of one bounce chunk.
struct BounceGet {
  device::Ticket ticket;
  Transfer* receiver;
  uint32_t source;
  BounceChunk chunk;
  bool eager_pack = false;  ///< the whole message, unpacked while the sender packs
};

/// The bounce buffer of an advertised receive that the sender cannot map.
struct PutBounce {
  enum class Stage : uint8_t { open, unpacking, timed_out, copying, done };
  BouncePool::Arena* arena = nullptr;  ///< null: the sender writes into the receive buffer itself
  uint32_t number = 0, count = 0;      ///< first chunk and number of chunks
  uint64_t epoch = 0;
  Stage stage = Stage::open;
  device::Ticket unpacked{};
  Status outcome;
};

}  // namespace weft::p2p
