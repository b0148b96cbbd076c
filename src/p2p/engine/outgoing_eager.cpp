// SPDX-License-Identifier: BSD-3-Clause
// Eager messages: header and payload in one message. The send is complete once the transport has them.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine/choice.hpp"
#include "p2p/engine/outgoing.hpp"
#include "p2p/engine/protocol.hpp"

namespace weft::p2p {
namespace {

config::Size eager_max{
    "p2p.eager_max",
    16 << 10,
    0,
    16 << 10,
    "Largest host message in bytes sent eagerly inside a host; larger ones use rendezvous. Unless set, "
    "lowered per peer, to 4 KiB at least, where the kernel's single copy is measured to be faster.",
    "`weft tune` or a measurement of the program finds another value faster"};

config::Size remote_eager_max{
    "net.eager_max",
    64 << 10,
    0,
    1 << 20,
    "Largest message in bytes sent eagerly to another host, at most what the "
    "network accepts; larger ones use rendezvous.",
    "messages of 1 KiB to 1 MiB between hosts are slow: a larger value saves a round trip, a smaller "
    "one a copy"};
counters::Counter sent_messages("p2p.eager_messages", counters::Unit::events, "Messages sent eagerly");
counters::Counter sent_bytes("p2p.eager_bytes", counters::Unit::bytes, "Bytes of messages sent eagerly");

// An eager message is copied twice, by cores that may be far apart. Rendezvous costs an RTS and a system
// call, but copies only once. The break-even size differs between machines, from 3 KiB to never
// (bench/results/host-limits.json), so the first larger copies to each peer are timed.
constexpr uint64_t kAlwaysEager = 4096;  // bytes; lower bound of the eager limit
constexpr uint64_t kTimedSize = 8192;    // bytes per timed copy; other sizes are scaled
constexpr uint32_t kTimedCopies = 64;    // the first of them touch new pages

}  // namespace

// An eager KiB costs three times its copy into shared memory, since the copy out waits for each cache line. A
// KiB read by the kernel costs 60 ns; the system call is a fixed cost.
uint64_t eager_break_even(uint64_t copy_ns, uint64_t call_ns) {
  const uint64_t eager = 3 * copy_ns / 8, read = 60;  // ns per KiB
  return eager <= read ? UINT64_MAX : std::max(kAlwaysEager, 1024 * call_ns * 13 / 10 / (eager - read));
}

uint64_t eager_limit_of(uint64_t max_message) {
  return std::min<uint64_t>(eager_max, max_message - sizeof(EagerSync));
}

/// Recomputes the limit: the transport's largest message may have grown.
uint64_t Outgoing::eager_limit(uint32_t to, Peer& peer) {
  const size_t max_message = peer.transport->max_message(to);
  peer.eager_max = peer.remote ? std::min<uint64_t>(remote_eager_max, max_message - sizeof(EagerSync))
                               : std::min(eager_limit_of(max_message), peer.eager_break_even);
  return peer.eager_max;
}

/// Copies a payload into a message to the peer. The first kTimedCopies large copies are timed. Inlined: a
/// call is 23 of the 430 instructions of an 8-byte send.
[[gnu::always_inline]] inline void Outgoing::copy_payload(std::byte* slot, const void* from, uint64_t bytes,
                                                          uint32_t to, Peer& peer) {
  if (bytes <= kAlwaysEager || peer.copies_timed == kTimedCopies) [[likely]]
    return copy_small(slot, from, bytes);
  time_copy(slot, from, bytes, to, peer);
}

void Outgoing::time_copy(std::byte* slot, const void* from, uint64_t bytes, uint32_t to, Peer& peer) {
  const uint64_t begin = monotonic_ns();
  std::memcpy(slot, from, bytes);
  peer.copy_ns = std::min(peer.copy_ns, (monotonic_ns() - begin) * kTimedSize / bytes);
  if (++peer.copies_timed == kTimedCopies) choose_eager_limit(to, peer);
}

/// Sets the eager limit of a peer of this host to the measured break-even size, unless p2p.eager_max is set.
void Outgoing::choose_eager_limit(uint32_t to, Peer& peer) {
  if (peer.remote || eager_max.origin != config::Origin::default_value) return;
  const auto call = instance_.shm->get_cost(to);
  if (!call) return;
  peer.eager_break_even = eager_break_even(peer.copy_ns, *call);
  peer.eager_max = std::min(peer.eager_max, peer.eager_break_even);
  log::write(
      log::Level::debug,
      "p2p: host messages to process %u use rendezvous above %llu bytes: a copy of 8 KiB takes %llu ns, a "
      "read by the kernel %llu ns",
      to, static_cast<unsigned long long>(peer.eager_max), static_cast<unsigned long long>(peer.copy_ns),
      static_cast<unsigned long long>(*call));
}

/// Sends and counts an eager message. `write(header, payload)` writes both; the payload of `bytes` bytes
/// follows `head` bytes after the header's begin. Returns false if the transport has no room; nothing was
/// done then.
template <class Write>
[[gnu::always_inline]] inline bool Outgoing::write_message(uint32_t to, Peer& peer, size_t head,
                                                           uint64_t bytes, Write&& write) {
  std::byte* const message = reserve_message(to, peer, head + bytes);
  if (message == nullptr) return false;
  write(message, message + head);
  commit_message(to, peer, head + bytes);
  sent_messages.add();
  sent_bytes.add(bytes);
  return true;
}

bool Outgoing::send_now(const void* from, uint64_t bytes, uint32_t to, int tag, core::Communicator& comm,
                        core::Channel channel) {
  const trace::Range range("p2p.eager");
  if (to == instance_.self || comm.revoked) return false;
  Peer& peer = peers_[to];
  if (peer.blocked() || peer.unreached || !has_credit(to, bytes, peer)) return false;
  const core::ContextId context = comm.context(channel);
  const auto write = [&](std::byte* header, std::byte* payload) {
    new (header) EagerHeader(context, comm.rank(), tag);
    copy_payload(payload, from, bytes, to, peer);
  };
  if (!write_message(to, peer, EagerHeader::offset(bytes), bytes, write)) return false;
  charge(peer, bytes);
  count_sent(peer, {context, comm.rank(), tag}, bytes);
  return true;
}

bool Outgoing::send_copied(const void* from, const Transfer& t, Peer& peer) {
  WEFT_ASSERT(!peer.blocked());  // C3
  if (peer.unreached) return false;
  const auto write = [&](std::byte* header, std::byte* payload) {
    new (header) EagerHeader(t.context, t.comm->rank(), t.tag);
    std::memcpy(payload, from, t.bytes);
  };
  if (!write_message(t.peer, peer, EagerHeader::offset(t.bytes), t.bytes, write)) return false;
  charge(peer, t.bytes);
  count_sent(peer, {t.context, t.comm->rank(), t.tag}, t.bytes);
  return true;
}

/// Completes the send when its message has left this process. The first message to a peer of another host
/// waits for a connection, which this process makes while it progresses: a process that sends it, and then
/// computes, would keep it. Peers that compute themselves do not answer: a wait that times out halves the
/// limit.
void Outgoing::await_leaving(Transfer& t) {
  leaving_.push_back({t.peer, requests_.enlist(t), monotonic_ns()});
  t.enter(Transfer::State::rts_sent);
}

bool Outgoing::complete_left() {
  const uint64_t now = monotonic_ns();
  std::vector<Leaving> left;
  std::erase_if(leaving_, [&](const Leaving& of) {
    Peer& peer = peers_[of.to];
    if (peer.unreached && !peer.transport->left(of.to)) {
      if (now - of.since < contact_ns_) return false;
      contact_ns_ /= 2;
    }
    peer.unreached = false;
    left.push_back(of);
    return true;
  });
  for (const Leaving& of : left)
    if (Transfer* const t = requests_.find(of.send, of.to, Transfer::State::rts_sent)) requests_.complete(*t);
  return !left.empty();
}

bool Outgoing::try_eager(Transfer& t) {
  const trace::Range range("p2p.eager");
  Peer& peer = peers_[t.peer];
  const bool sync = t.mode == SendMode::synchronous;
  const auto write = [&](std::byte* begin, std::byte* payload) {
    if (sync)
      new (begin) EagerSync{header(t, Type::eager_sync, t.bytes), requests_.enlist(t)};
    else if (check_types_) [[unlikely]]
      new (begin) Header(header(t, Type::eager_typed, t.bytes));
    else
      new (begin) EagerHeader(t.context, t.comm->rank(), t.tag);
    if (t.protocol_state) [[unlikely]]
      std::memcpy(payload, state_of<PackedPayload>(t).bytes.get(), t.bytes);
    else if (t.contiguous)
      copy_payload(payload, t.data(), t.bytes, t.peer, peer);
    else if (t.bytes != 0)
      t.pack(0, payload, t.bytes);
  };
  const size_t head = sync ? sizeof(EagerSync) : check_types_ ? sizeof(Header) : EagerHeader::offset(t.bytes);
  if (!write_message(t.peer, peer, head, t.bytes, write)) return false;
  if (!sync && peer.unreached) [[unlikely]]
    return await_leaving(t), true;
  if (!sync) return requests_.complete_inline(t), true;
  t.enter(Transfer::State::rts_sent);  // completes on the acknowledgement
  return true;
}

}  // namespace weft::p2p
