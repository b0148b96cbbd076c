// SPDX-License-Identifier: BSD-3-Clause
// Device memory inside a host. The receiver maps the sender's allocation (CUDA IPC) and copies once over
// NVLink or PCIe; what cannot be mapped goes through pinned chunks: filled by a copy engine on one side, sent
// as fragments or read by the kernel, emptied by a copy engine on the other.
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::Lane;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;
using transport::cuda_ipc::RegionName;

log::SlowPath no_export{"p2p.device_not_exportable", "packed into GPU scratch first, up to 1.4 times slower"};
log::SlowPath no_scratch{"p2p.device_without_scratch",
                         "staged through host memory, 5 to 50 times slower than NVLink"};
log::SlowPath no_mapping{"p2p.device_not_mapped",
                         "staged through host memory, 5 to 50 times slower than NVLink"};
log::SlowPath no_reading{"p2p.device_not_read", "two copies through shared memory, about half the bandwidth"};
log::SlowPath no_chunk{"p2p.staging_exhausted", "fragments wait for one unpinned copy each"};

// Pinned chunks are few: so many staged receives and so many staged sends hold some at a time, each at most
// two. Receives ask (CTS) in the order of their turns and senders stream in the order they were asked, so the
// oldest always moves on.
constexpr uint32_t kStagedReceives = 4;
constexpr size_t kBatch = 64;                          // copies in one submission
constexpr uint64_t kBatchBytes = uint64_t{256} << 20;  // 0.7 ms of NVLink: completions come at least as often
constexpr size_t kPolled = 4;                          // copies looked at in one round, oldest first
constexpr uint32_t kSweepEvery = 512;  // device sends between two sweeps for freed allocations

config::Size setting_submissions(
    "gpu.submissions", 2, 1, 64,
    "Lists of GPU copies under way at a time; what is matched meanwhile goes out "
    "together");

}  // namespace

// What the receiver needs to fetch the message: the allocation it lies in, or else GPU scratch.
size_t Engine::append_region(Transfer& t, uint32_t to, ReadyToSend& rts, std::byte* room) {
  if (exporter().exported() != exported_ || ++sends_since_sweep_ >= kSweepEvery) sweep_exports();
  if (t.memory.kind == device::MemoryKind::cuda_device && t.contiguous) {
    auto size = t.memory.covers(t.address, t.bytes)
                    ? append_export(t.memory, to, rts, room)
                    : Error(Errc::unsupported, "the buffer spans several allocations");
    if (size) return *size;
    no_export.hit(size.error().message());
  }
  if (t.memory.kind == device::MemoryKind::cuda_device && !t.contiguous)
    if (const auto size = append_strides(t, to, rts, room)) return *size;
  auto area = scratch_.area(t.memory);
  auto size = area ? append_export((*area)->memory, to, rts, room) : std::move(area).error();
  if (!size) {
    no_scratch.hit(size.error().message());
    return 0;
  }
  rts.flags |= ReadyToSend::kScratch;
  t.scratch = std::make_unique<ScratchSend>();
  t.scratch->area = *area;
  return *size;
}

Result<size_t> Engine::append_export(const device::Memory& memory, uint32_t to, ReadyToSend& rts,
                                     std::byte* room) {
  auto told = exporter_->export_region(memory, to);
  if (!told) return std::move(told).error();
  const Region& region = *told->region;
  if (told->before) {
    rts.flags |= ReadyToSend::kRegionName;
    const RegionName name{region.base, region.buffer_id, region.epoch};
    std::memcpy(room, &name, sizeof name);
    return sizeof name;
  }
  rts.flags |= ReadyToSend::kRegion;
  std::memcpy(room, &region, sizeof region);
  if (!exporter_->probe_due(memory, to)) return sizeof(Region);
  auto probe = exporter_->probe(memory);
  if (!probe) return sizeof(Region);
  rts.flags |= ReadyToSend::kProbe;
  std::memcpy(room + sizeof(Region), &*probe, sizeof(Probe));
  exporter_->probe_sent(memory, to);
  return sizeof(Region) + sizeof(Probe);
}

