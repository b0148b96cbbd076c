// SPDX-License-Identifier: BSD-3-Clause
#include "device/stream.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "device/cuda/deferred.hpp"
#include "device/queue/submit.hpp"

namespace weft::device {
namespace {

using cuda::driver;
using cuda::no_context;

unsigned blocks_of(const kernel::enqueue::Batch& batch) {
  return unsigned{batch.head.count} + batch.head.helpers;
}

unsigned threads_of(const kernel::enqueue::Batch& batch) {
  for (uint32_t i = 0; i < batch.head.count; ++i)
    if (batch.ops[i].bytes > kernel::enqueue::kInlineBytes) return kernel::enqueue::kThreads;
  return kernel::enqueue::kSmallThreads;
}

}  // namespace

/// cudaStreamLegacy and cudaStreamPerThread are the values 1 and 2; 0 is the legacy stream.
bool is_default_stream(void* handle) { return reinterpret_cast<uintptr_t>(handle) <= 2; }

Result<UserStream> default_stream(void* handle) {
  if (!available()) return Error(Errc::unsupported, "GPU streams cannot be used here (" + absence() + ")");
  UserStream stream;
  stream.handle = handle;
  WEFT_CUDA_TRY(ctx_get_current, "the context of a default stream cannot be found", &stream.context);
  if (stream.context == nullptr)
    return Error(Errc::unsupported,
                 "the stream is a default stream, and no GPU is current in this thread: call cudaSetDevice "
                 "before");
  WEFT_CUDA_TRY(ctx_get_device, "the device of a GPU stream cannot be found", &stream.device);
  return stream;
}

Result<UserStream> created_stream(void* handle) {
  if (!available()) return Error(Errc::unsupported, "GPU streams cannot be used here (" + absence() + ")");
  UserStream stream;
  stream.handle = handle;
  WEFT_CUDA_TRY(stream_get_ctx, "the value is not a CUDA stream of this process", handle, &stream.context);
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  WEFT_CUDA_TRY(ctx_get_device, "the device of a GPU stream cannot be found", &stream.device);
  return stream;
}

Result<UserStream> adopt_stream(void* handle) {
  auto stream = created_stream(handle);
  if (!stream) return stream;
  const cuda::CurrentContext current(stream->context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  auto queue = cuda::queue_of(stream->context);
  if (!queue) return std::move(queue).error();
  WEFT_TRY(cuda::load_enqueue(**queue));
  return stream;
}

Status enqueue(const UserStream& stream, const kernel::enqueue::Batch& batch) {
  auto queue = cuda::queue_of(stream.context);
  if (!queue) return std::move(queue).error();
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;  // drivers before 12.4 load a kernel at its first launch
  void* parameters[] = {const_cast<kernel::enqueue::Batch*>(&batch)};
  const cuda::EnqueueKernel& loaded = (*queue)->enqueue;
  const cuda::Function function = batch.head.layouts != 0                               ? loaded.layouts
                                  : batch.head.count <= kernel::enqueue::kSmallBatchOps ? loaded.few
                                                                                        : loaded.any;
  WEFT_CUDA_TRY(launch_kernel, "an enqueued operation cannot be launched", function, blocks_of(batch), 1, 1,
                threads_of(batch), 1, 1, 0, stream.handle, parameters, nullptr);
  return {};
}

Status join(const UserStream& later, void* earlier) {
  const cuda::CurrentContext current(later.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  cuda::Event event = nullptr;
  WEFT_CUDA_TRY(event_create, "an event that joins two streams cannot be created", &event,
                cuda::kEventDisableTiming);
  cuda::Code code = driver().event_record(event, earlier);
  if (code == cuda::kSuccess) code = driver().stream_wait_event(later.handle, event, 0);
  driver().event_destroy(event);  // its memory lives until both streams have passed it
  if (code == cuda::kSuccess) return {};
  return cuda::failure(code, "cuStreamWaitEvent", "a stream cannot be ordered behind another");
}

Status adopt_for_collectives(const UserStream& stream) {
  auto queue = cuda::queue_of(stream.context);
  if (!queue) return std::move(queue).error();
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  return (*queue)->collective_slots.prepare();
}

namespace {

/// Launches the kernel that `kernel_of` selects, with a parameter of class Parameter.
template <class Parameter, class KernelOf>
Status launch_collective(const UserStream& stream, const Parameter& call, uint32_t blocks, uint32_t threads,
                         KernelOf&& kernel_of) {
  auto queue = cuda::queue_of(stream.context);
  if (!queue) return std::move(queue).error();
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  void* parameters[] = {const_cast<Parameter*>(&call)};
  WEFT_CUDA_TRY(launch_kernel, "an enqueued collective cannot be launched",
                kernel_of((*queue)->collective_slots), blocks, 1, 1, threads, 1, 1, 0, stream.handle,
                parameters, nullptr);
  return {};
}

}  // namespace

Status enqueue_collective(const UserStream& stream, const kernel::StreamCollective& call, Protocol protocol,
                          uint32_t blocks, uint32_t threads) {
  return launch_collective(stream, call, blocks, threads, [protocol](const cuda::CollectiveSlots& slots) {
    return protocol == Protocol::ll ? slots.stream_ll_kernel() : slots.stream_simple_kernel();
  });
}

Status enqueue_blocks(const UserStream& stream, const kernel::PairBlocks& call) {
  return launch_collective(stream, call, call.thread_blocks(), kernel::Collective::kThreads,
                           [](const cuda::CollectiveSlots& slots) { return slots.pairs_kernel(); });
}

Status enqueue_copy(const UserStream& stream, void* dst, const void* src, size_t n) {
  if (n == 0) return {};
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  WEFT_CUDA_TRY(memcpy_async, "a copy cannot be enqueued", reinterpret_cast<cuda::Address>(dst),
                reinterpret_cast<cuda::Address>(src), n, stream.handle);
  return {};
}

Result<bool> capturing(const UserStream& stream) {
  int status = 0;
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  WEFT_CUDA_TRY(stream_is_capturing, "the capture status of a GPU stream cannot be queried", stream.handle,
                &status);
  return status != cuda::kCaptureNone;
}

Result<bool> idle(const UserStream& stream) {
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = driver().stream_query(stream.outer != nullptr ? stream.outer : stream.handle);
  if (code == cuda::kSuccess || code == cuda::kNotReady) return code == cuda::kSuccess;
  return cuda::failure(code, "cuStreamQuery", "the GPU stream of a communicator failed");
}

Result<void*> allocate_pinned(const UserStream& stream, size_t bytes) {
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;
  void* memory = nullptr;
  WEFT_CUDA_TRY(mem_host_alloc, "pinned memory for a communicator cannot be allocated", &memory, bytes,
                cuda::kHostAllocPortable | cuda::kHostAllocDeviceMap);
  std::memset(memory, 0, bytes);
  return memory;
}

void free_pinned(const UserStream& stream, void* memory) {
  if (memory == nullptr) return;
  cuda::release_or_defer([context = stream.context, memory] {
    if (!available() || !cuda::context_exists(context, reinterpret_cast<cuda::Address>(memory))) return;
    const cuda::CurrentContext current(context);
    if (current.code() != cuda::kSuccess) return;
    const cuda::RelaxedCapture relaxed;
    driver().mem_free_host(memory);
  });
}

}  // namespace weft::device
