// SPDX-License-Identifier: BSD-3-Clause
// Eager: header and data in one message; the send is complete when they are in the transport.
#include <cstring>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/bar.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/choice.hpp"
#include "p2p/protocol/truncation.hpp"

namespace weft::p2p {
namespace {

config::Size eager_max{"p2p.eager_max", 16 << 10, 0, 16 << 10,
                       "Largest host message in bytes that is sent at once, without waiting for its receive. "
                       "Unless set, 4 KiB or more to peers of this "
                       "host where the kernel's single copy is measured to be quicker."};

config::Size remote_eager_max{
    "net.eager_max", 64 << 10, 0, 1 << 20,
    "Largest message in bytes to another host that is sent at once, if the network takes it."};
constexpr size_t kMostBar = 4096;  // bytes of a message that the CPU reads from device memory

// A message through shared memory is copied twice, by cores that may be far apart; read by the kernel, once,
// after an announcement and a call. Where the second becomes the quicker way differs between machines, from 3
// KiB to never (bench/results/host-limits.json), so that the first copies of larger messages to each peer are
// timed.
constexpr uint64_t kAlwaysEager = 4096;  // bytes
constexpr uint64_t kTimedSize = 8192;    // bytes whose copy is timed; other sizes in proportion
constexpr uint32_t kTimedCopies = 64;    // the first ones meet pages that nobody has touched

}  // namespace

Error truncation_error(const Transfer& t) {
  return Error(Errc::truncate, "the message has " + std::to_string(t.expected) + " bytes (source " +
                                   std::to_string(t.completion.source) + ", tag " +
                                   std::to_string(t.completion.tag) + "), the receive buffer " +
                                   std::to_string(t.bytes) + ": receive with a larger count");
}

// Eagerly a KiB takes three times its copy into shared memory: the copy out waits for each line. The other
// way it takes 60 ns, and the call stands for what is paid once.
uint64_t eager_crossing(uint64_t copy_ns, uint64_t call_ns) {
  const uint64_t eager = 3 * copy_ns / 8, read = 60;  // ns a KiB
  return eager <= read ? UINT64_MAX : std::max(kAlwaysEager, 1024 * call_ns * 13 / 10 / (eager - read));
}

uint64_t eager_limit_of(uint64_t max_message) {
  return std::min<uint64_t>(eager_max, max_message - sizeof(EagerSync));
}

/// Asks the transport anew: it may take larger messages than before.
uint64_t Engine::eager_limit(uint32_t to, Peer& peer) {
  const size_t most = peer.transport->max_message(to);
  peer.eager_max = peer.remote ? std::min<uint64_t>(remote_eager_max, most - sizeof(EagerSync))
                               : std::min(eager_limit_of(most), peer.eager_cap);
  return peer.eager_max;
}

/// Into a message to the peer; timed, the first times that it matters.
void Engine::copy_payload(std::byte* room, const void* from, uint64_t bytes, uint32_t to, Peer& peer) {
  if (bytes <= kAlwaysEager || peer.copies_timed == kTimedCopies) [[likely]]
    return copy_small(room, from, bytes);
  const uint64_t begin = monotonic_ns();
  std::memcpy(room, from, bytes);
  peer.copy_ns = std::min(peer.copy_ns, (monotonic_ns() - begin) * kTimedSize / bytes);
  if (++peer.copies_timed == kTimedCopies) choose_limit(to, peer);
}

/// Unless the setting says so: from where on messages to a peer of this host are announced.
void Engine::choose_limit(uint32_t to, Peer& peer) {
  if (peer.remote || eager_max.origin != config::Origin::standard) return;
  const auto call = shm_->get_cost(to);
  if (!call) return;
  peer.eager_cap = eager_crossing(peer.copy_ns, *call);
  peer.eager_max = std::min(peer.eager_max, peer.eager_cap);
  log::write(
      log::Level::debug,
      "p2p: host messages to process %u are announced above %llu bytes: a copy of 8 KiB takes %llu ns, a "
      "read by the kernel %llu",
      to, static_cast<unsigned long long>(peer.eager_max), static_cast<unsigned long long>(peer.copy_ns),
      static_cast<unsigned long long>(*call));
}

bool Engine::send_now(const Buffer& buffer, uint32_t to, int tag, core::Communicator& comm) {
  const trace::Range range("p2p.eager");
  if (to == instance.self) return false;
  Peer& peer = peers_[to];
  const auto whole = datatype::packed_size(*buffer.type, buffer.count);
  if (!whole) return false;
  const auto bytes = static_cast<uint64_t>(*whole);
  if (blocked(peer) || !has_credit(to, bytes, peer)) return false;
  std::byte* room = peer.transport->reserve(to, sizeof(Header) + bytes);
  if (room == nullptr) return false;
  charge(peer, bytes);
  const core::ContextId context = comm.context(core::Channel::user);
  count_sent(peer, {context, comm.rank(), tag});
  *reinterpret_cast<Header*>(room) = {Type::eager, 0,           0,  static_cast<uint32_t>(bytes),
                                      context,     comm.rank(), tag};
  copy_payload(room + sizeof(Header), buffer.address, bytes, to, peer);
  peer.transport->commit(to, sizeof(Header) + bytes);
  return true;
}

bool Engine::try_eager(Transfer& t) {
  const trace::Range range("p2p.eager");
  Peer& peer = peers_[t.peer];
  const bool sync = t.mode == SendMode::synchronous;
  const size_t head = sync ? sizeof(EagerSync) : sizeof(Header);
  std::byte* room = peer.transport->reserve(t.peer, head + t.bytes);
  if (room == nullptr) return false;
  *reinterpret_cast<Header*>(room) = header(t, sync ? Type::eager_sync : Type::eager, t.bytes);
  if (sync) reinterpret_cast<EagerSync*>(room)->sender = reinterpret_cast<uint64_t>(&t);
  if (t.crossing) [[unlikely]]
    std::memcpy(room + head, t.crossing->packed.get(), t.bytes);
  else if (t.contiguous)
    copy_payload(room + head, t.data(), t.bytes, t.peer, peer);
  else if (t.bytes != 0)
    t.pack(0, room + head, t.bytes);
  peer.transport->commit(t.peer, head + t.bytes);
  if (!sync) return complete(t), true;
  t.state = Transfer::State::announced;  // complete when acknowledged
  if (peer.remote) cross(t);
  return true;
}

// A few bytes of device memory that the CPU reads itself. False: not this message, and nothing was done.
bool Engine::send_through_bar(Transfer& t, Peer& peer) {
  const trace::Range range("p2p.eager_bar");
  std::byte copied[kMostBar];
  if (!t.contiguous || t.bytes == 0 || t.bytes > sizeof copied || t.mode == SendMode::synchronous ||
      blocked(peer) || !has_credit(t.peer, t.bytes, peer) ||
      !device::bar_read(t.address, t.memory, copied, t.bytes))
    return false;
  std::byte* room = peer.transport->reserve(t.peer, sizeof(Header) + t.bytes);
  if (room == nullptr) return false;
  charge(peer, t.bytes);
  *reinterpret_cast<Header*>(room) = header(t, Type::eager, t.bytes);
  std::memcpy(room + sizeof(Header), copied, t.bytes);
  peer.transport->commit(t.peer, sizeof(Header) + t.bytes);
  complete(t);
  return true;
}

void Engine::take_odd_eager(Transfer& t, const std::byte* payload, size_t size) {
  if (size > t.bytes) [[unlikely]] {
    t.completion.bytes = t.bytes;
    return complete(t, truncation_error(t));
  }
  if (device_side(t)) [[unlikely]]
    return device_eager(t, payload, size);
  if (size != 0) t.unpack(0, payload, size);
  complete(t);
}

// To this process: straight into a posted receive; kept as an eager message when small, else as an
// announcement.
void Engine::send_to_self(Transfer& t) {
  const trace::Range range("p2p.self");
  const Header h = header(t, Type::ready_to_send, 0);
  match::Node* node = posted_.take({h.context, h.source, h.tag});
  if (node != nullptr) {
    auto& receiver = *static_cast<Transfer*>(node);
    matched(receiver, instance.self, h.source, h.tag, t.bytes);
    return copy_from_self(receiver, t);
  }
  if (t.memory.kind == device::MemoryKind::host && t.mode != SendMode::synchronous && t.bytes <= eager_max) {
    std::byte packed[16 << 10];
    if (t.bytes != 0) t.pack(0, packed, t.bytes);
    store(instance.self, header(t, Type::eager, t.bytes), packed, t.bytes);
    return complete(t);
  }
  ReadyToSend rts{};
  static_cast<Header&>(rts) = h;
  rts.sender = reinterpret_cast<uint64_t>(&t);
  rts.bytes = t.bytes;
  t.state = Transfer::State::announced;
  Message& kept = store(instance.self, rts, reinterpret_cast<const std::byte*>(&rts), sizeof rts);
  kept.sender = rts.sender;
  kept.completion.bytes = t.bytes;
}

}  // namespace weft::p2p
