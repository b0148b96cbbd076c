// SPDX-License-Identifier: BSD-3-Clause
// Transfers between hosts. The sender registers a contiguous buffer that the network supports and the
// receiver gets it: straight into the receive buffer, or fragment by fragment through host staging buffers if
// the receive is strided or on a GPU that the network does not reach. A sender on such a GPU copies fragments
// to host memory and announces them. GPU copies and network overlap: net.pipeline_depth fragments per message
// are in flight.
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

using device::StreamRole;

config::Size setting_depth(
    "net.pipeline_depth", 4, 1, 64,
    "Number of fragments in flight per GPU message between hosts if the network does not reach GPU memory; "
    "larger values use more staging memory.");
config::Size setting_chunk(
    "net.pipeline_chunk", size_t{512} << 10, size_t{4} << 10, size_t{64} << 20,
    "Bytes of a fragment of a pipelined GPU message between hosts; fragments above gpu.staging_chunk use "
    "unpinned memory.");

log::SlowPath staged{"net.staged",
                     "GPU messages between hosts are staged through host memory, at most as fast as PCIe"};
log::SlowPath unpinned{"net.unpinned", "copies between GPU and unpinned memory, 2 to 4 times slower"};

constexpr size_t kMaxActiveGets = 4;  // receives that hold staging buffers at a time

Rkey& append_rkey(std::byte* at) { return *new (at) Rkey{}; }

Error sender_failed() {
  return Error(Errc::other, "the sender of this message could not copy it from its GPU: see its error");
}

}  // namespace

StagingBuffer StagingBuffer::lease(const device::Memory& near, size_t bytes) {
  StagingBuffer buffer;
  buffer.size_ = bytes;
  if (near.known_to_driver()) {
    auto pinned = device::lease_pinned(near);
    if (pinned && pinned->size() >= bytes) {
      buffer.pinned_ = std::move(*pinned);
      return buffer;
    }
    unpinned.hit(pinned ? "the fragment is larger than gpu.staging_chunk" : pinned.error().message());
  }
  buffer.heap_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return buffer;
}

void Engine::add_remote_request(Transfer& t) {
  (void)enlist(t);
  if (!t.remote_request) t.remote_request = std::make_unique<RemoteRequest>();
}

// Sender: sends a small device message eagerly. One copy to the host is faster than three more messages.
bool Engine::pack_small_device(Transfer& t, Peer& peer) {
  if (!device_side(t) || t.bytes == 0 || !has_credit(t.peer, t.bytes, peer)) return false;
  auto packed = std::make_unique_for_overwrite<std::byte[]>(t.bytes);
  if (Status copied = pack_out(t, packed.get()); !copied) {
    complete(t, std::move(copied).error());
    return true;
  }
  add_remote_request(t);
  t.remote_request->packed = std::move(packed);
  charge(peer, t.bytes);
  if (blocked(peer) || !try_eager(t)) enqueue(t.peer, t);
  return true;
}

void Engine::send_remote_rts(Transfer& t) {
  Peer& peer = peers_[t.peer];
  if (pack_small_device(t, peer)) return;
  alignas(8) std::byte storage[kMaxControl];
  auto& rts = *new (storage) ReadyToSend{};
  static_cast<Header&>(rts) = header(t, Type::ready_to_send, 0);
  rts.sender = enlist(t);
  rts.bytes = t.bytes;
  if (device_side(t)) rts.flags |= ReadyToSend::kDevice;
  size_t size = sizeof rts;
  add_remote_request(t);
  if (t.contiguous && t.bytes != 0 && (!device_side(t) || gpudirect_usable(t.memory, t.peer))) {
    Rkey& rkey = append_rkey(storage + size);
    auto registration = network_->register_buffer(t.peer, {t.data(), t.bytes, t.memory}, rkey.bytes);
    if (!registration) return complete(t, std::move(registration).error());
    t.remote_request->registration = registration->id;
    rkey.size = registration->rkey_size;
    rts.flags |= ReadyToSend::kRkey;
    size += rkey.wire_size();
  }
  t.enter(Transfer::State::rts_sent);
  post_control(t.peer, storage, size, t.remote_request->registration);
}

