// SPDX-License-Identifier: BSD-3-Clause
#include "stream/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/cold.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/scope.hpp"
#include "coll/bootstrap/group.hpp"
#include "device/copy.hpp"
#include "device/ipc.hpp"
#include "device/kernel/enqueue_protocol.hpp"
#include "device/pool.hpp"
#include "stream/cancel.hpp"
#include "stream/retired_regions.hpp"
#include "stream/streams.hpp"

namespace weft::stream {

using device::kernel::enqueue::kFirstInPair;
using device::kernel::enqueue::kFirstNumber;
using device::kernel::enqueue::MailboxRegion;
using device::kernel::enqueue::Peer;

/// Published by each rank about its region; `reason` is empty on success.
struct Mailbox::Descriptor {
  device::IpcHandle handle;
  coll::gpu::RankGpu gpu;
  uint64_t mark;  ///< first word of the region
  char reason[200];
};

namespace {

config::Size collective_region_setting{
    "stream.collective_region_bytes", 32 << 20, 2 << 20, size_t{1} << 30,
    "Bytes for the Simple protocol of enqueued collectives in the GPU memory of a communicator with a GPU "
    "stream; the LL part takes 7 MiB more. Larger regions allow larger chunks."};

const config::Scopes of_host{config::Scope::host, {"stream.collective_region_bytes"}};

/// Outcome of mapping the regions on one rank.
struct Outcome {
  char reason[480];
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
  WEFT_TRY(coll::BootstrapGroup(comm, comm.next_collective_tag()).allgather(records.data(), sizeof(Record)));
  return records;
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Result<std::unique_ptr<Mailbox>> Mailbox::create(core::Communicator& comm, const device::UserStream& stream,
                                                 bool own_gpus) {
  std::unique_ptr<Mailbox> mailbox(new Mailbox(comm, stream));
  Descriptor mine{};
  Status made = mailbox->allocate(comm);
  if (made.ok()) made = mailbox->describe(mine);
  mine.mark = uint64_t{mailbox->ranks_} << 32 | static_cast<uint32_t>(comm.rank());
  write_reason(mine.reason, made);
  auto descriptors = gather(comm, mine);
  if (!descriptors) {  // no kernel writes to the region before this rank has given its outcome
    mailbox->release();
    return std::move(descriptors).error();
  }
  if (Status all = first_reason(*descriptors); !all.ok()) {
    mailbox->release();  // no peer has mapped it
    return std::move(all).error();
  }

  Status mapped;
  for (uint32_t peer = 0; peer < mailbox->ranks_ && mapped.ok(); ++peer)
    if (peer != static_cast<uint32_t>(comm.rank())) mapped = mailbox->map(peer, (*descriptors)[peer]);
  if (mapped.ok()) mapped = mailbox->initialize_counters();
  std::vector<coll::gpu::RankGpu> gpus;
  for (const Descriptor& descriptor : *descriptors) gpus.push_back(descriptor.gpu);
  mailbox->max_blocks_ = coll::gpu::record_sharing(gpus, comm.rank(), stream.device);
  if (own_gpus && mapped.ok()) mapped = coll::gpu::check_sharing(gpus);
  Outcome outcome{};
  write_reason(outcome.reason, mapped);
  auto outcomes = gather(comm, outcome);
  if (!outcomes) {
    mailbox->close_alone(comm);
    return std::move(outcomes).error();
  }
  if (Status all = first_reason(*outcomes); !all.ok()) {
    WEFT_TRY(mailbox->close(comm));
    return std::move(all).error();
  }
  return mailbox;
}

Mailbox::Mailbox(const core::Communicator& comm, const device::UserStream& stream)
    : instance_(comm.instance),
      context_(comm.id),
      ranks_(static_cast<uint32_t>(comm.size())),
      stream_(stream),
      peers_(ranks_) {
  retired().free_unmapped();
  retired().begin_mapping(context_);
}

RetiredRegions& Mailbox::retired() const {
  auto& regions = Streams::of(instance_).retired;
  if (regions == nullptr) regions = std::make_unique<RetiredRegions>(instance_);
  return *regions;
}

Mailbox::~Mailbox() {
  if (fault_ != nullptr) forget_cancel_word(instance_, fault_->cancelled);
  unmap();
  device::free_pinned(stream_, fault_);
}

const uint32_t* Mailbox::beats() const {
  static_assert(offsetof(device::kernel::enqueue::Reports, fault) == 0);
  return reinterpret_cast<const device::kernel::enqueue::Reports*>(fault_)->beats;
}

uint64_t* Mailbox::collective_beat() const {
  return has_collectives() ? &reinterpret_cast<device::kernel::enqueue::Reports*>(fault_)->collective_beat
                           : nullptr;
}

uint32_t* Mailbox::status_of(uint32_t state) const {
  return reinterpret_cast<device::kernel::enqueue::Reports*>(fault_)->statuses[state];
}

Result<bool> Mailbox::has_begun(uint32_t state) const {
  const auto* const states =
      reinterpret_cast<const std::byte*>(region_.base + offsetof(MailboxRegion, states));
  device::kernel::enqueue::State found{};
  WEFT_TRY(device::copy(&found, {}, states + state * sizeof found, region_, sizeof found));
  return found.phase != device::kernel::enqueue::State::fresh;
}

uint64_t Mailbox::simple_capacity() { return collective_region_setting; }

/// Size of the region: messages, then collectives.
uint64_t Mailbox::bytes() const {
  const uint64_t messages = MailboxRegion::bytes(ranks_);
  return has_collectives()
             ? messages + kControl + device::kernel::RegionLayout::kClearedBytes + collective_region_setting
             : messages;
}

uint64_t Mailbox::control_of(int peer) const {
  return (peer == self_ ? region() : region_of(peer)) + MailboxRegion::bytes(ranks_);
}

Status Mailbox::clear(uint64_t first, uint64_t n) const {
  const std::vector<std::byte> zeros(std::min<uint64_t>(n, 256 << 10));
  for (uint64_t at = 0; at < n; at += zeros.size())
    WEFT_TRY(device::copy(pointer(region_.base + first + at), region_, zeros.data(), {},
                          std::min<uint64_t>(zeros.size(), n - at)));
  return {};
}

/// Allocates the region and zeroes its control words.
Status Mailbox::allocate(core::Communicator& comm) {
  auto fault = device::allocate_pinned(stream_, sizeof(device::kernel::enqueue::Reports));
  if (!fault) return std::move(fault).error();
  fault_ = static_cast<device::kernel::enqueue::Fault*>(*fault);
  cancel_on_failure(comm, fault_->cancelled);
  auto region = device::allocate_scratch(stream_.near(), bytes());
  if (!region) return std::move(region).error();
  region_ = *region;
  self_ = comm.rank();
  WEFT_TRY(clear(0, MailboxRegion::control_bytes(ranks_)));
  if (has_collectives()) {
    WEFT_TRY(clear(MailboxRegion::bytes(ranks_), kControl + device::kernel::RegionLayout::kClearedBytes));
    WEFT_TRY(device::adopt_for_collectives(stream_));
  }
  const uint32_t head[2] = {static_cast<uint32_t>(comm.rank()), ranks_};
  static_assert(offsetof(MailboxRegion, rank) == 0 && offsetof(MailboxRegion, ranks) == 4);
  return device::copy(pointer(region_.base), region_, head, {}, sizeof head);
}

Status Mailbox::describe(Descriptor& descriptor) const {
  auto handle = device::export_ipc(region_);
  if (!handle) return std::move(handle).error();
  auto gpu = coll::gpu::RankGpu::of(stream_.device);
  if (!gpu) return std::move(gpu).error();
  descriptor.handle = *handle;
  descriptor.gpu = *gpu;
  return {};
}

/// Maps a peer's region and verifies the path: the copy engine must read what the peer wrote.
Status Mailbox::map(uint32_t peer, const Descriptor& descriptor) {
  auto mapped = [&] {
    const cold::Timer timer(cold::Part::mappings);
    return device::open_ipc(descriptor.handle, bytes(), descriptor.gpu.id, stream_.near());
  }();
  if (!mapped) return Error(Errc::unsupported, mapped.error().message());
  peers_[peer] = *mapped;
  uint64_t mark = 0;
  WEFT_TRY(device::copy(&mark, {}, pointer(mapped->base), *mapped, sizeof mark));
  if (mark == descriptor.mark) return {};
  return Error(Errc::unsupported, "it reads wrong data in the GPU memory of rank " + std::to_string(peer));
}

/// Initialises the message numbers.
Status Mailbox::initialize_counters() {
  std::vector<Peer> peers(ranks_);
  for (Peer& peer : peers) {
    peer.next_send = peer.next_receive = kFirstNumber;
    peer.next_in_pair = kFirstInPair;
  }
  return device::copy(pointer(region_.base + MailboxRegion::peer(0)), region_, peers.data(), {},
                      peers.size() * sizeof(Peer));
}

uint64_t Mailbox::self_buffer(uint32_t rank) const {
  return region_.base + MailboxRegion::channel(ranks_, rank) +
         offsetof(device::kernel::enqueue::PeerChannel, payload);
}

void Mailbox::unmap() {
  for (device::Memory& peer : peers_) {
    if (peer.base == 0) continue;
    if (const Status closed = device::close_ipc(peer); !closed.ok())
      log::write(log::Level::warn, "%s", closed.error().message().c_str());
    peer.base = 0;
  }
  retired().end_mapping(context_);
}

void Mailbox::close_alone(const core::Communicator& comm) {
  unmap();
  if (region_.base != 0) retired().retire(comm, region_);
  region_.base = 0;
}

Status Mailbox::close(core::Communicator& comm) {
  const uint32_t nothing = 0;
  auto idle = gather(comm, nothing);  // no kernel writes to a peer any more
  unmap();
  auto unmapped = gather(comm, nothing);
  if (!idle || !unmapped) {
    close_alone(comm);
    return std::move(!idle ? idle : unmapped).error();
  }
  release();
  retired().free_unmapped();
  return {};
}

void Mailbox::release() {
  if (region_.base != 0) device::free_scratch(region_);
  region_.base = 0;
}

}  // namespace weft::stream
