// SPDX-License-Identifier: BSD-3-Clause
// Ordinary calls that kernels execute: requests that the stream or the host completes.
#include <algorithm>
#include <string>

#include "base/clock.hpp"
#include "stream/queue.hpp"

namespace weft::stream {
namespace {

namespace contract = device::kernel::enqueue;

constexpr uint64_t kPollIntervalNs = 100'000;   // between launches for operations that no call waits for
constexpr uint64_t kTestIntervalNs = 5'000;     // the same while the program tests requests
constexpr uint32_t kNotWritten = 0xffff'ffffu;  // source of a status; a rank is never negative

bool receives(const Part& part) { return part.kind == Part::Kind::receive; }

/// Lets the kernel write the status of an operation to memory of the host.
void arm(contract::Op& op, const Mailbox& mailbox) {
  uint32_t* const status = mailbox.status_of(op.state);
  __atomic_store_n(status, kNotWritten, __ATOMIC_RELAXED);
  op.status = reinterpret_cast<uint64_t>(status);
}

/// Returns whether the kernel has written the status of an operation; that of a receive is for `request`.
bool read_status(const contract::Op& op, const Mailbox& mailbox, Request* request) {
  const uint32_t* const status = mailbox.status_of(op.state);
  if (op.status != reinterpret_cast<uint64_t>(status) ||
      __atomic_load_n(status, __ATOMIC_ACQUIRE) == kNotWritten)
    return false;
  if (op.kind != contract::Op::send && request != nullptr)
    request->completion = {static_cast<int>(status[0]), static_cast<int>(status[1]),
                           status[3] | uint64_t{status[4]} << 32, false};
  return true;
}

}  // namespace

Status Request::start() {
  auto queue = queue_of(*comm);
  if (!queue) return std::move(queue).error();
  rearm();
  cancelling = false;
  Status started = collective != nullptr ? (*queue)->start_collective(*this) : (*queue)->start(*this, parts);
  if (!started.ok()) active = false;
  return started;
}

/// Takes back what an unsuccessful start has added.
void Queue::undo(Request& request) {
  std::erase_if(pending_, [&](const PendingOp& entry) {
    if (!entry.belongs_to(&request)) return false;
    states_[entry.op.state] = false;
    return true;
  });
  self_messages_.drop(request);
  forget(request);
}

Status Queue::start(Request& request, std::span<const Part> parts) {
  WEFT_TRY(check_ranks());
  std::vector<Side> sides;
  for (const Part& part : parts) {
    auto side = part.peer == p2p::kProcNull ? Result<Side>(Side{})
                                            : describe(comm_, *stream_->gpu, part.buffer, part.tag);
    if (!side) return std::move(side).error();
    sides.push_back(*side);
  }
  return begin(request, parts, sides);
}

Status Queue::begin(Request& request, std::span<const Part> parts, std::span<const Side> sides) {
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  WEFT_TRY(same_capture(*captured));
  if (!sides.empty()) WEFT_TRY(await_freed(sides));
  request.capture = *captured;
  open_.push_back(&request);
  bool all_null = true;
  Status added;
  for (size_t i = 0; i < parts.size() && added.ok(); ++i) {
    const Part& part = parts[i];
    if (part.peer == p2p::kProcNull) {
      if (receives(part)) request.completion = {p2p::kProcNull, p2p::kAnyTag, 0, false};
      continue;
    }
    all_null = false;
    if (part.peer == comm_.rank() && receives(part)) {
      self_messages_.start_receive(sides[i], request, *captured);
    } else if (part.peer == comm_.rank()) {
      self_messages_.start_send(sides[i], request, *captured, part.kind == Part::Kind::synchronous_send);
    } else {
      uint8_t flags = 0;
      if (part.kind == Part::Kind::synchronous_send) flags = Op::is_synchronous;
      added = add(receives(part) ? Op::receive : Op::send, sides[i], part.peer, &request, nullptr, flags);
    }
  }
  if (added.ok()) added = self_messages_.match();
  if (!added.ok()) {
    undo(request);
    return added;
  }
  if (all_null) {
    forget(request);
    request.finish();
  }
  start_polling();
  return {};
}

Status Queue::start_collective(Request& request) {
  WEFT_TRY(check_ranks());
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  WEFT_TRY(same_capture(*captured));
  request.capture = *captured;
  open_.push_back(&request);
  collectives_.push_back(&request);
  start_polling();
  return {};
}

Status Queue::replace(Request& request, const Part& send, const Part& receive) {
  const Part parts[] = {receive, send};
  if (send.peer == p2p::kProcNull || receive.peer == p2p::kProcNull) return start(request, parts);
  WEFT_TRY(check_ranks());
  auto to = describe(comm_, *stream_->gpu, receive.buffer, receive.tag),
       from = describe(comm_, *stream_->gpu, send.buffer, send.tag);
  if (!to) return std::move(to).error();
  if (!from) return std::move(from).error();
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  uint64_t part = 0;
  core::wait_until(comm_.instance, [&] {  // other threads give theirs back
    part = self_messages_.reserve(from->bytes, *captured, request);
    return part != 0 || !self_messages_.reserves();
  });
  if (part == 0)
    return Error(Errc::unsupported,
                 std::to_string(from->bytes) +
                     " bytes are too many for the memory in which kernels replace data: use MPI_Sendrecv "
                     "with two buffers");
  const Side copy = contiguous_side(reinterpret_cast<void*>(part), from->bytes, send.tag);
  Status started = copy_now(copy, *from);
  const Side sides[] = {*to, copy};
  if (started.ok()) started = begin(request, parts, sides);
  if (!started.ok()) self_messages_.drop(request);
  return started;
}

Status Queue::check_wait(const Request& request) const {
  auto now = capturing();
  if (!now) return std::move(now).error();
  if (request.capture == *now || request.complete()) return {};
  return Error(Errc::request,
               std::string(request.name) +
                   (request.capture != 0
                        ? " was captured: enqueue its wait within the same capture, with MPI_STATUS_IGNORE"
                        : " was enqueued before the capture: enqueue its wait before the capture begins"));
}

bool Queue::unfinished(const Request& request) const {
  return self_messages_.contains(request) ||
         std::any_of(pending_.begin(), pending_.end(),
                     [&](const PendingOp& entry) { return entry.belongs_to(&request); }) ||
         std::find(collectives_.begin(), collectives_.end(), &request) != collectives_.end();
}

Queue::Chosen Queue::entries_of(std::span<Request* const> requests) {
  Chosen chosen;
  for (size_t i = 0; i < pending_.size(); ++i)
    chosen[i] = std::any_of(requests.begin(), requests.end(),
                            [&](const Request* request) { return pending_[i].belongs_to(request); });
  return chosen;
}

/// The program can't wait for requests that it has freed: the stream does.
Status Queue::await_freed(std::span<const Side> more) {
  if (open_.empty()) return {};
  size_t layouts = 0;
  for (const Side& side : more)
    if (!side.contiguous()) layouts += 2;
  for (const PendingOp& entry : pending_)
    layouts += (entry.layout.word != 0) + (entry.source_layout.word != 0);
  const size_t ops = pending_.size() + more.size();
  if (!more.empty() && ops + kept_ < contract::kOps &&
      ops * sizeof(Op) + layouts * sizeof(contract::Runs) <= sizeof(contract::Batch::words))
    return {};
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  std::vector<Request*> freed;
  for (Request* const request : open_) {
    const bool pending = std::any_of(pending_.begin(), pending_.end(),
                                     [&](const PendingOp& entry) { return entry.belongs_to(request); });
    if (request->detached && request->capture == *captured && pending) freed.push_back(request);
  }
  return freed.empty() ? Status() : await(freed);
}

Status Queue::enqueue_collectives(std::span<Request* const> requests) {
  const auto any_left = [&] {
    return std::any_of(requests.begin(), requests.end(), [&](const Request* request) {
      return std::find(collectives_.begin(), collectives_.end(), request) != collectives_.end();
    });
  };
  Status freed = any_left() ? await_freed() : Status();
  core::wait_until(comm_.instance, [&] { return !enqueuing_; });  // in another thread
  if (any_left()) {
    auto captured = capturing();
    if (!captured) return std::move(captured).error();
    WEFT_TRY(same_capture(*captured));
  }
  enqueuing_ = true;
  while (any_left()) {
    Request* const request = collectives_.front();
    collectives_.pop_front();
    collective_name_ = request->name;
    Status enqueued = request->collective->run();  // releases the lock
    collective_name_ = nullptr;
    if (!enqueued.ok()) request->outcome = std::move(enqueued);
  }
  enqueuing_ = false;
  return freed;
}

/// The caller ends the requests: polls don't, so they stay valid while the lock is released.
void Queue::take_over(std::span<Request* const> requests) {
  for (const Request* const request : requests) std::erase(open_, request);
  if (open_.empty()) tested_ = false;
  core::wait_until(comm_.instance, [&] { return !enqueuing_; });
}

void Queue::finish_self(std::span<Request* const> requests) {
  for (Request* const request : requests)
    if (Status outcome = self_messages_.finish(*request); !outcome.ok())
      request->outcome = std::move(outcome);
}

void Queue::forget(Request& request) {
  std::erase(open_, &request);
  std::erase(collectives_, &request);
  if (open_.empty()) tested_ = false;
}

void Queue::retire(Request& request) {
  forget(request);
  if (request.persistent && !request.detached)
    request.active = false;
  else
    request.destroy();
}

Status Queue::await(std::span<Request* const> requests) {
  take_over(requests);
  if (Status alive = check_ranks(); !alive.ok()) {
    drop(requests);
    return alive;
  }
  const bool ended = std::all_of(requests.begin(), requests.end(),
                                 [](const Request* request) { return request->complete(); });
  Status cancelled = finish_cancelled(*this, requests);
  finish_self(requests);
  const Chosen required = entries_of(requests);
  Status launched = required.any() ? launch(required)
                    : ended        ? Status()
                                   : turns_.follow(comm_.instance, polls_);
  if (launched.ok()) launched = enqueue_collectives(requests);
  Status first;
  for (Request* const request : requests) {
    if (first.ok() && !request->outcome.ok()) first = request->outcome.error().copy();
    self_messages_.drop(*request);  // of a receive that would never complete
    retire(*request);
  }
  WEFT_TRY(std::move(cancelled));
  WEFT_TRY(std::move(launched));
  WEFT_TRY(std::move(first));
  return report_fault();
}

Status Queue::finish(std::span<Request* const> requests) {
  take_over(requests);
  Status outcome = check_ranks(), fault;
  if (outcome.ok()) outcome = finish_cancelled(*this, requests);
  if (outcome.ok()) {
    finish_self(requests);
    const Chosen required = entries_of(requests);
    std::vector<PendingOp> launched;
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (!required[i]) continue;
      arm(pending_[i].op, *mailbox_);
      launched.push_back(pending_[i]);
    }
    if (!launched.empty()) outcome = launch(required, States::keep);
    for (const Request* const request : requests) self_messages_.release(*request);
    if (outcome.ok()) outcome = enqueue_collectives(requests);
    Status settled = settle();
    if (outcome.ok()) outcome = std::move(settled);
    for (const PendingOp& entry : launched) {
      // The receive of another wait, for a copy, may have ended. Not written if the kernel has left: see
      // check_ranks().
      const bool ours = std::find(requests.begin(), requests.end(), entry.request) != requests.end();
      static_cast<void>(read_status(entry.op, *mailbox_, ours ? entry.request : nullptr));
      states_[entry.op.state] = false;
      --kept_;
    }
    if (outcome.ok()) outcome = check_ranks();
    if (outcome.ok()) fault = report_fault();
    if (!fault.ok()) outcome = fault.error().copy();
  }
  for (Request* const request : requests) {
    if (request->complete()) {
      if (!fault.ok() && request->outcome.ok()) request->outcome = fault.error().copy();
      if (request->detached) request->destroy();  // cancelled
      continue;
    }
    undo(*request);
    if (!outcome.ok() && request->outcome.ok()) request->outcome = outcome.error().copy();
    request->finish();
  }
  return {};
}

