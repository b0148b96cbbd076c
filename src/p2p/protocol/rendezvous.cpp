// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: the sender announces (RTS), the receiver fetches when it has matched (get), and says so (FIN).
// What cannot be fetched is asked for as fragments (staged.cpp). Device memory: device.cpp.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/truncation.hpp"

namespace weft::p2p {
namespace {

constexpr size_t kBounce = 64 << 10;  // bytes fetched at a time into a noncontiguous buffer
constexpr size_t kLongRun = 1 << 10;  // mean run length above which the kernel scatters for us
log::SlowPath no_single_copy{"p2p.no_single_copy",
                             "two copies through shared memory, about half the bandwidth"};
log::SlowPath unreadable{"p2p.unreadable",
                         "this message goes through shared memory, about half the bandwidth"};

transport::Piece piece(const void* address, size_t length) {
  return {reinterpret_cast<uint64_t>(address), length};
}

}  // namespace

void Engine::announce(Transfer& t) {
  const trace::Range range("p2p.announce");
  if (peers_[t.peer].remote) return announce_remote(t);
  alignas(8) std::byte room[kMaxControl];
  auto& rts = *new (room) ReadyToSend{};
  static_cast<Header&>(rts) = header(t, Type::ready_to_send, 0);
  rts.sender = reinterpret_cast<uint64_t>(&t);
  rts.bytes = t.bytes;
  rts.address = reinterpret_cast<uint64_t>(t.address);
  if (t.contiguous) rts.flags |= ReadyToSend::kContiguous;
  size_t size = sizeof rts;
  if (device_side(t)) {
    rts.flags |= ReadyToSend::kDevice;
    size += append_region(t, t.peer, rts, room + size);
  }
  t.state = Transfer::State::announced;
  post_control(t.peer, room, size);
  if (t.scratch && t.scratch->epoch != 0) pack_ahead(t);
}

void Engine::start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  if (source == instance.self) return copy_from_self(t, *reinterpret_cast<Transfer*>(rts.sender));
  t.remote = rts.sender;
  if (rts.bytes > t.bytes) {
    t.completion.bytes = t.bytes;
    decline(source, rts);
    finish_sender(source, rts.sender);
    return complete(t, truncation_error(t));
  }
  if (rts.bytes == 0) {
    finish_sender(source, rts.sender);
    return complete(t);
  }
  const bool taken = peers_[source].remote ? get_remote(t, rts) : get(t, source, rts);
  if (!taken) ask_fragments(t, source, rts);
}

/// Whether the sender's host memory can be read; if not, by name.
bool Engine::readable(uint32_t source) {
  auto usable = shm_->can_get(source);
  if (!usable) no_single_copy.hit(usable.error().message());
  return usable.ok();
}

// The quickest way. False: it is not possible for this message, and nothing was done.
bool Engine::get(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  switch (way_of(t.memory.kind, announced(rts), [&] { return readable(source); })) {
    case Way::single_copy:
      return get_host(t, source, rts);
    case Way::upload:
      return get_host_to_device(t, source, rts);
    case Way::mapped:
      return get_device(t, source, rts);
    case Way::strided:
      return get_strided(t, source, rts);
    case Way::scratch:
      return get_through_scratch(t, source, rts);
    case Way::offered:
    case Way::fragments:
      break;
  }
  return false;
}

void Engine::copy_from_self(Transfer& t, Transfer& sender) {
  if (sender.bytes > t.bytes) {
    t.completion.bytes = t.bytes;
    complete(sender);
    return complete(t, truncation_error(t));
  }
  if (device_side(t) || device_side(sender)) return device_self(t, sender);
  if (t.contiguous && sender.contiguous) {
    if (sender.bytes != 0) std::memmove(t.address, sender.address, sender.bytes);
  } else {
    datatype::copy(sender.address, sender.count, *sender.type, t.address, t.count, *t.type);
  }
  complete(sender);
  complete(t);
}

// One copy by the kernel, from the sender's memory into ours. False: not possible for this message.
bool Engine::get_host(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_host");
  Status got = t.contiguous ? get_part(t, source, rts.address, 0, rts.bytes) : get_scattered(t, source, rts);
  if (!got) {
    unreadable.hit(got.error().message());
    return false;
  }
  finish_sender(source, rts.sender);
  complete(t);
  return true;
}