void Engine::sweep_exports() {
  sends_since_sweep_ = 0;
  for (const auto& gone : exporter_->sweep_freed()) {
    DropMapping drop{};
    drop.type = Type::drop_mapping;
    drop.epoch = gone.epoch;
    drop.base = gone.base;
    drop.buffer_id = gone.buffer_id;
    post_control(gone.peer, &drop, sizeof drop);
  }
  exported_ = exporter_->exported();
}

void Engine::on_drop(uint32_t source, const DropMapping& drop) {
  if (importer_) importer_->drop(source, drop.epoch, drop.base, drop.buffer_id);
}

// On arrival, matched or not: a later message of this peer, which only names the region, may be matched
// before this one.
void Engine::learn_region(uint32_t source, const ReadyToSend& rts) {
  const auto* at = reinterpret_cast<const std::byte*>(&rts + 1);
  Region region;
  std::memcpy(&region, at, sizeof region);
  importer().learn(source, region);
  if ((rts.flags & ReadyToSend::kProbe) == 0) return;
  Probe probe;
  std::memcpy(&probe, at + sizeof region, sizeof probe);
  importer().learn(source, probe);
}

/// Names the allocation that a ready-to-send offers: told now, or before.
RegionName Engine::name_of(const ReadyToSend& rts) {
  if ((rts.flags & ReadyToSend::kRegionName) != 0) {
    RegionName name;
    std::memcpy(&name, &rts + 1, sizeof name);
    return name;
  }
  Region region;
  std::memcpy(&region, &rts + 1, sizeof region);
  return {region.base, region.buffer_id, region.epoch};
}

/// The sender's allocation; null when it has none to be mapped.
const Region* Engine::region_of(uint32_t source, const ReadyToSend& rts) {
  if ((rts.flags & (ReadyToSend::kRegionName | ReadyToSend::kRegion)) == 0) return nullptr;
  const Region* region = importer().find(source, name_of(rts));
  if (region == nullptr)
    no_mapping.hit("the sender's allocation was dropped before its message was received");
  return region;
}

transport::cuda_ipc::Exporter& Engine::exporter() {
  if (!exporter_) exporter_ = std::make_unique<transport::cuda_ipc::Exporter>();
  return *exporter_;
}

transport::cuda_ipc::Importer& Engine::importer() {
  if (!importer_) importer_ = std::make_unique<transport::cuda_ipc::Importer>();
  return *importer_;
}

/// The local side as the importer wants it: a GPU of this process.
device::Memory Engine::mapping_side(const Transfer& t) {
  device::Memory local = t.memory;
  if (local.kind == device::MemoryKind::host_pinned)
    local.device = device::only_active_device(), local.context = nullptr;
  return local;
}

/// Maps what the sender offers; null: not possible, by name.
transport::cuda_ipc::Mapping* Engine::map_region(const Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const Region* region = region_of(source, rts);
  if (region == nullptr) return nullptr;
  auto mapping = importer().open(source, *region, nullptr, mapping_side(t));
  if (!mapping) {
    no_mapping.hit(mapping.error().message());
    return nullptr;
  }
  if ((*mapping)->memory().device == t.memory.device) device::note_shared(t.memory.device);
  return *mapping;
}

// One copy from the mapped allocation of the sender. False: not possible for this message.
bool Engine::get_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_device");
  if ((rts.flags & ReadyToSend::kScratch) != 0) return get_through_scratch(t, source, rts);
  if (t.memory.kind == device::MemoryKind::host) return false;  // no GPU reaches it: a CPU copies
  if ((rts.flags & ReadyToSend::kStrided) != 0) return get_strided(t, source, rts);
  auto* mapping = map_region(t, source, rts);
  if (mapping == nullptr) return false;
  gets_.push_back({&t, source, rts.sender, mapping, static_cast<std::byte*>(mapping->at(rts.address))});
  if (!collecting_) submit_gets();
  return true;
}

