// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: the sender sends an RTS, the receiver gets the payload after matching and replies with a FIN.
// Payload that the receiver cannot get is sent as fragments (staged.cpp). Device memory: device.cpp.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/truncation.hpp"

namespace weft::p2p {
namespace {

constexpr size_t kBounceBytes = 64 << 10;  // bytes read at a time for a noncontiguous buffer
constexpr size_t kLongRunBytes = 1 << 10;  // mean run length above which the kernel scatters directly
log::SlowPath no_single_copy{"p2p.no_single_copy",
                             "two copies through shared memory, about half the bandwidth"};
log::SlowPath single_copy_failed{"p2p.single_copy_failed",
                                 "this message goes through shared memory, about half the bandwidth"};

transport::Iov iov(const void* address, size_t length) {
  return {reinterpret_cast<uint64_t>(address), length};
}

}  // namespace

void Engine::send_rts(Transfer& t) {
  const trace::Range range("p2p.send_rts");
  const Peer& peer = peers_[t.peer];
  if (peer.lost) [[unlikely]]
    return complete(t, loss_error(t.peer));
  if (peer.remote) return send_remote_rts(t);
  alignas(8) std::byte storage[kMaxControl];
  auto& rts = *new (storage) ReadyToSend{};
  static_cast<Header&>(rts) = header(t, Type::ready_to_send, 0);
  rts.sender = enlist(t);
  rts.bytes = t.bytes;
  rts.address = reinterpret_cast<uint64_t>(t.address);
  if (t.contiguous) rts.flags |= ReadyToSend::kContiguous;
  size_t size = sizeof rts;
  if (device_side(t)) {
    rts.flags |= ReadyToSend::kDevice;
    size += append_region(t, t.peer, rts, storage + size);
  }
  t.enter(Transfer::State::rts_sent);
  post_control(t.peer, storage, size);
  if (t.bounce && t.bounce->epoch != 0) start_eager_pack(t);
}

void Engine::start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  if (source == instance.self) {
    Transfer* const sender = find_transfer(rts.sender, source, Transfer::State::rts_sent);
    WEFT_ASSERT(sender != nullptr);
    return copy_from_self(t, *sender);
  }
  if (peers_[source].lost) [[unlikely]]
    return complete(t, loss_error(source));
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
  const bool started = peers_[source].remote ? get_remote(t, rts) : get(t, source, rts);
  if (!started) start_staged(t, source, rts);
}

/// Returns whether the sender's host memory can be read; if not, reports a slow path.
bool Engine::readable(uint32_t source) {
  auto usable = shm_->can_get(source);
  if (!usable) no_single_copy.hit(usable.error().message());
  return usable.ok();
}

