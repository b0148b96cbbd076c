// SPDX-License-Identifier: BSD-3-Clause
#include "stream/queue.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/trace.hpp"
#include "datatype/shape.hpp"

namespace weft::stream {

namespace contract = device::kernel::enqueue;
using contract::Batch;

namespace {

constexpr uint64_t kBarrierBytes = 512;             // behind the buffer for messages to oneself
constexpr uint64_t kFailureNoticeNs = 500'000'000;  // longer than it takes to notice the end of a process

/// Writes a status that the host already knows. Layout: api/status.hpp.
Status write_status(StatusAddress status, const core::Completion& completion) {
  if (status == nullptr) return {};
  const auto bytes = completion.bytes;
  const int32_t words[8] = {completion.source, completion.tag, static_cast<int32_t*>(status)[2],
                            static_cast<int32_t>(bytes), static_cast<int32_t>(bytes >> 32)};
  std::memcpy(status, words, sizeof words);
  return {};
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
      self_messages_(*this, mailbox_->self_buffer(static_cast<uint32_t>(comm.rank())),
                     Mailbox::kSelfBufferBytes - kBarrierBytes, comm.rank()),
      view_(comm, mailbox_->beats(), mailbox_->collective_beat()) {}

void* Queue::barrier_word() const {
  const auto buffer = mailbox_->self_buffer(static_cast<uint32_t>(comm_.rank()));
  return reinterpret_cast<void*>(buffer + Mailbox::kSelfBufferBytes - kBarrierBytes);
}

Queue::~Queue() {
  if (registered_) comm_.instance.remove(*this);
}

/// A blocking call: the operation added last completes before later work in the stream.
Status Queue::complete_last() {
  Chosen required;
  required[pending_.size() - 1] = true;
  WEFT_TRY(launch(required));
  return report_fault();
}

/// Returns the failure of a rank, which ends all operations of the communicator. The kernels may have left
/// before the failure detector has looked.
Status Queue::check_ranks() {
  if (behind_) [[unlikely]]
    WEFT_TRY(come_behind());
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

Status Queue::failure() {
  WEFT_TRY(check_ranks());
  return report_fault();
}

Status Queue::follow(const device::UserStream* stream) {
  void* const handle = stream != nullptr ? stream->handle : stream_->gpu->handle;
  if (handle == target_.handle) return {};
  if (stream != nullptr && stream->context != target_.context)
    return Error(Errc::arg,
                 "the stream belongs to another GPU or context than that of the communicator's creation");
  WEFT_TRY(await_freed());
  WEFT_TRY(come_behind());
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  if (used_ && *captured == 0) WEFT_TRY(check_idle());
  void* const earlier = target_.handle;
  WEFT_TRY(redirect(handle));
  if (!behind_ && used_) behind_ = earlier;
  if (behind_ == handle) behind_.reset();
  return come_behind();
}

/// Outside of captures: orders later operations behind those in the stream that follow() has left.
Status Queue::come_behind() {
  if (!behind_) [[likely]]
    return {};
  const device::UserStream earlier{*behind_, target_.context, target_.device};
  for (const device::UserStream& stream : {target_, earlier}) {
    auto captured = device::capturing(stream);
    if (!captured) return std::move(captured).error();
    if (*captured) return {};
  }
  behind_.reset();
  return turns_.take(comm_.instance, polls_, [&] { return device::join(target_, earlier.handle); });
}

Status Queue::redirect(void* handle) {
  WEFT_TRY(await_freed());
  core::wait_until(comm_.instance,
                   [&] { return !turns_.taken(); });  // other threads, into the current stream
  if (!pending_.empty() || !self_messages_.idle() || !collectives_.empty())
    return Error(
        Errc::comm,
        "nonblocking enqueued operations of the communicator are unfinished: enqueue their wait before "
        "another stream is used");
  target_.handle = handle;
  return {};
}

/// After a failure: ends the requests without their operations.
void Queue::drop(std::span<Request* const> requests) {
  for (Request* const request : requests) {
    std::erase_if(pending_, [&](const PendingOp& entry) {
      if (!entry.belongs_to(request)) return false;
      states_[entry.op.state] = false;
      return true;
    });
    self_messages_.drop(*request);
    retire(*request);
  }
}

Status Queue::send(const p2p::Buffer& buffer, int dest, int tag) {
  WEFT_TRY(check_ranks());
  if (dest == p2p::kProcNull) return {};
  auto side = describe(comm_, *stream_->gpu, buffer, tag);
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
  auto side = describe(comm_, *stream_->gpu, buffer, tag);
  if (!side) return std::move(side).error();
  if (source == comm_.rank()) {
    auto captured = capturing();
    if (!captured) return std::move(captured).error();
    auto completion = self_messages_.receive(*side, *captured);
    if (!completion) return std::move(completion).error();
    return write_status(status, *completion);
  }
  WEFT_TRY(add(Op::receive, *side, source, nullptr, status));
  return complete_last();
}

Result<core::Request*> Queue::start_send(const p2p::Buffer& buffer, int dest, int tag) {
  WEFT_TRY(check_ranks());
  auto side = describe(comm_, *stream_->gpu, buffer, tag);
  if (!side) return std::move(side).error();
  WEFT_TRY(await_freed({&*side, 1}));
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  Request* request = Request::slab().create(comm_);
  if (request == nullptr) return core::no_more_requests();
  request->capture = *captured;
  Status started;
  if (dest == comm_.rank()) {
    self_messages_.start_send(*side, *request, *captured);
    started = self_messages_.match();
  } else if (dest != p2p::kProcNull) {
    started = add(Op::send, *side, dest, request, nullptr);
    start_polling();
  }
  if (started.ok()) return request;
  self_messages_.drop(*request);
  request->destroy();
  return std::move(started).error();
}

Result<core::Request*> Queue::start_receive(const p2p::Buffer& buffer, int source, int tag) {
  WEFT_TRY(check_ranks());
  auto side = describe(comm_, *stream_->gpu, buffer, tag);
  if (!side) return std::move(side).error();
  WEFT_TRY(await_freed({&*side, 1}));
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  Request* request = Request::slab().create(comm_);
  if (request == nullptr) return core::no_more_requests();
  request->capture = *captured;
  request->completion = {p2p::kProcNull, p2p::kAnyTag, 0, false};
  Status started;
  if (source == comm_.rank()) {
    self_messages_.start_receive(*side, *request, *captured);
    started = self_messages_.match();
  } else if (source != p2p::kProcNull) {
    started = add(Op::receive, *side, source, request, nullptr);
    start_polling();
  }
  if (started.ok()) return request;
  self_messages_.drop(*request);
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
  Status first;
  for (size_t r = 0; r < requests.size(); ++r) {
    Request& request = *requests[r];
    Status outcome = self_messages_.finish(request);
    if (outcome.ok() && !request.outcome.ok()) outcome = request.outcome.error().copy();
    const StatusAddress status = statuses.empty() ? nullptr : statuses[r];
    const auto entry = std::find_if(pending_.begin(), pending_.end(), [&](const PendingOp& e) {
      return e.request == &request && e.op.kind != Op::send;
    });
    if (entry != pending_.end())
      entry->op.status = reinterpret_cast<uint64_t>(status);
    else if (outcome.ok() && !unfinished(request))
      outcome = write_status(status, request.completion);  // of MPI_PROC_NULL or oneself
    if (first.ok()) first = std::move(outcome);
  }
  const Chosen required = entries_of(requests);
  Status launched = required.any() ? launch(required) : turns_.follow(comm_.instance, polls_);
  for (Request* request : requests) retire(*request);
  WEFT_TRY(std::move(launched));
  if (!first.ok()) return first;
  return report_fault();
}

void Queue::adopt(Request& request) {
  request.become_ordinary();
  if (!unfinished(request)) return request.finish();  // of MPI_PROC_NULL or oneself
  open_.push_back(&request);
  start_polling();
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
  for (size_t i = open_.size(); i-- > 0;)  // freed, and put into the stream by other waits
    if (open_[i]->detached && !unfinished(*open_[i])) retire(*open_[i]);
  caller_ = std::this_thread::get_id();
  if (registered_) return;
  registered_ = true;
  comm_.instance.add(*this);
}

Status Queue::settle() {
  Status outcome = come_behind();
  if (!outcome.ok()) return outcome;
  ++settling_;
  core::wait_until(comm_.instance, [&] { return !used_ || !(outcome = check_idle()).ok(); });
  --settling_;
  return outcome;
}

Status Queue::check_idle() {
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  if (*captured != 0)
    return Error(Errc::comm, "the communicator's stream is being captured: end the capture first");
  if (turns_.taken()) return {};  // by another thread, without the lock: not yet in the stream
  auto idle = device::idle(target_);
  if (!idle) return std::move(idle).error();
  used_ = !*idle;
  return {};
}

Status Queue::close() {
  std::vector<Request*> freed;  // by MPI_Request_free
  for (Request* const request : open_)
    if (request->detached) freed.push_back(request);
  if (!freed.empty()) WEFT_TRY(finish(freed));
  if (!pending_.empty() || !self_messages_.idle() || !collectives_.empty())
    return Error(Errc::comm,
                 "enqueued operations of the communicator have no wait or no matching operation: enqueue it "
                 "before MPI_Comm_free");
  WEFT_TRY(settle());
  if (mailbox_->cancelled() || !comm_.instance.failures.check(comm_).ok()) {
    mailbox_->close_alone(comm_);
    return {};
  }
  WEFT_TRY(report_fault());  // the communicator stays as it is, and is freed once more
  Status closed = mailbox_->close(comm_);
  // After a failure or revocation it has been closed alone.
  return comm_.instance.failures.check(comm_).ok() ? std::move(closed) : Status();
}

}  // namespace weft::stream