Status Queue::expect(Request& request) {
  WEFT_TRY(check_wait(request));
  if (request.capture != 0 && !request.complete())
    return Error(Errc::request, std::string(request.name) +
                                    " was captured: enqueue its wait within the same capture, with "
                                    "MPI_STATUS_IGNORE");
  caller_ = std::this_thread::get_id();
  tested_ = !open_.empty();
  return {};
}

Status Queue::before_host_call(bool in_stream) {
  WEFT_TRY(await_freed());
  WEFT_TRY(enqueue_collectives(std::vector(collectives_.begin(), collectives_.end())));
  if (!in_stream || pending_.empty()) return {};
  return Error(Errc::unsupported,
               "nonblocking operations of the communicator are unfinished, and the stream would reach them "
               "only after this call, which the host executes: wait for them before it");
}

/// The stream is idle: completes the requests whose operations have ended. Returns whether one has.
bool Queue::complete_finished() {
  std::erase_if(pending_, [&](const PendingOp& entry) {
    if (!entry.launched || entry.request == nullptr || !entry.request->is_ordinary() ||
        !read_status(entry.op, *mailbox_, entry.request))
      return false;
    states_[entry.op.state] = false;
    return true;
  });
  std::vector<Request*> ended;
  std::copy_if(open_.begin(), open_.end(), std::back_inserter(ended),
               [&](const Request* request) { return !unfinished(*request); });
  for (Request* const request : ended) {
    forget(*request);
    request->finish();
  }
  return !ended.empty();
}