// Starts the fastest protocol. Returns false if no get is possible for this message; nothing was done then.
bool Engine::get(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  switch (select_protocol(t.memory.kind, rts_info(rts), [&] { return readable(source); })) {
    case Protocol::single_copy:
      return get_host(t, source, rts);
    case Protocol::upload:
      return get_host_to_device(t, source, rts);
    case Protocol::mapped:
      return get_device(t, source, rts);
    case Protocol::strided:
      return get_strided(t, source, rts);
    case Protocol::bounce:
      return get_through_bounce(t, source, rts);
    case Protocol::announced:
    case Protocol::fragments:
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
  if (device_side(t) || device_side(sender)) return copy_device_self(t, sender);
  if (t.contiguous && sender.contiguous) {
    if (sender.bytes != 0) std::memmove(t.address, sender.address, sender.bytes);
  } else {
    datatype::copy(sender.address, sender.count, *sender.type, t.address, t.count, *t.type);
  }
  complete(sender);
  complete(t);
}

// One copy by the kernel from the sender's memory into the receive buffer. Returns false if that is not
// possible.
bool Engine::get_host(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_host");
  Status got = t.contiguous ? get_part(t, source, rts.address, 0, rts.bytes) : get_scattered(t, source, rts);
  if (!got) {
    single_copy_failed.hit(got.error().message());
    return false;
  }
  finish_sender(source, rts.sender);
  complete(t);
  return true;
}

// Long runs are scattered by the kernel, short runs are unpacked from a buffer that fits the cache.
Status Engine::get_scattered(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  size_t runs = 0;
  const auto sample = static_cast<datatype::Count>(std::min<uint64_t>(rts.bytes, kBounceBytes));
  datatype::for_each_run(*t.type, t.count, 0, sample, [&](datatype::Count, datatype::Count) { ++runs; });
  if (static_cast<size_t>(sample) / std::max<size_t>(runs, 1) >= kLongRunBytes) {
    std::vector<transport::Iov> local;
    datatype::for_each_run(*t.type, t.count, 0, static_cast<datatype::Count>(rts.bytes),
                           [&](datatype::Count at, datatype::Count length) {
                             local.push_back(iov(t.data() + at, static_cast<size_t>(length)));
                           });
    const auto remote = iov(reinterpret_cast<void*>(rts.address), rts.bytes);
    return shm_->get(source, local, {&remote, 1});
  }
  return get_part(t, source, rts.address, 0, rts.bytes);
}

// Reads the peer's host memory at `address` into bytes [offset, offset + n) of the message.
Status Engine::get_part(Transfer& t, uint32_t source, uint64_t address, uint64_t offset, uint64_t n) {
  if (t.contiguous) {
    const auto local = iov(t.data() + offset, n), remote = iov(reinterpret_cast<void*>(address), n);
    return shm_->get(source, {&local, 1}, {&remote, 1});
  }
  std::vector<std::byte> buffer(std::min<uint64_t>(kBounceBytes, n));
  for (uint64_t at = 0; at < n; at += buffer.size()) {
    const size_t length = std::min<uint64_t>(buffer.size(), n - at);
    const auto local = iov(buffer.data(), length),
               remote = iov(reinterpret_cast<void*>(address + at), length);
    WEFT_TRY(shm_->get(source, {&local, 1}, {&remote, 1}));
    t.unpack(offset + at, buffer.data(), length);
  }
  return {};
}

void Engine::finish_sender(uint32_t source, core::RequestId sender, uint8_t flags) {
  const trace::Range range("p2p.finish_sender");
  if (source == instance.self) return on_finish(source, sender);
  Reply reply{};
  reply.type = Type::finish;
  reply.flags = flags;
  reply.sender = sender;
  post_control(source, &reply, sizeof reply);
}

void Engine::on_finish(uint32_t source, core::RequestId sender, bool all_consumed) {
  Transfer* const t = find_transfer(sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  if (t->bounce && t->bounce->epoch != 0) return end_eager_pack(*t, all_consumed);
  complete(*t);
}

// An unmatched receive is cancelled at once. A send is cancelled if the peer has not matched its RTS; it
// completes by the reply, or normally.
void Engine::cancel(Transfer& t) {
  if (t.kind == core::Request::Kind::receive && t.state == Transfer::State::posted) {
    if (t.advertised != 0 && !retract(t)) return;  // the sender is writing into its buffer
    posted_.remove(t);
    t.completion.cancelled = true;
    return complete(t);
  }
  if (t.kind != core::Request::Kind::send || t.state != Transfer::State::rts_sent) return;
  Reply request{};
  static_cast<Header&>(request) = header(t, Type::cancel, 0);
  request.sender = t.id;
  if (t.peer == instance.self)
    on_cancel(instance.self, request);
  else
    post_control(t.peer, &request, sizeof request);
}

void Engine::on_cancel(uint32_t source, const Reply& request) {
  if (request.sender == core::kNoRequest) return drop_malformed();
  UnexpectedMessage* found = nullptr;
  unexpected_.for_each(request.context, [&](match::MatchEntry& entry) {
    auto& message = static_cast<UnexpectedMessage&>(entry);
    if (message.peer == source && message.sender == request.sender) found = &message;
    return found == nullptr;
  });
  if (found != nullptr) {
    unexpected_.remove(*found);
    if (found->type == Type::eager_sync) consumed(source, found->size);
    if (found->type == Type::ready_to_send)
      decline(source, *reinterpret_cast<const ReadyToSend*>(found->data()));
    dispose(*found);
    if (source == instance.self) return on_cancelled(source, request.sender);
  }
  if (source == instance.self) return;
  Reply reply{};
  reply.type = Type::cancel_reply;
  reply.flags = found != nullptr ? 1 : 0;
  reply.sender = request.sender;
  post_control(source, &reply, sizeof reply);
}

void Engine::on_cancelled(uint32_t source, core::RequestId sender) {
  Transfer* const t = find_transfer(sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  t->completion.cancelled = true;
  on_finish(source, sender);
}

}  // namespace weft::p2p
