// SPDX-License-Identifier: BSD-3-Clause
// Streams, events and the operations in them. Operations run late: by a worker after EMUCUDA_DELAY_US, or
// with EMUCUDA_RUN=poll only after EMUCUDA_POLLS queries; synchronising calls run them on the spot.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

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
  char* dst = reach(operation.dst, span(operation.dst_pitch, operation.width, operation.height));
  const char* src = operation.use_snapshot
                        ? operation.snapshot.data()
                        : reach(operation.src, span(operation.src_pitch, operation.width, operation.height));
  if (dst == nullptr || src == nullptr) return kIllegalAddress;
  copy_rows(dst, operation.dst_pitch, src, operation.src_pitch, operation.width, operation.height);
  return kSuccess;
}

Code run(const Operation& operation) {
  switch (operation.type) {
    case Operation::Type::copy:
      return run_copy(operation);
    case Operation::Type::fill: {
      char* dst = reach(operation.dst, operation.width);
      if (dst == nullptr) return kIllegalAddress;
      std::memset(dst, static_cast<int>(operation.value), operation.width);
      return kSuccess;
    }
    case Operation::Type::write32: {
      char* dst = reach(operation.dst, sizeof(uint32_t));
      if (dst == nullptr) return kIllegalAddress;
      __atomic_store_n(reinterpret_cast<uint32_t*>(dst), operation.value, __ATOMIC_RELEASE);
      return kSuccess;
    }
    case Operation::Type::record:
      operation.event->completed = std::max(operation.event->completed, operation.record);
      return kSuccess;
    case Operation::Type::wait:
      while (operation.event->completed < operation.record && operation.event->stream != nullptr &&
             !operation.event->stream->queue.empty())
        drain(*operation.event->stream);
      return kSuccess;
  }
  return kSuccess;
}

/// Runs the oldest operation of a stream; a fault ends everything in its context.
void run_front(StreamObject& stream) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  Code code = stream.from_weft ? injected_operation_fault() : kSuccess;
  if (code == kSuccess) code = run(operation);
  if (code == kSuccess) return;
  stream.context->sticky = code;
  for (StreamObject* other : world().streams)
    if (other->context == stream.context) other->queue.clear();
}

/// The earliest time at which an operation is due; 0 when there is none.
uint64_t run_due() {
  uint64_t next = 0;
  bool again = true;
  while (again) {
    again = false;
    next = 0;
    for (StreamObject* stream : world().streams) {
      if (stream->queue.empty()) continue;
      const uint64_t due = stream->queue.front().due;
      if (due <= now()) {
        run_front(*stream);
        again = true;
        break;  // the set of streams may have changed
      }
      next = next == 0 ? due : std::min(next, due);
    }
  }
  return next;
}

void work() {
  auto lock = lock_world();
  for (;;) {
    const uint64_t next = run_due();
    if (next == 0) {
      world().wake.wait(lock);
    } else {
      const uint64_t time = now();
      if (next > time) world().wake.wait_for(lock, std::chrono::nanoseconds(next - time));
    }
  }
}

/// A query was made: with EMUCUDA_RUN=poll this is what time is.
void polled(StreamObject& stream) {
  if (!world().run_when_polled || stream.queue.empty() || ++stream.polls < world().polls) return;
  stream.polls = 0;
  run_front(stream);
}

Code create_stream(Stream* handle, unsigned flags) {
  const auto lock = lock_world();
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  if ((flags & kStreamNonBlocking) == 0) forbid_weft("a stream that blocks stream 0");
  forbid_unsafe("cuStreamCreate outside relaxed capture mode");
  auto* stream = new StreamObject{context, (flags & kStreamNonBlocking) == 0, called_by_weft(), 0, {}};
  world().streams.insert(stream);
  *handle = stream;
  return kSuccess;
}

}  // namespace

Code stream_of(Stream handle, StreamObject** stream) {
  ContextObject* context = nullptr;
  if (handle == nullptr || handle == reinterpret_cast<Stream>(1) || handle == reinterpret_cast<Stream>(2)) {
    forbid_weft("use of a default stream");
    if (const Code code = current(&context); code != kSuccess) return code;
    *stream = context->legacy;
    return kSuccess;
  }
  if (const Code code = ready(); code != kSuccess) return code;
  *stream = static_cast<StreamObject*>(handle);
  if (world().streams.count(*stream) == 0) return kInvalidHandle;
  // Stricter than the real driver, which lets some calls through: Weft promises the stream's own context.
  if (const Code code = current(&context); code != kSuccess) return code;
  return context == (*stream)->context ? kSuccess : kInvalidHandle;
}

