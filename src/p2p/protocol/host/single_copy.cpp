// SPDX-License-Identifier: BSD-3-Clause
// Single copy: the kernel copies from the sender's host memory into the receive buffer (process_vm_readv). A
// sender that makes progress meanwhile copies parts of a large message itself (process_vm_writev; ADR 0047).
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/protocol/host/get_part.hpp"
#include "p2p/protocol/host/protocols.hpp"

namespace weft::p2p {
namespace {

Received received{{"p2p.single_copy_messages", counters::Unit::events,
                   "Messages received by one copy from host memory of the sender"},
                  {"p2p.single_copy_bytes", counters::Unit::bytes,
                   "Bytes received by one copy from host memory of the sender"}};

constexpr size_t kBounceBytes = 64 << 10;  // bytes read at a time for a noncontiguous buffer
constexpr size_t kLongRunBytes = 1 << 10;  // mean run length above which the kernel scatters directly
log::SlowPath single_copy_failed{"p2p.single_copy_failed",
                                 "this message goes through shared memory, about half the bandwidth"};

counters::Counter helped_bytes("p2p.helped_bytes", counters::Unit::bytes,
                               "Bytes of single copies that the sender has copied");

using transport::shm::SharedCopy;
constexpr uint8_t kMaxMisses = 5;  // after a miss, at most 2^5 copies are claimed as a whole

/// A large receive. Its chunks are claimed by this process when it makes progress, and by the sender if it
/// does.
struct SharedGet final : ProtocolState {
  SharedGet(Engine& owner, const ReadyToSend& announced)
      : engine(owner), queue(owner.staging.copies), rts(announced) {
    alone.open(number, rts.bytes);
    ++queue.waiting;
    ++queue.unoffered;
  }
  ~SharedGet() override {
    if (claiming) end_claims();
    WEFT_ASSERT(helper_done() || engine.instance.failures.changes() != 0);  // P2
    if (slot) engine.instance.shm->release_shared_copy(*slot);
  }
  /// Offers the copy to the sender, if there is a slot, and the kernel surely writes to the memory: it may
  /// refuse memory that a GPU driver has mapped.
  void offer(Transfer& t);
  void end_claims() {
    claiming = false;
    if (!slot) --queue.unoffered;
    helped = copy->close(rts.bytes);
    --queue.waiting;
    if (queue.current == this) queue.current = nullptr;
  }
  /// Whether the sender has copied all chunks that it has claimed.
  [[nodiscard]] bool helper_done() const {
    return copy->helper_chunks.load(std::memory_order_acquire) == helped;
  }

