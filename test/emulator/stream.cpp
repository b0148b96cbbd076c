// SPDX-License-Identifier: BSD-3-Clause
// Streams, events and their operations. A worker thread executes operations after EMUCUDA_DELAY_US, or
// queries execute them with EMUCUDA_RUN=poll, one per EMUCUDA_POLLS queries; synchronising calls execute them
// at once. Running kernels get turns from the worker and from all waiting threads.
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "hardware_queues.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

void copy_rows(char* dst, size_t dst_pitch, const char* src, size_t src_pitch, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) std::memmove(dst + row * dst_pitch, src + row * src_pitch, width);
}

size_t span(size_t pitch, size_t width, size_t height) {
  return height == 0 ? 0 : (height - 1) * pitch + width;
}

Code run_copy(const Operation& operation) {
  char* dst = translate(operation.dst, span(operation.dst_pitch, operation.width, operation.height));
  const char* src =
      operation.source == Operation::Source::snapshot
          ? operation.snapshot.data()
          : translate(operation.src, span(operation.src_pitch, operation.width, operation.height));
  if (dst == nullptr || src == nullptr) return kIllegalAddress;
  if (operation.source == Operation::Source::unchanged &&
      std::memcmp(src, operation.snapshot.data(), operation.snapshot.size()) != 0)
    abort_weft("broken rule", "the source of a copy from pinned memory changed before the copy ran");
  copy_rows(dst, operation.dst_pitch, src, operation.src_pitch, operation.width, operation.height);
  return kSuccess;
}

Code run(const Operation& operation) {
  switch (operation.type) {
    case Operation::Type::copy:
      return run_copy(operation);
    case Operation::Type::fill: {
      char* dst = translate(operation.dst, operation.width);
      if (dst == nullptr) return kIllegalAddress;
      std::memset(dst, static_cast<int>(operation.value), operation.width);
      return kSuccess;
    }
    case Operation::Type::write: {
      char* dst = translate(operation.dst, operation.width);
      if (dst == nullptr) return kIllegalAddress;
      if (operation.width == sizeof(uint64_t))
        __atomic_store_n(reinterpret_cast<uint64_t*>(dst), operation.value, __ATOMIC_RELEASE);
      else
        __atomic_store_n(reinterpret_cast<uint32_t*>(dst), static_cast<uint32_t>(operation.value),
                         __ATOMIC_RELEASE);
      return kSuccess;
    }
    case Operation::Type::record:
      operation.event->completed = std::max(operation.event->completed, operation.record);
      return kSuccess;
    case Operation::Type::wait:
    case Operation::Type::wait_value:
    case Operation::Type::kernel:
      return kSuccess;
  }
  return kSuccess;
}

/// The stream that blocks the oldest operation of this stream, if any. A wait is for the record before it,
/// also if the event has been recorded again, in another stream.
StreamObject* blocker(const StreamObject& stream) {
  const Operation& front = stream.queue.front();
  if (front.type != Operation::Type::wait || front.recorded_in == nullptr) return nullptr;
  const std::deque<Operation>& queue = front.recorded_in->queue;
  const bool waits = std::any_of(queue.begin(), queue.end(), [&](const Operation& other) {
    return other.type == Operation::Type::record && other.event == front.event &&
           other.record == front.record;
  });
  return waits ? front.recorded_in : nullptr;
}

/// Marks the context as faulted and drops its operations.
void fault(ContextObject& context, Code code) {
  context.sticky = code;
  for (StreamObject* stream : world().streams)
    if (stream->context == &context) {
      stream->ended += stream->queue.size();
      stream->queue.clear();
    }
}

void pop_front(StreamObject& stream) {
  stream.queue.pop_front();
  ++stream.ended;
}

