// SPDX-License-Identifier: BSD-3-Clause
#include "coll/host/slot_channel.hpp"

#include <algorithm>
#include <utility>

#include "coll/schedule/call.hpp"
#include "coll/schedule/collective.hpp"
#include "coll/select/table.hpp"
#include "device/memory.hpp"

namespace weft::coll::host {
namespace {

constexpr uint32_t kNoSlotArea = UINT32_MAX;

}  // namespace

void SlotArea::clear() {
  for (auto* word : {&done, &read}) word->store(0, std::memory_order_relaxed);
  for (Slot& slot : slots) slot.sequence.store(0, std::memory_order_relaxed);
  for (CallDescriptor& descriptor : call_descriptors)
    descriptor.number.store(kFirstCall, std::memory_order_relaxed);
  for (auto& slot : order_slots) slot.store(kUnassigned, std::memory_order_relaxed);
  for (auto* word : {&seen, &finished}) word->store(kFirstCall, std::memory_order_relaxed);
  for (auto* word : {&failed, &ended}) word->store(0, std::memory_order_relaxed);
  for (auto* word : {&broken, &setup.stage}) word->store(0, std::memory_order_relaxed);
}

SlotChannel::~SlotChannel() {
  if (exchange_ != nullptr) exchange_->detached = true;  // MPI is finalized
  if (instance_.shm != shm_) return;                     // the segment is gone
  for (SlotArea* area : slot_areas_) area->left.fetch_add(1, std::memory_order_acq_rel);
}

/// Starts an allgather of all ranks' records by messages.
Status SlotChannel::connect() {
  const auto size = static_cast<uint32_t>(comm_.size());
  records_.resize(size);
  SlotAreaRecord& mine = records_[static_cast<size_t>(comm_.rank())];
  mine = {shm_->lease_region(size).value_or(kNoSlotArea), 1, device::available() ? 1u : 0u};
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (rank != comm_.rank() && !shm_->can_get(comm_.process(rank)).ok()) mine.readable = 0;
  if (mine.slot_area != kNoSlotArea) {
    leased_ = &shm_->region<SlotArea>(instance_.self, mine.slot_area);
    leased_->clear();
  }
  Call call;
  call.what = Collective::allgather;
  call.comm = &comm_;
  call.rank = comm_.rank();
  call.size = comm_.size();
  call.in_place = true;
  call.bytes = sizeof(SlotAreaRecord);
  const p2p::Buffer all = packed(records_.data(), sizeof(SlotAreaRecord));
  call.recv.address = all.address;
  call.recv.count = all.count;
  call.recv.blocks = call.size;
  call.recv.type = all.type;
  call.recv.classified = true;
  auto started = start(call, select::by_table(call));
  if (!started) {
    outcome_ = std::move(started).error();
    map_slot_areas();
    return std::move(outcome_);
  }
  exchange_ = *started;
  return {};
}

/// Maps the slot areas once the allgather has completed.
bool SlotChannel::finish_exchange() {
  if (!exchange_->complete()) return false;
  outcome_ = std::move(exchange_->outcome);
  exchange_->destroy();
  exchange_ = nullptr;
  map_slot_areas();
  return true;
}

Status SlotChannel::wait_connected() {
  core::wait_until(instance_, [&] { return connected(); });  // or the collective queue polls it
  return std::move(outcome_);
}

/// Maps the slot areas of all ranks, or of none if one rank has none.
void SlotChannel::map_slot_areas() {
  const auto size = static_cast<uint32_t>(comm_.size());
  const auto all = [&](auto&& good) { return std::all_of(records_.begin(), records_.end(), good); };
  if (!outcome_.ok() || !all([](const SlotAreaRecord& record) { return record.slot_area != kNoSlotArea; })) {
    // T3: if the allgather has failed here, other ranks may have mapped the area: it is not leased again.
    if (leased_ != nullptr && outcome_.ok()) leased_->left.store(size, std::memory_order_release);
    records_.clear();
    return;
  }
  single_copy_ = all([](const SlotAreaRecord& record) { return record.readable != 0; });
  any_gpus_ = !all([](const SlotAreaRecord& record) { return record.devices == 0; });
  std::vector<SlotArea*> areas;
  for (uint32_t rank = 0; rank < size; ++rank)
    areas.push_back(&shm_->region<SlotArea>(comm_.process(static_cast<int>(rank)), records_[rank].slot_area));
  use(std::move(areas));
  records_.clear();
}

}  // namespace weft::coll::host
