// SPDX-License-Identifier: BSD-3-Clause
#include "device/queue/work_queue.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/cold.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "device/cuda/deferred.hpp"
#include "device/kernel/accumulate.hpp"
#include "device/kernel/pack.hpp"
#include "device/kernel/reduce.hpp"
#include "device/kernel/scale.hpp"

namespace weft::device::cuda {
namespace {

config::Choice setting_completion("gpu.completion", 0, {"auto", "event", "flag", "query"},
                                  "Completion detection of GPU copies: event query, flag in pinned memory "
                                  "written by the stream, stream query, "
                                  "or auto: stream query for the last copy of a stream and flags for the "
                                  "copies before, if streams can write "
                                  "flags");

constexpr size_t kMaxQueues = 64;
constexpr size_t kFlagStride = 64;  // bytes: one cache line per stream

std::mutex queues_mutex;                                 // serialises additions and close
std::array<std::atomic<WorkQueue*>, kMaxQueues> queues;  // append-only until close
std::atomic<size_t> queue_count{0};
std::atomic<uint64_t> devices_used{0};  // bit n: a queue of device n has been made
auto& every_queue =
    *new std::vector<std::unique_ptr<WorkQueue>>;  // including destroyed contexts: tickets point into them

unsigned long long id_of(Context context) {
  unsigned long long id = 0;
  if (driver().ctx_get_id != nullptr && driver().ctx_get_id(context, &id) != kSuccess) return 0;
  return id;
}

WorkQueue* find(Context context, unsigned long long id) {
  const size_t count = queue_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    WorkQueue* queue = queues[i].load(std::memory_order_acquire);
    if (queue->context == context && queue->id == id) return queue;
  }
  return nullptr;
}

/// Creates the streams of the copy engines. Creating a stream may wait for all running kernels, so no copy
/// creates one, when a kernel of the program may wait for a message.
Status create_streams(WorkQueue& queue, Address flags) {
  const cold::Timer timer(cold::Part::streams);
  for (size_t i = 0; i < kStreamRoles; ++i) {
    TrackedStream& tracked = queue.streams[i];
    tracked.queue = &queue;
    tracked.flag = reinterpret_cast<uint32_t*>(static_cast<char*>(queue.flags) + i * kFlagStride);
    tracked.flag_address = flags + i * kFlagStride;
    WEFT_CUDA_TRY(stream_create_with_priority, "a stream for MPI transfers cannot be created",
                  &tracked.stream, kStreamNonBlocking, kHighestPriority);
  }
  return {};
}

/// Returns how copies of the queue are completed, by the setting and whether its streams can write flags.
Result<Completion> choose_completion(const TrackedStream& tracked) {
  const auto wanted = static_cast<Completion>(setting_completion.index());
  if (wanted != Completion::automatic && wanted != Completion::flag) return wanted;
  const Code code =
      driver().stream_write_value32(tracked.stream, tracked.flag_address, 0, kWriteValueDefault);
  if (code == kSuccess) return wanted == Completion::flag ? Completion::flag : Completion::hybrid;
  if (wanted == Completion::flag)
    return failure(code, "cuStreamWriteValue32",
                   "WEFT_GPU_COMPLETION=flag does not work on this GPU: use auto");
  log::write(log::Level::info, "GPU completion by events: streams cannot write flags (%s)",
             describe(code).c_str());
  return Completion::event;
}

/// Creates graphs, which take GPU memory, only for the streams that usually run the data kernels.
void open_launchers(WorkQueue& queue) {
  for (size_t i = 0; i < kStreamRoles; ++i) {
    TrackedStream& tracked = queue.streams[i];
    const bool graphs = queue.cancel_stream != nullptr;
    const size_t pack_graphs = graphs && i != static_cast<size_t>(StreamRole::aux) ? 1 : 0;
    const size_t reductions = graphs && i == static_cast<size_t>(StreamRole::local) ? 1 : 0;
    tracked.pack.open(queue.data.pack, sizeof(kernel::Pack), pack_graphs, queue.cancel_stream);
    tracked.pack_flat.open(queue.data.pack_flat, sizeof(kernel::Pack), pack_graphs, queue.cancel_stream);
    tracked.reduce.open(queue.data.reduce, sizeof(kernel::Reduce), reductions, queue.cancel_stream);
    tracked.scale.open(queue.data.scale, sizeof(kernel::Scale), 0, queue.cancel_stream);
    tracked.accumulate.open(queue.data.accumulate, sizeof(kernel::Accumulate), reductions,
                            queue.cancel_stream);
  }
}

/// Queries device and limits, allocates the flag page, creates the streams and loads the kernels.
Status fill(WorkQueue& queue) {
  const CurrentContext current(queue.context);
  if (current.code() != kSuccess)
    return failure(current.code(), "cuCtxPushCurrent", "the GPU buffer's context cannot be used");
  const RelaxedCapture relaxed;
  WEFT_CUDA_TRY(ctx_get_device, "the device of a GPU context cannot be found", &queue.device);
  WEFT_CUDA_TRY(mem_host_alloc, "pinned memory for completion flags cannot be allocated", &queue.flags,
                kStreamRoles * kFlagStride, kHostAllocPortable | kHostAllocDeviceMap);
  std::memset(queue.flags, 0, kStreamRoles * kFlagStride);
  Address address = 0;
  WEFT_CUDA_TRY(mem_host_get_device_pointer, "pinned memory is not mapped for the GPU", &address, queue.flags,
                0);
  WEFT_TRY(create_streams(queue, address));
  auto completion = choose_completion(queue.streams.front());
  if (!completion) return std::move(completion).error();
  for (TrackedStream& tracked : queue.streams) tracked.method = *completion;
  queue.data = load_data_kernels();
  queue.kernels = load_kernels();
  queue.resident_kernel.open(queue);
  const cold::Timer timer(cold::Part::streams);
  if (driver().stream_create_with_priority(&queue.cancel_stream, kStreamNonBlocking, kHighestPriority) !=
      kSuccess)
    queue.cancel_stream = nullptr;  // disables cancellable launches, reported as slow paths
  open_launchers(queue);
  queue.batch_copy.open(queue);
  queue.pack_queue.open(queue);
  return {};
}

/// Installs a queue, in place of a destroyed context at the same address if there is one.
Status install(WorkQueue* queue) {
  const size_t count = queue_count.load(std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    if (queues[i].load(std::memory_order_relaxed)->context != queue->context) continue;
    queues[i].store(queue, std::memory_order_release);
    return {};
  }
  if (count == kMaxQueues)
    return Error(Errc::no_mem, "too many CUDA contexts hold MPI buffers (limit " +
                                   std::to_string(kMaxQueues) + "): use fewer contexts");
  queues[count].store(queue, std::memory_order_release);
  queue_count.store(count + 1, std::memory_order_release);
  return {};
}

/// Destroys all objects in the context, unless the context no longer exists. After a reset a primary context
/// has the same handle, and the program may have memory at the address of the flags: only the id tells them
/// apart.
void destroy(WorkQueue& queue) {
  if (!context_exists(queue.context, reinterpret_cast<Address>(queue.flags)) ||
      id_of(queue.context) != queue.id)
    return;
  const CurrentContext current(queue.context);
  if (current.code() != kSuccess) return;
  const RelaxedCapture relaxed;
  Code worst = kSuccess;
  const auto note = [&](Code code) {
    if (code != kSuccess && !gone(code)) worst = code;
  };
  queue.resident_kernel.close();
  queue.batch_copy.close();
  queue.pack_queue.close();
  if (queue.cancel_stream != nullptr) note(driver().stream_destroy(queue.cancel_stream));
  queue.cancel_stream = nullptr;
  queue.collective_slots.close();
  for (TrackedStream& tracked : queue.streams) {
    const std::lock_guard lock(tracked.mutex);
    for (Launcher* launcher :
         {&tracked.pack, &tracked.pack_flat, &tracked.reduce, &tracked.scale, &tracked.accumulate})
      launcher->close();
    if (tracked.stream != nullptr) note(driver().stream_destroy(tracked.stream));
    tracked.stream = nullptr;
    tracked.flag = nullptr;
  }
  const std::lock_guard lock(queue.mutex);
  for (Event event : queue.free_events) note(driver().event_destroy(event));
  for (char* chunk : queue.chunks) note(driver().mem_free_host(chunk));
  if (queue.flags != nullptr) note(driver().mem_free_host(queue.flags));
  if (queue.kernels.module != nullptr) note(driver().module_unload(queue.kernels.module));
  unload(queue.data);
  if (queue.enqueue.module != nullptr) note(driver().module_unload(queue.enqueue.module));
  if (worst != kSuccess)
    log::write(log::Level::warn, "GPU resources were not all freed (%s)", describe(worst).c_str());
}

void close_all_queues() {
  const std::lock_guard lock(queues_mutex);
  const size_t count = queue_count.exchange(0, std::memory_order_acq_rel);
  for (size_t i = 0; i < count; ++i) destroy(*queues[i].load(std::memory_order_relaxed));
}

}  // namespace

