// SPDX-License-Identifier: BSD-3-Clause
// Operations of a queue, and their launches.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/trace.hpp"
#include "datatype/shape.hpp"
#include "device/stream_words.hpp"
#include "stream/order/order.hpp"
#include "stream/queue.hpp"

namespace weft::stream {

namespace contract = device::kernel::enqueue;
using contract::Batch;

namespace {

config::Size setting_blocks(
    "stream.blocks", 16, 1, contract::kMaxHelpers + 1,
    "Thread blocks that copy an enqueued message of 1 MiB or more; smaller messages use fewer.");

config::Size pair_setting{"stream.pair_bytes", contract::kChunk, 0, contract::kChunk,
                          "Messages of kernels in streams up to this size, and of more than 4 KiB, are "
                          "written to a buffer that the "
                          "receiver has for the sender, without a handshake. 0: none."};

/// Helper blocks for an operation: one per further chunk. A single chunk gets none, since communicating
/// blocks take 4 us longer.
uint32_t helpers_of(const contract::Op& op) {
  const uint64_t chunks = (op.bytes + contract::kChunk - 1) / contract::kChunk;
  return static_cast<uint32_t>(std::min<uint64_t>(setting_blocks - 1, chunks == 0 ? 0 : chunks - 1));
}

constexpr uint64_t kUnknownCapture = ~uint64_t{0};  // of a driver that does not identify captures

/// Returns whether operation i is ordered behind earlier ones: sends to one rank keep their order, and an
/// earlier receive matches first.
bool order_behind_earlier(Batch& batch, uint32_t i) {
  contract::Op& op = batch.ops[i];
  op.before = contract::Op::kNone;
  bool waits = false;
  for (uint32_t j = i; j-- != 0;) {
    contract::Op& earlier = batch.ops[j];
    if (earlier.peer != op.peer || earlier.kind != op.kind || op.kind == contract::Op::copy) continue;
    earlier.flags |= contract::Op::has_successor;
    waits = true;
    if (op.kind == contract::Op::receive) continue;
    op.before = static_cast<uint16_t>(j);
    break;
  }
  return waits;
}

/// The number of a layout in a batch; it is added if no equal one is there. 0: contiguous.
uint16_t number_of(const contract::Runs& runs, std::vector<contract::Runs>& layouts) {
  if (runs.word == 0) return 0;
  const auto found = std::find_if(layouts.begin(), layouts.end(), [&](const contract::Runs& other) {
    return std::memcmp(&runs, &other, sizeof runs) == 0;
  });
  if (found == layouts.end()) return layouts.push_back(runs), static_cast<uint16_t>(layouts.size());
  return static_cast<uint16_t>(found - layouts.begin() + 1);
}

}  // namespace

/// Checks that a buffer is memory that the stream's GPU can access, with a layout that kernels know.
Result<Side> describe(const core::Communicator& comm, const device::UserStream& stream,
                      const p2p::Buffer& buffer, int tag) {
  const auto bytes = datatype::packed_size(*buffer.type, buffer.count);
  if (!bytes)
    return Error(Errc::count, "count = " + std::to_string(buffer.count) + " elements do not fit 64 bits");
  Side side = contiguous_side(buffer.address, static_cast<uint64_t>(*bytes), tag);
  if (side.bytes == 0) return side;
  if (!buffer.type->contiguous()) {
    if (!buffer.type->strided(buffer.count))
      return Error(Errc::unsupported,
                   "datatype is irregular: kernels in streams take blocks with up to three strides (pack it "
                   "in the stream before)");
    auto shape = datatype::shape_of(*buffer.type, buffer.count, buffer.address, 0, {});
    if (!shape) return std::move(shape).error();
    side.shape = *shape;
  }
  const device::Memory memory = device::classify_in_stream(side.address());
  if (memory.fault != 0) return Error(Errc::buffer, "the CUDA driver refused to classify the buffer");
  if (!memory.known_to_driver())
    return Error(
        Errc::buffer,
        "buf is pageable host memory, which a GPU stream cannot access: use GPU, managed or pinned memory");
  WEFT_TRY(check_pinned(comm, memory, "buf"));
  if (memory.on_device() && memory.device != stream.device)
    return Error(Errc::buffer, "buf is memory of GPU " + std::to_string(memory.device) +
                                   ", the stream belongs to GPU " + std::to_string(stream.device));
  return side;
}

Status check_pinned(const core::Communicator& comm, const device::Memory& memory, const char* name) {
  const order::Order* const order = order::Order::of(comm);
  if (order == nullptr || order->kernels == nullptr || order->pinned_in_order ||
      memory.kind != device::MemoryKind::host_pinned)
    return {};
  return Error(Errc::buffer, std::string(name) +
                                 " is pinned host memory, which the program might access before the stream "
                                 "does: use GPU memory, or set the hint weft_stream_order_pinned of the "
                                 "stream");
}

Result<contract::Runs> runs_of(const Side& side, uint32_t word) {
  return side.contiguous() ? contract::Runs{} : device::strided_runs(side.shape, side.bytes, word);
}

/// There are as many states as operations of a launch, so one is free.
uint16_t Queue::allocate_state(bool captured) {
  size_t i = captured ? contract::kOps : 0;
  while (states_[i]) ++i;
  WEFT_ASSERT(i < (captured ? contract::kStates : contract::kOps));  // S2
  states_[i] = true;
  return static_cast<uint16_t>(i);
}

Result<uint64_t> Queue::capturing() const {
  auto captured = device::capturing(target_);
  if (!captured) return std::move(captured).error();
  if (!*captured) return uint64_t{0};
  auto capture = device::capture_of(target_);
  if (capture) return capture->id;
  if (capture.error().code() != Errc::unsupported) return std::move(capture).error();
  return kUnknownCapture;
}

/// Operations begin and end either all inside of one capture or all outside.
Status Queue::same_capture(uint64_t now) {
  uint64_t other = now;
  for (const PendingOp& entry : pending_)
    if (entry.capture != now) other = entry.capture;
  for (const Request* const collective : collectives_)
    if (collective->capture != now) other = collective->capture;
  const auto given_up = [now](const Request* request) {
    return request->detached && request->capture != 0 && request->capture != now;
  };
  if (std::any_of(open_.begin(), open_.end(), given_up)) [[unlikely]]
    for (Request* const request : std::vector(open_))
      if (given_up(request)) WEFT_TRY(cancel(*request));  // nobody else can
  if (other == now) [[likely]]
    return {};
  return Error(Errc::other,
               other == 0 ? "the stream is captured, but earlier nonblocking operations are unfinished: "
                            "enqueue their wait, or a collective if they are freed, before the capture begins"
                          : "nonblocking operations were captured without a wait: enqueue it before the "
                            "capture ends, or free their requests after it");
}

Status Queue::add(PendingOp&& pending) {
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  WEFT_TRY(same_capture(*captured));
  const size_t limit =
      pending.request != nullptr ? contract::kOps - 1 : contract::kOps;  // for blocking calls
  if (pending_.size() + kept_ >= limit)
    return Error(Errc::no_mem, std::to_string(contract::kOps - 1) +
                                   " nonblocking operations are unfinished on this communicator: wait for "
                                   "some in the stream");
  if (pending.layout.word != 0 || pending.source_layout.word != 0) {
    std::vector<contract::Runs> layouts;
    for (const PendingOp& entry : pending_)
      number_of(entry.layout, layouts), number_of(entry.source_layout, layouts);
    number_of(pending.layout, layouts), number_of(pending.source_layout, layouts);
    const auto ops = static_cast<uint32_t>(pending_.size() + 1);
    if (ops * sizeof(Op) + layouts.size() * sizeof(contract::Runs) > sizeof(Batch::words))
      return Error(Errc::no_mem, std::to_string(layouts.size()) + " different layouts of " +
                                     std::to_string(ops) +
                                     " unfinished operations do not fit a launch: wait for some in the "
                                     "stream");
  }
  pending.capture = *captured;
  pending.op.state = allocate_state(*captured != 0);
  if (pending.op.kind != Op::copy) view_.publish(pending.op, target_.handle);
  pending_.push_back(std::move(pending));
  return {};
}

Status Queue::add(Op::Kind kind, const Side& side, int peer, Request* request, StatusAddress status,
                  uint8_t flags) {
  PendingOp pending{};
  auto layout = runs_of(side, device::word_of(side.shape, side.bytes));
  if (!layout) return std::move(layout).error();
  pending.layout = *layout;
  pending.request = request;
  Op& op = pending.op;
  op.address = side.shape.address;
  op.bytes = side.bytes;
  op.status = reinterpret_cast<uint64_t>(status);
  op.tag = side.tag;
  op.remote = mailbox_->region_of(peer);
  op.peer = static_cast<uint16_t>(peer);
  op.kind = kind;
  op.flags = flags;
  return add(std::move(pending));
}

contract::Batch Queue::make_batch(std::span<const PendingOp> ops, const Chosen& required) const {
  Batch batch;
  contract::Head& head = batch.head;
  head = {};
  head.region = mailbox_->region();
  head.fault = reinterpret_cast<uint64_t>(&mailbox_->fault());
  head.rank = static_cast<uint16_t>(comm_.rank());
  head.ranks = static_cast<uint16_t>(comm_.size());
  head.count = static_cast<uint16_t>(ops.size());
  head.required = static_cast<uint16_t>(required.count());
  bool any_successor = false;
  uint32_t helpers = 0;
  std::vector<contract::Runs> layouts;
  for (uint32_t i = 0; i < head.count; ++i) {
    batch.ops[i] = ops[i].op;
    Op& op = batch.ops[i];
    op.flags |=
        static_cast<uint8_t>((ops[i].launched ? 0 : Op::is_fresh) | (required[i] ? Op::is_required : 0));
    op.layout = number_of(ops[i].layout, layouts);
    op.source_layout = number_of(ops[i].source_layout, layouts);
    any_successor = order_behind_earlier(batch, i) || any_successor;
    if (required[i]) helpers += helpers_of(op);
  }
  WEFT_ASSERT(layouts.size() <= Batch::most_layouts(head.count));  // checked when they were added
  head.layouts = static_cast<uint16_t>(layouts.size());
  if (!layouts.empty()) std::memcpy(batch.layouts(), layouts.data(), layouts.size() * sizeof layouts[0]);
  head.helpers = static_cast<uint16_t>(std::min(helpers, contract::kMaxHelpers));
  head.pair_kib = static_cast<uint16_t>(pair_setting / 1024);
  head.independent = head.required == head.count && !any_successor && head.helpers == 0;
  return batch;
}

/// Launches one kernel with all pending operations; the required ones complete. These are pending no more,
/// also after an error.
Status Queue::launch(const Chosen& required, States states) {
  const trace::Range range("stream.launch");
  for (size_t i = 0; i < pending_.size() && states == States::free; ++i) {
    uint64_t& status = pending_[i].op.status;  // of a test; the next user of the state may have tests, too
    if (required[i] && status == reinterpret_cast<uint64_t>(mailbox_->status_of(pending_[i].op.state)))
      status = 0;
  }
  const Batch batch = make_batch(pending_, required);
  used_ = true;
  size_t kept = 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    pending_[i].launched = true;
    if (!required[i])
      pending_[kept++] = std::move(pending_[i]);
    else if (states == States::free)
      states_[pending_[i].op.state] = false;
    else
      ++kept_;
  }
  pending_.resize(kept);
  return turns_.take(comm_.instance, polls_, [&] { return device::enqueue(target_, batch); });
}

