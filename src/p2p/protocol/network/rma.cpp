// SPDX-License-Identifier: BSD-3-Clause
// Transfers between hosts. RMA get: the sender registers a contiguous buffer that the network supports and
// the receiver gets it: straight into the receive buffer, or fragment by fragment through host staging
// buffers if the receive is strided or on a GPU that the network does not reach. RMA fragments: a sender on
// such a GPU copies fragments to host memory and announces them. GPU copies and network overlap:
// net.pipeline_depth fragments per message are in flight.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/copy.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/gpudirect.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/message/validate.hpp"
#include "p2p/protocol/network/protocols.hpp"
#include "p2p/protocol/network/rma_memory.hpp"
#include "p2p/protocol/pipeline/pipeline.hpp"

namespace weft::p2p {
namespace {

Received received_by_fragments{{"p2p.rma_fragments_messages", counters::Unit::events,
                                "Messages received by announced fragments over the network"},
                               {"p2p.rma_fragments_bytes", counters::Unit::bytes,
                                "Bytes received by announced fragments over the network"}};

Received received_by_get{
    {"p2p.rma_get_messages", counters::Unit::events, "Messages received by a get over the network"},
    {"p2p.rma_get_bytes", counters::Unit::bytes, "Bytes received by a get over the network"}};

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

struct RmaSend final : ProtocolState {
  Registration whole_buffer;
};

/// A send of fragments: copied to host memory, registered when they are announced.
struct RmaFragmentsSend final : PipelinedSend {
  explicit RmaFragmentsSend(StagingLimits& limits) : PipelinedSend(&limits.sends) {}

 private:
  struct Fragment {
    uint64_t number;
    copy::HostChunk buffer;
    Registration registration{};
  };
  Result<Slot> reserve(const Transfer& t, uint64_t bytes) override;
  void release(uint64_t number, size_t) override {
    std::erase_if(fragments_, [&](const Fragment& fragment) { return fragment.number == number; });
  }
  Result<Handover> hand_over(Engine& engine, Transfer& t, Chunk& chunk) override;
  void post_failure(Engine& engine, const Transfer& t) const override;