/// Kernels have left without completing their operations.
bool Queue::fail_open_requests() {
  Status failed = comm_.instance.failures.check(comm_);
  if (failed.ok()) return false;  // the failure detector has not looked yet
  const std::vector<Request*> failing = open_;
  for (Request* const request : failing) {
    undo(*request);
    request->outcome = failed.error().copy();
    request->finish();
  }
  return !failing.empty();
}

/// While the host waits in MPI: launches pending operations if the stream is idle.
bool Queue::poll() {
  if (pending_.empty() && open_.empty()) {
    registered_ = false;
    comm_.instance.remove(*this);
    return false;
  }
  // A launch in each round would keep the stream from becoming idle when rounds are slow.
  if (enqueuing_ || settling_ != 0) return false;
  const uint64_t now = monotonic_ns();
  if (now < next_poll_ns_ || caller_ != std::this_thread::get_id() || turns_.taken()) return false;
  next_poll_ns_ = now + (tested_ ? kTestIntervalNs : kPollIntervalNs);
  if (mailbox_->cancelled()) return fail_open_requests();
  if (pending_.empty() && !tested_) return false;
  auto captured = capturing();
  if (!captured.ok() || *captured != 0 || (!pending_.empty() && pending_.front().capture != 0) ||
      (!collectives_.empty() && collectives_.front()->capture != 0))
    return false;
  auto idle = device::idle(target_);
  if (!idle.ok() || !*idle) return false;
  for (Request* const request : std::vector(open_))
    if (request->cancelling) static_cast<void>(cancel(*request));  // again at the next poll
  const bool ended = complete_finished();
  polls_ = true;
  bool launched = false;
  if (!pending_.empty()) {
    for (PendingOp& entry : pending_)
      if (entry.request != nullptr && entry.request->is_ordinary()) arm(entry.op, *mailbox_);
    launched = launch({}).ok();
  } else if (tested_ && !collectives_.empty()) {
    launched = enqueue_collectives(std::vector(collectives_.begin(), collectives_.end())).ok();
  }
  polls_ = false;
  return ended || launched;
}

}  // namespace weft::stream
