// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/message/validate.hpp"

#include <cstdint>

#include "base/counters.hpp"

namespace weft::p2p {
namespace {

counters::Counter malformed_messages("p2p.malformed_messages", counters::Unit::events,
                                     "Messages dropped because their size, layout or content is invalid, or "
                                     "their request does not await them");

using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;
using transport::cuda_ipc::RegionName;

/// Returns whether an Rkey at `offset` lies within the message.
bool holds_rkey(const std::byte* message, size_t size, size_t offset) {
  if (size < offset + sizeof(Rkey::size)) return false;
  const uint64_t bytes = reinterpret_cast<const Rkey*>(message + offset)->size;
  return bytes <= transport::kMaxRkey && size - offset - sizeof(Rkey::size) >= bytes;
}

bool well_formed_remote_rts(const ReadyToSend& rts, size_t size) {
  if ((rts.flags & ~(ReadyToSend::kContiguous | ReadyToSend::kDevice | ReadyToSend::kRkey)) != 0)
    return false;
  return (rts.flags & ReadyToSend::kRkey) == 0 ||
         holds_rkey(reinterpret_cast<const std::byte*>(&rts), size, sizeof rts);
}

/// An RTS inside a host, or the region of an advertised receive.
bool well_formed_local_rts(const ReadyToSend& rts, size_t size) {
  const auto has = [&](int flags) { return (rts.flags & flags) != 0; };
  if (has(ReadyToSend::kRkey)) return false;
  if (!has(ReadyToSend::kDevice) && has(ReadyToSend::kBounce | ReadyToSend::kStrided)) return false;
  if (has(ReadyToSend::kRegion) && has(ReadyToSend::kRegionName)) return false;
  if (has(ReadyToSend::kProbe) && !has(ReadyToSend::kRegion)) return false;
  if (has(ReadyToSend::kBounce | ReadyToSend::kStrided) &&
      !has(ReadyToSend::kRegion | ReadyToSend::kRegionName))
    return false;
  size_t needed = sizeof rts;
  if (has(ReadyToSend::kRegion)) needed += sizeof(Region);
  if (has(ReadyToSend::kRegionName)) needed += sizeof(RegionName);
  if (has(ReadyToSend::kProbe)) needed += sizeof(Probe);
  if ((rts.flags & ReadyToSend::kEagerPack) == ReadyToSend::kEagerPack)
    needed += sizeof(EagerPack);
  else if (has(ReadyToSend::kStrided))
    needed += sizeof(Strides);
  return size >= needed;
}

}  // namespace

size_t header_size(Type type) {
  switch (type) {
    case Type::eager:
      return sizeof(EagerHeader);
    case Type::finish_many:
    case Type::eager_typed:
      return sizeof(Header);
    case Type::eager_sync:
      return sizeof(EagerSync);
    case Type::ready_to_send:
    case Type::region:
      return sizeof(ReadyToSend);
    case Type::clear_to_send:
      return sizeof(ClearToSend);
    case Type::data:
      return sizeof(Data);
    case Type::finish:
    case Type::acknowledge:
    case Type::cancel:
    case Type::cancel_reply:
      return sizeof(Reply);
    case Type::credit:
      return sizeof(Credit);
    case Type::chunk_ready:
    case Type::chunk_done:
      return sizeof(BounceChunk);
    case Type::gdr_check_request:
    case Type::gdr_check_reply:
    case Type::gdr_check_done:
      return sizeof(GdrCheckMessage);
    case Type::copy_offer:
      return sizeof(CopyOffer);
  }
  return SIZE_MAX;
}

bool well_formed(const std::byte* message, size_t size, bool remote) {
  const auto& header = *reinterpret_cast<const Header*>(message);
  const size_t payload = size - header_size(header.type);
  switch (header.type) {
    case Type::eager_sync:
    case Type::eager_typed:
    case Type::data:
      return payload >= header.length;
    case Type::finish_many:
      return header.length <= Finished::kMax && payload >= header.length * sizeof(Finished::senders[0]);
    case Type::ready_to_send: {
      if (size > kMaxControl) return false;
      const auto& rts = *reinterpret_cast<const ReadyToSend*>(message);
      return remote ? well_formed_remote_rts(rts, size) : well_formed_local_rts(rts, size);
    }
    case Type::region:
      return !remote && (header.flags & ReadyToSend::kRegion) != 0 &&
             well_formed_local_rts(*reinterpret_cast<const ReadyToSend*>(message), size);
    case Type::chunk_ready:
      return !remote || holds_rkey(message, size, sizeof(BounceChunk));
    case Type::gdr_check_request:
    case Type::gdr_check_reply:
    case Type::gdr_check_done:
      return remote && reinterpret_cast<const GdrCheckMessage*>(message)->rkey.size <= transport::kMaxRkey;
    case Type::copy_offer:
      return !remote && reinterpret_cast<const CopyOffer*>(message)->slot < transport::shm::kSharedCopies;
    default:
      return true;
  }
}

void drop_malformed() { malformed_messages.add(); }

}  // namespace weft::p2p
