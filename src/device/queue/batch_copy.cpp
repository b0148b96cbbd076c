// SPDX-License-Identifier: BSD-3-Clause
#include "device/queue/batch_copy.hpp"

#include <algorithm>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "device/queue/work_queue.hpp"
#include "device/time_slices.hpp"

namespace weft::device::cuda {
namespace {

config::Size setting_max("gpu.batch_copy_max_bytes", size_t{512} << 10, 0, size_t{1} << 30,
                         "Largest GPU copy in bytes that is batched with others into one kernel, which is "
                         "faster than copy engines "
                         "below 1m; 0 disables the batch copy kernel");
config::Size setting_blocks(
    "gpu.batch_copy_blocks", 64, 1, 1024,
    "Maximum number of blocks (512 threads each) of the batch copy kernel; more use more bandwidth and "
    "occupy more of the GPU");
config::Size setting_timeout(
    "gpu.batch_copy_timeout_ns", 40'000, 1'000, 10'000'000'000,
    "Time in ns after which a batch copy kernel that has not started is cancelled and its copies go to copy "
    "engines");

counters::Counter launches("gpu.batch_copy_launches", counters::Unit::events,
                           "Launches of the batch copy kernel");

log::SlowPath no_batch_copy{"gpu.no_batch_copy", "windows of small GPU messages are up to 3 times slower"};
log::SlowPath cancelled{"gpu.batch_copy_cancelled", "copy engines execute the batch, slower than the kernel"};

constexpr uint64_t kLaunchTimeNs = 5'000;  // ns without keep_running() during a launch
/// Stores to a peer need fewer blocks than loads from one: 64 KiB puts move 127 GB/s with 32, 90 with 64
/// (bench/results/one-sided-2.json).
constexpr size_t kMostBlocksToPeer = 32;
constexpr size_t kMinChunkBytes = size_t{8} << 10, kMaxChunkBytes = size_t{32} << 10;

config::Size setting_busy_max(
    "gpu.batch_copy_busy_max_bytes", size_t{2} << 20, 0, size_t{1} << 30,
    "Like gpu.batch_copy_max_bytes while copy engines are busy: kernel and engines together use NVLink "
    "better");

bool fits(size_t bytes) { return bytes <= setting_max; }

/// Chunk size in bytes that keeps all blocks busy without chunks below the minimum.
uint32_t chunk_for(uint64_t bytes, uint64_t blocks) {
  const uint64_t even = bytes / blocks / kMinChunkBytes * kMinChunkBytes;
  return static_cast<uint32_t>(std::clamp<uint64_t>(even, kMinChunkBytes, kMaxChunkBytes));
}

}  // namespace

void BatchCopy::open(WorkQueue& queue) {
  if (setting_max == 0 || queue.kernels.batch_copy == nullptr || !launches_are_async()) return;
  if (const Code code = launches_.open(queue.context, kSlots, {&queue.kernels.batch_copy, 1},
                                       sizeof(kernel::BatchCopyParams), queue.cancel_stream);
      code != kSuccess)
    return no_batch_copy.hit("its memory cannot be allocated (" + describe(code) + ")");
  queue_ = &queue;
}

void BatchCopy::close() {
  const std::lock_guard lock(mutex_);
  launches_.close();
  queue_ = nullptr;
}

bool BatchCopy::accepts_size(size_t bytes) { return setting_max != 0 && fits(bytes) && launches_are_async(); }

bool BatchCopy::accepts(std::span<const kernel::CopyItem> items, bool engines_busy) const {
  const uint64_t most =
      engines_busy ? std::max<uint64_t>(setting_max, setting_busy_max) : uint64_t{setting_max};
  return queue_ != nullptr && items.size() <= kernel::BatchCopyParams::kMax &&
         std::all_of(items.begin(), items.end(),
                     [=](const kernel::CopyItem& item) { return item.bytes <= most; });
}

uint32_t BatchCopy::launch(std::span<const kernel::CopyItem> items, bool to_peer) {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr || time_sliced(queue_->device)) return 0;
  CancellableLaunches::Slot* slot = launches_.free_slot();
  if (slot == nullptr) return 0;
  kernel::BatchCopyParams& params = params_[launches_.index(*slot)];
  uint64_t bytes = 0, chunks = 0;
  for (const kernel::CopyItem& item : items) bytes += item.bytes;
  const uint64_t most =
      to_peer ? std::min<uint64_t>(setting_blocks, kMostBlocksToPeer) : uint64_t{setting_blocks};
  params.chunk = chunk_for(bytes, most);
  for (const kernel::CopyItem& item : items)
    chunks += kernel::BatchCopyParams::chunks_of(item.bytes, params.chunk);
  params.chunks = static_cast<uint32_t>(chunks);
  params.count = static_cast<uint32_t>(items.size());
  std::copy(items.begin(), items.end(), params.items);
  const auto blocks = static_cast<unsigned>(std::min(chunks, most));
  queue_->resident_kernel.keep_running(kLaunchTimeNs);
  const Code code = launches_.start(*slot, 0, blocks, kernel::BatchCopyParams::kThreads, params);
  if (code != kSuccess) {
    no_batch_copy.hit("the kernel cannot be launched (" + describe(code) + ")");
    return 0;
  }
  launches.add_shared();
  return static_cast<uint32_t>(slot->number * kSlots + launches_.index(*slot));
}

Outcome BatchCopy::poll(uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return Outcome::pending;
  CancellableLaunches::Slot& slot = slot_of(number);
  if (slot.number != number / kSlots) return Outcome::done;  // the slot has been reused since
  const Outcome outcome = launches_.poll(slot, setting_timeout);
  if (outcome == Outcome::not_started) {
    cancelled.hit("a kernel of the application occupies the GPU");
  }
  return outcome;
}

std::span<const kernel::CopyItem> BatchCopy::items(uint32_t number) const {
  const kernel::BatchCopyParams& params = params_[number % kSlots];
  return {params.items, params.count};
}

Code BatchCopy::fault(uint32_t number) const { return launches_.fault(launches_.slot(number % kSlots)); }

}  // namespace weft::device::cuda