/// A copy as an operation. Both sides get the largest words that both allow.
Result<Queue::PendingOp> Queue::copy_of(const Side& to, const Side& from) const {
  const uint64_t bytes = std::min(to.bytes, from.bytes);
  const uint32_t word = std::min(device::word_of(to.shape, bytes), device::word_of(from.shape, bytes));
  PendingOp copy{};
  auto layout = runs_of(to, word), source = runs_of(from, word);
  if (!layout) return std::move(layout).error();
  if (!source) return std::move(source).error();
  copy.layout = *layout;
  copy.source_layout = *source;
  copy.op.kind = Op::copy;
  copy.op.address = to.shape.address;
  copy.op.remote = from.shape.address;
  copy.op.bytes = bytes;
  copy.op.tag = from.tag;
  copy.op.peer = static_cast<uint16_t>(comm_.rank());
  return copy;
}

Status Queue::copy_now(const Side& to, const Side& from) {
  const uint64_t bytes = std::min(to.bytes, from.bytes);
  if (bytes == 0) return {};
  used_ = true;
  if (to.contiguous() && from.contiguous())
    return turns_.take(comm_.instance, polls_,
                       [&] { return device::enqueue_copy(target_, to.address(), from.address(), bytes); });
  auto copy = copy_of(to, from);
  if (!copy) return std::move(copy).error();
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  copy->op.state = allocate_state(*captured != 0);
  states_[copy->op.state] = false;  // its next user comes later in the stream
  Chosen required;
  required[0] = true;
  const Batch batch = make_batch({&*copy, 1}, required);
  return turns_.take(comm_.instance, polls_, [&] { return device::enqueue(target_, batch); });
}

Status Queue::copy_later(const Side& to, const Side& from, Request& send, Request& receive) {
  if (std::min(to.bytes, from.bytes) == 0) return {};
  auto copy = copy_of(to, from);
  if (!copy) return std::move(copy).error();
  copy->request = &receive;
  copy->partner = &send;
  WEFT_TRY(add(std::move(*copy)));
  start_polling();
  return {};
}

}  // namespace weft::stream