/// Gives the kernel at the front of a stream a turn. Returns whether it made progress.
bool give_turn(StreamObject& stream) {
  const Kernel::Turn turn = stream.queue.front().kernel->turn(tick());
  if (turn == Kernel::Turn::ended) pop_front(stream);
  if (turn == Kernel::Turn::illegal_address) fault(*stream.context, kIllegalAddress);
  return turn != Kernel::Turn::idle;
}

/// Runs the oldest operation of a stream, or gives its kernel a turn. Returns whether there was progress.
bool run_front(StreamObject& stream) {
  if (StreamObject* other = blocker(stream); other != nullptr) return run_front(*other);
  if (running(stream)) return give_turn(stream);
  if (held(stream)) return false;
  Operation& front = stream.queue.front();
  if (front.kernel != nullptr && !can_start_kernel(stream)) return false;
  Code code = stream.from_weft ? injected_operation_fault() : kSuccess;
  if (code == kSuccess && front.kernel != nullptr) {
    front.running = true;
    return give_turn(stream);
  }
  if (code == kSuccess) code = run(front);
  pop_front(stream);
  if (code != kSuccess) fault(*stream.context, code);
  return true;
}

/// Whether the worker can run the oldest operation of a stream once it is due.
bool can_run(const StreamObject& stream) {
  if (stream.queue.empty() || running(stream) || blocker(stream) != nullptr || held(stream)) return false;
  return stream.queue.front().kernel == nullptr || can_start_kernel(stream);
}

/// Runs all due operations, oldest first. Returns the due time of the next operation; 0: none.
uint64_t run_due() {
  for (;;) {
    StreamObject* first = nullptr;
    for (StreamObject* stream : world().streams)
      if (can_run(*stream) && (first == nullptr || stream->queue.front().due < first->queue.front().due))
        first = stream;
    if (first == nullptr) return 0;
    if (first->queue.front().due > now()) return first->queue.front().due;
    run_front(*first);
  }
}

