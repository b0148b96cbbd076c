// SPDX-License-Identifier: BSD-3-Clause
#include "stream/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/scope.hpp"
#include "coll/circle.hpp"
#include "device/copy.hpp"
#include "device/info.hpp"
#include "device/ipc.hpp"

namespace weft::stream {

using device::kernel::enqueue::Area;
using device::kernel::enqueue::kFirstNumber;
using device::kernel::enqueue::Peer;

/// What a rank tells the others about its area; `reason` is empty when it has one.
struct Mailbox::Card {
  device::IpcHandle handle;
  device::Uuid device;
  uint64_t mark;  ///< the area's content begins with it
  char reason[200];
};

namespace {

config::Size collective_area{
    "stream.collective_area", 8 << 20, 2 << 20, size_t{1} << 30,
    "bytes of GPU memory of a communicator with a GPU stream for the large messages of "
    "enqueued collectives; 7 MiB more are for the small ones"};

const config::Scopes of_host{config::Scope::host, {"stream.collective_area"}};

/// A rank's opinion after it has tried.
struct Verdict {
  char reason[240];
};

template <size_t n>
void write_reason(char (&reason)[n], const Status& status) {
  std::memset(reason, 0, n);
  if (!status.ok()) std::strncpy(reason, status.error().message().c_str(), n - 1);
}

template <class Record>
Status first_reason(const std::vector<Record>& records) {
  for (size_t rank = 0; rank < records.size(); ++rank)
    if (records[rank].reason[0] != '\0')
      return Error(Errc::unsupported, "rank " + std::to_string(rank) +
                                          " cannot enqueue on this communicator: " + records[rank].reason);
  return {};
}

template <class Record>
Result<std::vector<Record>> gather(core::Communicator& comm, const Record& mine) {
  std::vector<Record> records(static_cast<size_t>(comm.size()));
  records[static_cast<size_t>(comm.rank())] = mine;
  WEFT_TRY(coll::Circle(comm, comm.next_collective_tag()).gather_all(records.data(), sizeof(Record)));
  return records;
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Result<std::unique_ptr<Mailbox>> Mailbox::create(core::Communicator& comm, const device::UserStream& stream) {
  std::unique_ptr<Mailbox> mailbox(new Mailbox(static_cast<uint32_t>(comm.size()), stream));
  Card mine{};
  Status made = mailbox->allocate(comm);
  if (made.ok()) made = mailbox->describe(mine);
  mine.mark = uint64_t{mailbox->ranks_} << 32 | static_cast<uint32_t>(comm.rank());
  write_reason(mine.reason, made);
  auto cards = gather(comm, mine);
  if (!cards) return std::move(cards).error();
  if (Status all = first_reason(*cards); !all.ok()) {
    mailbox->release();  // nobody has mapped it
    return std::move(all).error();
  }

  Status mapped;
  for (uint32_t peer = 0; peer < mailbox->ranks_ && mapped.ok(); ++peer)
    if (peer != static_cast<uint32_t>(comm.rank())) mapped = mailbox->map(peer, (*cards)[peer]);
  if (mapped.ok()) mapped = mailbox->tell_kernels();
  Verdict verdict{};
  write_reason(verdict.reason, mapped);
  auto verdicts = gather(comm, verdict);
  if (!verdicts) return std::move(verdicts).error();
  if (Status all = first_reason(*verdicts); !all.ok()) {
    WEFT_TRY(mailbox->close(comm));
    return std::move(all).error();
  }
  return mailbox;
}

Mailbox::~Mailbox() {
  unmap();
  device::free_pinned(stream_, fault_);
}

uint64_t Mailbox::room_for_pieces() { return collective_area; }

/// Messages, then collectives.
uint64_t Mailbox::bytes() const {
  const uint64_t messages = Area::bytes(ranks_);
  return has_collectives() ? messages + kControl + device::kernel::Area::kCleared + collective_area
                           : messages;
}

uint64_t Mailbox::control_of(int peer) const {
  return (peer == self_ ? area() : area_of(peer)) + Area::bytes(ranks_);
}

Status Mailbox::clear(uint64_t first, uint64_t n) const {
  const std::vector<std::byte> zeros(std::min<uint64_t>(n, 256 << 10));
  for (uint64_t at = 0; at < n; at += zeros.size())
    WEFT_TRY(device::copy(pointer(area_.base + first + at), area_, zeros.data(), {},
                          std::min<uint64_t>(zeros.size(), n - at)));
  return {};
}

/// The area, its control words zero.
Status Mailbox::allocate(core::Communicator& comm) {
  auto fault = device::allocate_pinned(stream_, sizeof *fault_);
  if (!fault) return std::move(fault).error();
  fault_ = static_cast<device::kernel::enqueue::Fault*>(*fault);
  auto area = device::allocate_scratch(stream_.near(), bytes());
  if (!area) return std::move(area).error();
  area_ = *area;
  self_ = comm.rank();
  WEFT_TRY(clear(0, Area::control_bytes(ranks_)));
  if (has_collectives()) {
    WEFT_TRY(clear(Area::bytes(ranks_), kControl + device::kernel::Area::kCleared));
    WEFT_TRY(device::adopt_for_collectives(stream_));
  }
  const uint32_t head[2] = {static_cast<uint32_t>(comm.rank()), ranks_};
  static_assert(offsetof(Area, rank) == 0 && offsetof(Area, ranks) == 4);
  return device::copy(pointer(area_.base), area_, head, {}, sizeof head);
}

Status Mailbox::describe(Card& card) const {
  auto handle = device::export_ipc(area_);
  if (!handle) return std::move(handle).error();
  auto uuid = device::uuid_of(stream_.device);
  if (!uuid) return std::move(uuid).error();
  card.handle = *handle;
  card.device = *uuid;
  return {};
}

/// Maps a peer's area and proves the path: what the copy engine reads there is what the peer wrote.
Status Mailbox::map(uint32_t peer, const Card& card) {
  auto device = device::find_device(card.device);
  if (!device) return std::move(device).error();
  auto access = device::can_access_peer(stream_.device, *device);
  if (!access) return std::move(access).error();
  if (!*access)
    return Error(Errc::unsupported,
                 "its GPU has no access to the memory of rank " + std::to_string(peer) + "'s GPU");
  auto mapped = device::open_ipc(card.handle, bytes(), *device, stream_.near());
  if (!mapped) return Error(Errc::unsupported, mapped.error().message());
  peers_[peer] = *mapped;
  uint64_t mark = 0;
  WEFT_TRY(device::copy(&mark, {}, pointer(mapped->base), *mapped, sizeof mark));
  if (mark == card.mark) return {};
  return Error(Errc::unsupported, "it reads wrong data in the GPU memory of rank " + std::to_string(peer));
}

/// With which numbers messages begin.
Status Mailbox::tell_kernels() {
  std::vector<Peer> peers(ranks_);
  for (Peer& peer : peers) peer.next_send = peer.next_receive = kFirstNumber;
  return device::copy(pointer(area_.base + Area::peer(0)), area_, peers.data(), {},
                      peers.size() * sizeof(Peer));
}

uint64_t Mailbox::own_room(uint32_t rank) const {
  return area_.base + Area::inbox(ranks_, rank) + offsetof(device::kernel::enqueue::Inbox, payload);
}

void Mailbox::unmap() {
  for (device::Memory& peer : peers_) {
    if (peer.base == 0) continue;
    if (const Status closed = device::close_ipc(peer); !closed.ok())
      log::write(log::Level::warn, "%s", closed.error().message().c_str());
    peer.base = 0;
  }
}

Status Mailbox::close(core::Communicator& comm) {
  const uint32_t nothing = 0;
  auto idle = gather(comm, nothing);  // no kernel writes to a peer any more
  unmap();
  auto unmapped = gather(comm, nothing);
  if (!idle) return std::move(idle).error();
  if (!unmapped) return std::move(unmapped).error();
  release();
  return {};
}

void Mailbox::release() {
  if (area_.base != 0) device::free_scratch(area_);
  area_.base = 0;
}

}  // namespace weft::stream