Result<WorkQueue*> queue_of(Context context) {
  const unsigned long long id = id_of(context);
  if (WorkQueue* queue = find(context, id)) [[likely]]
    return queue;
  const std::lock_guard lock(queues_mutex);
  if (WorkQueue* queue = find(context, id)) return queue;
  auto queue = std::make_unique<WorkQueue>();
  queue->context = context;
  queue->id = id;
  Status made = fill(*queue);
  if (made) made = install(queue.get());
  if (!made) {
    destroy(*queue);
    return std::move(made).error();
  }
  if (queue->device >= 0 && queue->device < 64) devices_used.fetch_or(uint64_t{1} << queue->device);
  every_queue.push_back(std::move(queue));
  return every_queue.back().get();
}

Status load_enqueue(WorkQueue& queue) {
  const std::lock_guard lock(queue.mutex);
  if (queue.enqueue.few != nullptr) return {};
  auto loaded = load_enqueue_kernel();
  if (!loaded) return std::move(loaded).error();
  queue.enqueue = *loaded;
  return {};
}

Result<Event> take_event(WorkQueue& queue) {
  {
    const std::lock_guard lock(queue.mutex);
    if (!queue.free_events.empty()) {
      const Event event = queue.free_events.back();
      queue.free_events.pop_back();
      return event;
    }
  }
  const RelaxedCapture relaxed;
  Event event = nullptr;
  WEFT_CUDA_TRY(event_create, "an event for MPI transfers cannot be created", &event, kEventDisableTiming);
  return event;
}

void give_event(WorkQueue& queue, Event event) {
  const std::lock_guard lock(queue.mutex);
  queue.free_events.push_back(event);
}

}  // namespace weft::device::cuda

namespace weft::device {

void close() {
  if (available()) cuda::release_deferred();
  cuda::close_driver(cuda::close_all_queues);
}

uint64_t used_devices() { return cuda::devices_used.load(std::memory_order_relaxed); }

}  // namespace weft::device
