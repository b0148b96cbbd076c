// SPDX-License-Identifier: BSD-3-Clause
// Synchronisation of windows (MPI 5.0 section 12.5): fence, post-start-complete-wait, locks, flush.
#include <atomic>
#include <string>

#include "core/remote_memory.hpp"
#include "rma/exchange.hpp"
#include "rma/kernel_queue.hpp"
#include "rma/messages.hpp"
#include "rma/now.hpp"
#include "rma/window.hpp"

namespace weft::rma {
namespace {

constexpr int kDirectPolls = 200;  // rounds of about 30 ns before a flush makes progress on everything

}  // namespace

Status check_assertion(int assertion, int allowed) {
  if ((assertion & ~allowed) == 0) return {};
  return error(ErrorClass::assertion,
               "assert = " + std::to_string(assertion) + " has bits that this call does not define");
}

Status Window::find_ranks(core::Group& group, GroupRanks& found) const {
  if (found.group.get() == &group) [[likely]]
    return {};
  found = {};
  for (const core::ProcessId process : group.processes()) {
    found.ranks.push_back(rank_of(process));
    if (found.ranks.back() < 0) return Error(Errc::group, "group has a process that is not in the window");
  }
  found.group = core::Ref<core::Group>::share(&group);
  return {};
}

Status Window::check_idle(const char* call) const {
  if (locks_ != 0 || lock_all_ || starting_ || exposed_)
    return sync_error(std::string(call) + " while an epoch of " +
                      (starting_   ? "MPI_Win_start"
                       : exposed_  ? "MPI_Win_post"
                       : lock_all_ ? "MPI_Win_lock_all"
                                   : "MPI_Win_lock") +
                      " is open: end it first");
  return {};
}

/// Checks that an access epoch may begin; ends an epoch of a fence without operations.
Status Window::open_access(const char* call) {
  if (starting_ || lock_all_)
    return sync_error(std::string(call) + " while an access epoch of " +
                      (starting_ ? "MPI_Win_start" : "MPI_Win_lock_all") + " is open: end it first");
  if (!fence_) return {};
  if (used_ != 0)
    return sync_error(std::string(call) +
                      " while an epoch of MPI_Win_fence is open: call MPI_Win_fence first");
  fence_ = false;
  set_access_to_all(false);
  return {};
}

void Window::set_access_to_all(bool open) {
  if (std::exchange(access_all_, open) == open) return;
  for (Peer& peer : peers) update_access(peer);
}

Error Window::no_epoch(int rank) const {
  return sync_error("there is no access epoch for target_rank = " + std::to_string(rank) +
                    ": call MPI_Win_fence, MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all first");
}

Status Window::fence(int assertion) {
  WEFT_TRY(check_assertion(assertion, kNoStore | kNoPut | kNoPrecede | kNoSucceed));
  WEFT_TRY(check_idle("MPI_Win_fence"));
  if (has_slots_) bind_all_posted();
  Status flushed = flush_all();
  Status met = host_barrier_ ? barrier_of_host() : barrier(*comm);
  if (has_slots_) drain_slots();
  if (has_slots_ && !met.ok()) settle_all();  // the program may free the buffers of gets
  WEFT_TRY(std::move(met));
  if (has_slots_)
    if (Status results = settle_results(); flushed.ok()) flushed = std::move(results);
  used_ = 0;
  fence_ = (assertion & kNoSucceed) == 0;
  set_access_to_all(fence_);
  return flushed;
}

Status Window::barrier_of_host() {
  const Busy busy(*this);
  if (instance.failures.changes() != 0) [[unlikely]]
    WEFT_TRY(check_failures());
  const uint32_t number = control->barriers.load(std::memory_order_relaxed) + 1;
  control->barriers.store(number, std::memory_order_release);
  for (Peer& peer : peers) {
    const std::atomic<uint32_t>& theirs = peer.control->barriers;
    WEFT_TRY(wait_for(
        [&] { return static_cast<int32_t>(theirs.load(std::memory_order_acquire) - number) >= 0; }, {}));
  }
  return {};
}

Status Window::post(core::Group& group, int assertion) {
  WEFT_TRY(check_assertion(assertion, kNoCheck | kNoStore | kNoPut));
  if (exposed_) return sync_error("an exposure epoch is open: call MPI_Win_wait or MPI_Win_test first");
  WEFT_TRY(find_ranks(group, exposure_));
  if (instance.failures.changes() != 0)
    for (const int rank : exposure_.ranks) WEFT_TRY(check_target(peers[static_cast<size_t>(rank)]));
  for (const int rank : exposure_.ranks) {
    Peer& peer = peers[static_cast<size_t>(rank)];
    if (peer.control != nullptr) {
      peer.control->of(own_rank_).posts.store(++peer.posts_made, std::memory_order_release);
      notify(peer);
    } else {
      Messages::of(instance).send_sync(*this, peer, Sync::post);
    }
  }
  exposed_ = true;
  return {};
}

Status Window::start(core::Group& group, int assertion) {
  WEFT_TRY(check_assertion(assertion, kNoCheck));
  if (locks_ != 0) return sync_error("an access epoch of MPI_Win_lock is open: end it first");
  WEFT_TRY(open_access("MPI_Win_start"));
  WEFT_TRY(find_ranks(group, access_));
  if (instance.failures.revoked(*comm)) return revoked_error();
  starting_ = true;  // a wait releases the lock
  for (const int rank : access_.ranks) {
    Peer& peer = peers[static_cast<size_t>(rank)];
    Status posted =
        wait_for([&] { return control->of(rank).posts.load(std::memory_order_acquire) != peer.posts_seen; },
                 {wait_table::What::window_post, rank});
    if (!posted.ok()) {
      starting_ = false;
      return posted;
    }
    ++peer.posts_seen;
  }
  for (const int rank : access_.ranks) {
    Peer& peer = peers[static_cast<size_t>(rank)];
    peer.started = true;
    update_access(peer);
  }
  return {};
}

Status Window::complete() {
  if (!starting_) return sync_error("there is no access epoch: call MPI_Win_start first");
  starting_ = false;
  Status outcome;
  for (const int rank : access_.ranks) {
    Peer& peer = peers[static_cast<size_t>(rank)];
    peer.started = false;
    update_access(peer);
    if (peer.posted.result == nullptr) bind_posted(peer);
    Status flushed = flush_peer(peer);
    if (outcome.ok()) outcome = std::move(flushed);
    if (peer.control != nullptr) {
      peer.control->of(own_rank_).completes.store(++peer.completes_made, std::memory_order_release);
      notify(peer);
    } else {
      Messages::of(instance).send_sync(*this, peer, Sync::complete);
    }
  }
  return outcome;
}

Result<bool> Window::wait(bool block) {
  if (!exposed_) return sync_error("there is no exposure epoch: call MPI_Win_post first");
  core::Operands event{wait_table::What::window_complete};
  const auto done = [&] {
    event.count = 0;
    for (const int rank : exposure_.ranks)
      event.count += control->of(rank).completes.load(std::memory_order_acquire) ==
                     peers[static_cast<size_t>(rank)].completes_seen;
    return event.count == 0;
  };
  Status waited;
  if (block)
    waited = wait_for(done, event);
  else if (!done())
    instance.poll_once({nullptr, &event, comm.get()});
  if (instance.failures.revoked(*comm)) {
    exposed_ = false;
    return revoked_error();
  }
  WEFT_TRY(std::move(waited));
  if (!done()) {
    WEFT_TRY(check_failures());
    return false;
  }
  if (has_slots_) drain_slots();
  for (const int rank : exposure_.ranks) ++peers[static_cast<size_t>(rank)].completes_seen;
  exposed_ = false;
  return true;
}

Status Window::acquire(Peer& peer, int rank, Lock kind, bool check) {
  if (peer.lock != Lock::none)
    return sync_error("rank " + std::to_string(rank) + " is locked: call MPI_Win_unlock first");
  const bool exclusive = kind == Lock::exclusive;
  const Busy busy(*this);
  if (instance.failures.changes() != 0) WEFT_TRY(check_target(peer));
  if (check) {
    core::Operands event{wait_table::What::window_lock, -1, rank};
    if (peer.control != nullptr) {
      WEFT_TRY(wait_for_target(
          [&] {
            Control& theirs = *peer.control;
            if (theirs.try_lock(exclusive, comm->rank())) [[likely]]
              return true;
            const LockHolder holder = holder_of(theirs, event.rank, static_cast<int>(peers.size()));
            event.rank = holder.rank;
            event.count = holder.sharers;
            return false;
          },
          peer, event));
    } else {
      peer.granted = false;
      Messages::of(instance).send_sync(*this, peer, exclusive ? Sync::lock_exclusive : Sync::lock_shared);
      WEFT_TRY(wait_for_target(
          [&] {
            const LockHolder holder = Messages::of(instance).reported_holder(comm->id, rank);
            event.rank = holder.rank;
            event.count = holder.sharers;
            return peer.granted;
          },
          peer, event));
    }
  }
  peer.lock = kind;
  peer.checked = check;
  update_access(peer);
  return {};
}

void Window::release_lock(Peer& peer) {
  const bool exclusive = peer.lock == Lock::exclusive;
  peer.lock = Lock::none;
  update_access(peer);
  if (!peer.checked) return;
  if (peer.control != nullptr) {
    peer.control->unlock(exclusive, comm->rank());
    notify(peer);
  } else {
    Messages::of(instance).send_sync(*this, peer, exclusive ? Sync::unlock_exclusive : Sync::unlock_shared);
  }
}

Status Window::lock(bool exclusive, int rank, int assertion) {
  WEFT_TRY(check_assertion(assertion, kNoCheck));
  if (rank == p2p::kProcNull) return {};
  WEFT_TRY(check_rank("rank", rank));
  WEFT_TRY(open_access("MPI_Win_lock"));
  WEFT_TRY(acquire(peers[static_cast<size_t>(rank)], rank, exclusive ? Lock::exclusive : Lock::shared,
                   (assertion & kNoCheck) == 0));
  ++locks_;
  return {};
}

Status Window::unlock(int rank) {
  if (rank == p2p::kProcNull) return {};
  WEFT_TRY(check_rank("rank", rank));
  Peer& peer = peers[static_cast<size_t>(rank)];
  if (lock_all_ || peer.lock == Lock::none)
    return sync_error("rank " + std::to_string(rank) + " is not locked: call MPI_Win_lock first");
  Status flushed = flush_peer(peer);
  release_lock(peer);
  --locks_;
  return flushed;
}

Status Window::lock_all(int assertion) {
  WEFT_TRY(check_assertion(assertion, kNoCheck));
  if (locks_ != 0) return sync_error("an access epoch of MPI_Win_lock is open: end it first");
  WEFT_TRY(open_access("MPI_Win_lock_all"));
  for (size_t i = 0; i < peers.size(); ++i) {
    Status locked = acquire(peers[i], static_cast<int>(i), Lock::shared, (assertion & kNoCheck) == 0);
    if (locked.ok()) continue;
    while (i-- > 0) release_lock(peers[i]);
    return locked;
  }
  lock_all_ = true;
  set_access_to_all(true);
  return {};
}

Status Window::unlock_all() {
  if (!lock_all_) return sync_error("the window is not locked: call MPI_Win_lock_all first");
  Status flushed = flush_all();
  lock_all_ = access_all_ = false;
  for (Peer& peer : peers) release_lock(peer);
  return flushed;
}

Status Window::flush(int rank) {
  if (rank == p2p::kProcNull) return {};
  WEFT_TRY(check_rank("rank", rank));
  Peer& peer = peers[static_cast<size_t>(rank)];
  if (peer.lock == Lock::none) [[unlikely]]
    return sync_error("rank " + std::to_string(rank) + " is not locked: call MPI_Win_lock first");
  return flush_peer(peer);
}

Status Window::check_passive() const {
  if (lock_all_ || locks_ != 0) return {};
  return sync_error("there is no passive target epoch: call MPI_Win_lock or MPI_Win_lock_all first");
}

Status Window::flush_peer(Peer& peer) {
  if (flushed(peer)) [[likely]] {
    progress();
    fence_stores(instance);
    return {};
  }
  if (peer.posted.in_flight()) finish_posted(peer);
  Status of_kernels;
  if (counters != nullptr && counters->queue() != nullptr) [[unlikely]]
    of_kernels = counters->queue()->settle(static_cast<int>(&peer - peers.data()));
  const auto pending = [&] {
    if (peer.pending != 0 || (peer.memory != nullptr && peer.memory->pending() != 0)) return true;
    for (const RemoteRegion& region : peer.regions)
      if (region.target->pending() != 0) return true;
    return false;
  };
  // The resident kernel copies within microseconds, in which rounds of full progress are long.
  if (peer.memory != nullptr)
    for (int i = 0; i < kDirectPolls && peer.memory->pending() != 0 && rma().kernels_copy(); ++i)
      rma().poll_copies();
  if (pending()) [[unlikely]] {
    const core::Operands event = operations_at(peer);
    core::wait_until(instance, [&] { return !pending(); },
                     {nullptr, &event, comm.get()});  // ends for a failed peer too
  } else {
    progress();
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Status outcome = std::exchange(peer.outcome, {});
  if (outcome.ok()) outcome = std::move(of_kernels);
  if (peer.host != nullptr) [[likely]]  // errors of operations that were pending are in `outcome`
    return outcome;
  const auto take = [&](Target& target) {
    auto flushed = rma().flush(target);
    if (!flushed && outcome.ok()) outcome = std::move(flushed).error();
  };
  if (peer.memory != nullptr) take(*peer.memory);
  for (RemoteRegion& region : peer.regions) take(*region.target);
  if (instance.failures.changes() != 0) [[unlikely]]
    WEFT_TRY(check_target(peer));  // the cause of what operations say
  return outcome;
}

void Window::progress() {
  constexpr unsigned kInterval = 64, kStep = 4;  // flush_now() counts one: it takes as much less time
  if (calls_until_poll_ > kStep) [[likely]] {
    calls_until_poll_ -= kStep;
    return;
  }
  calls_until_poll_ = serves_messages_ || comm->revoked ? 0 : kInterval;
  instance.poll_once({});
}

Status Window::flush_all() {
  Status outcome;
  for (Peer& peer : peers) {
    if (flushed(peer)) [[likely]]
      continue;
    Status failed = flush_peer(peer);
    if (outcome.ok()) outcome = std::move(failed);
  }
  progress();
  fence_stores(instance);
  return outcome.ok() ? check_failures() : std::move(outcome);
}

Status Window::begin_accumulate(const Peer& peer) {
  constexpr int kTries = 64;
  Control& target = *peer.control;
  const int rank = comm->rank();
  for (int i = 0; i < kTries; ++i)
    if (target.try_accumulate(rank)) [[likely]]
      return {};
  return wait_for_target([&] { return target.try_accumulate(rank); }, peer, operations_at(peer));
}

}  // namespace weft::rma
