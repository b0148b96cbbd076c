// SPDX-License-Identifier: BSD-3-Clause
#include "device/queue/pack_queue.hpp"

#include <algorithm>
#include <utility>

#include "base/counters.hpp"
#include "base/log.hpp"
#include "device/queue/work_queue.hpp"
#include "device/time_slices.hpp"

namespace weft::device::cuda {
namespace {

counters::Counter launches("gpu.pack_launches", counters::Unit::events, "Launches of pack kernels");
counters::Counter not_started("gpu.pack_not_started", counters::Unit::events,
                              "Pack kernels that were cancelled before they started");
counters::Counter timeouts("gpu.pack_timeouts", counters::Unit::events,
                           "Pack kernels that timed out while they waited for tiles of another GPU");
counters::Counter prefetches("gpu.pack_prefetches", counters::Unit::events,
                             "Launches of pack kernels that prefetched their destination");

log::SlowPath no_slots{"gpu.no_pack_slots",
                       "strided GPU messages take about 10 us longer, and pack kernels are not cancellable"};

constexpr unsigned kMaxBlocks = 1056;      // per launch: eight per SM of an H200
constexpr unsigned kConsumerBlocks = 256;  // for launches that wait for flags: leaves SMs to other kernels

constexpr uint32_t kSectorBytes = 32;                                // write granularity of GPU memory
constexpr uint64_t kMaxPrefetchSectors = (16 << 20) / kSectorBytes;  // limit that stays in the L2 cache

/// Whether the destination has runs below a sector: each store waits for its page and its sector.
bool is_scattered(const kernel::Pack& pack) {
  return pack.dst.segments == 0 && pack.dst.dimensions > 0 &&
         pack.dst.run.divisor * pack.size < kSectorBytes && pack.words <= kMaxPrefetchSectors;
}

}  // namespace

void PackQueue::open(WorkQueue& queue) {
  if (queue.data.pack_tiles == nullptr || !launches_are_async()) return;
  const Function kernels[] = {queue.data.pack_tiles, queue.data.pack_tiles_flat};
  if (const Code code =
          launches_.open(queue.context, kSlots, kernels, sizeof(kernel::PackTiles), queue.cancel_stream);
      code != kSuccess)
    return no_slots.hit("the memory of their slots cannot be allocated (" + describe(code) + ")");
  void* staging = nullptr;
  if (driver().mem_host_alloc(&staging, kStagingBytes, kHostAllocPortable) == kSuccess)
    staging_ = static_cast<char*>(staging);
  queue_ = &queue;
}

void PackQueue::close() {
  const std::lock_guard lock(mutex_);
  launches_.close();
  waiting_.clear();
  if (staging_ != nullptr) driver().mem_free_host(staging_);
  staging_ = nullptr;
  queue_ = nullptr;
}

bool PackQueue::accepts() const { return queue_ != nullptr && !time_sliced(queue_->device); }

uint32_t PackQueue::start(PackJob job) {
  const std::lock_guard lock(mutex_);
  if (!accepts()) return 0;
  if (++last_ == 0) ++last_;
  job.id = last_;
  advance();
  if (!waiting_.empty() || !launch(job)) waiting_.push_back(job);
  return job.id;
}

/// Returns false if there is no free slot.
bool PackQueue::launch(PackJob& job) {
  CancellableLaunches::Slot* slot = launches_.free_slot();
  if (slot == nullptr) return false;
  const unsigned most = job.tiles.wait_flags != 0 ? kConsumerBlocks : kMaxBlocks;
  // Next to another launch, prefetching would cost more memory bandwidth than it saves.
  const bool touches = job.tiles.wait_flags != 0 && is_scattered(job.tiles.pack) && launches_.idle();
  job.tiles.prefetch = touches ? 1 : 0;
  const bool flat = is_flat(job.tiles.pack.dst) && is_flat(job.tiles.pack.src);
  const Code code = launches_.start(*slot, flat ? 1 : 0, std::min(job.tiles.chunks, most),
                                    kernel::PackTiles::kThreads, job.tiles);
  if (code != kSuccess) return false;
  slot->reserved = job.tiles.wait_flags != 0;
  launches.add_shared();
  if (touches) prefetches.add_shared();
  jobs_[launches_.index(*slot)] = job;
  return true;
}

void PackQueue::advance() {
  while (!waiting_.empty() && launch(waiting_.front())) waiting_.pop_front();
}

Outcome PackQueue::poll(uint32_t id, PackJob& job) {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return Outcome::pending;
  for (size_t i = 0; i < kSlots; ++i) {
    if (jobs_[i].id != id) continue;
    CancellableLaunches::Slot& slot = launches_.slot(i);
    const Outcome outcome =
        launches_.poll(slot, jobs_[i].tiles.cancellable != 0 ? jobs_[i].timeout_ns : ~uint64_t{0});
    if (outcome == Outcome::pending) return outcome;
    slot.reserved = false;
    if (outcome == Outcome::not_started) {
      not_started.add_shared();
      job = jobs_[i];
    }
    if (outcome == Outcome::timed_out) timeouts.add_shared();
    if (!waiting_.empty()) advance();
    return outcome;
  }
  const auto at =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const PackJob& it) { return it.id == id; });
  if (at == waiting_.end()) return Outcome::done;  // the slot has been reused since
  if (!launches_.cancelled_pending()) {
    advance();
    return Outcome::pending;
  }
  job = *at;
  waiting_.erase(at);
  not_started.add_shared();
  return Outcome::not_started;
}

Code PackQueue::fault(uint32_t id) {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return kContextIsDestroyed;
  for (size_t i = 0; i < kSlots; ++i)
    if (jobs_[i].id == id) return launches_.fault(launches_.slot(i));
  return launches_.fault(launches_.slot(0));
}

}  // namespace weft::device::cuda