// What is matched while two submissions are under way goes out together, as soon as one of them is done. They
// take turns on two streams, so that the end of one overlaps the start of the next.
void Engine::submit_gets() {
  const bool was_collecting = std::exchange(collecting_, true);  // a failure may complete, and match, others
  round_.swap(gets_);
  size_t first = 0;
  while (first < round_.size() && copies_.size() < setting_submissions) {
    const Get& lead = round_[first];
    uint64_t bytes = lead.receiver->expected;
    const auto joins = [&](const Get& get) {
      return get.mapping->memory().context == lead.mapping->memory().context &&
             get.receiver->memory.kind == lead.receiver->memory.kind &&
             get.receiver->memory.context == lead.receiver->memory.context && get.receiver->contiguous &&
             lead.receiver->contiguous && bytes + get.receiver->expected <= kBatchBytes;
    };
    size_t count = 1;
    for (; first + count < round_.size() && count < kBatch && joins(round_[first + count]); ++count)
      bytes += round_[first + count].receiver->expected;
    odd_copy_ = !copies_.empty() && !odd_copy_;
    const Lane lane = odd_copy_ ? Lane::aux : Lane::in;
    if (count == 1)
      submit_get(lead, lane);
    else
      submit_batch(&lead, count, lane);
    first += count;
  }
  gets_.insert(gets_.begin(), round_.begin() + static_cast<ptrdiff_t>(first), round_.end());
  round_.clear();
  collecting_ = was_collecting;
}

void Engine::submit_get(const Get& get, Lane lane) {
  const trace::Range range("p2p.submit_get");
  const View from{get.from, nullptr, 0, get.mapping->memory()};
  auto ticket = submit(view_of(*get.receiver), from, get.receiver->expected, lane);
  if (!ticket) return finish_get(get, std::move(ticket).error());
  copies_.push_back({std::move(*ticket), get, {}});
}

void Engine::submit_batch(const Get* gets, size_t count, Lane lane) {
  const trace::Range range("p2p.submit_batch");
  device::Piece pieces[kBatch] = {};
  for (size_t i = 0; i < count; ++i)
    pieces[i] = {gets[i].receiver->address, gets[i].from, gets[i].receiver->expected};
  auto ticket =
      device::copy_pieces_async(pieces, count, gets[0].receiver->memory, gets[0].mapping->memory(), lane);
  if (!ticket) {  // what the driver refuses as a list it may take one by one
    for (size_t i = 0; i < count; ++i) submit_get(gets[i], lane);
    return;
  }
  copies_.push_back({std::move(*ticket), gets[0], {gets + 1, gets + count}});
}

// The peer's host memory, read by the kernel into pinned chunks and copied up from there, two in turn.
bool Engine::get_host_to_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_host_to_device");
  transport::Transport& transport = *peers_[source].transport;
  t.staging = std::make_unique<Staging>();
  if (!lease(t, 0)) return false;
  const bool two = rts.bytes > t.staging->chunks[0].pinned.size() && lease(t, 1);
  device::Ticket last;
  for (uint64_t offset = 0, step = 0; offset < rts.bytes; ++step) {
    Staging::Chunk& chunk = t.staging->chunks[two ? step & 1 : 0];
    const size_t n = std::min<uint64_t>(chunk.pinned.size(), rts.bytes - offset);
    const transport::Piece local{reinterpret_cast<uint64_t>(chunk.pinned.data()), n};
    const transport::Piece remote{rts.address + offset, n};
    Status moved = chunk.ticket.pending() ? device::wait(chunk.ticket) : Status{};
    if (moved) moved = transport.get(source, {&local, 1}, {&remote, 1});
    if (moved) moved = upload(t, chunk, offset, n);
    if (!moved) {
      if (offset == 0) return false;
      finish_sender(source, rts.sender);
      complete(t, std::move(moved).error());
      return true;
    }
    offset += n;
    if (offset == rts.bytes) last = std::move(chunk.ticket);
  }
  finish_sender(source, rts.sender);
  follow(t, std::move(last));
  return true;
}

