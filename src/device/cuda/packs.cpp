// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/packs.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {
namespace {

log::SlowPath no_slots{"gpu.no_pack_slots",
                       "strided GPU messages take some 10 us longer, and none is packed safely"};

constexpr unsigned kBlocks = 1056;  // that share a launch, at most: eight on each of an H200's processors
constexpr unsigned kAwaitingBlocks =
    256;  // the same of a launch that may wait: others find a place beside it

constexpr uint32_t kSector = 32;                     // bytes that GPU memory is written in
constexpr uint64_t kTouched = (16 << 20) / kSector;  // of them at most, so that they stay in the cache

/// Runs of less than a sector: each store waits for its page and its sector.
bool scatters(const kernel::Pack& pack) {
  return pack.dst.segments == 0 && pack.dst.dimensions > 0 && pack.dst.run.divisor * pack.size < kSector &&
         pack.words <= kTouched;
}

}  // namespace

void Packs::open(State& state) {
  if (state.data.pack_tiles == nullptr || !launches_return()) return;
  const Function kernels[] = {state.data.pack_tiles, state.data.pack_tiles_flat};
  if (const Code code =
          launches_.open(state.context, kSlots, kernels, sizeof(kernel::PackTiles), state.cancels);
      code != kSuccess)
    return no_slots.hit("their memory cannot be allocated (" + describe(code) + ")");
  void* room = nullptr;
  if (driver().mem_host_alloc(&room, kRoomBytes, kHostAllocPortable) == kSuccess)
    room_ = static_cast<char*>(room);
  state_ = &state;
}

void Packs::close() {
  const std::lock_guard lock(mutex_);
  launches_.close();
  waiting_.clear();
  if (room_ != nullptr) driver().mem_free_host(room_);
  room_ = nullptr;
  state_ = nullptr;
}

bool Packs::takes() const { return state_ != nullptr && !shared(state_->device); }

uint32_t Packs::start(PackJob job) {
  const std::lock_guard lock(mutex_);
  if (!takes()) return 0;
  if (++last_ == 0) ++last_;
  job.id = last_;
  advance();
  if (!waiting_.empty() || !launch(job)) waiting_.push_back(job);
  return job.id;
}

/// False: there is no slot for it now.
bool Packs::launch(PackJob& job) {
  Launches::Slot* slot = launches_.free_slot();
  if (slot == nullptr) return false;
  const unsigned most = job.tiles.awaited != 0 ? kAwaitingBlocks : kBlocks;
  // Beside another launch, fetching would take of the memory's rate more than it gives.
  const bool touches = job.tiles.awaited != 0 && scatters(job.tiles.pack) && launches_.idle();
  job.tiles.touches = touches ? 1 : 0;
  const bool flat = is_flat(job.tiles.pack.dst) && is_flat(job.tiles.pack.src);
  const Code code = launches_.start(*slot, flat ? 1 : 0, std::min(job.tiles.chunks, most),
                                    kernel::PackTiles::kThreads, job.tiles);
  if (code != kSuccess) return false;
  slot->kept = job.tiles.awaited != 0;
  ++counters_.launched;
  counters_.touched += job.tiles.touches;
  jobs_[launches_.index(*slot)] = job;
  return true;
}

void Packs::advance() {
  while (!waiting_.empty() && launch(waiting_.front())) waiting_.pop_front();
}

Outcome Packs::look(uint32_t id, PackJob& job) {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) return Outcome::pending;
  for (size_t i = 0; i < kSlots; ++i) {
    if (jobs_[i].id != id) continue;
    Launches::Slot& slot = launches_.slot(i);
    const Outcome outcome =
        launches_.look(slot, jobs_[i].tiles.checked != 0 ? jobs_[i].patience : ~uint64_t{0});
    if (outcome == Outcome::pending) return outcome;
    slot.kept = false;
    if (outcome == Outcome::untouched) {
      ++counters_.taken_back;
      job = jobs_[i];
    }
    if (outcome == Outcome::missed) ++counters_.missed;
    if (!waiting_.empty()) advance();
    return outcome;
  }
  const auto at =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const PackJob& it) { return it.id == id; });
  if (at == waiting_.end()) return Outcome::done;  // and followed by another
  if (!launches_.stuck()) {
    advance();
    return Outcome::pending;
  }
  job = *at;
  waiting_.erase(at);
  ++counters_.taken_back;
  return Outcome::untouched;
}

Code Packs::fault(uint32_t id) {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) return kContextIsDestroyed;
  for (size_t i = 0; i < kSlots; ++i)
    if (jobs_[i].id == id) return launches_.fault(launches_.slot(i));
  return launches_.fault(launches_.slot(0));
}

PackCounters Packs::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace weft::device::cuda
