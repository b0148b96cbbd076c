// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/packs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {
namespace {

log::SlowPath no_slots{"gpu.no_pack_slots",
                       "strided GPU messages take some 10 us longer, and none is packed safely"};

constexpr unsigned kBlocks = 1056;  // that share a launch, at most: eight on each of an H200's processors
constexpr size_t kRelaySlots = 2;   // kept for launches that follow each other
constexpr unsigned kAwaitingBlocks =
    256;  // the same of a launch that may wait: others find a place beside it

}  // namespace

void Packs::open(State& state) {
  if (state.data.pack_tiles == nullptr || !launches_return()) return;
  if (const Code code = launches_.open(state.context, kSlots); code != kSuccess)
    return no_slots.hit("their memory cannot be allocated (" + describe(code) + ")");
  void* room = nullptr;
  if (packs_safely() && driver().mem_host_alloc(&room, kRoomBytes, kHostAllocPortable) == kSuccess)
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
  waiting_.push_back(job);
  advance();
  return job.id;
}

/// Reads of a peer's memory leave some slots to kernels that another GPU's waits for, or the other way round.
bool Packs::has_slot(const PackJob& job) const {
  if (job.tiles.awaited != 0 || job.tiles.signals != 0 || job.tiles.checked != 0) return true;
  size_t busy = 0;
  for (size_t i = 0; i < kSlots; ++i) busy += Launches::busy(launches_.slot(i)) ? 1 : 0;
  return busy < kSlots - kRelaySlots;
}

/// False: there is no slot for it now.
bool Packs::launch(PackJob& job) {
  Launches::Slot* slot = has_slot(job) ? launches_.free_slot() : nullptr;
  if (slot == nullptr) return false;
  const unsigned most = job.tiles.awaited != 0 ? kAwaitingBlocks : kBlocks;
  const bool flat = is_flat(job.tiles.pack.dst) && is_flat(job.tiles.pack.src);
  const Function function = flat ? state_->data.pack_tiles_flat : state_->data.pack_tiles;
  const Code code = launches_.start(*slot, function, std::min(job.tiles.chunks, most),
                                    kernel::PackTiles::kThreads, job.tiles);
  if (code != kSuccess) return false;
  slot->kept = job.tiles.awaited != 0;
  ++counters_.launched;
  jobs_[launches_.index(*slot)] = job;
  return true;
}

void Packs::advance() {
  for (auto job = waiting_.begin(); job != waiting_.end();)
    job = launch(*job) ? waiting_.erase(job) : std::next(job);
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
