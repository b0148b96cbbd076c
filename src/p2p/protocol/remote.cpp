// SPDX-License-Identifier: BSD-3-Clause
// Between hosts. The sender exposes a contiguous buffer that the network takes as it is, and the receiver
// fetches it: straight into its place, or, where that is strided or on a GPU that the network does not reach,
// piece by piece through rooms in host memory. A sender whose GPU the network does not reach copies pieces
// down and offers them. Copies of GPUs and the network overlap: net.pipeline_depth pieces of a message are
// under way at a time.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/copy.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::Lane;

config::Size setting_depth(
    "net.pipeline_depth", 4, 1, 64,
    "Pieces of a GPU message between hosts that are under way at a time, where the network "
    "does not reach GPU memory");
config::Size setting_chunk(
    "net.pipeline_chunk", size_t{512} << 10, size_t{4} << 10, size_t{64} << 20,
    "Bytes of such a piece; pinned memory is used for pieces of gpu.staging_chunk at most");

log::SlowPath staged{"net.staged",
                     "GPU messages between hosts go through host memory, at most as fast as PCIe"};
log::SlowPath unpinned{"net.unpinned", "copies between GPU and unpinned memory, 2 to 4 times slower"};

constexpr size_t kActivePulls = 4;  // receives that hold rooms at a time

Key& append_key(std::byte* at) { return *new (at) Key{}; }

Error sender_failed() {
  return Error(Errc::other, "the sender of this message could not copy it from its GPU: see its error");
}

}  // namespace

Room Room::lease(const device::Memory& near, size_t bytes) {
  Room room;
  room.size_ = bytes;
  if (near.known_to_driver()) {
    auto pinned = device::lease_pinned(near);
    if (pinned && pinned->size() >= bytes) {
      room.pinned_ = std::move(*pinned);
      return room;
    }
    unpinned.hit(pinned ? "the piece is larger than gpu.staging_chunk" : pinned.error().message());
  }
  room.heap_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return room;
}

// Sender. A small message of a GPU goes with its header: one copy down is quicker than three more messages.
bool Engine::pack_small(Transfer& t, Peer& peer) {
  if (!device_side(t) || t.bytes == 0 || !has_credit(t.peer, t.bytes, peer)) return false;
  auto packed = std::make_unique_for_overwrite<std::byte[]>(t.bytes);
  if (Status copied = pack_out(t, packed.get()); !copied) {
    complete(t, std::move(copied).error());
    return true;
  }
  cross(t);
  t.crossing->packed = std::move(packed);
  charge(peer, t.bytes);
  if (blocked(peer) || !try_eager(t)) enqueue(t.peer, t);
  return true;
}

void Engine::announce_remote(Transfer& t) {
  Peer& peer = peers_[t.peer];
  if (peer.lost) return complete(t, loss_of(t.peer));
  if (pack_small(t, peer)) return;
  alignas(8) std::byte room[kMaxControl];
  auto& rts = *new (room) ReadyToSend{};
  static_cast<Header&>(rts) = header(t, Type::ready_to_send, 0);
  rts.sender = reinterpret_cast<uint64_t>(&t);
  rts.bytes = t.bytes;
  if (device_side(t)) rts.flags |= ReadyToSend::kDevice;
  size_t size = sizeof rts;
  cross(t);
  if (t.contiguous && t.bytes != 0 && (!device_side(t) || direct(t.memory, t.peer))) {
    Key& key = append_key(room + size);
    auto exposed = network_->expose(t.peer, {t.data(), t.bytes, t.memory}, key.bytes);
    if (!exposed) return complete(t, std::move(exposed).error());
    t.crossing->exposed = exposed->id;
    key.size = exposed->key_size;
    rts.flags |= ReadyToSend::kKey;
    size += key.sent_size();
  }
  t.state = Transfer::State::announced;
  post_control(t.peer, room, size, t.crossing->exposed);
}

/// What `rts` announces will not be fetched.
void Engine::decline(uint32_t source, const ReadyToSend& rts) {
  if (!peers_[source].remote || (rts.flags & ReadyToSend::kKey) == 0) return;
  const auto& key = *reinterpret_cast<const Key*>(&rts + 1);
  network_->decline(source, {key.bytes, key.size});
}

// Receiver. False: the sender has to pack, or to copy down from its GPU.
bool Engine::get_remote(Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_remote");
  if ((rts.flags & ReadyToSend::kKey) == 0) return false;
  const auto& key = *reinterpret_cast<const Key*>(&rts + 1);
  cross(t);
  Crossing& c = *t.crossing;
  c.pulls = c.keyed = true;
  std::memcpy(&c.key, &key, key.sent_size());
  activate(t);
  return true;
}

