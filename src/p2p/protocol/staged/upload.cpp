// SPDX-License-Identifier: BSD-3-Clause
// Upload: a receiver in device memory reads the sender's host memory into pinned chunks, double-buffered, and
// copies these to the device. Also copies of whole messages between device and host memory.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/trace.hpp"
#include "device/bar.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/protocol/staged/protocols.hpp"
#include "p2p/protocol/staged/staging.hpp"

namespace weft::p2p {
namespace {

Received received{
    {"p2p.upload_messages", counters::Unit::events, "Messages received from host memory into GPU memory"},
    {"p2p.upload_bytes", counters::Unit::bytes, "Bytes received from host memory into GPU memory"}};

using device::StreamRole;

bool applicable(const MessageInfo& message) {
  return !message.remote && !message.device && message.contiguous && device_side(message.to) &&
         message.sender_readable();
}

bool init(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_host_to_device");
  t.use(kUpload, std::make_unique<Staging>());
  auto& staging = state_of<Staging>(t);
  if (!lease_chunk(t, 0)) return false;
  const bool two = rts.bytes > staging.chunks[0].pinned.size() && lease_chunk(t, 1);
  for (uint64_t offset = 0, step = 0; offset < rts.bytes; ++step) {
    Staging::Chunk& chunk = staging.chunks[two ? step & 1 : 0];
    const size_t n = std::min<uint64_t>(chunk.pinned.size(), rts.bytes - offset);
    const transport::Iov local{reinterpret_cast<uint64_t>(chunk.pinned.data()), n};
    const transport::Iov remote{rts.address + offset, n};
    Status copied = chunk.ticket.pending() ? device::wait(chunk.ticket) : Status{};
    if (copied) copied = engine.instance.shm->get(t.peer, {&local, 1}, {&remote, 1});
    if (copied) copied = upload(t, chunk, offset, n);
    if (!copied) {
      if (engine.failures.sender_ended(t, copied.error())) return true;
      if (offset == 0) return false;
      wait_for_uploads(t);
      engine.rendezvous.finish_sender(t.peer, rts.sender);
      engine.requests.complete(t, std::move(copied).error());
      return true;
    }
    offset += n;
  }
  engine.rendezvous.finish_sender(t.peer, rts.sender);
  track_uploads(engine, t);
  return true;
}

void abort(Engine&, Transfer& t) { wait_for_uploads(t); }

// The payload is valid during this call only.
void upload_eager(Engine& engine, Transfer& t, const std::byte* payload, size_t size) {
  const trace::Range range("p2p.upload_eager");
  if (size == 0 || (t.contiguous && device::bar_write(t.address, t.memory, payload, size)))
    return engine.requests.complete(t);
  t.use(kUpload, std::make_unique<Staging>());
  auto& staging = state_of<Staging>(t);
  if (lease_chunk(t, 0) && staging.chunks[0].pinned.size() >= size) {
    Staging::Chunk& chunk = staging.chunks[0];
    std::memcpy(chunk.pinned.data(), payload, size);
    if (auto sent = upload(t, chunk, 0, size); !sent)
      return engine.requests.complete(t, std::move(sent).error());
    return track_uploads(engine, t);
  }
  auto ticket = copy::submit(view_of(t), copy::plain(payload), size, StreamRole::in);
  if (!ticket) return engine.requests.complete(t, std::move(ticket).error());
  if (auto copied = device::wait(*ticket); !copied)
    return engine.requests.complete(t, std::move(copied).error());
  engine.requests.complete(t);
}

}  // namespace

constinit const Protocol kUpload{
    .name = "upload",
    .text = "the receiver reads the sender's memory into pinned chunks and copies them to the GPU",
    .applicable = applicable,
    .copies = 2,
    .init = init,
    .received = &received,
    .abort = abort,
    .upload_eager = upload_eager};

}  // namespace weft::p2p
