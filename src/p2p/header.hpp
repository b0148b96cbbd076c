// SPDX-License-Identifier: BSD-3-Clause
// Headers of the messages that processes exchange. Same host or same architecture: sent as they are.
// Ids of transfers are addresses in the process that made them, echoed by the other side, never followed
// there.
#pragma once
#include <cstdint>

#include "device/memory.hpp"
#include "device/pack.hpp"
#include "p2p/protocol/choice.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/network.hpp"

namespace weft::p2p {

enum class Type : uint8_t {
  eager,           ///< the data follow; the send is complete
  eager_sync,      ///< the data follow; acknowledge when matched
  ready_to_send,   ///< data wait at the sender (RTS)
  clear_to_send,   ///< send the data as fragments (CTS)
  data,            ///< one fragment
  finish,          ///< the receiver has everything (FIN)
  finish_many,     ///< the same for several: `length` ids follow
  acknowledge,     ///< an eager_sync message was matched
  cancel,          ///< withdraw a ready-to-send that was not matched
  cancel_reply,    ///< whether it was
  credit,          ///< eager bytes consumed
  region,          ///< a cuda_ipc::Region of a receiver, as behind a ready-to-send
  drop_mapping,    ///< an exported allocation is gone
  no_descriptors,  ///< those of cuMemMap memory of yours cannot be taken: send them to the mailbox `context`
  scratch_ready,   ///< a chunk lies in the sender's GPU scratch, or in its pinned memory
  scratch_done,    ///< it was fetched
  proof_ask,     ///< fetch my GPU's test block, and show me one of yours: does the network reach GPU memory?
  proof_answer,  ///< what was fetched, and the block
  proof_done     ///< the block may go
};

/// Starts every message. Matching reads context, source and tag.
struct Header {
  Type type;
  uint8_t flags = 0;
  uint16_t unused = 0;
  uint32_t length = 0;  ///< payload bytes in this message
  uint64_t context = 0;
  int32_t source = 0;  ///< sender's rank in the communicator
  int32_t tag = 0;
};
static_assert(sizeof(Header) == 24);

struct EagerSync : Header {
  uint64_t sender;
};

/// Ready to send. `flags` says what follows.
struct ReadyToSend : Header {
  static constexpr uint8_t kContiguous = 1;   ///< one run at `address` in the sender's address space
  static constexpr uint8_t kDevice = 2;       ///< no CPU path may read it
  static constexpr uint8_t kRegion = 4;       ///< a cuda_ipc::Region follows
  static constexpr uint8_t kRegionName = 16;  ///< or, when the peer was told before, a cuda_ipc::RegionName
  static constexpr uint8_t kScratch = 32;     ///< the region is scratch: the data will be packed into it
  static constexpr uint8_t kProbe = 8;        ///< and a cuda_ipc::Probe behind the region
  static constexpr uint8_t kStrided = 64;     ///< and a Strides: how the data lie, from `address` on
  static constexpr uint8_t kAhead = kScratch | kStrided;  ///< an Ahead instead: packing has begun
  static constexpr uint8_t kKey = 128;  ///< a Key follows: between hosts, the buffer as it is
  uint64_t sender;
  uint64_t bytes;
  uint64_t address;
};

/// What choices are made by.
[[nodiscard]] inline Announced announced(const ReadyToSend& rts) {
  const auto has = [&](int flags) { return (rts.flags & flags) != 0; };
  return {has(ReadyToSend::kDevice),
          has(ReadyToSend::kContiguous),
          has(ReadyToSend::kRegion | ReadyToSend::kRegionName),
          has(ReadyToSend::kScratch),
          has(ReadyToSend::kStrided),
          rts.bytes};
}

/// What follows the region that a ready-to-send brings.
[[nodiscard]] inline const std::byte* behind_region(const ReadyToSend& rts) {
  const auto* at = reinterpret_cast<const std::byte*>(&rts + 1);
  at += (rts.flags & ReadyToSend::kRegionName) != 0 ? sizeof(transport::cuda_ipc::RegionName)
                                                    : sizeof(transport::cuda_ipc::Region);
  return at + ((rts.flags & ReadyToSend::kProbe) != 0 ? sizeof(transport::cuda_ipc::Probe) : 0);
}

/// Behind a ready-to-send: runs of `length` bytes along up to three dimensions, innermost first.
struct Strides {
  int64_t length;
  int64_t dimensions;
  int64_t count[device::Shape::kDimensions];
  int64_t stride[device::Shape::kDimensions];
};

/// Behind a ready-to-send: the whole message is being packed into a chunk of the scratch, tile by tile.
struct Ahead {
  uint64_t address;  ///< in the sender's scratch
  uint64_t flags;    ///< likewise: each tile's becomes `epoch` when it is there
  uint64_t epoch;
  uint64_t tile;  ///< bytes
};

/// Between hosts, behind a message: what lets the other side fetch a buffer. Sent up to its last byte.
struct Key {
  uint64_t size;
  std::byte bytes[transport::kMaxKey];
  [[nodiscard]] size_t sent_size() const { return sizeof size + size; }
};

struct ClearToSend : Header {
  static constexpr uint8_t kThroughScratch = 1;  ///< not as fragments
  static constexpr uint8_t kOffer = 2;           ///< device memory: by pinned chunks that we read
  static constexpr uint8_t kPiped = 4;           ///< the same between hosts: by chunks that we fetch
  uint64_t sender, receiver;
};

struct Data : Header {
  static constexpr uint8_t kAborted = 1;  ///< the last fragment: the sender failed, these bytes do not count
  uint64_t receiver, offset;
};

/// finish, acknowledge, cancel (sender: the id asked about), cancel_reply (flags: 1 withdrawn).
struct Reply : Header {
  static constexpr uint8_t kTaken = 1;  ///< finish: all that was packed ahead has been read
  uint64_t sender;
};

struct Credit : Header {
  uint64_t bytes;
};

struct DropMapping : Header {
  uint64_t epoch, base, buffer_id;
};

/// scratch_ready, and back as scratch_done
struct ScratchChunk : Header {
  static constexpr uint8_t kFailed = 1;  ///< ready: the sender gave up, no chunk; done: it could not be read
  static constexpr uint8_t kPinned = 2;  ///< it lies in host memory
  uint64_t sender, receiver;
  uint64_t offset;   ///< of its first byte in the message
  uint64_t address;  ///< in the sender's scratch
  uint64_t size;
  uint64_t number;  ///< the sender's
};

/// scratch_ready between hosts
struct KeyedChunk : ScratchChunk {
  Key key;
};

/// proof_ask, proof_answer (`flags`: it was right), proof_done
struct Proof : Header {
  int64_t device;  ///< the asker's
  uint64_t seed;   ///< of the block's content
  uint64_t id;     ///< the answerer's, for proof_done
  Key key;
};

/// finish_many
struct Finished : Header {
  static constexpr size_t kMax = 32;
  uint64_t senders[kMax];
};

inline constexpr size_t kMaxControl = sizeof(ReadyToSend) + sizeof(transport::cuda_ipc::Region) +
                                      sizeof(transport::cuda_ipc::Probe) + sizeof(Strides);

static_assert(sizeof(Ahead) <= sizeof(Strides) && sizeof(Finished) <= kMaxControl &&
              sizeof(KeyedChunk) <= kMaxControl && sizeof(ReadyToSend) + sizeof(Key) <= kMaxControl &&
              sizeof(Proof) <= kMaxControl);

}  // namespace weft::p2p
