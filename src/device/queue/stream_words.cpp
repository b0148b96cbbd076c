// SPDX-License-Identifier: BSD-3-Clause
#include "device/stream_words.hpp"

#include <algorithm>
#include <cstdlib>

#include "device/cuda/sync_memops.hpp"
#include "device/queue/submit.hpp"

namespace weft::device {
namespace {

using cuda::driver;
using cuda::no_context;

constexpr uintptr_t kLegacyStream = 1;  // cudaStreamLegacy; 0 names the same stream

void* outer_of(void* handle) { return handle == nullptr ? reinterpret_cast<void*>(kLegacyStream) : handle; }

Status check_words(int device) {
  int can = 0;
  const bool queried =
      driver().device_get_attribute(&can, cuda::kDeviceStreamMemoryOperations, device) == cuda::kSuccess;
  if (driver().stream_batch_mem_op != nullptr && queried && can != 0) return {};
  return Error(Errc::unsupported,
               "streams of GPU " + std::to_string(device) +
                   " cannot await words in memory, which operations in stream order need: update the CUDA "
                   "driver to 11.7 or newer");
}

/// Makes the internal stream of a default stream, and the events that join it.
Status open_joined(UserStream& stream, void* outer) {
  stream.outer = outer;
  WEFT_CUDA_TRY(stream_create_with_priority, "the internal stream of a default stream cannot be created",
                &stream.handle, cuda::kStreamNonBlocking, 0);
  WEFT_CUDA_TRY(event_create, "an event of a default stream cannot be created", &stream.before,
                cuda::kEventDisableTiming);
  WEFT_CUDA_TRY(event_create, "an event of a default stream cannot be created", &stream.after,
                cuda::kEventDisableTiming);
  return {};
}

Status enqueue_memory_operations(const UserStream& stream, uint32_t* start, uint32_t* completion) {
  const auto address = [](uint32_t* word) { return reinterpret_cast<cuda::Address>(word); };
  cuda::BatchMemOp operations[] = {{cuda::kMemOpWrite32, address(start), 1, 0, 0, 0},
                                   {cuda::kMemOpWait32, address(completion), 1, 0, 0, 0},
                                   {cuda::kMemOpWrite32, address(completion), 0, 0, 0, 0}};
  WEFT_CUDA_TRY(stream_batch_mem_op, "an operation cannot be enqueued in stream order", stream.handle, 3,
                operations, 0);
  return {};
}

}  // namespace

Result<UserStream> adopt_stream_for_words(void* handle) {
  const bool is_default = is_default_stream(handle);
  auto found = is_default ? default_stream(handle) : created_stream(handle);
  if (!found) return found;
  UserStream stream = *found;
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  WEFT_TRY(check_words(stream.device));
  auto queue = cuda::queue_of(stream.context);
  if (!queue) return std::move(queue).error();
  WEFT_TRY((*queue)->collective_slots.prepare());
  if (!is_default) return stream;
  cuda::leave_memops();
  stream.handle = nullptr;
  if (Status opened = open_joined(stream, outer_of(handle)); !opened.ok()) {
    release_stream(stream);
    return std::move(opened).error();
  }
  return stream;
}

void release_stream(const UserStream& stream) {
  if (stream.outer == nullptr || !available()) return;
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return;
  const cuda::RelaxedCapture relaxed;
  if (stream.before != nullptr) driver().event_destroy(stream.before);
  if (stream.after != nullptr) driver().event_destroy(stream.after);
  if (stream.handle != nullptr) driver().stream_destroy(stream.handle);
}

bool names(const UserStream& stream, void* handle) {
  void* context = nullptr;
  if (!is_default_stream(handle))
    return stream.outer == nullptr && handle == stream.handle &&
           driver().stream_get_ctx(handle, &context) == cuda::kSuccess && context == stream.context;
  return outer_of(handle) == stream.outer && driver().ctx_get_current(&context) == cuda::kSuccess &&
         context == stream.context;
}

unsigned max_waiting_streams() {
  constexpr unsigned kDefault = 8, kMost = 32, kFree = 6;
  static const unsigned connections = [] {
    const char* const text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const long value = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
    return value < 1 ? kDefault : static_cast<unsigned>(std::min<long>(value, kMost));
  }();
  return connections > kFree ? connections - kFree : 1;
}

Status enqueue_words(const UserStream& stream, uint32_t* start, uint32_t* completion) {
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  if (stream.outer == nullptr) return enqueue_memory_operations(stream, start, completion);
  WEFT_CUDA_TRY(event_record, "a default stream cannot be joined", stream.before, stream.outer);
  WEFT_CUDA_TRY(stream_wait_event, "a default stream cannot be joined", stream.handle, stream.before, 0);
  WEFT_TRY(enqueue_memory_operations(stream, start, completion));
  WEFT_CUDA_TRY(event_record, "a default stream cannot be joined", stream.after, stream.handle);
  WEFT_CUDA_TRY(stream_wait_event, "a default stream cannot be joined", stream.outer, stream.after, 0);
  return {};
}

Result<Capture> capture_of(const UserStream& stream) {
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  void* const asked = stream.outer != nullptr ? stream.outer : stream.handle;
  int status = cuda::kCaptureNone;
  Capture capture;
  if (driver().stream_get_capture == nullptr)
    return Error(Errc::unsupported, "the CUDA driver does not identify captures: update it");
  // The legacy stream cannot be captured; the query fails while another stream is, which is no error of it.
  if (reinterpret_cast<uintptr_t>(asked) == kLegacyStream) return capture;
  uint64_t id = 0;
  void* graph = nullptr;
  WEFT_CUDA_TRY(stream_get_capture, "the capture of a GPU stream cannot be queried", asked, &status, &id,
                &graph, nullptr, nullptr);
  if (status == cuda::kCaptureNone) return capture;
  capture.id = id;
  capture.graph = graph;
  return capture;
}

namespace {

/// The state has been released: not Errc::unsupported, after which it would be kept.
Error released(const Error& error) {
  return {error.code() == Errc::unsupported ? Errc::other : error.code(), error.message()};
}

}  // namespace

Status call_at_end(const Capture& capture, void (*release)(void*), void* state) {
  if (driver().user_object_create == nullptr || driver().graph_retain_user_object == nullptr)
    return Error(Errc::unsupported, "the CUDA driver has no user objects");
  cuda::UserObject object = nullptr;
  const cuda::RelaxedCapture relaxed;
  cuda::Code code =
      driver().user_object_create(&object, state, release, 1, cuda::kUserObjectNoDestructorSync);
  if (code != cuda::kSuccess) {
    release(state);
    return released(cuda::failure(code, "cuUserObjectCreate", "an object of a graph cannot be created"));
  }
  code = driver().graph_retain_user_object(capture.graph, object, 1, cuda::kUserObjectMove);
  if (code == cuda::kSuccess) return {};
  driver().user_object_release(object, 1);  // calls release(state)
  return released(cuda::failure(code, "cuGraphRetainUserObject", "an object cannot be kept by a graph"));
}

}  // namespace weft::device
