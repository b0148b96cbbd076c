// SPDX-License-Identifier: BSD-3-Clause
// Device memory inside a host. The receiver maps the sender's allocation (CUDA IPC) and copies once over
// NVLink or PCIe; what cannot be mapped goes through pinned chunks: filled by a copy engine on one side, sent
// as fragments or read by the kernel, emptied by a copy engine on the other.
#include <cstring>
#include <vector>

#include "base/log.hpp"
#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::Lane;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;

log::SlowPath no_export{"p2p.device_not_exportable",
                        "staged through host memory, 5 to 50 times slower than NVLink"};
log::SlowPath no_mapping{"p2p.device_not_mapped",
                         "staged through host memory, 5 to 50 times slower than NVLink"};
log::SlowPath no_chunk{"p2p.staging_exhausted", "fragments wait for one unpinned copy each"};

// Pinned chunks are few: so many staged receives and so many staged sends hold some at a time, each at most
// two. Receives ask (CTS) in the order of their turns and senders stream in the order they were asked, so the
// oldest always moves on.
constexpr uint32_t kStagedReceives = 4;
constexpr size_t kPolled = 4;          // copies looked at in one round, oldest first
constexpr uint32_t kSweepEvery = 512;  // device sends between two sweeps for freed allocations

}  // namespace

size_t Engine::append_region(const Transfer& t, uint32_t to, ReadyToSend& rts, std::byte* room) {
  if (t.memory.kind != device::MemoryKind::cuda_device || !t.contiguous) return 0;
  if (!exporter_) exporter_ = std::make_unique<transport::cuda_ipc::Exporter>();
  const size_t before = exporter_->exported();
  Result<Region> region = t.memory.covers(t.address, t.bytes)
                              ? exporter_->export_region(t.memory, to)
                              : Error(Errc::unsupported, "the buffer spans several allocations");
  if (exporter_->exported() != before || ++sends_since_sweep_ >= kSweepEvery) sweep_exports();
  if (!region) {
    no_export.hit(region.error().message());
    return 0;
  }
  rts.flags |= ReadyToSend::kRegion;
  std::memcpy(room, &*region, sizeof(Region));
  if (!exporter_->probe_due(t.memory, to)) return sizeof(Region);
  auto probe = exporter_->probe(t.memory);
  if (!probe) return sizeof(Region);
  rts.flags |= ReadyToSend::kProbe;
  std::memcpy(room + sizeof(Region), &*probe, sizeof(Probe));
  exporter_->probe_sent(t.memory, to);
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
}

void Engine::on_drop(uint32_t source, const DropMapping& drop) {
  if (importer_) importer_->drop(source, drop.epoch, drop.base, drop.buffer_id);
}

// One copy from the mapped allocation of the sender. False: not possible for this message.
bool Engine::get_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  if ((rts.flags & ReadyToSend::kRegion) == 0) return false;
  if (!importer_) importer_ = std::make_unique<transport::cuda_ipc::Importer>();
  Region region;
  Probe probe;
  std::memcpy(&region, &rts + 1, sizeof region);
  const bool with_probe = (rts.flags & ReadyToSend::kProbe) != 0;
  if (with_probe)
    std::memcpy(&probe, reinterpret_cast<const std::byte*>(&rts + 1) + sizeof region, sizeof probe);
  auto mapping = importer_->open(source, region, with_probe ? &probe : nullptr, t.memory);
  if (!mapping) {
    no_mapping.hit(mapping.error().message());
    return false;
  }
  const View from{static_cast<std::byte*>((*mapping)->at(rts.address)), nullptr, 0, (*mapping)->memory()};
  // Behind another copy: the other of two streams, so that the end of one overlaps the start of the next.
  odd_copy_ = !copies_.empty() && !odd_copy_;
  auto ticket = submit(view_of(t), from, rts.bytes, odd_copy_ ? Lane::aux : Lane::in);
  DeviceCopy copy{};
  copy.receiver = &t;
  copy.source = source;
  copy.sender = rts.sender;
  copy.mapping = *mapping;
  if (!ticket) {
    finish_copy(copy, std::move(ticket).error());
    return true;
  }
  copy.ticket = std::move(*ticket);
  copies_.push_back(std::move(copy));
  return true;
}