/// Notifies the network that the buffer of an RTS will not be read.
void Engine::decline(uint32_t source, const ReadyToSend& rts) {
  if (!peers_[source].remote || (rts.flags & ReadyToSend::kRkey) == 0) return;
  const auto& rkey = *reinterpret_cast<const Rkey*>(&rts + 1);
  network_->discard_rts(source, {rkey.bytes, rkey.size});
}

// Receiver: gets the registered buffer of an RTS. Returns false if the sender has to pack, or to copy from
// its GPU.
bool Engine::get_remote(Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_remote");
  if ((rts.flags & ReadyToSend::kRkey) == 0) return false;
  const auto& rkey = *reinterpret_cast<const Rkey*>(&rts + 1);
  add_remote_request(t);
  RemoteRequest& c = *t.remote_request;
  c.uses_gets = c.has_rkey = true;
  std::memcpy(&c.rkey, &rkey, rkey.wire_size());
  activate(t);
  return true;
}

void Engine::request_announcements(Transfer& t, core::RequestId sender) {
  add_remote_request(t);
  t.remote_request->uses_gets = true;
  t.remote = sender;
  activate(t);
}

// Receives that need staging buffers are limited to kMaxActiveGets at a time; further ones wait.
void Engine::activate(Transfer& t) {
  RemoteRequest& c = *t.remote_request;
  c.in_place = t.contiguous && (!device_side(t) || (c.has_rkey && gpudirect_usable(t.memory, t.peer)));
  if (!c.in_place) {
    if (active_gets_.size() >= kMaxActiveGets) return waiting_gets_.push_back(&t);
    if (device_side(t))
      staged.hit(network_->supports(t.memory) ? "GPUDirect is not verified for the receiver's GPU, or not yet"
                                              : "the network does not support the receiver's GPU memory");
    active_gets_.push_back(&t);
    c.active = true;
  }
  if (c.has_rkey)
    issue_gets(t);
  else
    clear_to_send(t, t.peer, t.remote, ClearToSend::kPipelined);
}

void Engine::activate_waiting() {
  while (!waiting_gets_.empty() && active_gets_.size() < kMaxActiveGets) {
    Transfer& next = *waiting_gets_.front();
    waiting_gets_.pop_front();
    activate(next);
  }
}

// Issues gets up to net.pipeline_depth.
void Engine::issue_gets(Transfer& t) {
  RemoteRequest& c = *t.remote_request;
  while (c.gets.size() < setting_depth && t.outcome) {
    if (c.has_rkey) {
      const uint64_t rest = t.expected - c.requested, offset = c.requested;
      if (rest == 0) return;
      const size_t size = c.in_place ? rest : std::min<uint64_t>(rest, setting_chunk);
      c.requested += size;
      issue_get(t, offset, size, c.rkey, offset, nullptr);
    } else {
      if (c.announced.empty()) return;
      const FragmentAnnouncement announcement = c.announced.front();
      c.announced.pop_front();
      c.requested += announcement.size;
      issue_get(t, announcement.offset, announcement.size, announcement.rkey, 0, &announcement);
    }
  }
}

void Engine::issue_get(Transfer& t, uint64_t offset, size_t size, const Rkey& rkey, uint64_t rkey_offset,
                       const FragmentAnnouncement* announcement) {
  RemoteRequest& c = *t.remote_request;
  FragmentGet& get = *c.gets.emplace_back(std::make_unique<FragmentGet>());
  get.done = fragment_get_done;
  get.engine = this;
  get.transfer = &t;
  get.offset = offset;
  get.size = size;
  if (announcement != nullptr) {
    get.announced_by_sender = true;
    get.announcement = *announcement;
  }
  transport::Buffer to{t.data() + offset, size, t.memory};
  if (!c.in_place) {
    get.buffer = StagingBuffer::lease(t.memory, size);
    to = {get.buffer.data(), size, get.buffer.memory()};
  }
  network_->get(t.peer, to, {rkey.bytes, rkey.size}, rkey_offset, get);
}

