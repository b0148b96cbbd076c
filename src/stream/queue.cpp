// SPDX-License-Identifier: BSD-3-Clause
#include "stream/queue.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/trace.hpp"
#include "datatype/datatype.hpp"

namespace weft::stream {

namespace contract = device::kernel::enqueue;
using contract::Batch;

namespace {

config::Size setting_blocks(
    "stream.blocks", 16, 1, contract::kMaxHelpers + 1,
    "Thread blocks that copy an enqueued message of 1 MiB or more; smaller messages use fewer.");

constexpr uint64_t kFailureNoticeNs = 500'000'000;  // longer than it takes to notice the end of a process
constexpr uint64_t kPollIntervalNs = 100'000;       // between launches for operations that no call waits for

/// Helper blocks for an operation: one per further chunk. A single chunk gets none, since communicating
/// blocks take 4 us longer.
uint32_t helpers_of(const contract::Op& op) {
  const uint64_t chunks = (op.bytes + contract::kChunk - 1) / contract::kChunk;
  return static_cast<uint32_t>(std::min<uint64_t>(setting_blocks - 1, chunks == 0 ? 0 : chunks - 1));
}

/// Returns whether operation i is ordered behind earlier ones: sends to one rank keep their order, and an
/// earlier receive matches first.
bool order_behind_earlier(Batch& batch, uint32_t i) {
  contract::Op& op = batch.ops[i];
  op.before = contract::Op::kNone;
  bool waits = false;
  for (uint32_t j = i; j-- != 0;) {
    contract::Op& earlier = batch.ops[j];
    if (earlier.peer != op.peer || earlier.kind != op.kind) continue;
    earlier.flags |= contract::Op::has_successor;
    waits = true;
    if (op.kind == contract::Op::receive) continue;
    op.before = static_cast<uint16_t>(j);
    break;
  }
  return waits;
}

}  // namespace

Slab<Request>& Request::slab() {
  static Slab<Request> requests(size_t{1} << 20);
  return requests;
}

Queue::Queue(core::Communicator& comm, core::Ref<Stream> stream, std::unique_ptr<Mailbox> mailbox)
    : comm_(comm),
      stream_(std::move(stream)),
      target_(*stream_->gpu),
      mailbox_(std::move(mailbox)),
      self_messages_(target_, mailbox_->self_buffer(static_cast<uint32_t>(comm.rank())),
                     Mailbox::kSelfBufferBytes, comm.rank()),
      view_(comm, mailbox_->beats()) {}

Queue::~Queue() {
  if (registered_) comm_.instance.remove(*this);
}

/// Checks that a buffer is contiguous memory that the stream's GPU can access.
Result<Side> Queue::describe(const p2p::Buffer& buffer, int tag) const {
  const auto bytes = datatype::packed_size(*buffer.type, buffer.count);
  if (!bytes)
    return Error(Errc::count, "count = " + std::to_string(buffer.count) + " elements do not fit 64 bits");
  Side side{buffer.address, static_cast<uint64_t>(*bytes), tag};
  if (side.bytes == 0) return side;
  if (!buffer.type->contiguous())
    return Error(Errc::unsupported,
                 "datatype is not contiguous: enqueued operations take contiguous data (pack it in the "
                 "stream before)");
  const device::Memory memory = device::classify_in_stream(buffer.address);
  if (memory.fault != 0) return Error(Errc::buffer, "the CUDA driver refused to classify the buffer");
  if (!memory.known_to_driver())
    return Error(
        Errc::buffer,
        "buf is pageable host memory, which a GPU stream cannot access: use GPU, managed or pinned memory");
  if (memory.on_device() && memory.device != stream_->gpu->device)
    return Error(Errc::buffer, "buf is memory of GPU " + std::to_string(memory.device) +
                                   ", the stream belongs to GPU " + std::to_string(stream_->gpu->device));
  return side;
}

/// There are as many states as operations of a launch, so one is free.
uint16_t Queue::allocate_state(bool captured) {
  size_t i = captured ? contract::kOps : 0;
  while (states_[i]) ++i;
  WEFT_ASSERT(i < (captured ? contract::kStates : contract::kOps));  // S2
  states_[i] = true;
  return static_cast<uint16_t>(i);
}

/// Operations begin and end either all inside a capture or all outside.
Status Queue::same_capture(bool now) const {
  for (const PendingOp& entry : pending_)
    if (entry.captured != now)
      return Error(Errc::other,
                   now ? "the stream is captured, but earlier nonblocking operations are unfinished: "
                         "enqueue their wait before the capture begins"
                       : "nonblocking operations were captured without a wait: "
                         "enqueue it before the capture ends");
  return {};
}

Status Queue::add(Op::Kind kind, const Side& side, int peer, Request* request, StatusAddress status) {
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  WEFT_TRY(same_capture(*captured));
  if (request != nullptr && pending_.size() + 1 >= contract::kOps)  // one state is kept for blocking calls
    return Error(Errc::no_mem,
                 std::to_string(contract::kOps - 1) +
                     " nonblocking enqueued operations are unfinished on this communicator: enqueue a "
                     "wait for some");
  Op op{};
  op.address = reinterpret_cast<uint64_t>(side.address);
  op.bytes = side.bytes;
  op.status = reinterpret_cast<uint64_t>(status);
  op.tag = side.tag;
  op.remote = mailbox_->region_of(peer);
  op.peer = static_cast<uint16_t>(peer);
  op.state = allocate_state(*captured);
  op.kind = kind;
  view_.publish(op);
  pending_.push_back({op, request, false, *captured});
  return {};
}

/// Launches one kernel with all pending operations; the required ones complete.
Status Queue::launch(const Chosen& required) {
  const trace::Range range("stream.launch");
  Batch batch;
  contract::Head& head = batch.head;
  head = {};
  head.region = mailbox_->region();
  head.fault = reinterpret_cast<uint64_t>(&mailbox_->fault());
  head.rank = static_cast<uint16_t>(comm_.rank());
  head.ranks = static_cast<uint16_t>(comm_.size());
  head.count = static_cast<uint16_t>(pending_.size());
  head.required = static_cast<uint16_t>(required.count());
  bool any_successor = false;
  uint32_t helpers = 0;
  for (uint32_t i = 0; i < head.count; ++i) {
    batch.ops[i] = pending_[i].op;
    Op& op = batch.ops[i];
    op.flags =
        static_cast<uint8_t>((pending_[i].launched ? 0 : Op::is_fresh) | (required[i] ? Op::is_required : 0));
    any_successor = order_behind_earlier(batch, i) || any_successor;
    if (required[i]) helpers += helpers_of(op);
  }
  head.helpers = static_cast<uint16_t>(std::min(helpers, contract::kMaxHelpers));
  head.independent = head.required == head.count && !any_successor && head.helpers == 0;
  WEFT_TRY(device::enqueue(target_, batch));
  used_ = true;
  size_t kept = 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    pending_[i].launched = true;
    if (required[i])
      states_[pending_[i].op.state] = false;
    else
      pending_[kept++] = pending_[i];
  }
  pending_.resize(kept);
  return {};
}