// Long runs: the kernel scatters. Short ones: through a bounce buffer that stays in the cache.
Status Engine::get_scattered(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  size_t runs = 0;
  const auto sample = static_cast<datatype::Count>(std::min<uint64_t>(rts.bytes, kBounce));
  datatype::for_each_run(*t.type, t.count, 0, sample, [&](datatype::Count, datatype::Count) { ++runs; });
  if (static_cast<size_t>(sample) / std::max<size_t>(runs, 1) >= kLongRun) {
    std::vector<transport::Piece> local;
    datatype::for_each_run(*t.type, t.count, 0, static_cast<datatype::Count>(rts.bytes),
                           [&](datatype::Count at, datatype::Count length) {
                             local.push_back(piece(t.data() + at, static_cast<size_t>(length)));
                           });
    const auto remote = piece(reinterpret_cast<void*>(rts.address), rts.bytes);
    return shm_->get(source, local, {&remote, 1});
  }
  return get_part(t, source, rts.address, 0, rts.bytes);
}

// The peer's host memory at `address` into bytes [offset, offset + n) of the message.
Status Engine::get_part(Transfer& t, uint32_t source, uint64_t address, uint64_t offset, uint64_t n) {
  if (t.contiguous) {
    const auto local = piece(t.data() + offset, n), remote = piece(reinterpret_cast<void*>(address), n);
    return shm_->get(source, {&local, 1}, {&remote, 1});
  }
  std::vector<std::byte> bounce(std::min<uint64_t>(kBounce, n));
  for (uint64_t at = 0; at < n; at += bounce.size()) {
    const size_t length = std::min<uint64_t>(bounce.size(), n - at);
    const auto local = piece(bounce.data(), length),
               remote = piece(reinterpret_cast<void*>(address + at), length);
    WEFT_TRY(shm_->get(source, {&local, 1}, {&remote, 1}));
    t.unpack(offset + at, bounce.data(), length);
  }
  return {};
}

void Engine::finish_sender(uint32_t source, uint64_t sender, uint8_t flags) {
  const trace::Range range("p2p.finish_sender");
  if (source == instance.self) return complete(*reinterpret_cast<Transfer*>(sender));
  Reply reply{};
  reply.type = Type::finish;
  reply.flags = flags;
  reply.sender = sender;
  post_control(source, &reply, sizeof reply);
}

void Engine::on_finish(uint64_t sender, bool taken) {
  auto& t = *reinterpret_cast<Transfer*>(sender);
  if (t.scratch && t.scratch->epoch != 0) return settle_ahead(t, taken);
  complete(t);
}

// A receive that is not matched is taken out at once. A send is withdrawn when the peer has not matched it;
// it completes by that reply, or as usual.
void Engine::cancel(Transfer& t) {
  if (t.kind == core::Request::Kind::receive && t.state == Transfer::State::posted) {
    if (t.shown != 0 && !take_back(t)) return;  // its sender is writing to it
    posted_.remove(t);
    t.completion.cancelled = true;
    return complete(t);
  }
  if (t.kind != core::Request::Kind::send || t.state != Transfer::State::announced) return;
  Reply request{};
  static_cast<Header&>(request) = header(t, Type::cancel, 0);
  request.sender = reinterpret_cast<uint64_t>(&t);
  if (t.peer == instance.self)
    on_cancel(instance.self, request);
  else
    post_control(t.peer, &request, sizeof request);
}

void Engine::on_cancel(uint32_t source, const Reply& request) {
  Message* found = nullptr;
  unexpected_.for_each(request.context, [&](match::Entry& entry) {
    auto& message = static_cast<Message&>(entry);
    if (message.peer == source && message.sender == request.sender) found = &message;
    return found == nullptr;
  });
  if (found != nullptr) {
    unexpected_.remove(*found);
    if (found->type == Type::eager_sync) consumed(source, found->size);
    if (found->type == Type::ready_to_send)
      decline(source, *reinterpret_cast<const ReadyToSend*>(found->data()));
    dispose(*found);
    if (source == instance.self) return on_withdrawn(request.sender);
  }
  if (source == instance.self) return;
  Reply reply{};
  reply.type = Type::cancel_reply;
  reply.flags = found != nullptr ? 1 : 0;
  reply.sender = request.sender;
  post_control(source, &reply, sizeof reply);
}

void Engine::on_withdrawn(uint64_t sender) {
  auto& t = *reinterpret_cast<Transfer*>(sender);
  t.completion.cancelled = true;
  on_finish(sender);
}

}  // namespace weft::p2p