void Engine::fragment_get_done(transport::Completion& self, Status outcome) {
  auto& get = static_cast<FragmentGet&>(self);
  get.engine->finish_fragment_get(get, std::move(outcome));
}

void Engine::finish_fragment_get(FragmentGet& get, Status outcome) {
  Transfer& t = *get.transfer;
  if (get.announced_by_sender) {
    get.announcement.type = Type::chunk_done;
    post_control(t.peer, &get.announcement, sizeof get.announcement);
  }
  if (outcome && get.buffer && device_side(t)) {
    const View from{get.buffer.data(), nullptr, 0, get.buffer.memory()};
    auto ticket = submit_part(view_of(t), get.offset, from, get.size, StreamRole::in);
    if (ticket) {
      get.upload = std::move(*ticket);
      get.uploading = true;
      return;  // completed by poll_fragment_gets()
    }
    outcome = std::move(ticket).error();
  } else if (outcome && get.buffer) {
    t.unpack(get.offset, get.buffer.data(), get.size);
  }
  if (!outcome && t.outcome) t.outcome = std::move(outcome);
  retire_fragment_get(get);
}

/// Removes a get that is done or failed, and continues the transfer.
void Engine::retire_fragment_get(FragmentGet& get) {
  Transfer& t = *get.transfer;
  t.transferred += get.size;
  std::erase_if(t.remote_request->gets, [&](const auto& one) { return one.get() == &get; });
  continue_remote_get(t);
}

/// Issues further gets, or returns announced fragments unread after a failure; completes the transfer.
void Engine::continue_remote_get(Transfer& t) {
  RemoteRequest& c = *t.remote_request;
  issue_gets(t);
  while (!t.outcome && !c.announced.empty()) {  // returned unread
    FragmentAnnouncement& announcement = c.announced.front();
    announcement.type = Type::chunk_done;
    post_control(t.peer, static_cast<BounceChunk*>(&announcement), sizeof(BounceChunk));
    t.transferred += announcement.size;
    c.announced.pop_front();
  }
  if (c.gets.empty() && (t.transferred == t.expected || c.sender_failed || (c.has_rkey && !t.outcome)))
    finish_remote_get(t);
}

void Engine::finish_remote_get(Transfer& t) {
  RemoteRequest& c = *t.remote_request;
  if (c.has_rkey) finish_sender(t.peer, t.remote);
  const bool was_active = c.active;
  if (was_active) std::erase(active_gets_, &t);
  complete(t);
  if (was_active) activate_waiting();
}

bool Engine::poll_fragment_gets() {
  bool progressed = false;
  for (size_t i = 0; i < active_gets_.size(); ++i) {
    Transfer* const t = active_gets_[i];
    for (size_t k = 0;
         i < active_gets_.size() && active_gets_[i] == t && k < t->remote_request->gets.size();) {
      FragmentGet& get = *t->remote_request->gets[k];
      if (!get.uploading) {
        ++k;
        continue;
      }
      auto ready = device::done(get.upload);
      if (ready && !*ready) break;  // one stream: uploads end in order
      if (!ready && t->outcome) t->outcome = std::move(ready).error();
      retire_fragment_get(get);
      progressed = true;
    }
  }
  return progressed;
}

void Engine::on_fragment_announced(Transfer& t, const FragmentAnnouncement& announcement) {
  RemoteRequest& c = *t.remote_request;
  if ((announcement.flags & BounceChunk::kFailed) != 0) {
    if (t.outcome) t.outcome = sender_failed();
    c.sender_failed = true;
    if (c.gets.empty()) finish_remote_get(t);
    return;
  }
  if (announcement.size == 0 || announcement.rkey.size == 0 || announcement.offset > t.expected ||
      announcement.size > t.expected - announcement.offset ||
      announcement.size > t.expected - c.announced_bytes || c.sender_failed)
    return drop_malformed();
  c.announced_bytes += announcement.size;
  c.announced.emplace_back();
  std::memcpy(static_cast<void*>(&c.announced.back()), &announcement,
              sizeof(BounceChunk) + announcement.rkey.wire_size());
  continue_remote_get(t);
}