/// A blocking call: the operation added last completes before later work in the stream.
Status Queue::complete_last() {
  Chosen required;
  required[pending_.size() - 1] = true;
  Status launched = launch(required);
  if (!launched.ok()) {
    states_[pending_.back().op.state] = false;
    pending_.pop_back();
    return launched;
  }
  return report_fault();
}

/// Returns the failure of a rank, which ends all operations of the communicator. The kernels may have left
/// before the failure detector has looked.
Status Queue::check_ranks() {
  core::FailureDetector& failures = comm_.instance.failures;
  if (!mailbox_->cancelled() && failures.changes() == 0) [[likely]]
    return {};
  const uint64_t deadline = monotonic_ns() + kFailureNoticeNs;
  core::wait_until(comm_.instance, [&] {
    return !mailbox_->cancelled() || !failures.check(comm_).ok() || monotonic_ns() > deadline;
  });
  Status alive = failures.check(comm_);
  if (!alive.ok() || !mailbox_->cancelled()) return alive;
  return Error(Errc::proc_aborted,
               "a rank of the communicator has ended without MPI_Finalize: look for its own last messages");
}

Status Queue::redirect(void* handle) {
  if (!pending_.empty() || !self_messages_.idle())
    return Error(
        Errc::comm,
        "nonblocking enqueued operations of the communicator are unfinished: enqueue their wait before "
        "another stream is used");
  target_.handle = handle;
  return {};
}

