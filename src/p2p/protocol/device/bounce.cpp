// SPDX-License-Identifier: BSD-3-Clause
// Device memory through GPU bounce buffers: the sender packs chunks into memory that the receiver has mapped,
// the receiver reads each chunk and returns it. Packing and reading overlap.
#include "p2p/protocol/device/bounce.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/engine/regions.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/message/validate.hpp"
#include "p2p/protocol/device/choice.hpp"
#include "p2p/protocol/device/protocols.hpp"

namespace weft::p2p {
namespace {

Received received{
    {"p2p.bounce_messages", counters::Unit::events, "Messages received from a bounce buffer of the sender"},
    {"p2p.bounce_bytes", counters::Unit::bytes, "Bytes received from a bounce buffer of the sender"}};

log::SlowPath no_bounce{"p2p.device_without_bounce",
                        "staged through host memory, 5 to 50 times slower than NVLink"};

/// Chunks of the bounce buffers in one piece of a message: so long that the launches and messages of one
/// piece take less time than NVLink needs for its bytes.
constexpr size_t kPieceChunks = 2;

/// Gets alternate between two streams, so that the end of one overlaps the start of the next.
device::StreamRole next_stream(BounceReceive& receive) {
  return receive.started++ % 2 == 0 ? device::StreamRole::in : device::StreamRole::aux;
}

Error sender_failed() {
  return Error(Errc::other, "the sender of this message could not pack it on its GPU: see its error");
}

bool applicable(const MessageInfo& message) {
  return message.device && message.region && message.bounce && device_side(message.to);
}

// Sender: appends the region of the bounce buffer, which the receiver maps.
std::optional<RtsPart> append_rts(Engine& engine, Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (engine.peers[t.peer].remote) return std::nullopt;
  auto arena = engine.bounce_pool.arena(t.memory);
  auto size = arena ? engine.regions.append_export((*arena)->memory, t.peer, rts, out)
                    : Result<size_t>(std::move(arena).error());
  if (!size) {
    no_bounce.hit(size.error().message());
    return std::nullopt;
  }
  rts.flags |= ReadyToSend::kBounce;
  t.use(kBounce, std::make_unique<BounceSend>(**arena));
  return RtsPart{*size + append_eager_pack(t, rts, out + *size)};
}

// Receiver: requests the first chunks.
bool init(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_through_bounce");
  if (!map_bounce(engine, t, kBounce, rts)) return false;
  engine.rendezvous.clear_to_send(t, kBounce);
  return true;
}

// Sender: an eagerly packed message, which the receiver's kernel did not unpack in time, is one packed chunk.
bool accept(Engine&, Transfer& t) {
  if (t.protocol == &kEagerPack) t.protocol = &kBounce;
  return t.protocol == &kBounce;
}

// Receiver: a chunk has been read, or could not be. Returns true if the receive is complete.
bool finish_get(Engine& engine, Transfer& t, const BounceChunk& chunk, Status outcome) {
  BounceChunk reply = chunk;
  reply.type = Type::chunk_done;
  engine.outgoing.post_control(t.peer, &reply, sizeof reply);
  if (!outcome && t.outcome) t.outcome = std::move(outcome);
  t.transferred += chunk.size;
  if (t.transferred < t.expected || !state_of<BounceReceive>(t).gets.empty()) return false;
  finish_bounce_receive(engine, t);
  return true;
}

bool poll_gets(Engine& engine, Transfer& t) {
  auto& gets = state_of<BounceReceive>(t).gets;
  bool progressed = false;
  for (size_t i = 0; i < gets.size();) {
    auto ready = device::done(gets[i].ticket);
    if (ready && !*ready) {
      ++i;
      continue;
    }
    const BounceChunk chunk = gets[i].chunk;
    gets.erase(gets.begin() + static_cast<ptrdiff_t>(i));
    progressed = true;
    if (finish_get(engine, t, chunk, ready ? Status{} : Status(std::move(ready).error()))) return true;
  }
  return progressed;
}

// Receiver: reads a chunk into the receive buffer.
void on_chunk_ready(Engine& engine, Transfer& t, const BounceChunk& chunk) {
  const trace::Range range("p2p.get_chunk");
  auto& state = state_of<BounceReceive>(t);
  const transport::cuda_ipc::Mapping& mapping = *state.mapping;
  if ((chunk.flags & BounceChunk::kFailed) != 0) {
    if (t.outcome) t.outcome = sender_failed();
    t.completion.bytes = t.transferred;
    t.expected = 0;
    if (state.gets.empty()) finish_bounce_receive(engine, t);
    return;
  }
  if (!chunk.within(t.expected) || (chunk.flags & BounceChunk::kPinned) != 0 ||
      !mapping.contains(chunk.address, chunk.size))
    return drop_malformed();
  const View from{static_cast<std::byte*>(mapping.at(chunk.address)), nullptr, 0, mapping.memory()};
  auto ticket = copy::submit(view_of(t).from(chunk.offset), from, chunk.size, next_stream(state));
  if (!ticket) return (void)finish_get(engine, t, chunk, std::move(ticket).error());
  state.gets.push_back({std::move(*ticket), chunk, engine.bounce_pool.gets.acquire()});
}

// Sender: the receiver has returned a chunk.
void on_chunk_done(Engine&, Transfer& t, const BounceChunk& chunk) {
  auto& bounce = state_of<BounceSend>(t);
  auto* const used = bounce.announced(chunk.number);
  if (used == nullptr) return drop_malformed();
  bounce.returned(t, *used);
}

bool progress(Engine& engine, Transfer& t) {
  return t.kind == core::Request::Kind::send ? state_of<BounceSend>(t).stream(engine, t)
                                             : poll_gets(engine, t);
}

}  // namespace

constinit const Protocol kBounce{.name = "bounce",
                                 .text = "packed into a GPU bounce buffer, copied from there",
                                 .applicable = applicable,
                                 .copies = 2,
                                 .init = init,
                                 .received = &received,
                                 .append_rts = append_rts,
                                 .accept = accept,
                                 .progress = progress,
                                 .abort = abort_bounce,
                                 .on_chunk_ready = on_chunk_ready,
                                 .on_chunk_done = on_chunk_done};

// Two H200, us one way by one copy, and packed: 8 B 4.6 and 15.4, 1 MiB 10.5 and 17.7, 4 MiB 18.4 and 27.3
// (bench/results/pools.json). Larger messages are packed in pieces when the receiver requests them, for which
// the sender must make progress: 16 MiB take 77 us, 64 MiB 257, by one copy 43 and 172
// (bench/results/bounce-puts-2-h200.json).
uint64_t bounce_extra_ns(uint64_t bytes) {
  constexpr uint64_t kFixedNs = 9000, kBytesPerNs = 600;
  const uint64_t packed_at_send = eager_pack_limit();
  return kFixedNs + (bytes > packed_at_send ? bytes - packed_at_send : 0) / kBytesPerNs;
}

bool mapping_pays(Engine& engine, const Transfer& t) {
  if (!t.memory.shareable()) return true;  // reported by the attempt
  const core::MappingRule::Key key{t.peer, true, t.memory.buffer_id};
  const auto extra_ns = [&] {
    return engine.bounce_pool.arena(t.memory) ? bounce_extra_ns(t.bytes) : core::MappingRule::kNoOtherPath;
  };
  using enum core::MappingRule::Alternative;
  return engine.instance.memory->mapping_pays(key, extra_ns, t.in_collective() ? collective : none);
}

// As many pieces as there are, so that packing is ahead of the gets: the chunks of a requested message are
// returned soon. A message without any takes a smaller one.
Result<PipelinedSend::Slot> BounceSend::reserve(const Transfer&, uint64_t bytes) {
  const size_t most = std::min(kPieceChunks, arena->chunks_for(bytes)), least = chunks.empty() ? 1 : most;
  for (size_t count = most; count >= least; --count)
    if (const auto number = arena->reserve(count))
      return Slot{*number, std::min<uint64_t>(count * arena->chunk, bytes), arena->view(*number),
                  device::StreamRole::out};
  return Slot{};
}

Result<PipelinedSend::Handover> BounceSend::hand_over(Engine& engine, Transfer& t, Chunk& chunk) {
  const trace::Range range("p2p.announce_chunk");
  BounceChunk message = announcement(t, chunk);
  message.address = reinterpret_cast<uint64_t>(arena->at(static_cast<uint32_t>(chunk.number)));
  engine.outgoing.post_control(t.peer, &message, sizeof message);
  return Handover::announced;
}

// The receiver reads no further chunk. Chunks that it is reading are returned as usual.
void BounceSend::post_failure(Engine& engine, const Transfer& t) const {
  BounceChunk message = announcement(t, {});
  message.flags = BounceChunk::kFailed;
  engine.outgoing.post_control(t.peer, &message, sizeof message);
}

bool map_bounce(Engine& engine, Transfer& t, const Protocol& protocol, const ReadyToSend& rts) {
  auto* const mapping = engine.regions.map(t, rts);
  if (mapping == nullptr) return false;
  (void)engine.requests.enlist(t);
  t.transferred = 0;
  t.use(protocol, std::make_unique<BounceReceive>());
  state_of<BounceReceive>(t).mapping = mapping;
  engine.requests.start_polling(t);
  return true;
}

void finish_bounce_receive(Engine& engine, Transfer& t) {
  engine.importer().release(state_of<BounceReceive>(t).mapping);
  Peer& peer = engine.peers[t.peer];
  peer.reply_due = peer.unmapped = true;
  engine.requests.complete(t);
}

void abort_bounce(Engine& engine, Transfer& t) {
  if (t.kind == core::Request::Kind::send) {
    state_of<BounceSend>(t).abort();
    return;
  }
  auto& state = state_of<BounceReceive>(t);
  for (BounceReceive::Get& get : state.gets) (void)device::wait(get.ticket);
  engine.importer().release(state.mapping);
}

}  // namespace weft::p2p