bool Engine::lease(Transfer& t, int chunk) {
  auto& pinned = t.staging->chunks[chunk].pinned;
  if (pinned) return true;
  auto leased = device::lease_pinned(t.memory);
  if (!leased) {
    if (leased.error().code() != Errc::again) t.outcome = std::move(leased).error();
    return false;
  }
  pinned = std::move(*leased);
  return true;
}

// From a pinned chunk to bytes [offset, offset + n) of the receiver's message.
Status Engine::upload(Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n) {
  const View from{reinterpret_cast<std::byte*>(chunk.pinned.data()), nullptr, 0, chunk.pinned.memory()};
  auto ticket = submit_part(view_of(t), offset, from, n, Lane::in);
  if (!ticket) return std::move(ticket).error();
  chunk.ticket = std::move(*ticket);
  return {};
}

Status Engine::pack_out(const Transfer& t, std::byte* to) {
  if (t.bytes == 0) return {};
  if (!device_side(t)) return t.pack(0, to, t.bytes), Status{};
  auto ticket = submit_part_out({to, nullptr, 0, {}}, view_of(t), 0, t.bytes, Lane::out);
  if (!ticket) return std::move(ticket).error();
  return device::wait(*ticket);
}

void Engine::follow(Transfer& t, device::Ticket ticket) { copies_.push_back({std::move(ticket), {&t}, {}}); }

// An eager message into device memory. Its bytes are valid during this call only.
void Engine::device_eager(Transfer& t, const std::byte* payload, size_t size) {
  const trace::Range range("p2p.upload_eager");
  if (size == 0) return complete(t);
  t.staging = std::make_unique<Staging>();
  if (lease(t, 0) && t.staging->chunks[0].pinned.size() >= size) {
    Staging::Chunk& chunk = t.staging->chunks[0];
    std::memcpy(chunk.pinned.data(), payload, size);
    if (auto sent = upload(t, chunk, 0, size); !sent) return complete(t, std::move(sent).error());
    return follow(t, std::move(chunk.ticket));
  }
  const View from{const_cast<std::byte*>(payload), nullptr, 0, {}};
  auto ticket = submit_part(view_of(t), 0, from, size, Lane::in);
  if (!ticket) return complete(t, std::move(ticket).error());
  if (auto copied = device::wait(*ticket); !copied) return complete(t, std::move(copied).error());
  complete(t);
}

void Engine::device_self(Transfer& t, Transfer& sender) {
  if (sender.bytes == 0) {
    complete(sender);
    return complete(t);
  }
  auto ticket = submit(view_of(t), view_of(sender), sender.bytes, Lane::local);
  const Get get{&t, instance.self, reinterpret_cast<uint64_t>(&sender)};
  if (!ticket) return finish_get(get, std::move(ticket).error());
  copies_.push_back({std::move(*ticket), get, {}});
}

// Sender's side: fills one chunk while the other goes out as fragments.
bool Engine::stream_device(Transfer& t) {
  Staging& staging = *t.staging;
  if (!t.outcome || t.moved == t.bytes) {  // it failed, or the receiver has everything
    if (!staging.any_offered()) t.state = Transfer::State::done;
    return !staging.any_offered();
  }
  const auto fail = [&](Error error) {
    abort_stream(t, std::move(error));
    if (staging.any_offered()) t.state = Transfer::State::streaming;  // they come back
    return true;
  };
  for (unsigned k = 0; k < 2 && staging.next < t.bytes; ++k) {
    Staging::Chunk& chunk = staging.chunks[staging.turn ^ k];
    if (chunk.size != 0) continue;
    if (!lease(t, static_cast<int>(staging.turn ^ k))) {
      if (!t.outcome) return fail(std::move(t.outcome).error());
      break;
    }
    const size_t n = std::min<uint64_t>(chunk.pinned.size(), t.bytes - staging.next);
    const View to{reinterpret_cast<std::byte*>(chunk.pinned.data()), nullptr, 0, chunk.pinned.memory()};
    auto ticket = submit_part_out(to, view_of(t), staging.next, n, Lane::out);
    if (!ticket) return fail(std::move(ticket).error());
    chunk.ticket = std::move(*ticket);
    chunk.offset = staging.next;
    chunk.size = n;
    chunk.sent = 0;
    staging.next += n;
  }
  if (staging.chunks[staging.turn].size == 0 && staging.chunks[staging.turn ^ 1].size != 0) staging.turn ^= 1;
  Staging::Chunk& chunk = staging.chunks[staging.turn];
  if (chunk.size == 0) return stream_unpinned(t);
  if (chunk.offered) return false;
  if (chunk.ticket.pending()) {
    auto ready = device::done(chunk.ticket);
    if (!ready) return fail(std::move(ready).error());
    if (!*ready) return false;
  }
  if (staging.offers) return offer(t, staging.turn);
  bool moved = false;
  while (chunk.sent < chunk.size) {
    const size_t n = send_fragment(t, chunk.offset + chunk.sent, chunk.size - chunk.sent,
                                   [&](std::byte* room, size_t size) {
                                     std::memcpy(room, chunk.pinned.data() + chunk.sent, size);
                                     return Status{};
                                   });
    if (n == 0) return moved;
    chunk.sent += n;
    moved = true;
  }
  t.moved += chunk.size;
  chunk.size = 0;
  staging.turn ^= 1;
  if (t.moved == t.bytes) t.state = Transfer::State::done;
  return true;
}