void Engine::ask_offers(Transfer& t, uint64_t sender) {
  cross(t);
  t.crossing->pulls = true;
  t.remote = sender;
  activate(t);
}

// Those that need rooms take turns.
void Engine::activate(Transfer& t) {
  Crossing& c = *t.crossing;
  c.direct = t.contiguous && (!device_side(t) || (c.keyed && direct(t.memory, t.peer)));
  if (!c.direct) {
    if (pulls_.size() >= kActivePulls) return waiting_pulls_.push_back(&t);
    if (device_side(t))
      staged.hit(network_->takes(t.memory) ? "GPUDirect is not proved for the receiver's GPU, or not yet"
                                           : "the network does not take the receiver's GPU memory");
    pulls_.push_back(&t);
    c.active = true;
  }
  if (c.keyed)
    pull(t);
  else
    clear_to_send(t, t.peer, t.remote, ClearToSend::kPiped);
}

void Engine::activate_waiting() {
  while (!waiting_pulls_.empty() && pulls_.size() < kActivePulls) {
    Transfer& next = *waiting_pulls_.front();
    waiting_pulls_.pop_front();
    activate(next);
  }
}

// Starts what may be under way.
void Engine::pull(Transfer& t) {
  Crossing& c = *t.crossing;
  while (c.readings.size() < setting_depth && t.outcome) {
    if (c.keyed) {
      const uint64_t rest = t.expected - c.asked, offset = c.asked;
      if (rest == 0) return;
      const size_t size = c.direct ? rest : std::min<uint64_t>(rest, setting_chunk);
      c.asked += size;
      read(t, offset, size, c.key, offset, nullptr);
    } else {
      if (c.offers.empty()) return;
      const KeyedChunk offer = c.offers.front();
      c.offers.pop_front();
      c.asked += offer.size;
      read(t, offer.offset, offer.size, offer.key, 0, &offer);
    }
  }
}

void Engine::read(Transfer& t, uint64_t offset, size_t size, const Key& key, uint64_t key_offset,
                  const KeyedChunk* offer) {
  Crossing& c = *t.crossing;
  Reading& reading = *c.readings.emplace_back(std::make_unique<Reading>());
  reading.done = reading_done;
  reading.engine = this;
  reading.transfer = &t;
  reading.offset = offset;
  reading.size = size;
  if (offer != nullptr) {
    reading.offered = true;
    reading.offer = *offer;
  }
  transport::Buffer to{t.data() + offset, size, t.memory};
  if (!c.direct) {
    reading.room = Room::lease(t.memory, size);
    to = {reading.room.data(), size, reading.room.memory()};
  }
  network_->fetch(t.peer, to, {key.bytes, key.size}, key_offset, reading);
}

void Engine::reading_done(transport::Completion& self, Status outcome) {
  auto& reading = static_cast<Reading&>(self);
  reading.engine->arrived(reading, std::move(outcome));
}

void Engine::arrived(Reading& reading, Status outcome) {
  Transfer& t = *reading.transfer;
  if (reading.offered) {
    reading.offer.type = Type::scratch_done;
    post_control(t.peer, &reading.offer, sizeof reading.offer);
  }
  if (outcome && reading.room && device_side(t)) {
    const View from{reading.room.data(), nullptr, 0, reading.room.memory()};
    auto ticket = submit_part(view_of(t), reading.offset, from, reading.size, Lane::in);
    if (ticket) {
      reading.upload = std::move(*ticket);
      reading.uploading = true;
      return;  // seen by poll_pulls()
    }
    outcome = std::move(ticket).error();
  } else if (outcome && reading.room) {
    t.unpack(reading.offset, reading.room.data(), reading.size);
  }
  if (!outcome && t.outcome) t.outcome = std::move(outcome);
  drop_reading(reading);
}

/// Its bytes are in place, or never will be; goes on with the transfer.
void Engine::drop_reading(Reading& reading) {
  Transfer& t = *reading.transfer;
  Crossing& c = *t.crossing;
  t.moved += reading.size;
  std::erase_if(c.readings, [&](const auto& one) { return one.get() == &reading; });
  pull(t);
  while (!t.outcome && !c.offers.empty()) {  // given back unread
    KeyedChunk& offer = c.offers.front();
    offer.type = Type::scratch_done;
    post_control(t.peer, static_cast<ScratchChunk*>(&offer), sizeof(ScratchChunk));
    t.moved += offer.size;
    c.offers.pop_front();
  }
  if (c.readings.empty() && (t.moved == t.expected || c.ended || (c.keyed && !t.outcome))) finish_pull(t);
}

void Engine::finish_pull(Transfer& t) {
  Crossing& c = *t.crossing;
  if (c.keyed) finish_sender(t.peer, t.remote);
  const bool was_active = c.active;
  if (was_active) std::erase(pulls_, &t);
  complete(t);
  if (was_active) activate_waiting();
}