void work() {
  constexpr uint64_t kIdleTurnIntervalNs = 20'000;  // interval of turns of an idle kernel
  constexpr uint64_t kValueIntervalNs = 40'000;  // of looks at an awaited value; threads that wait look, too
  ::prctl(PR_SET_TIMERSLACK, 1);
  auto lock = lock_world();
  for (;;) {
    const bool worked = give_turns();
    uint64_t next = world().run_when_polled ? 0 : run_due();
    const uint64_t time = now();
    if (any_running() && (next == 0 || next > time + kIdleTurnIntervalNs))
      next = worked ? time : time + kIdleTurnIntervalNs;
    if (!world().run_when_polled && any_at_value() && (next == 0 || next > time + kValueIntervalNs))
      next = time + kValueIntervalNs;
    if (next == 0) {
      world().wake.wait(lock);
    } else if (next > time) {
      world().wake.wait_for(lock, std::chrono::nanoseconds(next - time));
    } else {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
}

void start_worker() {
  if (!world().worker) {
    world().worker = true;
    std::thread(work).detach();
  }
  world().wake.notify_one();
}

/// Counts a query; with EMUCUDA_RUN=poll, queries execute the operations.
void polled(StreamObject& stream) {
  if (!world().run_when_polled || stream.queue.empty() || running(stream)) return;
  if (++stream.polls < world().polls) return;
  stream.polls = 0;
  run_front(stream);
  if (any_running()) start_worker();
}

enum class Waiting : uint8_t { none, for_kernels };

Code create_stream(Stream* handle, unsigned flags, int priority, Waiting waiting) {
  EMUCUDA_CONTEXT();
  if (waiting == Waiting::for_kernels) wait_for_kernels(context->device);
  if ((flags & kStreamNonBlocking) == 0) forbid_weft("a stream that blocks stream 0");
  forbid_unsafe("cuStreamCreate outside relaxed capture mode");
  auto* stream = new StreamObject{context, (flags & kStreamNonBlocking) == 0, called_by_weft(), 0, {}, {}};
  stream->priority = priority < 0 ? -1 : 0;
  world().streams.insert(stream);
  *handle = stream;
  return kSuccess;
}

}  // namespace

Code stream_of(Stream handle, StreamObject** stream, Use use) {
  ContextObject* context = nullptr;
  if (handle == nullptr || handle == reinterpret_cast<Stream>(1) || handle == reinterpret_cast<Stream>(2)) {
    if (use == Use::work) forbid_weft("use of a default stream");
    if (const Code code = current(&context); code != kSuccess) return code;
    *stream = context->legacy;
    return kSuccess;
  }
  if (const Code code = ready(); code != kSuccess) return code;
  *stream = static_cast<StreamObject*>(handle);
  if (world().streams.count(*stream) == 0) return kInvalidHandle;
  // Stricter than the real driver: Weft guarantees that the context of the stream is current.
  if (const Code code = current(&context); code != kSuccess) return code;
  return context == (*stream)->context ? kSuccess : kInvalidHandle;
}

void enqueue(StreamObject& stream, Operation operation) {
  if (stream.capture != nullptr) {
    stream.capture->push_back(std::move(operation));
    return;
  }
  operation.number = ++world().submissions;
  const bool legacy = stream.context->legacy == &stream;
  // Stream 0 and the blocking streams of its context wait for each other.
  for (StreamObject* other : world().streams)
    if (other != &stream && other->context == stream.context &&
        (legacy ? other->blocking : stream.blocking && other == stream.context->legacy))
      drain(*other);
  operation.due = now() + world().delay;
  if (stream.queue.empty()) stream.channel = channel_for(stream);
  stream.queue.push_back(std::move(operation));
  if (!world().run_when_polled) start_worker();
}

bool give_turns() {
  bool worked = false;
  for (StreamObject* stream : world().streams)
    if (running(*stream)) worked = give_turn(*stream) || worked;
  return worked;
}

void drain(StreamObject& stream, Lock* released, size_t rest) {
  const WaitMeter meter;
  WaitBackoff backoff(released);
  while (stream.queue.size() > rest)
    if (!run_front(stream) && !give_turns()) backoff.wait();
}

void drain_context(ContextObject& context, Lock* released) {
  const auto busy = [&](const StreamObject* stream) {
    return stream->context == &context && !stream->queue.empty();
  };
  for (;;) {
    const auto at = std::find_if(world().streams.begin(), world().streams.end(), busy);
    if (at == world().streams.end()) return;
    drain(**at, released);
  }
}

void drain_all() {
  for (const auto& device : world().devices) drain_context(device->primary);
  for (ContextObject* context : world().contexts) drain_context(*context);
}

#define EMUCUDA_STREAM(handle)    \
  auto lock = lock_world();       \
  StreamObject* stream = nullptr; \
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code
#define EMUCUDA_EVENT(handle)                                   \
  auto lock = lock_world();                                     \
  if (const Code code = ready(); code != kSuccess) return code; \
  auto* event = static_cast<EventObject*>(handle);              \
  if (world().events.count(event) == 0) return kInvalidHandle

extern "C" {

Code cuStreamCreate(Stream* handle, unsigned flags) { return create_stream(handle, flags, 0, Waiting::none); }
/// Waits for kernels, as on a machine with four GPUs (p2p/device_full on H100, driver 13.0).
Code cuStreamCreateWithPriority(Stream* handle, unsigned flags, int priority) {
  return create_stream(handle, flags, priority, Waiting::for_kernels);
}

Code cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return kSuccess;
}

Code cuStreamGetPriority(Stream handle, int* priority) {
  EMUCUDA_STREAM(handle);
  *priority = stream->priority;
  return kSuccess;
}

Code cuStreamDestroy_v2(Stream handle) {
  EMUCUDA_STREAM(handle);
  drain(*stream);
  world().destroyed_streams.push_back(stream);
  world().streams.erase(stream);
  return kSuccess;
}

Code cuStreamQuery(Stream handle) {
  const auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream, Use::query); code != kSuccess) return code;
  forbid_unsafe("cuStreamQuery outside relaxed capture mode");
  if (stream->capture != nullptr) return kCaptureUnsupported;
  polled(*stream);
  if (stream->context->sticky != kSuccess) return stream->context->sticky;
  return stream->queue.empty() ? kSuccess : kNotReady;
}