// The receiver reads the chunk where it lies, while the other one is filled.
bool Engine::offer(Transfer& t, unsigned number) {
  Staging::Chunk& chunk = t.staging->chunks[number];
  chunk.offered = true;
  t.staging->turn ^= 1;
  ScratchChunk message{};
  message.type = Type::scratch_ready;
  message.flags = ScratchChunk::kPinned;
  message.sender = reinterpret_cast<uint64_t>(&t);
  message.receiver = t.remote;
  message.offset = chunk.offset;
  message.address = reinterpret_cast<uint64_t>(chunk.pinned.data());
  message.size = chunk.size;
  message.number = number;
  post_control(t.peer, &message, sizeof message);
  return true;
}

// Receiver: what cannot be read comes as fragments, and so does the rest.
void Engine::read_offer(Transfer& t, uint32_t source, const ScratchChunk& chunk) {
  ScratchChunk reply = chunk;
  reply.type = Type::scratch_done;
  if (auto read = get_part(t, source, chunk.address, chunk.offset, chunk.size); !read) {
    no_reading.hit(read.error().message());
    reply.flags |= ScratchChunk::kFailed;
    return post_control(source, &reply, sizeof reply);
  }
  post_control(source, &reply, sizeof reply);
  t.moved += chunk.size;
  if (t.moved == t.expected) complete(t);
}

// Sender: a chunk was read, or will go as fragments.
void Engine::on_offer_done(Transfer& t, const ScratchChunk& chunk) {
  Staging::Chunk& offered = t.staging->chunks[chunk.number];
  offered.offered = false;
  if ((chunk.flags & ScratchChunk::kFailed) != 0) {
    t.staging->offers = false;
    return;
  }
  t.moved += offered.size;
  offered.size = 0;
}

// No pinned chunk is to be had: one fragment at a time, waiting for each copy, so that the transfer moves on.
bool Engine::stream_unpinned(Transfer& t) {
  no_chunk.hit("all pinned chunks are in use: raise WEFT_GPU_STAGING_BYTES");
  Staging& staging = *t.staging;
  const size_t n = send_fragment(t, staging.next, t.bytes - staging.next, [&](std::byte* room, size_t size) {
    auto ticket = submit_part_out({room, nullptr, 0, {}}, view_of(t), staging.next, size, Lane::out);
    return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
  });
  staging.next += n;
  t.moved += n;
  if ((t.moved == t.bytes || !t.outcome) && !staging.any_offered()) t.state = Transfer::State::done;
  return n != 0;
}

