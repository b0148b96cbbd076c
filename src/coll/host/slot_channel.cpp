// SPDX-License-Identifier: BSD-3-Clause
// SlotChannel: leasing slot areas and waiting for other ranks.
#include "coll/host/slot_channel.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "coll/schedule/call.hpp"
#include "coll/schedule/collective.hpp"
#include "coll/select/table.hpp"
#include "device/memory.hpp"

namespace weft::coll::host {

using transport::shm::Wakeup;

namespace {

constexpr uint32_t kNoSlotArea = UINT32_MAX;
constexpr uint64_t kFailureNoticeNs = 200'000'000;  // longer than it takes to notice the end of a process
constexpr int kSpins = 200;                         // loads of a word before other work is progressed

/// Wakeup::await() of a wait, which a callback of another wait may contain.
struct AwaitedScope {
  AwaitedScope(Wakeup& of, uint32_t awaited) : wakeup(of), before(of.awaited()) { wakeup.await(awaited); }
  ~AwaitedScope() { wakeup.await(before); }
  AwaitedScope(const AwaitedScope&) = delete;
  AwaitedScope& operator=(const AwaitedScope&) = delete;
  Wakeup& wakeup;
  const uint32_t before;
};

bool reached(const std::atomic<uint32_t>& word, uint32_t value) {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - value) >= 0;
}

}  // namespace

SlotChannel::SlotChannel(core::Communicator& comm)
    : instance_(comm.instance), comm_(comm), shm_(instance_.shm) {}

SlotChannel::~SlotChannel() {
  if (exchange_ != nullptr) exchange_->detached = true;  // MPI is finalized
  if (instance_.shm != shm_) return;                     // the segment is gone
  for (transport::shm::SlotArea* area : slot_areas_) area->left.fetch_add(1, std::memory_order_acq_rel);
}

/// Starts an allgather of all ranks' records by messages.
Status SlotChannel::connect() {
  const auto size = static_cast<uint32_t>(comm_.size());
  records_.resize(size);
  SlotAreaRecord& mine = records_[static_cast<size_t>(comm_.rank())];
  mine = {shm_->lease_slot_area(size).value_or(kNoSlotArea), 1, device::available() ? 1u : 0u};
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (rank != comm_.rank() && !shm_->can_get(comm_.process(rank)).ok()) mine.readable = 0;
  if (mine.slot_area != kNoSlotArea) own_ = &shm_->slot_area(instance_.self, mine.slot_area);
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
    if (own_ != nullptr) own_->left.store(size, std::memory_order_release);
    records_.clear();
    return;
  }
  single_copy_ = all([](const SlotAreaRecord& record) { return record.readable != 0; });
  any_gpus_ = !all([](const SlotAreaRecord& record) { return record.devices == 0; });
  for (uint32_t rank = 0; rank < size; ++rank)
    slot_areas_.push_back(&shm_->slot_area(comm_.process(static_cast<int>(rank)), records_[rank].slot_area));
  records_.clear();
}

Status SlotChannel::read_remote(int rank, void* to, uint64_t from, size_t n) {
  const transport::Iov local{reinterpret_cast<uint64_t>(to), n}, remote{from, n};
  Status got = shm_->get(comm_.process(rank), {&local, 1}, {&remote, 1});
  if (got.ok() && slot_area(rank).broken.load(std::memory_order_acquire) == 0) [[likely]]
    return {};
  // The memory of a process that is killed disappears before its end is noticed; a rank that has given up has
  // noticed the failure earlier than this one.
  const uint64_t deadline = monotonic_ns() + kFailureNoticeNs;
  core::wait_until(instance_, [&] { return check_ranks() || monotonic_ns() > deadline; });
  return broken() ? Status(failure()) : std::move(got);
}

bool SlotChannel::check_new_failures() {
  changes_checked_ = instance_.failures.changes();
  if (broken()) return true;
  Status checked = instance_.failures.check(comm_);
  if (checked.ok()) return false;
  failure_ = std::make_unique<Error>(std::move(checked).error());
  discarded_ = std::make_unique<std::byte[]>(kPageBytes);
  own().broken.store(1, std::memory_order_release);  // before the caller may change published buffers
  return true;
}

void SlotChannel::wait_for(const std::atomic<uint32_t>& word, uint32_t value, int rank) {
  if (reached(word, value) || broken()) [[likely]]
    return;
  if (acknowledged_ != read_) acknowledge(read_);  // avoids deadlock: others may wait for it
  for (int spins = instance_.oversubscribed ? 0 : kSpins; spins > 0; --spins)
    if (reached(word, value)) return;
  wait_or_sleep(Wakeup::kFirstRank + static_cast<uint32_t>(rank), [&] { return reached(word, value); });
}

void SlotChannel::sleep_until_all_published(uint32_t step) {
  if (all_published(step) || broken()) return;
  if (acknowledged_ != read_) acknowledge(read_);
  wait_or_sleep(Wakeup::kAllRanks, [&] { return all_published(step); });
}

bool SlotChannel::all_published(uint32_t step) const {
  return std::all_of(slot_areas_.begin(), slot_areas_.end(), [&](const transport::shm::SlotArea* area) {
    return reached(area->slots[step % transport::shm::kSlots].sequence, step);
  });
}

/// Waits; sleeps until ranks store what `awaited` says. Threads of one rank may wait for different stores.
template <class Done>
void SlotChannel::wait_or_sleep(uint32_t awaited, Done&& done) {
  const AwaitedScope scope(shm_->wakeup(instance_.self), instance_.threaded ? Wakeup::kAnything : awaited);
  core::wait_until(instance_, [&] { return done() || check_ranks(); });
}

/// Wakes the ranks that wait for this rank or for anything. After publishing, the last rank also wakes the
/// ranks that wait for all ranks.
void SlotChannel::wake_waiting(const uint32_t* published) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // between the store and all_published()
  const uint32_t own = Wakeup::kFirstRank + static_cast<uint32_t>(comm_.rank());
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) continue;
    const Wakeup& wakeup = shm_->wakeup(comm_.process(rank));
    if (wakeup.awake()) continue;
    const uint32_t awaited = wakeup.awaited();
    if (awaited == own || awaited == Wakeup::kAnything ||
        (awaited == Wakeup::kAllRanks && published != nullptr && all_published(*published)))
      shm_->notify_sleeper(comm_.process(rank));
  }
}

void SlotChannel::barrier() {
  const uint32_t step = reserve_steps(1);
  claim(step, 0);
  publish(step, 0);
  sleep_until_published(step);
  for (int rank = comm_.rank() + 1; rank < comm_.size(); ++rank)
    static_cast<void>(wait_published(rank, step));
  for (int rank = 0; rank < comm_.rank(); ++rank) static_cast<void>(wait_published(rank, step));
  all_have_read(step - 1);
}

void SlotChannel::wait_acknowledged(uint32_t step, uint32_t extra_steps) {
  uint32_t beyond = INT32_MAX;  // steps that all ranks have acknowledged after `step`
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const transport::shm::SlotArea* area = slot_areas_[static_cast<size_t>(rank)];
    if (area == own_) continue;
    if (!reached(area->done, step)) wait_for(area->done, step + extra_steps, rank);
    beyond = std::min(beyond, area->done.load(std::memory_order_acquire) - step);
  }
  all_have_read(step + beyond);
}

}  // namespace weft::coll::host
