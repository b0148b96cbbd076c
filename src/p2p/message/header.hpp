// SPDX-License-Identifier: BSD-3-Clause
// Wire headers of all messages. They are sent in native byte order: all hosts have the same architecture.
// `sender` and `receiver` are ids of requests in the process of that role (core::RequestTable): the peer
// echoes them. Everything in a message is checked before its use: validate.hpp.
#pragma once
#include <bit>
#include <cstdint>

#include "base/assert.hpp"
#include "core/request_table.hpp"
#include "device/memory.hpp"
#include "device/pack.hpp"
#include "transport/am/handlers.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/network.hpp"
#include "transport/shm/layout.hpp"

namespace weft::p2p {

/// Ids of the handlers.
enum class Type : transport::am::HandlerId {
  eager = transport::am::kP2pHandlers,  ///< payload follows; the send is complete
  eager_sync,                           ///< payload follows; acknowledge on matching
  ready_to_send,                        ///< RTS: the payload waits at the sender
  clear_to_send,                        ///< CTS: send the payload as fragments
  data,                                 ///< one fragment of a payload
  finish,                               ///< FIN: the receiver has the whole payload
  finish_many,                          ///< FIN of several sends: `length` ids follow
  acknowledge,                          ///< an eager_sync message was matched
  cancel,                               ///< cancel an unmatched RTS
  cancel_reply,                         ///< whether the RTS was cancelled
  credit,                               ///< eager bytes consumed so far
  region,             ///< cuda_ipc::Region of an advertised receive, or of a bounce buffer (kBounce) that the
                      ///< receiver maps at once, laid out as after an RTS
  chunk_ready,        ///< a chunk is filled in the sender's bounce buffer or pinned memory
  chunk_done,         ///< the receiver has read the chunk
  gdr_check_request,  ///< GPUDirect check: get a test block from the requester's GPU memory
  gdr_check_reply,    ///< the outcome, and a block for the opposite direction
  gdr_check_done,     ///< the block can be deregistered
  copy_offer,         ///< the sender may copy parts of the payload itself
  eager_typed         ///< as eager, with a signature: WEFT_CHECK=on
};

/// First bytes of every message but an eager one. Context, source and tag are the match key.
struct Header {
  Type type;
  uint8_t flags = 0;
  uint16_t signature = 0;  ///< of the datatype (type_check.hpp); 0: not compared
  uint32_t length = 0;     ///< payload bytes in this message
  uint64_t context = 0;
  int32_t source = 0;  ///< sender's rank in the communicator
  int32_t tag = 0;
};
static_assert(sizeof(Header) == 24);

/// Header of Type::eager: the payload ends with the message. In a ring (transport/shm/layout.hpp) a payload
/// of kSmallPayload fills half a cache line with both headers, and a larger one begins at half a cache line:
/// copies that cross lines take up to twice the time between distant cores.
struct EagerHeader {
  static constexpr int kMaxSource = (1 << 24) - 1;
  static constexpr size_t kSmallPayload = 8;
  EagerHeader(uint64_t match_context, int source, int match_tag)
      : type_and_source(static_cast<uint32_t>(Type::eager) | static_cast<uint32_t>(source) << 8),
        tag(match_tag),
        context(match_context) {
    WEFT_ASSERT(source >= 0 && source <= kMaxSource);  // C4
  }
  /// Offset of a payload of `bytes` in its message, and of the payload in a message of `size` bytes.
  static constexpr size_t offset(uint64_t bytes) { return bytes <= kSmallPayload ? kSmall : kSmall + 8; }
  static constexpr size_t offset_in(size_t size) {
    return size <= kSmall + kSmallPayload ? kSmall : kSmall + 8;
  }
  /// The same in the form of other messages. `size`: of the message, at least sizeof(EagerHeader).
  [[nodiscard]] Header expanded(size_t size) const {
    return {Type::eager, 0, 0, static_cast<uint32_t>(size - offset_in(size)), context, source(), tag};
  }
  [[nodiscard]] int32_t source() const { return static_cast<int32_t>(type_and_source >> 8); }
  [[nodiscard]] const std::byte* payload(size_t size) const {
    return reinterpret_cast<const std::byte*>(this) + offset_in(size);
  }

  uint32_t type_and_source;  ///< the type is its first byte
  int32_t tag;
  uint64_t context;