// Receiver's side of fragments into device memory.
void Engine::device_data(Transfer& t, uint64_t offset, const std::byte* payload, size_t size) {
  Staging& staging = *t.staging;
  while (size != 0) {
    Staging::Chunk& chunk = staging.chunks[staging.turn];
    if (chunk.ticket.pending())
      if (auto waited = device::wait(chunk.ticket); !waited && t.outcome)
        t.outcome = std::move(waited).error();
    if (chunk.size == 0) chunk.offset = offset;
    const size_t n = std::min(size, chunk.pinned.size() - chunk.size);
    std::memcpy(chunk.pinned.data() + chunk.size, payload, n);
    chunk.size += n;
    offset += n;
    payload += n;
    size -= n;
    t.moved += n;
    const bool last = t.moved == t.expected;
    if (chunk.size < chunk.pinned.size() && !last) continue;
    if (auto sent = upload(t, chunk, chunk.offset, chunk.size); !sent && t.outcome)
      t.outcome = std::move(sent).error();
    chunk.size = 0;
    if (last) {
      --staged_receives_;
      return follow(t, std::move(chunk.ticket));
    }
    if (lease(t, static_cast<int>(staging.turn ^ 1))) staging.turn ^= 1;
  }
}

bool Engine::poll_starved() {
  bool moved = false;
  for (size_t i = 0; i < starved_.size();) {
    if (staged_receives_ == kStagedReceives) break;
    const Starved waiting = starved_[i];
    if (!lease(*waiting.receiver, 0)) {
      if (waiting.receiver->outcome) {
        ++i;
        continue;
      }
      finish_sender(waiting.source, waiting.sender);
      complete(*waiting.receiver);  // outcome holds the error
    } else {
      ++staged_receives_;
      clear_to_send(*waiting.receiver, waiting.source, waiting.sender);
    }
    starved_.erase(starved_.begin() + static_cast<ptrdiff_t>(i));
    moved = true;
  }
  return moved;
}

bool Engine::poll_device() {
  bool moved = false;
  for (size_t i = 0; i < copies_.size() && i < kPolled;) {
    Status outcome;
    if (copies_[i].ticket.pending()) {
      auto ready = device::done(copies_[i].ticket);
      if (ready && !*ready) {
        ++i;
        continue;
      }
      if (!ready) outcome = std::move(ready).error();
    }
    DeviceCopy copy = std::move(copies_[i]);
    copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(i));
    finish_copy(copy, std::move(outcome));
    moved = true;
  }
  return moved;
}

void Engine::finish_get(const Get& get, Status outcome) {
  const trace::Range range("p2p.finish_get");
  if (get.sender != 0) finish_sender(get.source, get.sender);
  finish_receiver(get, std::move(outcome));
}

void Engine::finish_receiver(const Get& get, Status outcome) {
  if (get.mapping != nullptr) importer_->release(get.mapping);
  if (!outcome) get.receiver->outcome = std::move(outcome);
  complete(*get.receiver);
}

// The senders of a batch are told first: they are waiting.
void Engine::finish_copy(DeviceCopy& copy, Status outcome) {
  if (copy.more.empty()) return finish_get(copy.get, std::move(outcome));
  finish_senders(copy);
  for (const Get& get : copy.more)
    finish_receiver(get,
                    outcome ? Status{} : Status(Error(outcome.error().code(), outcome.error().message())));
  finish_receiver(copy.get, std::move(outcome));
}

// One message for all of a peer's in a row.
void Engine::finish_senders(const DeviceCopy& copy) {
  Finished message;
  static_cast<Header&>(message) = Header{Type::finish_many};
  uint32_t to = copy.get.source;
  const auto flush = [&] {
    if (message.length == 1)
      finish_sender(to, message.senders[0]);
    else if (message.length > 1)
      post_control(to, &message, sizeof(Header) + message.length * sizeof message.senders[0]);
    message.length = 0;
  };
  const auto add = [&](const Get& get) {
    if (get.source != to || message.length == Finished::kMax) flush();
    to = get.source;
    message.senders[message.length++] = get.sender;
  };
  add(copy.get);
  for (const Get& get : copy.more) add(get);
  flush();
}

void Engine::close_device() {
  if (importer_) importer_->close();
  if (exporter_) exporter_->close();
  scratch_.close();
  importer_.reset();
  exporter_.reset();
}

}  // namespace weft::p2p