/// After a failure: ends the requests without their operations.
void Queue::drop(std::span<Request* const> requests) {
  std::erase_if(pending_, [&](const PendingOp& entry) {
    if (std::find(requests.begin(), requests.end(), entry.request) == requests.end()) return false;
    states_[entry.op.state] = false;
    return true;
  });
  for (Request* request : requests) request->destroy();
}

Status Queue::send(const p2p::Buffer& buffer, int dest, int tag) {
  WEFT_TRY(check_ranks());
  if (dest == p2p::kProcNull) return {};
  auto side = describe(buffer, tag);
  if (!side) return std::move(side).error();
  if (dest == comm_.rank()) {
    auto captured = capturing();
    if (!captured) return std::move(captured).error();
    return self_messages_.send(*side, *captured);
  }
  WEFT_TRY(add(Op::send, *side, dest, nullptr, nullptr));
  return complete_last();
}

Status Queue::receive(const p2p::Buffer& buffer, int source, int tag, StatusAddress status) {
  WEFT_TRY(check_ranks());
  if (source == p2p::kProcNull) return write_status(status, {p2p::kProcNull, p2p::kAnyTag, 0, false});
  auto side = describe(buffer, tag);
  if (!side) return std::move(side).error();
  if (source == comm_.rank()) {
    auto completion = self_messages_.receive(*side);
    if (!completion) return std::move(completion).error();
    return write_status(status, *completion);
  }
  WEFT_TRY(add(Op::receive, *side, source, nullptr, status));
  return complete_last();
}

Result<core::Request*> Queue::start_send(const p2p::Buffer& buffer, int dest, int tag) {
  WEFT_TRY(check_ranks());
  auto side = describe(buffer, tag);
  if (!side) return std::move(side).error();
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  Request* request = Request::slab().create(comm_);
  if (request == nullptr) return core::no_more_requests();
  Status started;
  if (dest == comm_.rank()) {
    self_messages_.start_send(*side, *request, *captured);
    started = self_messages_.match();
  } else if (dest != p2p::kProcNull) {
    started = add(Op::send, *side, dest, request, nullptr);
    start_polling();
  }
  if (started.ok()) return request;
  request->destroy();
  return std::move(started).error();
}

Result<core::Request*> Queue::start_receive(const p2p::Buffer& buffer, int source, int tag) {
  WEFT_TRY(check_ranks());
  auto side = describe(buffer, tag);
  if (!side) return std::move(side).error();
  Request* request = Request::slab().create(comm_);
  if (request == nullptr) return core::no_more_requests();
  request->completion = {p2p::kProcNull, p2p::kAnyTag, 0, false};
  Status started;
  if (source == comm_.rank()) {
    self_messages_.start_receive(*side, *request);
    started = self_messages_.match();
  } else if (source != p2p::kProcNull) {
    started = add(Op::receive, *side, source, request, nullptr);
    start_polling();
  }
  if (started.ok()) return request;
  request->destroy();
  return std::move(started).error();
}