// The peer's host memory, read by the kernel into pinned chunks and copied up from there, two in turn.
bool Engine::get_host_to_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
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

void Engine::follow(Transfer& t, device::Ticket ticket) {
  DeviceCopy copy{};
  copy.receiver = &t;
  copy.ticket = std::move(ticket);
  copies_.push_back(std::move(copy));
}

// An eager message into device memory. Its bytes are valid during this call only.
void Engine::device_eager(Transfer& t, const std::byte* payload, size_t size) {
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
  DeviceCopy copy{};
  copy.receiver = &t;
  copy.source = instance.self;
  copy.sender = reinterpret_cast<uint64_t>(&sender);
  if (!ticket) return finish_copy(copy, std::move(ticket).error());
  copy.ticket = std::move(*ticket);
  copies_.push_back(std::move(copy));
}

// Sender's side: fills one chunk while the other goes out as fragments.
bool Engine::stream_device(Transfer& t) {
  Staging& staging = *t.staging;
  const auto fail = [&](Error error) {
    t.outcome = std::move(error);
    t.state = Transfer::State::done;
    return true;
  };
  for (unsigned k = 0; k < 2 && staging.next < t.bytes; ++k) {
    Staging::Chunk& chunk = staging.chunks[staging.turn ^ k];
    if (chunk.size != 0) continue;
    if (!lease(t, static_cast<int>(staging.turn ^ k))) {
      if (!t.outcome) t.state = Transfer::State::done;
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
  Staging::Chunk& chunk = staging.chunks[staging.turn];
  if (chunk.size == 0) return t.state == Transfer::State::streaming && stream_unpinned(t);
  if (chunk.ticket.pending()) {
    auto ready = device::done(chunk.ticket);
    if (!ready) return fail(std::move(ready).error());
    if (!*ready) return false;
  }
  bool moved = false;
  while (chunk.sent < chunk.size) {
    const size_t n = send_fragment(
        t, chunk.offset + chunk.sent, chunk.size - chunk.sent,
        [&](std::byte* room, size_t size) { std::memcpy(room, chunk.pinned.data() + chunk.sent, size); });
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

// No pinned chunk is to be had: one fragment at a time, waiting for each copy, so that the transfer moves on.
bool Engine::stream_unpinned(Transfer& t) {
  no_chunk.hit("all pinned chunks are in use: raise WEFT_GPU_STAGING_BYTES");
  Staging& staging = *t.staging;
  const size_t n = send_fragment(t, staging.next, t.bytes - staging.next, [&](std::byte* room, size_t size) {
    auto ticket = submit_part_out({room, nullptr, 0, {}}, view_of(t), staging.next, size, Lane::out);
    Status copied = ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
    if (!copied && t.outcome) t.outcome = std::move(copied).error();
  });
  staging.next += n;
  t.moved += n;
  if (t.moved == t.bytes) t.state = Transfer::State::done;
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
    if (outcome)
      finish_copy(copy);
    else
      finish_copy(copy, std::move(outcome).error());
    moved = true;
  }
  return moved;
}

void Engine::finish_copy(DeviceCopy& copy) {
  if (copy.mapping != nullptr) importer_->release(copy.mapping);
  if (copy.sender != 0) finish_sender(copy.source, copy.sender);
  complete(*copy.receiver);
}

void Engine::finish_copy(DeviceCopy& copy, Error error) {
  copy.receiver->outcome = std::move(error);
  finish_copy(copy);
}

void Engine::close_device() {
  if (importer_) importer_->close();
  if (exporter_) exporter_->close();
}

}  // namespace weft::p2p
