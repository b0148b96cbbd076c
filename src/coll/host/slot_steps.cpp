// SPDX-License-Identifier: BSD-3-Clause
// SlotSteps: waiting for other ranks, and the checks of builds with assertions.
#include "coll/host/slot_steps.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace weft::coll::host {

using transport::shm::Wakeup;

namespace {

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

Step acknowledged_by(const SlotArea& area) {
  explore::point();
  return area.done.load(std::memory_order_acquire);
}

}  // namespace

SlotSteps::SlotSteps(core::Communicator& comm) : instance_(comm.instance), comm_(comm), shm_(instance_.shm) {}

void SlotSteps::use(std::vector<SlotArea*> slot_areas) {
  slot_areas_ = std::move(slot_areas);
  own_ = slot_areas_[static_cast<size_t>(comm_.rank())];
}

Status SlotSteps::read_remote(int rank, void* to, uint64_t from, size_t n) {
  const transport::Iov local{reinterpret_cast<uint64_t>(to), n}, remote{from, n};
  Status got = shm_->get(comm_.process(rank), {&local, 1}, {&remote, 1});
  const SlotArea& theirs = *slot_areas_[static_cast<size_t>(rank)];
  if (got.ok() && theirs.broken.load(std::memory_order_acquire) == 0) [[likely]]
    return {};
  // The memory of a process that is killed disappears before its end is noticed; a rank that has given up has
  // noticed the failure earlier than this one.
  const uint64_t deadline = monotonic_ns() + kFailureNoticeNs;
  core::wait_until(instance_, [&] { return check_ranks() || monotonic_ns() > deadline; });
  return broken() ? Status(failure()) : std::move(got);
}

bool SlotSteps::check_new_failures() {
  changes_checked_ = instance_.failures.changes();
  if (broken()) return true;
  Status checked = instance_.failures.check(comm_);
  if (checked.ok()) return false;
  discarded_ = std::make_unique<std::byte[]>(kPageBytes);
  failure_ = std::make_unique<Error>(std::move(checked).error());
  own().broken.store(1, std::memory_order_release);  // before the caller may change published buffers
  return true;
}

void SlotSteps::await_published(const Slot& slot, Step step, int rank) {
  acknowledge_batch();
  for (int spins = instance_.oversubscribed ? 0 : kSpins; spins > 0; --spins)
    if (published(slot, step)) return;
  wait_or_sleep(Wakeup::kFirstRank + static_cast<uint32_t>(rank), [&] { return published(slot, step); });
}

void SlotSteps::sleep_until_all_published(Step step) {
  if (all_published(step) || broken()) return;
  acknowledge_batch();
  wait_or_sleep(Wakeup::kAllRanks, [&] { return all_published(step); });
}

bool SlotSteps::all_published(Step step) const {
  return std::all_of(slot_areas_.begin(), slot_areas_.end(), [&](const SlotArea* area) {
    explore::point();
    return published(area->slots[step % kSlots], step);
  });
}

/// Waits; sleeps until ranks store what `awaited` says. Threads of one rank may wait for different stores.
template <class Done>
void SlotSteps::wait_or_sleep(uint32_t awaited, Done&& done) {
  const AwaitedScope scope(shm_->wakeup(instance_.self), instance_.threaded ? Wakeup::kAnything : awaited);
  core::wait_until(instance_, [&] { return done() || check_ranks(); });
}

void SlotSteps::wake_waiting(const Step* published) {
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

void SlotSteps::barrier() {
  const Step step = reserve_steps(1);
  claim(step, 0);
  publish(step, 0);
  sleep_until_published(step);
  for (int rank = comm_.rank() + 1; rank < comm_.size(); ++rank)
    static_cast<void>(wait_published(rank, step));
  for (int rank = 0; rank < comm_.rank(); ++rank) static_cast<void>(wait_published(rank, step));
  exchanged(step, step);
}

void SlotSteps::wait_acknowledged(Step step, uint32_t extra_steps) {
  acknowledge_batch();
  Step all = UINT64_MAX;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const SlotArea& area = *slot_areas_[static_cast<size_t>(rank)];
    if (&area == own_) continue;
    const auto done = [&](Step last) { return acknowledged_by(area) >= last; };
    if (!done(step) && !broken()) {
      int spins = instance_.oversubscribed ? 0 : kSpins;
      while (spins > 0 && !done(step + extra_steps)) --spins;
      if (spins == 0)
        wait_or_sleep(Wakeup::kFirstRank + static_cast<uint32_t>(rank),
                      [&] { return done(step + extra_steps); });
    }
    all = std::min(all, acknowledged_by(area));
  }
  all_have_read(all);
}

#ifdef WEFT_ASSERTS
// The words of these checks are relaxed, so that they order nothing that the steps must order themselves.

void SlotSteps::assert_free(Step step, bool small, Step before) const {
  SlotArea& area = own();
  for (const SlotArea* other : slot_areas_)
    WEFT_ASSERT(before < kFirstStep || other->read.load(std::memory_order_relaxed) >= before);
  auto& tag = small ? area.slot_steps[step % kSlots] : area.page_steps[step % kPages];
  tag.store(step, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void SlotSteps::assert_unchanged(int rank, Step step, size_t size) const {
  if (broken() || size == 0) return;
  const SlotArea& area = *slot_areas_[static_cast<size_t>(rank)];
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const auto& tag = size <= kSlotBytes ? area.slot_steps[step % kSlots] : area.page_steps[step % kPages];
  WEFT_ASSERT(tag.load(std::memory_order_relaxed) == step);
}

void SlotSteps::store_read(Step step) const {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  auto& read = own().read;  // acknowledge() of a wait repeats an earlier step
  if (read.load(std::memory_order_relaxed) < step) read.store(step, std::memory_order_relaxed);
}
#endif

}  // namespace weft::coll::host