Status Queue::wait(std::span<Request* const> requests, std::span<const StatusAddress> statuses) {
  if (Status alive = check_ranks(); !alive.ok()) {
    drop(requests);
    return alive;
  }
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  WEFT_TRY(same_capture(*captured));
  Chosen required;
  Status first;
  for (size_t r = 0; r < requests.size(); ++r) {
    const StatusAddress status = statuses.empty() ? nullptr : statuses[r];
    const auto entry = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const PendingOp& e) { return e.request == requests[r]; });
    if (entry != pending_.end()) {
      if (entry->op.kind == Op::receive) entry->op.status = reinterpret_cast<uint64_t>(status);
      required[static_cast<size_t>(entry - pending_.begin())] = true;
      continue;
    }
    core::Completion completion = requests[r]->completion;  // of MPI_PROC_NULL
    Status outcome;
    if (self_messages_.contains(*requests[r])) {
      auto finished = self_messages_.finish(*requests[r]);
      if (finished.ok())
        completion = *finished;
      else
        outcome = std::move(finished).error();
    }
    if (outcome.ok()) outcome = write_status(status, completion);
    if (first.ok()) first = std::move(outcome);
  }
  if (required.any()) {
    Status launched = launch(required);
    if (!launched.ok()) return launched;
  }
  for (Request* request : requests) request->destroy();
  if (!first.ok()) return first;
  return report_fault();
}

/// Writes a status that the host already knows. Layout: api/status.hpp.
Status Queue::write_status(StatusAddress status, const core::Completion& completion) const {
  if (status == nullptr) return {};
  const auto bytes = completion.bytes;
  const int32_t words[8] = {completion.source, completion.tag, static_cast<int32_t*>(status)[2],
                            static_cast<int32_t>(bytes), static_cast<int32_t>(bytes >> 32)};
  std::memcpy(status, words, sizeof words);
  return {};
}

/// Returns an error that a kernel reported since the last call.
Status Queue::report_fault() {
  contract::Fault& reported = mailbox_->fault();
  if (__atomic_load_n(&reported.seen, __ATOMIC_ACQUIRE) == 0) [[likely]]
    return {};
  const contract::Fault fault = reported;
  __atomic_store_n(&reported.seen, 0, __ATOMIC_RELEASE);
  return Error(Errc::truncate, "a message of " + std::to_string(fault.bytes) + " bytes with tag " +
                                   std::to_string(fault.tag) + " from rank " + std::to_string(fault.peer) +
                                   " was longer than the " + std::to_string(fault.capacity) +
                                   " bytes of its enqueued receive, in an earlier call");
}

void Queue::start_polling() {
  if (registered_) return;
  registered_ = true;
  comm_.instance.add(*this);
}

/// While the host waits in MPI: launches pending operations if the stream is idle.
bool Queue::poll() {
  if (pending_.empty()) {
    registered_ = false;
    comm_.instance.remove(*this);
    return false;
  }
  const uint64_t now = monotonic_ns();
  if (now < next_poll_ns_ || mailbox_->cancelled()) return false;
  next_poll_ns_ = now + kPollIntervalNs;
  auto captured = capturing();
  if (!captured.ok() || *captured || pending_.front().captured) return false;
  auto idle = device::idle(target_);
  if (!idle.ok() || !*idle) return false;
  return launch({}).ok();
}

Status Queue::settle() {
  Status outcome;
  core::wait_until(comm_.instance, [&] { return !used_ || !(outcome = check_idle()).ok(); });
  return outcome;
}

Status Queue::check_idle() {
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  if (*captured)
    return Error(Errc::comm, "the communicator's stream is being captured: end the capture first");
  auto idle = device::idle(target_);
  if (!idle) return std::move(idle).error();
  used_ = !*idle;
  return {};
}

Status Queue::close() {
  if (!pending_.empty() || !self_messages_.idle())
    return Error(Errc::comm,
                 "enqueued operations of the communicator have no wait or no matching operation: enqueue it "
                 "before MPI_Comm_free");
  WEFT_TRY(settle());
  if (mailbox_->cancelled() || !comm_.instance.failures.check(comm_).ok()) {
    mailbox_->close_alone();
    return {};
  }
  WEFT_TRY(mailbox_->close(comm_));
  return report_fault();
}

}  // namespace weft::stream
