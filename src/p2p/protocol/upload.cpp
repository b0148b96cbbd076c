// SPDX-License-Identifier: BSD-3-Clause
// Upload: a receiver in device memory reads the sender's host memory into pinned chunks, double-buffered, and
// copies these to the device. Also copies of whole messages between device and host memory.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/trace.hpp"
#include "device/bar.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"
#include "p2p/protocol/protocol.hpp"
#include "p2p/staging.hpp"

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
    if (copied) copied = engine.shm()->get(t.peer, {&local, 1}, {&remote, 1});
    if (copied) copied = upload(t, chunk, offset, n);
    if (!copied) {
      if (engine.sender_ended(t, copied.error())) return true;
      if (offset == 0) return false;
      wait_for_uploads(t);
      engine.finish_sender(t.peer, rts.sender);
      Engine::complete(t, std::move(copied).error());
      return true;
    }
    offset += n;
  }
  engine.finish_sender(t.peer, rts.sender);
  track_uploads(engine, t);
  return true;
}

void abort(Engine&, Transfer& t) { wait_for_uploads(t); }

/// Packs through a pinned chunk, since kernels pack into pinned memory only. Returns false if no chunk is
/// free.
Result<bool> pack_through_pinned(const Transfer& t, std::byte* to) {
  auto pinned = device::lease_pinned(t.memory);
  if (!pinned) return false;
  const View chunk{reinterpret_cast<std::byte*>(pinned->data()), nullptr, 0, pinned->memory()};
  for (uint64_t offset = 0; offset < t.bytes;) {
    const size_t n = std::min<uint64_t>(pinned->size(), t.bytes - offset);
    auto ticket = submit_part_out(chunk, view_of(t), offset, n, StreamRole::out);
    if (!ticket) return std::move(ticket).error();
    WEFT_TRY(device::wait(*ticket));
    std::memcpy(to + offset, chunk.address, n);
    offset += n;
  }
  return true;
}

}  // namespace

constinit const Protocol kUpload{.name = "upload",
                                 .applicable = applicable,
                                 .copies = 2,
                                 .init = init,
                                 .received = &received,
                                 .abort = abort};

Status Engine::pack_out(const Transfer& t, std::byte* to) {
  if (t.bytes == 0) return {};
  if (!device_side(t)) return t.pack(0, to, t.bytes), Status{};
  if (!t.contiguous) {
    auto packed = pack_through_pinned(t, to);
    if (!packed) return std::move(packed).error();
    if (*packed) return {};
  }
  auto ticket = submit_part_out({to, nullptr, 0, {}}, view_of(t), 0, t.bytes, StreamRole::out);
  if (!ticket) return std::move(ticket).error();
  return device::wait(*ticket);
}

void upload_eager(Engine& engine, Transfer& t, const std::byte* payload, size_t size) {
  const trace::Range range("p2p.upload_eager");
  if (size == 0 || (t.contiguous && device::bar_write(t.address, t.memory, payload, size)))
    return Engine::complete(t);
  t.use(kUpload, std::make_unique<Staging>());
  auto& staging = state_of<Staging>(t);
  if (lease_chunk(t, 0) && staging.chunks[0].pinned.size() >= size) {
    Staging::Chunk& chunk = staging.chunks[0];
    std::memcpy(chunk.pinned.data(), payload, size);
    if (auto sent = upload(t, chunk, 0, size); !sent) return Engine::complete(t, std::move(sent).error());
    return track_uploads(engine, t);
  }
  const View from{const_cast<std::byte*>(payload), nullptr, 0, {}};
  auto ticket = submit_part(view_of(t), 0, from, size, StreamRole::in);
  if (!ticket) return Engine::complete(t, std::move(ticket).error());
  if (auto copied = device::wait(*ticket); !copied) return Engine::complete(t, std::move(copied).error());
  Engine::complete(t);
}

}  // namespace weft::p2p