  std::deque<Fragment> fragments_;
  uint64_t next_number_ = 0;
};

/// One fragment being read into the receive buffer.
struct FragmentGet final : transport::Completion {
  Engine* engine = nullptr;
  Transfer* transfer = nullptr;
  uint64_t offset = 0;  ///< in the message
  size_t size = 0;
  copy::HostChunk buffer;  ///< empty: read straight into the receive buffer
  device::Ticket upload;
  bool uploading = false;
  bool announced_by_sender = false;
  BounceChunk announcement{};  ///< echoed to the sender if `announced_by_sender`
};

struct RmaReceive final : ProtocolState {
  Limit::Use use;              ///< of staging buffers
  bool in_place = false;       ///< gets write straight into the receive buffer
  bool sender_failed = false;  ///< the sender announces no more fragments
  bool has_rkey = false;       ///< `rkey` names the sender's whole buffer; false: fragments are announced
  Rkey rkey{};
  uint64_t requested = 0;        ///< bytes of all gets issued so far
  uint64_t announced_bytes = 0;  ///< bytes of all fragments announced so far
  std::deque<FragmentAnnouncement> announced;
  std::vector<std::unique_ptr<FragmentGet>> gets;
};

[[gnu::cold]] Error sender_failed_error() {
  return Error(Errc::other, "the sender of this message could not copy it from its GPU: see its error");
}

bool get_applicable(const MessageInfo& message) { return message.remote && message.rkey; }
bool fragments_applicable(const MessageInfo& message) {
  return message.remote && !message.rkey && message.device;
}

// Sender: registers a contiguous buffer that the network reaches.
std::optional<RtsPart> append_rts(Engine& engine, Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (!engine.peers[t.peer].remote || !t.contiguous || t.bytes == 0) return std::nullopt;
  if (device_side(t.memory.kind) && !engine.gpudirect.usable(t.memory, t.peer)) return std::nullopt;
  Rkey& rkey = *new (out) Rkey{};
  auto registered =
      engine.instance.network->register_buffer(t.peer, {t.data(), t.bytes, t.memory}, rkey.bytes);
  if (!registered) {
    t.outcome = std::move(registered).error();
    return std::nullopt;
  }
  rkey.size = registered->rkey_size;
  rts.flags |= ReadyToSend::kRkey;
  auto state = std::make_unique<RmaSend>();
  state->whole_buffer = Registration(*engine.instance.network, registered->id);
  t.use(kRmaGet, std::move(state));
  return RtsPart{rkey.wire_size(), registered->id};
}

// Receiver.

void fragment_get_done(transport::Completion& self, Status outcome);

void issue_get(Engine& engine, Transfer& t, uint64_t offset, size_t size, const Rkey& rkey,
               uint64_t rkey_offset, const FragmentAnnouncement* announcement) {
  auto& state = state_of<RmaReceive>(t);
  FragmentGet& get = *state.gets.emplace_back(std::make_unique<FragmentGet>());
  get.done = fragment_get_done;
  get.engine = &engine;
  get.transfer = &t;
  get.offset = offset;
  get.size = size;
  if (announcement != nullptr) {
    get.announced_by_sender = true;
    get.announcement = *announcement;
  }
  transport::Buffer to{t.data() + offset, size, t.memory};
  if (!state.in_place) {
    get.buffer = lease_staging(t.memory, size);
    const View staging = get.buffer.view();
    to = {staging.data(), size, staging.memory};
  }
  engine.instance.network->get(t.peer, to, {rkey.bytes, rkey.size}, rkey_offset, get);
}

// Issues gets up to net.pipeline_depth.
void issue_gets(Engine& engine, Transfer& t) {
  auto& state = state_of<RmaReceive>(t);
  while (state.gets.size() < setting_depth && t.outcome) {
    if (state.has_rkey) {
      const uint64_t rest = t.expected - state.requested, offset = state.requested;
      if (rest == 0) return;
      const size_t size = state.in_place ? rest : std::min<uint64_t>(rest, setting_chunk);
      state.requested += size;
      issue_get(engine, t, offset, size, state.rkey, offset, nullptr);
    } else {
      if (state.announced.empty()) return;
      const FragmentAnnouncement announcement = state.announced.front();
      state.announced.pop_front();
      state.requested += announcement.size;
      issue_get(engine, t, announcement.offset, announcement.size, announcement.rkey, 0, &announcement);
    }
  }
}

// Starts a receive, unless it needs staging buffers and too many receives hold some. Returns false if it
// waits.
bool activate(Engine& engine, Transfer& t) {
  auto& state = state_of<RmaReceive>(t);
  if (!state.in_place) {
    state.use = engine.staging.gets.acquire();
    if (!state.use) return false;
    if (device_side(t.memory.kind))
      staged.hit(engine.instance.network->supports(t.memory)
                     ? "GPUDirect is not verified for the receiver's GPU, or not yet"
                     : "the network does not support the receiver's GPU memory");
  }
  if (state.has_rkey)
    issue_gets(engine, t);
  else
    engine.rendezvous.clear_to_send(t, kRmaFragments);
  return true;
}

void start_receive(Engine& engine, Transfer& t) {
  auto& state = state_of<RmaReceive>(t);
  (void)engine.requests.enlist(t);
  state.in_place = t.contiguous && (!device_side(t.memory.kind) ||
                                    (state.has_rkey && engine.gpudirect.usable(t.memory, t.peer)));
  if (!state.in_place) engine.requests.start_polling(t);
  (void)activate(engine, t);
}

bool init_get(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_remote");
  const auto& rkey = *reinterpret_cast<const Rkey*>(&rts + 1);
  auto state = std::make_unique<RmaReceive>();
  state->has_rkey = true;
  std::memcpy(&state->rkey, &rkey, rkey.wire_size());
  t.use(kRmaGet, std::move(state));
  start_receive(engine, t);
  return true;
}

bool init_fragments(Engine& engine, Transfer& t, const ReadyToSend&) {
  t.transferred = 0;
  t.use(kRmaFragments, std::make_unique<RmaReceive>());
  start_receive(engine, t);
  return true;
}

void finish_receive(Engine& engine, Transfer& t) {
  if (state_of<RmaReceive>(t).has_rkey) engine.rendezvous.finish_sender(t.peer, t.remote);
  engine.requests.complete(t);
}

// Issues further gets, or returns announced fragments unread after a failure. Returns true if the receive is
// complete.
bool continue_receive(Engine& engine, Transfer& t) {
  auto& state = state_of<RmaReceive>(t);
  issue_gets(engine, t);
  while (!t.outcome && !state.announced.empty()) {  // returned unread
    FragmentAnnouncement& announcement = state.announced.front();
    announcement.type = Type::chunk_done;
    engine.outgoing.post_control(t.peer, static_cast<BounceChunk*>(&announcement), sizeof(BounceChunk));
    t.transferred += announcement.size;
    state.announced.pop_front();
  }
  if (!state.gets.empty() ||
      (t.transferred != t.expected && !state.sender_failed && (!state.has_rkey || t.outcome)))
    return false;
  finish_receive(engine, t);
  return true;
}

/// Removes a get that is done or failed. Returns true if the receive is complete.
bool retire(Engine& engine, Transfer& t, FragmentGet& get) {
  t.transferred += get.size;
  std::erase_if(state_of<RmaReceive>(t).gets, [&](const auto& one) { return one.get() == &get; });
  return continue_receive(engine, t);
}

void fragment_get_done(transport::Completion& self, Status outcome) {
  auto& get = static_cast<FragmentGet&>(self);
  Engine& engine = *get.engine;
  Transfer& t = *get.transfer;
  if (get.announced_by_sender) {
    get.announcement.type = Type::chunk_done;
    engine.outgoing.post_control(t.peer, &get.announcement, sizeof get.announcement);
  }
  if (outcome && get.buffer && device_side(t.memory.kind)) {
    auto ticket = copy::submit(view_of(t).from(get.offset), get.buffer.view(), get.size, StreamRole::in);
    if (ticket) {
      get.upload = std::move(*ticket);
      get.uploading = true;
      return;  // retired by poll_uploads()
    }
    outcome = std::move(ticket).error();
  } else if (outcome && get.buffer) {
    t.unpack(get.offset, get.buffer.view().data(), get.size);
  }
  if (!outcome && t.outcome) t.outcome = std::move(outcome);
  (void)retire(engine, t, get);
}

bool poll_uploads(Engine& engine, Transfer& t) {
  auto& gets = state_of<RmaReceive>(t).gets;
  bool progressed = false;
  for (size_t i = 0; i < gets.size();) {
    FragmentGet& get = *gets[i];
    if (!get.uploading) {
      ++i;
      continue;
    }
    auto ready = device::done(get.upload);
    if (ready && !*ready) break;  // one stream: uploads end in order
    if (!ready && t.outcome) t.outcome = std::move(ready).error();
    progressed = true;
    if (retire(engine, t, get)) break;
  }
  return progressed;
}

void on_chunk_ready(Engine& engine, Transfer& t, const BounceChunk& chunk) {
  const auto& announcement = static_cast<const FragmentAnnouncement&>(chunk);
  auto& state = state_of<RmaReceive>(t);
  if ((announcement.flags & BounceChunk::kFailed) != 0) {
    if (t.outcome) t.outcome = sender_failed_error();
    state.sender_failed = true;
    if (state.gets.empty()) finish_receive(engine, t);
    return;
  }
  if (!announcement.within(t.expected) || announcement.rkey.size == 0 ||
      announcement.size > t.expected - state.announced_bytes || state.sender_failed)
    return drop_malformed();
  state.announced_bytes += announcement.size;
  state.announced.emplace_back();
  std::memcpy(static_cast<void*>(&state.announced.back()), &announcement,
              sizeof(BounceChunk) + announcement.rkey.wire_size());
  (void)continue_receive(engine, t);
}

// Sender of fragments.

bool accept(Engine& engine, Transfer& t) {
  if (!engine.peers[t.peer].remote || !device_side(t.memory.kind)) return false;
  engine.requests.leave_protocol(t);
  t.use(kRmaFragments, std::make_unique<RmaFragmentsSend>(engine.staging));
  return true;
}

Result<PipelinedSend::Slot> RmaFragmentsSend::reserve(const Transfer& t, uint64_t bytes) {
  if (chunks.size() >= setting_depth) return Slot{};
  const size_t n = std::min<uint64_t>(setting_chunk, bytes);
  Fragment& fragment = fragments_.emplace_back(Fragment{next_number_++, lease_staging(t.memory, n)});
  return Slot{fragment.number, n, fragment.buffer.view()};
}

Result<PipelinedSend::Handover> RmaFragmentsSend::hand_over(Engine& engine, Transfer& t, Chunk& chunk) {
  const auto fragment = std::find_if(fragments_.begin(), fragments_.end(),
                                     [&](const Fragment& one) { return one.number == chunk.number; });
  WEFT_ASSERT(fragment != fragments_.end());
  FragmentAnnouncement message{};
  const View staging = fragment->buffer.view();
  const transport::Buffer buffer{staging.data(), chunk.size, staging.memory};
  auto registered = engine.instance.network->register_buffer(t.peer, buffer, message.rkey.bytes);
  if (!registered) return std::move(registered).error();
  fragment->registration = Registration(*engine.instance.network, registered->id);
  static_cast<BounceChunk&>(message) = announcement(t, chunk);
  message.flags = BounceChunk::kPinned;
  message.rkey.size = registered->rkey_size;
  engine.outgoing.post_control(t.peer, &message, sizeof(BounceChunk) + message.rkey.wire_size());
  return Handover::announced;
}

void RmaFragmentsSend::post_failure(Engine& engine, const Transfer& t) const {
  FragmentAnnouncement message{};
  static_cast<BounceChunk&>(message) = announcement(t, {});
  message.flags = BounceChunk::kFailed;
  engine.outgoing.post_control(t.peer, &message, sizeof(BounceChunk) + sizeof message.rkey.size);
}

void on_chunk_done(Engine&, Transfer& t, const BounceChunk& chunk) {
  auto& fragments = state_of<RmaFragmentsSend>(t);
  auto* const read = fragments.announced(chunk.number);
  if (read == nullptr) return drop_malformed();
  fragments.returned(t, *read);
}

bool progress(Engine& engine, Transfer& t) {
  if (t.kind == core::Request::Kind::send) return state_of<RmaFragmentsSend>(t).stream(engine, t);
  const auto& state = state_of<RmaReceive>(t);
  return state.use ? poll_uploads(engine, t) : activate(engine, t);
}

// Somebody else may report the loss of a peer before the network does: it ends the gets in flight, and the
// last of them ends the receive.
bool stop(Engine&, Transfer& t, Error& error) {
  if (t.kind == core::Request::Kind::send) return true;
  auto& state = state_of<RmaReceive>(t);
  if (std::all_of(state.gets.begin(), state.gets.end(), [](const auto& get) { return get->uploading; }))
    return true;
  if (t.outcome) t.outcome = std::move(error);
  state.announced.clear();
  state.sender_failed = true;
  return false;
}

// The network has ended all gets.
void abort(Engine&, Transfer& t) {
  if (t.kind == core::Request::Kind::send) {
    if (t.protocol == &kRmaFragments) state_of<RmaFragmentsSend>(t).abort();
    return;
  }
  for (const auto& get : state_of<RmaReceive>(t).gets) (void)device::wait(get->upload);
}

}  // namespace

constinit const Protocol kRmaGet{.name = "RMA get",
                                 .text = "the receiver gets the sender's memory over the network",
                                 .applicable = get_applicable,
                                 .copies = 1,
                                 .init = init_get,
                                 .received = &received_by_get,
                                 .append_rts = append_rts,
                                 .progress = progress,
                                 .stop = stop,
                                 .abort = abort};

constinit const Protocol kRmaFragments{
    .name = "RMA fragments",
    .text = "the sender copies to host memory in fragments, which the receiver gets over the network",
    .applicable = fragments_applicable,
    .copies = 3,
    .init = init_fragments,
    .received = &received_by_fragments,
    .accept = accept,
    .progress = progress,
    .stop = stop,
    .abort = abort,
    .on_chunk_ready = on_chunk_ready,
    .on_chunk_done = on_chunk_done};

copy::HostChunk lease_staging(const device::Memory& near, size_t bytes) {
  if (near.known_to_driver()) {
    auto pinned = copy::HostChunk::lease(near);
    if (pinned && pinned->size() >= bytes) return std::move(*pinned);
    unpinned.hit(pinned ? "the fragment is larger than gpu.staging_chunk" : pinned.error().message());
  }
  return copy::HostChunk::pageable(bytes);
}

}  // namespace weft::p2p
