// SPDX-License-Identifier: BSD-3-Clause
// Work queue of one context: copy engines (streams), resident kernel and cancellable kernels, whose work is
// tracked by tickets. Created on first use; looked up by (context, unique id), which distinguishes a new
// context at a reused address.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/data_kernels.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/launcher.hpp"
#include "device/memory.hpp"
#include "device/pinned.hpp"
#include "device/queue/batch_copy.hpp"
#include "device/queue/collective_slots.hpp"
#include "device/queue/pack_queue.hpp"
#include "device/queue/resident_kernel.hpp"

namespace weft::device::cuda {

/// Completion detection. `hybrid`: stream query for the last copy; flags, written before the next copy, for
/// earlier ones.
enum class Completion : int { automatic, event, flag, query, hybrid };

struct WorkQueue;

/// One of Weft's streams and its completion tracking.
struct TrackedStream {
  std::mutex mutex;  // orders submissions with their sequence numbers
  WorkQueue* queue = nullptr;
  Stream stream = nullptr;  // null after close()
  Completion method = Completion::automatic;
  std::atomic<uint32_t> submitted{0};  // changed under the mutex
  std::atomic<uint32_t> seen{0};       // hybrid: last copy when a query found the stream idle
  const void* chain = nullptr;         // of the last copy; under the mutex
  uint32_t* flag = nullptr;            // in the pinned page of the queue, written by the stream
  Address flag_address = 0;
  std::atomic<Code> fault{kSuccess};                    // sticky: the stream failed
  Launcher pack, pack_flat, reduce, scale, accumulate;  // data kernels; under the mutex
};

/// All objects of Weft in one context. Never freed: tickets may point into a WorkQueue after close().
struct WorkQueue {
  Context context = nullptr;
  unsigned long long id = 0;  // cuCtxGetId; 0 without driver support
  Ordinal device = -1;
  std::array<TrackedStream, kStreamRoles> streams;
  Kernels kernels;
  EnqueueKernel enqueue;  ///< after load_enqueue()
  ResidentKernel resident_kernel;
  BatchCopy batch_copy;
  PackQueue pack_queue;
  Stream cancel_stream = nullptr;  ///< for copies that cancel launches
  CollectiveSlots collective_slots;
  void* flags = nullptr;  // pinned page of completion flags, a cache line per stream
  std::mutex mutex;       // guards enqueue and the vectors below
  std::vector<Event> free_events;
  std::vector<char*> free_chunks;  // staging
  std::vector<char*> chunks;       // all staging chunks allocated so far
  DataKernels data;
  /// Of each stream, for its copies inside a GPU in time slices; leased at first use, under its mutex.
  std::array<PinnedBuffer, kStreamRoles> time_slice_chunks;
};

/// The queue of a context, created on first use.
[[nodiscard]] Result<WorkQueue*> queue_of(Context context);
[[nodiscard]] inline Result<WorkQueue*> queue_of(const Memory& memory) {
  auto context = context_of(memory);
  if (!context) return std::move(context).error();
  return queue_of(*context);
}
/// Loads the kernel of enqueued operations on first use. The queue's context must be current.
[[nodiscard]] Status load_enqueue(WorkQueue& queue);

[[nodiscard]] Result<Event> take_event(WorkQueue& queue);
void give_event(WorkQueue& queue, Event event);

}  // namespace weft::device::cuda