  Engine& engine;
  CopyQueue& queue;
  ReadyToSend rts;
  std::optional<uint32_t> slot;  ///< nullopt: not offered
  SharedCopy alone{};
  SharedCopy* copy = &alone;
  uint32_t number = 1;
  uint32_t helped = 0;    ///< chunks that the sender has claimed, once `claiming` is false
  bool claiming = true;   ///< a chunk may be unclaimed
  bool as_whole = false;  ///< the peer has copied nothing lately
  bool failed = false;    ///< this process could not copy
  std::optional<Error> error;
};

/// A send whose copy the receiver has offered.
struct SharedPut final : ProtocolState {
  SharedPut(CopyQueue& copies, const CopyOffer& received) : queue(copies), offer(received) {
    ++queue.unbegun;
  }
  ~SharedPut() override {
    begin();
    if (queue.helping == this) queue.helping = nullptr;
  }
  void begin() {
    if (!std::exchange(begun, true)) --queue.unbegun;
  }
  CopyQueue& queue;
  CopyOffer offer;
  bool begun = false;
};

transport::Iov iov(const void* address, size_t length) {
  return {reinterpret_cast<uint64_t>(address), length};
}

bool applicable(const MessageInfo& message) {
  return !message.remote && !message.device && message.contiguous && !device_side(message.to) &&
         message.sender_readable();
}

// Long runs are scattered by the kernel, short runs are unpacked from a buffer that fits the cache.
Status get_scattered(Engine& engine, Transfer& t, const ReadyToSend& rts) {
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
    return engine.instance.shm->get(t.peer, local, {&remote, 1});
  }
  return get_part(engine, t, rts.address, 0, rts.bytes);
}

void finish(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  engine.rendezvous.finish_sender(t.peer, rts.sender);
  engine.requests.complete(t);
}

bool get_alone(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  Status got = t.contiguous ? get_part(engine, t, rts.address, 0, rts.bytes) : get_scattered(engine, t, rts);
  if (!got) {
    if (engine.failures.sender_ended(t, got.error())) return true;
    single_copy_failed.hit(got.error().message());
    return false;
  }
  finish(engine, t, rts);
  return true;
}

void SharedGet::offer(Transfer& t) {
  transport::shm::Shm& shm = *engine.instance.shm;
  if (t.memory.kind == device::MemoryKind::host) slot = shm.lease_shared_copy();
  if (!slot) return;
  --queue.unoffered;
  copy = &shm.shared_copy(engine.instance.self, *slot);
  number = static_cast<uint32_t>(copy->claims.load(std::memory_order_relaxed) >> 32) + 1;
  copy->open(number, rts.bytes);
  CopyOffer message{};
  message.type = Type::copy_offer;
  message.sender = rts.sender;
  message.address = reinterpret_cast<uint64_t>(t.address);
  message.slot = *slot;
  message.number = number;
  engine.outgoing.post_control(t.peer, &message, sizeof message);
}

/// The next copies from a peer that has copied nothing of an offered one are claimed as a whole.
void note_help(Peer& peer, const SharedGet& get) {
  if (!get.slot || (get.as_whole && get.helped == 0)) return;
  peer.copy_misses = get.helped != 0 ? 0 : std::min<uint8_t>(peer.copy_misses + 1, kMaxMisses);
  peer.copy_pause = get.helped != 0 ? 0 : static_cast<uint8_t>(1U << peer.copy_misses);
}

/// Large copies wait for progress: a receive that is posted late returns at once, and the sends behind it
/// leave.
bool init(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  if (rts.bytes < SharedCopy::kMinBytes || !t.contiguous || engine.instance.oversubscribed)
    return get_alone(engine, t, rts);
  auto get = std::make_unique<SharedGet>(engine, rts);
  if (engine.staging.copies.unoffered == 1) get->offer(t);  // else the older ones come first
  t.use(kSingleCopy, std::move(get));
  (void)engine.requests.enlist(t);
  engine.requests.start_polling(t);
  return true;
}

/// Ends a copy of which both sides have done their part. If one could not, the receiver starts again alone.
void end_get(Engine& engine, Transfer& t, SharedGet& get) {
  const ReadyToSend rts = get.rts;
  if (get.error) return engine.requests.complete(t, std::move(*get.error));
  if (!get.failed && get.copy->refused.load(std::memory_order_relaxed) == 0) return finish(engine, t, rts);
  engine.requests.leave_protocol(t);
  if (!get_alone(engine, t, rts)) engine.rendezvous.start_without(kSingleCopy, t, rts);
}

/// Copies one part of the oldest receive.
bool progress_get(Engine& engine, Transfer& t) {
  auto& get = state_of<SharedGet>(t);
  bool progressed = false;
  if (get.claiming) {
    CopyQueue& queue = get.queue;
    if (!get.slot && queue.current != &get) get.offer(t);
    if (queue.current == nullptr) {
      queue.current = &get;
      Peer& peer = engine.peers[t.peer];
      get.as_whole = peer.copy_pause != 0;
      if (get.as_whole) --peer.copy_pause;
    }
    if (queue.current == &get) {
      const trace::Range range("p2p.get_host");
      const bool all = get.as_whole || !get.slot;
      if (const auto part = get.copy->claim(get.number, SharedCopy::Side::opener, get.rts.bytes, all)) {
        get.failed = !get_part(engine, t, get.rts.address + part->offset, part->offset, part->bytes).ok();
        progressed = true;
      }
    }
    if (!get.failed && get.copy->has_unclaimed()) return progressed;
    get.end_claims();
    note_help(engine.peers[t.peer], get);
  }
  if (!get.helper_done()) return progressed;
  end_get(engine, t, get);
  return true;
}

/// Copies one part of a send whose receiver has offered it, unless a receive of this process waits: first the
/// last half of each, so that both sides find the same halves of buffers in their caches in the next message.
bool progress_put(Engine& engine, Transfer& t) {
  auto& put = state_of<SharedPut>(t);
  CopyQueue& queue = put.queue;
  if (queue.helping == &put) queue.helping = nullptr;
  if (queue.waiting != 0 || queue.helping != nullptr || (put.begun && queue.unbegun != 0)) return false;
  put.begin();
  const trace::Range range("p2p.put_host");
  transport::shm::Shm& shm = *engine.instance.shm;
  SharedCopy& copy = shm.shared_copy(t.peer, put.offer.slot);
  const auto part = copy.claim(put.offer.number, SharedCopy::Side::helper, t.bytes);
  if (!part) {
    engine.requests.leave_protocol(t);
    return false;
  }
  const auto own = iov(t.data() + part->offset, part->bytes),
             other = iov(reinterpret_cast<void*>(put.offer.address + part->offset), part->bytes);
  const bool copied = shm.can_get(t.peer).ok() && shm.put(t.peer, {&own, 1}, {&other, 1}).ok();
  copy.finish(*part, copied);
  if (!copied) return engine.requests.leave_protocol(t), true;
  helped_bytes.add(part->bytes);
  queue.helping = &put;
  return true;
}

bool progress(Engine& engine, Transfer& t) {
  return t.kind == core::Request::Kind::receive ? progress_get(engine, t) : progress_put(engine, t);
}

bool stop(Engine& engine, Transfer& t, Error& error) {
  if (t.kind != core::Request::Kind::receive || engine.peers[t.peer].lost) return true;
  auto& get = state_of<SharedGet>(t);
  if (get.claiming) get.end_claims();
  if (get.helper_done()) return true;
  get.error = std::move(error);
  return false;
}

/// Copies parts of the payload into the receive buffer from now on.
bool help(Engine& engine, Transfer& t, const CopyOffer& offer) {
  if (!t.contiguous || device_side(t) || t.protocol != nullptr) return false;
  t.use(kSingleCopy, std::make_unique<SharedPut>(engine.staging.copies, offer));
  engine.requests.start_polling(t);
  return true;
}

}  // namespace

constinit const Protocol kSingleCopy{.name = "single copy",
                                     .text = "the receiver reads the sender's memory (process_vm_readv)",
                                     .applicable = applicable,
                                     .copies = 1,
                                     .init = init,
                                     .received = &received,
                                     .progress = progress,
                                     .stop = stop,
                                     .help = help};

Status get_part(Engine& engine, Transfer& t, uint64_t address, uint64_t offset, uint64_t n) {
  if (t.contiguous) {
    const auto local = iov(t.data() + offset, n), remote = iov(reinterpret_cast<void*>(address), n);
    return engine.instance.shm->get(t.peer, {&local, 1}, {&remote, 1});
  }
  std::vector<std::byte> buffer(std::min<uint64_t>(kBounceBytes, n));
  for (uint64_t at = 0; at < n; at += buffer.size()) {
    const size_t length = std::min<uint64_t>(buffer.size(), n - at);
    const auto local = iov(buffer.data(), length),
               remote = iov(reinterpret_cast<void*>(address + at), length);
    WEFT_TRY(engine.instance.shm->get(t.peer, {&local, 1}, {&remote, 1}));
    t.unpack(offset + at, buffer.data(), length);
  }
  return {};
}

}  // namespace weft::p2p
