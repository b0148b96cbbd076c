// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/order.hpp"

#include <ctime>
#include <string>
#include <utility>

#include "base/log.hpp"

namespace weft::stream::order {
namespace {

log::SlowPath host_waits("stream.host_waits",
                         "the host waits for the stream, as before a call without order");
log::SlowPath no_connection(
    "stream.no_connection",
    "the host waits for the stream: more streams wait in MPI than have hardware queues "
    "(CUDA_DEVICE_MAX_CONNECTIONS, at most 32)");
log::SlowPath kept_captures("stream.kept_captures",
                            "captured operations take memory and polls until MPI_Finalize");

}  // namespace

Status allow_host_wait(const device::Capture& capture, const char* reason) {
  if (capture)
    return Error(Errc::unsupported, "the stream is captured, and the host must wait in this call (" +
                                        std::string(reason) + "): call it outside of the capture");
  host_waits.hit(reason);
  return {};
}

Engine::~Engine() {
  executor.end();
  executor.abandon();
  for (const auto& stream : streams_) device::release_stream(stream->gpu);
}

Result<OrderedStream*> Engine::stream_of(void* handle) {
  for (const auto& stream : streams_)
    if (device::names(stream->gpu, handle)) return stream.get();
  auto adopted = device::adopt_stream_for_words(handle);
  if (!adopted) return std::move(adopted).error();
  auto& words = words_[adopted->context];
  if (words == nullptr) {
    auto made = Words::create(*adopted);
    if (!made) {
      device::release_stream(*adopted);
      return std::move(made).error();
    }
    words = std::move(*made);
  }
  streams_.push_back(std::make_unique<OrderedStream>(*adopted, *words));
  const std::lock_guard lock(executor.mutex);
  executor.add(streams_.back()->calls);
  return streams_.back().get();
}

Result<Slot> Engine::take_slot(const Submission& submission) {
  Result<std::optional<Slot>> taken = std::optional<Slot>();
  const auto take = [&] {
    taken = submission.stream.words.take(bool{submission.capture});
    return !taken.ok() || taken->has_value();
  };
  core::wait_until(instance_, take);
  if (!taken) return std::move(taken).error();
  return **taken;
}

Result<std::shared_ptr<CapturedCalls>> Engine::calls_of_capture(const Submission& submission) {
  OrderedStream& stream = submission.stream;
  if (stream.capture == submission.capture.id)
    if (auto calls = stream.captured_calls.lock()) return calls;
  auto calls = std::make_shared<CapturedCalls>(stream.words);
  using Shared = std::shared_ptr<CapturedCalls>;
  auto* const kept = new Shared(calls);
  const Status registered = device::call_at_end(
      submission.capture,
      [](void* state) {
        auto* const ended = static_cast<Shared*>(state);
        (*ended)->destroy();
        delete ended;
      },
      kept);
  if (!registered.ok()) {
    if (registered.error().code() != Errc::unsupported) return registered.error().copy();
    delete kept;
    kept_captures.hit(registered.error().message());
  }
  stream.capture = submission.capture.id;
  stream.captured_calls = calls;
  const std::lock_guard lock(executor.mutex);
  executor.add(calls);
  return calls;
}

bool Engine::may_wait(const OrderedStream& stream) const {
  if (stream.waits()) return true;
  unsigned waiting = 0;
  for (const auto& other : streams_)
    if (other->gpu.context == stream.gpu.context && other->waits()) ++waiting;
  return waiting < device::max_waiting_streams();
}

/// Without the instance lock, so that calls of other streams go on.
Status Engine::start_when_idle(const OrderedStream& stream, const Slot& slot) {
  for (;;) {
    auto reached = device::idle(stream.gpu);
    if (!reached) return std::move(reached).error();
    if (*reached) break;
    constexpr timespec kPause{0, 20'000};
    nanosleep(&kPause, nullptr);
  }
  slot.begin();
  return {};
}

Status Engine::submit(const Submission& submission, std::unique_ptr<Call> call) {
  auto slot = take_slot(submission);
  if (!slot) return std::move(slot).error();
  OrderedStream& stream = submission.stream;
  const bool captured{submission.capture};
  std::shared_ptr<CapturedCalls> captured_calls;
  if (captured) {
    auto found = calls_of_capture(submission);
    if (!found) {
      stream.words.give(*slot);
      return std::move(found).error();
    }
    captured_calls = std::move(*found);
  }
  Queue& queue = captured ? static_cast<Queue&>(*captured_calls) : *stream.calls;
  auto record =
      std::make_unique<Record>(submission.comm, submission.name, std::move(call), submission.outcomes, *slot,
                               Place{stream.handle(), executor, queue}, captured);
  record->after = submission.after;
  record->ended = submission.ended;
  record->done = submission.done;
  record->number = submission.number;
  const ShownCalls::Description shown(submission.comm, submission.name);
  Status enqueued;
  {
    const core::Instance::Unlocked unlocked(instance_);
    const std::lock_guard in_order(stream.submission);  // T3
    const auto enqueue = [&](auto& calls, auto&& push) {
      {
        const std::lock_guard lock(executor.mutex);
        push(calls);
        executor.notify(calls);
      }
      enqueued = submission.by_host ? start_when_idle(stream, *slot)
                                    : device::enqueue_words(stream.gpu, slot->start, slot->completion);
      if (enqueued.ok()) return;
      const std::lock_guard lock(executor.mutex);
      record = calls.pop();
    };
    if (captured)
      enqueue(*captured_calls, [&](CapturedCalls& calls) { calls.push(std::move(record)); });
    else
      enqueue(*stream.calls, [&](ShownCalls& calls) { calls.push(std::move(record), shown); });
  }
  if (!enqueued.ok()) stream.words.give(*slot);
  if (enqueued.ok() && submission.by_host) {
    core::wait_until(instance_, [&] { return submission.ended->load(std::memory_order_acquire); });
    slot->pass();
  }
  return enqueued;  // after a failure the record is destroyed here, under the instance lock
}

Status Order::enqueue(core::Communicator& comm, const char* name, std::unique_ptr<Call> call,
                      const device::Capture& capture, core::Request* done) {
  std::shared_ptr<std::atomic<bool>> after, ended;
  OrderedStream& stream = *stream_;  // another thread may change it meanwhile
  const std::shared_ptr<std::atomic<bool>> last_of_order = last_ended_, last_of_stream = stream.last_ended;
  OrderedStream* const last_stream = last_stream_;
  const bool by_host = !capture && !engine_.may_wait(stream);
  if (by_host) no_connection.hit(std::to_string(device::max_waiting_streams()) + " streams wait");
  // T5: calls of one communicator run in call order, also if the program changes the stream.
  if (last_stream_ != &stream && last_ended_ != nullptr && !last_ended_->load(std::memory_order_acquire))
    after = last_ended_;
  if (!capture) {
    ended = std::make_shared<std::atomic<bool>>(false);
    last_ended_ = ended;
    last_stream_ = &stream;
    if (!by_host) stream.last_ended = ended;
    ++pending_;
    ++engine_.pending;
    device::streams_may_wait(1);
  }
  Status enqueued = engine_.submit({stream, capture, comm, name, shared_from_this(), std::move(after), ended,
                                    done, capture ? 0 : ++enqueued_, by_host},
                                   std::move(call));
  if (!enqueued.ok() && !capture) {
    ended->store(true, std::memory_order_release);
    if (last_ended_ == ended) {  // the calls before this one are the last ones (T5, T11)
      last_ended_ = last_of_order;
      last_stream_ = last_stream;
    }
    if (stream.last_ended == ended) stream.last_ended = last_of_stream;
    call_ended(false);
  }
  return enqueued;
}

namespace {

/// Tells that a call has run.
struct Done final : core::Request {
  Done() : core::Request(Kind::none) {}
  ~Done() override = default;
};

struct NoCall final : Call {
  Status run() override { return {}; }
};

}  // namespace

Status Order::run_and_wait(core::Communicator& comm, const char* name, std::unique_ptr<Call> call,
                           const device::Capture& capture, const char* reason) {
  WEFT_TRY(allow_host_wait(capture, reason));
  Done done;
  if (call == nullptr) call = std::make_unique<NoCall>();
  WEFT_TRY(enqueue(comm, name, std::move(call), capture, &done));
  core::wait(comm.instance, done);
  return {};
}

/// The error of a graph that was launched after the last call, or of a communicator that was never freed.
Order::~Order() {
  if (failed())
    log::write(log::Level::warn, "no call has returned this error: %s",
               first_error_.error().message().c_str());
}

void Order::wait_for_calls(core::Instance& instance) {
  core::wait_until(instance, [&] { return pending_ == 0 && overdue_ == 0; });  // T10
}

Status Order::take_error() {
  if (std::exchange(skipping_, false)) skipped_through_ = enqueued_;
  return std::exchange(first_error_, Status());
}

void Order::call_failed(const char* name, const Error& error) {
  if (!first_error_.ok()) return;
  first_error_ =
      Error(error.code(), std::string(name) + " in stream order: " + error.message(), error.mpi_code());
}

void Order::call_ended(bool captured) {
  if (captured) return;
  --pending_;
  --engine_.pending;
  device::streams_may_wait(-1);
}

}  // namespace weft::stream::order