 private:
  static constexpr size_t kSmall = 16;
};
static_assert(sizeof(EagerHeader) == 16 && std::endian::native == std::endian::little);
static_assert(transport::shm::record_bytes(EagerHeader::offset(8) + 8) == transport::shm::kSmallRecord);

struct EagerSync : Header {
  core::RequestId sender;
};

/// RTS. `flags` tells which structures follow the header.
struct ReadyToSend : Header {
  static constexpr uint8_t kContiguous = 1;   ///< one run of bytes at `address` in the sender's address space
  static constexpr uint8_t kDevice = 2;       ///< the CPU must not read the payload
  static constexpr uint8_t kRegion = 4;       ///< followed by a cuda_ipc::Region
  static constexpr uint8_t kRegionName = 16;  ///< followed by a cuda_ipc::RegionName instead
  static constexpr uint8_t kBounce = 32;      ///< the region is a bounce buffer for packing
  static constexpr uint8_t kProbe = 8;        ///< followed, after the region, by a cuda_ipc::Probe
  static constexpr uint8_t kStrided = 64;     ///< followed by Strides: the layout from `address` on
  static constexpr uint8_t kEagerPack = kBounce | kStrided;  ///< followed by EagerPack instead
  static constexpr uint8_t kRkey = 128;  ///< followed by an Rkey of the whole buffer (between hosts)
  core::RequestId sender;
  uint64_t bytes;
  uint64_t address;
};

/// Returns the position after the region and probe of an RTS.
[[nodiscard]] inline const std::byte* after_region(const ReadyToSend& rts) {
  const auto* at = reinterpret_cast<const std::byte*>(&rts + 1);
  at += (rts.flags & ReadyToSend::kRegionName) != 0 ? sizeof(transport::cuda_ipc::RegionName)
                                                    : sizeof(transport::cuda_ipc::Region);
  return at + ((rts.flags & ReadyToSend::kProbe) != 0 ? sizeof(transport::cuda_ipc::Probe) : 0);
}

/// Follows an RTS: runs of `length` bytes along up to three dimensions, innermost first.
struct Strides {
  int64_t length;
  int64_t dimensions;
  int64_t count[device::Shape::kDimensions];
  int64_t stride[device::Shape::kDimensions];
};

/// Follows an RTS: the sender packs the whole message, tile by tile, into contiguous chunks of a bounce
/// buffer.
struct EagerPack {
  uint64_t address;  ///< of the packed bytes in the sender's bounce buffer
  uint64_t flags;    ///< address of the flags, one word per tile, set to `epoch` when the tile is packed
  uint64_t epoch;
  uint64_t tile;  ///< tile size in bytes
};

/// Remote key of a registered buffer, for RMA gets between hosts. Only the first `size` of `bytes` are sent.
struct Rkey {
  uint64_t size;
  std::byte bytes[transport::kMaxRkey];
  [[nodiscard]] size_t wire_size() const { return sizeof size + size; }
};

/// `flags`: index of the protocol that the receiver has selected, in protocols().
struct ClearToSend : Header {
  core::RequestId sender, receiver;
};

struct Data : Header {
  static constexpr uint8_t kAborted = 1;  ///< last fragment: the sender failed, its bytes are invalid
  core::RequestId receiver;
  uint64_t offset;
};

/// finish, acknowledge, cancel (`sender`: the id in question), cancel_reply (`flags`: 1 cancelled).
struct Reply : Header {
  static constexpr uint8_t kConsumed = 1;  ///< finish: the receiver has read all eagerly packed bytes
  core::RequestId sender;
};

struct Credit : Header {
  uint64_t bytes;
};

/// copy_offer: the receiver copies the payload of `sender` to `address`, and shares the copy.
struct CopyOffer : Header {
  core::RequestId sender;
  uint64_t address;
  uint32_t slot;    ///< Shm::shared_copy() of the receiver
  uint32_t number;  ///< of the copy in that slot
};

/// chunk_ready; the receiver echoes it as chunk_done.
struct BounceChunk : Header {
  static constexpr uint8_t kFailed = 1;  ///< no chunk: the sender could not pack, or the receiver not read
  static constexpr uint8_t kPinned = 2;  ///< the chunk lies in host memory
  core::RequestId sender, receiver;
  uint64_t offset;   ///< of the chunk's first byte in the message
  uint64_t address;  ///< of the chunk in the sender
  uint64_t size;
  uint64_t number;  ///< chunk number, assigned by the sender
  /// Returns whether the chunk lies within a message of `message_bytes` bytes.
  [[nodiscard]] bool within(uint64_t message_bytes) const {
    return size != 0 && size <= message_bytes && offset <= message_bytes - size;
  }
};

/// chunk_ready between hosts, with the rkey of the chunk.
struct FragmentAnnouncement : BounceChunk {
  Rkey rkey;
};

/// gdr_check_request, gdr_check_reply (`flags`: 1 the block was correct), gdr_check_done.
struct GdrCheckMessage : Header {
  int64_t device;  ///< device ordinal of the requester
  uint64_t seed;   ///< of the block's pseudo-random content
  uint64_t id;     ///< response id of the responder, echoed by gdr_check_done
  Rkey rkey;
};

/// finish_many
struct Finished : Header {
  static constexpr size_t kMax = 32;
  core::RequestId senders[kMax];
};

inline constexpr size_t kMaxControl = sizeof(ReadyToSend) + sizeof(transport::cuda_ipc::Region) +
                                      sizeof(transport::cuda_ipc::Probe) + sizeof(Strides);

static_assert(sizeof(EagerPack) <= sizeof(Strides) && sizeof(Finished) <= kMaxControl &&
              sizeof(FragmentAnnouncement) <= kMaxControl &&
              sizeof(ReadyToSend) + sizeof(Rkey) <= kMaxControl && sizeof(GdrCheckMessage) <= kMaxControl &&
              kMaxControl <= transport::am::Sender::kMaxPosted);

}  // namespace weft::p2p