bool Engine::poll_pulls() {
  bool moved = false;
  for (size_t i = 0; i < pulls_.size(); ++i) {
    Transfer* const t = pulls_[i];
    for (size_t k = 0; i < pulls_.size() && pulls_[i] == t && k < t->crossing->readings.size();) {
      Reading& reading = *t->crossing->readings[k];
      if (!reading.uploading) {
        ++k;
        continue;
      }
      auto ready = device::done(reading.upload);
      if (ready && !*ready) break;  // one stream: they end in order
      if (!ready && t->outcome) t->outcome = std::move(ready).error();
      drop_reading(reading);
      moved = true;
    }
  }
  return moved;
}

void Engine::on_offer(Transfer& t, const KeyedChunk& offer) {
  if ((offer.flags & ScratchChunk::kFailed) != 0) {
    if (t.outcome) t.outcome = sender_failed();
    t.crossing->ended = true;
    if (t.crossing->readings.empty()) finish_pull(t);
    return;
  }
  t.crossing->offers.emplace_back();
  std::memcpy(static_cast<void*>(&t.crossing->offers.back()), &offer,
              sizeof(ScratchChunk) + offer.key.sent_size());
  pull(t);
}

// Sender: offers what was copied down, copies more.
bool Engine::stream_offers(Transfer& t) {
  Crossing& c = *t.crossing;
  bool moved = false;
  for (Offering& offering : c.offerings) {
    if (offering.exposed != 0) continue;
    auto ready = device::done(offering.filled);
    if (ready && !*ready) break;
    if (Status told = ready ? tell_offer(t, offering) : Status(std::move(ready).error()); !told)
      return fail_offers(t, std::move(told).error());
    moved = true;
  }
  if (Status filled = fill_offerings(t, moved); !filled) return fail_offers(t, std::move(filled).error());
  if (t.moved == t.bytes) t.state = Transfer::State::done;
  return moved;
}

Status Engine::fill_offerings(Transfer& t, bool& moved) {
  Crossing& c = *t.crossing;
  while (c.next_offset < t.bytes && c.offerings.size() < setting_depth) {
    const size_t n = std::min<uint64_t>(setting_chunk, t.bytes - c.next_offset);
    Room room = Room::lease(t.memory, n);
    auto ticket =
        submit_part_out({room.data(), nullptr, 0, room.memory()}, view_of(t), c.next_offset, n, Lane::out);
    if (!ticket) return std::move(ticket).error();
    c.offerings.push_back({std::move(room), std::move(*ticket), c.next_offset, c.next_number++, n});
    c.next_offset += n;
    moved = true;
  }
  return {};
}

Status Engine::tell_offer(Transfer& t, Offering& offering) {
  KeyedChunk message{};
  const transport::Buffer buffer{offering.room.data(), offering.size, offering.room.memory()};
  auto exposed = network_->expose(t.peer, buffer, message.key.bytes);
  if (!exposed) return std::move(exposed).error();
  offering.exposed = exposed->id;
  message.type = Type::scratch_ready;
  message.flags = ScratchChunk::kPinned;
  message.sender = reinterpret_cast<uint64_t>(&t);
  message.receiver = t.remote;
  message.offset = offering.offset;
  message.size = offering.size;
  message.number = offering.number;
  message.key.size = exposed->key_size;
  post_control(t.peer, &message, sizeof(ScratchChunk) + message.key.sent_size());
  return {};
}

// The receiver is told; what it may be fetching comes back as usual.
bool Engine::fail_offers(Transfer& t, Error error) {
  KeyedChunk message{};
  message.type = Type::scratch_ready;
  message.flags = ScratchChunk::kFailed;
  message.receiver = t.remote;
  post_control(t.peer, &message, sizeof(ScratchChunk) + sizeof message.key.size);
  Crossing& c = *t.crossing;
  t.outcome = std::move(error);
  t.moved += t.bytes - c.next_offset;
  c.next_offset = t.bytes;
  std::erase_if(c.offerings, [&](Offering& offering) {
    if (offering.exposed != 0) return false;
    if (offering.filled.pending()) (void)device::wait(offering.filled);
    t.moved += offering.size;
    return true;
  });
  if (t.moved == t.bytes) t.state = Transfer::State::done;
  return true;
}

void Engine::on_offer_fetched(Transfer& t, const ScratchChunk& chunk) {
  auto& offerings = t.crossing->offerings;
  const auto found = std::find_if(offerings.begin(), offerings.end(),
                                  [&](const Offering& offering) { return offering.number == chunk.number; });
  if (found == offerings.end()) return;
  t.comm->instance.engine->network_->conceal(found->exposed);
  t.moved += found->size;
  offerings.erase(found);
}

}  // namespace weft::p2p