void enqueue(StreamObject& stream, Operation operation) {
  const bool legacy = stream.context->legacy == &stream;
  // Stream 0 waits for the blocking streams of its context, and they for it.
  for (StreamObject* other : world().streams)
    if (other != &stream && other->context == stream.context &&
        (legacy ? other->blocking : stream.blocking && other == stream.context->legacy))
      drain(*other);
  operation.due = now() + world().delay;
  stream.queue.push_back(std::move(operation));
  if (world().run_when_polled) return;
  if (!world().worker) {
    world().worker = true;
    std::thread(work).detach();
  }
  world().wake.notify_one();
}

void drain(StreamObject& stream) {
  while (!stream.queue.empty()) run_front(stream);
}

void drain_context(ContextObject& context) {
  for (bool again = true; again;) {
    again = false;
    for (StreamObject* stream : world().streams) {
      if (stream->context != &context || stream->queue.empty()) continue;
      drain(*stream);
      again = true;
      break;
    }
  }
}

void drain_all() {
  for (const auto& device : world().devices) drain_context(device->primary);
  for (ContextObject* context : world().contexts) drain_context(*context);
}

#define EMUCUDA_STREAM(handle)    \
  const auto lock = lock_world(); \
  StreamObject* stream = nullptr; \
  if (const Code code = stream_of(handle, &stream); code != kSuccess) return code
#define EMUCUDA_EVENT(handle)                                   \
  const auto lock = lock_world();                               \
  if (const Code code = ready(); code != kSuccess) return code; \
  auto* event = static_cast<EventObject*>(handle);              \
  if (world().events.count(event) == 0) return kInvalidHandle

extern "C" {

Code cuStreamCreate(Stream* handle, unsigned flags) { return create_stream(handle, flags); }
Code cuStreamCreateWithPriority(Stream* handle, unsigned flags, int) { return create_stream(handle, flags); }

Code cuStreamDestroy_v2(Stream handle) {
  EMUCUDA_STREAM(handle);
  drain(*stream);
  world().old_streams.push_back(stream);
  world().streams.erase(stream);
  return kSuccess;
}

Code cuStreamQuery(Stream handle) {
  EMUCUDA_STREAM(handle);
  forbid_unsafe("cuStreamQuery outside relaxed capture mode");
  polled(*stream);
  if (stream->context->sticky != kSuccess) return stream->context->sticky;
  return stream->queue.empty() ? kSuccess : kNotReady;
}

Code cuStreamSynchronize(Stream handle) {
  forbid_weft("cuStreamSynchronize");
  EMUCUDA_STREAM(handle);
  drain(*stream);
  return stream->context->sticky;
}

Code cuCtxSynchronize() {
  forbid_weft("cuCtxSynchronize");
  const auto lock = lock_world();
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  drain_context(*context);
  return context->sticky;
}

Code cuStreamWaitEvent(Stream handle, Event event_handle, unsigned) {
  EMUCUDA_STREAM(handle);
  auto* event = static_cast<EventObject*>(event_handle);
  if (world().events.count(event) == 0) return kInvalidHandle;
  Operation operation{Operation::Type::wait};
  operation.event = event;
  operation.record = event->recorded;
  enqueue(*stream, std::move(operation));
  return kSuccess;
}

Code cuStreamWriteValue32_v2(Stream handle, Address address, uint32_t value, unsigned) {
  EMUCUDA_STREAM(handle);
  if (address % 4 != 0 || find_allocation(address) == nullptr) return kInvalidValue;
  Operation operation{Operation::Type::write32};
  operation.dst = address;
  operation.value = value;
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
  world().old_events.push_back(event);
  world().events.erase(event);
  return kSuccess;
}

Code cuEventRecord(Event handle, Stream stream_handle) {
  EMUCUDA_EVENT(handle);
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(stream_handle, &stream); code != kSuccess) return code;
  if (event->context != stream->context) return kInvalidHandle;
  event->stream = stream;
  Operation operation{Operation::Type::record};
  operation.event = event;
  operation.record = ++event->recorded;
  enqueue(*stream, std::move(operation));
  return kSuccess;
}

Code cuEventQuery(Event handle) {
  EMUCUDA_EVENT(handle);
  forbid_unsafe("cuEventQuery outside relaxed capture mode");
  if (event->stream != nullptr) polled(*event->stream);
  if (event->context->sticky != kSuccess) return event->context->sticky;
  return event->completed == event->recorded ? kSuccess : kNotReady;
}

Code cuEventSynchronize(Event handle) {
  forbid_weft("cuEventSynchronize");
  EMUCUDA_EVENT(handle);
  while (event->completed < event->recorded && !event->stream->queue.empty()) run_front(*event->stream);
  return event->context->sticky;
}

}  // extern "C"
}  // namespace emucuda