Code cuStreamSynchronize(Stream handle) {
  forbid_weft("cuStreamSynchronize");
  EMUCUDA_STREAM(handle);
  if (stream->capture != nullptr) return kCaptureUnsupported;
  drain(*stream, &lock);
  return stream->context->sticky;
}

Code cuCtxSynchronize() {
  forbid_weft("cuCtxSynchronize");
  auto lock = lock_world();
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  drain_context(*context, &lock);
  return context->sticky;
}

Code cuStreamWaitEvent(Stream handle, Event event_handle, unsigned) {
  auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(handle, &stream, Use::join); code != kSuccess) return code;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  auto* event = static_cast<EventObject*>(event_handle);
  if (world().events.count(event) == 0) return kInvalidHandle;
  Operation operation{Operation::Type::wait};
  operation.event = event;
  operation.record = event->recorded;
  operation.recorded_in = event->stream;
  enqueue(*stream, std::move(operation));
  return kSuccess;
}

Code cuEventCreate(Event* handle, unsigned) {
  const auto lock = lock_world();
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  auto* event = new EventObject;
  event->context = context;
  world().events.insert(event);
  *handle = event;
  return kSuccess;
}

Code cuEventDestroy_v2(Event handle) {
  EMUCUDA_EVENT(handle);
  world().destroyed_events.push_back(event);
  world().events.erase(event);
  return kSuccess;
}

Code cuEventRecord(Event handle, Stream stream_handle) {
  EMUCUDA_EVENT(handle);
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(stream_handle, &stream, Use::join); code != kSuccess) return code;
  if (event->context != stream->context) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  event->stream = stream;
  event->streams.clear();
  Operation operation{Operation::Type::record};
  operation.event = event;
  operation.record = ++event->recorded;
  enqueue(*stream, std::move(operation));
  return kSuccess;
}

/// Captures the work that is queued in all streams of the context. A capture in any of them becomes invalid.
Code cuCtxRecordEvent(Context handle, Event event_handle) {
  EMUCUDA_EVENT(event_handle);
  if (event->context != handle) return kInvalidHandle;
  if (const Code code = usable(event->context); code != kSuccess) return code;
  bool captured = false;
  event->stream = nullptr;
  event->streams.clear();
  for (StreamObject* stream : world().streams) {
    if (stream->context != event->context) continue;
    if (stream->capture != nullptr) captured = stream->capture_invalid = true;
    if (!stream->queue.empty()) event->streams[stream] = stream->ended + stream->queue.size();
  }
  return captured ? kCaptureUnsupported : kSuccess;
}

Code cuEventQuery(Event handle) {
  EMUCUDA_EVENT(handle);
  forbid_unsafe("cuEventQuery outside relaxed capture mode");
  for (const auto& [stream, operations] : event->streams) {
    if (world().streams.count(stream) == 0) continue;  // destroyed, after it was drained
    polled(*stream);
    if (stream->ended < operations && event->context->sticky == kSuccess) return kNotReady;
  }
  if (event->stream != nullptr) polled(*event->stream);
  if (event->context->sticky != kSuccess) return event->context->sticky;
  return event->completed == event->recorded ? kSuccess : kNotReady;
}

Code cuEventSynchronize(Event handle) {
  forbid_weft("cuEventSynchronize");
  EMUCUDA_EVENT(handle);
  const WaitMeter meter;
  WaitBackoff backoff(&lock);
  while (event->completed < event->recorded && !event->stream->queue.empty())
    if (!run_front(*event->stream) && !give_turns()) backoff.wait();
  return event->context->sticky;
}

}  // extern "C"
}  // namespace emucuda