// Sender: announces fragments that were copied to host memory and copies further ones.
bool Engine::stream_pipelined(Transfer& t) {
  RemoteRequest& c = *t.remote_request;
  bool progressed = false;
  for (StagedFragment& fragment : c.fragments) {
    if (fragment.registration != 0) continue;
    auto ready = device::done(fragment.filled);
    if (ready && !*ready) break;
    if (Status sent = ready ? announce_fragment(t, fragment) : Status(std::move(ready).error()); !sent)
      return fail_pipelined(t, std::move(sent).error());
    progressed = true;
  }
  if (Status filled = fill_fragments(t, progressed); !filled)
    return fail_pipelined(t, std::move(filled).error());
  if (t.transferred == t.bytes) t.enter(Transfer::State::done);
  return progressed;
}

Status Engine::fill_fragments(Transfer& t, bool& progressed) {
  RemoteRequest& c = *t.remote_request;
  while (c.next_offset < t.bytes && c.fragments.size() < setting_depth) {
    const size_t n = std::min<uint64_t>(setting_chunk, t.bytes - c.next_offset);
    StagingBuffer buffer = StagingBuffer::lease(t.memory, n);
    auto ticket = submit_part_out({buffer.data(), nullptr, 0, buffer.memory()}, view_of(t), c.next_offset, n,
                                  StreamRole::out);
    if (!ticket) return std::move(ticket).error();
    c.fragments.push_back({std::move(buffer), std::move(*ticket), c.next_offset, c.next_number++, n});
    c.next_offset += n;
    progressed = true;
  }
  return {};
}

Status Engine::announce_fragment(Transfer& t, StagedFragment& fragment) {
  FragmentAnnouncement message{};
  const transport::Buffer buffer{fragment.buffer.data(), fragment.size, fragment.buffer.memory()};
  auto registration = network_->register_buffer(t.peer, buffer, message.rkey.bytes);
  if (!registration) return std::move(registration).error();
  fragment.registration = registration->id;
  message.type = Type::chunk_ready;
  message.flags = BounceChunk::kPinned;
  message.sender = t.id;
  message.receiver = t.remote;
  message.offset = fragment.offset;
  message.size = fragment.size;
  message.number = fragment.number;
  message.rkey.size = registration->rkey_size;
  post_control(t.peer, &message, sizeof(BounceChunk) + message.rkey.wire_size());
  return {};
}

// Notifies the receiver of the failure. Fragments that it is reading are returned as usual.
bool Engine::fail_pipelined(Transfer& t, Error error) {
  FragmentAnnouncement message{};
  message.type = Type::chunk_ready;
  message.flags = BounceChunk::kFailed;
  message.receiver = t.remote;
  post_control(t.peer, &message, sizeof(BounceChunk) + sizeof message.rkey.size);
  RemoteRequest& c = *t.remote_request;
  t.outcome = std::move(error);
  t.transferred += t.bytes - c.next_offset;
  c.next_offset = t.bytes;
  std::erase_if(c.fragments, [&](StagedFragment& fragment) {
    if (fragment.registration != 0) return false;
    if (fragment.filled.pending()) (void)device::wait(fragment.filled);
    t.transferred += fragment.size;
    return true;
  });
  if (t.transferred == t.bytes) t.enter(Transfer::State::done);
  return true;
}

void Engine::on_fragment_done(Transfer& t, const BounceChunk& chunk) {
  auto& fragments = t.remote_request->fragments;
  const auto found = std::find_if(fragments.begin(), fragments.end(), [&](const StagedFragment& fragment) {
    return fragment.registration != 0 && fragment.number == chunk.number;
  });
  if (found == fragments.end()) return drop_malformed();
  t.comm->instance.engine->network_->deregister(found->registration);
  t.transferred += found->size;
  fragments.erase(found);
}

}  // namespace weft::p2p
