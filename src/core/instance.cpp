// SPDX-License-Identifier: BSD-3-Clause
#include "core/instance.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/futex.hpp"
#include "device/memory.hpp"
#include "transport/shm/shm.hpp"

namespace weft::core {
namespace {

config::Size spin{
    "progress.spin", 2000, 0, 1 << 30,
    "Idle rounds of waiting before the core is offered to others; 0 with more ranks than cores."};

constexpr long kLongestSleep = 1'000'000;       // ns; for what rings no bell, such as room in a full inbox
constexpr uint64_t kLongYield = 200'000;        // ns
constexpr uint64_t kWorthShowing = 50'000'000;  // ns
constexpr unsigned kArmed = 1u << 31;           // rounds: beyond, the bell is armed

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

Instance::Instance(std::unique_ptr<launch::Exchange> start)
    : exchange(std::move(start)),
      self(static_cast<ProcessId>(exchange->job().rank)),
      size(static_cast<uint32_t>(exchange->job().size)) {}

Instance::~Instance() = default;

bool Instance::progress() {
  if (polling_) return false;
  polling_ = true;
  bool moved = false;
  for (size_t i = 0; i < pollers_.size(); ++i)
    if (pollers_[i] != nullptr) moved |= pollers_[i]->poll();
  if (removed_) {
    pollers_.erase(std::remove(pollers_.begin(), pollers_.end(), nullptr), pollers_.end());
    removed_ = false;
  }
  polling_ = false;
  stirred_ |= moved;
  return moved;
}

void Instance::idle(unsigned& rounds, Waiting waiting, const Request* request, const Communicator* comm) {
  ++rounds;
  // A pause takes some 25 ns, a good part of a small message's latency: only now and then, for a sibling
  // thread.
  if (!oversubscribed && rounds < spin && !threaded) [[likely]] {
    if (rounds % 64 == 0) pause();
    return;
  }
  const bool locked = threaded;  // MPI_Session_init may set it meanwhile
  if (oversubscribed || rounds >= spin) show(rounds, request, comm);
  if (rounds > kArmed) {
    rounds = 1;  // the same wait goes on
    return locked ? sleep_as_thread(waiting) : static_cast<void>(shm->sleep(kLongestSleep));
  }
  if (locked) release();
  if (oversubscribed || rounds >= spin)
    offer_core(rounds);
  else
    pause();
  if (locked) lock.lock();
}

/// Seen from outside a wait has begun when something moved last. Rounds count from there.
void Instance::show(unsigned rounds, const Request* request, const Communicator* comm) {
  if (shm == nullptr) return;
  const size_t first = oversubscribed ? 1 : static_cast<size_t>(spin);
  if (rounds == first) {
    quiet_since_ = 0;
    shown_ = false;
    return;
  }
  const uint64_t now = monotonic_ns();
  if (quiet_since_ == 0) quiet_since_ = now;
  if (now - quiet_since_ < kWorthShowing) return;
  if (!shown_) publish(request, comm);
  shown_ = true;
  shm->awaited().seen.store(now, std::memory_order_release);
}

void Instance::publish(const Request* request, const Communicator* comm) const {
  transport::shm::Awaited& record = shm->awaited();
  const uint32_t version = record.version.load(std::memory_order_relaxed);
  record.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  Request::Operands operands;
  if (request != nullptr) {
    operands = request->operands();
    comm = request->comm;
  }
  record.kind = request != nullptr ? static_cast<int32_t>(request->kind) : -1;
  record.rank = operands.rank;
  record.tag = operands.tag;
  record.bytes = operands.bytes;
  record.context = comm != nullptr ? comm->id : 0;
  record.comm_rank = comm != nullptr ? comm->rank() : -1;
  record.comm_size = comm != nullptr ? comm->size() : 0;
  std::snprintf(record.comm, sizeof record.comm, "%s", comm != nullptr ? comm->name.c_str() : "");
  record.since.store(quiet_since_, std::memory_order_relaxed);
  record.version.store(version + 2, std::memory_order_release);
}

/// Among ranks that wait this takes less than a microsecond, much less than to sleep and be woken. Where it
/// takes long, others compute, and a rank that offers its core again and again gets less and less of it: the
/// next round sleeps until another rank has something for this one. The end of a copy on a GPU wakes nobody.
void Instance::offer_core(unsigned& rounds) const {
  const uint64_t before = monotonic_ns();
  ::sched_yield();
  if (!sleeps || device::available() || monotonic_ns() - before < kLongYield) return;
  shm->bell(self).arm();  // the caller looks once more
  rounds = kArmed;
}

/// One of the threads sleeps on the bell; it polls for all when it wakes, and tells the others.
void Instance::sleep_as_thread(Waiting waiting) {
  if (!leading_) {
    leading_ = true;
    release();
    const bool rung = shm->sleep(kLongestSleep);
    lock.lock();
    leading_ = false;
    stirred_ |= rung;
    return;
  }
  const uint32_t seen = wake_ups_.load(std::memory_order_relaxed);
  const uint32_t anything = waiting == Waiting::anything ? 1 : 0;
  ++followers_;
  followers_of_anything_ += anything;
  release();
  futex_wait(wake_ups_, seen, kLongestSleep);
  lock.lock();
  --followers_;
  followers_of_anything_ -= anything;
}

void Instance::wake_waiting() {
  const uint64_t finished = Request::finished();
  const bool leaderless = !leading_;
  if (finished == told_ && !leaderless && !(stirred_ && followers_of_anything_ != 0)) return;
  told_ = finished;
  stirred_ = false;
  if (followers_ != 0) {
    wake_ups_.fetch_add(1, std::memory_order_relaxed);
    futex_wake(wake_ups_);
  }
  if (leading_ && sleeps) shm->bell(self).ring();
}

void Instance::yield_if_crowded() const {
  if (oversubscribed) ::sched_yield();
}

void Instance::add(Poller& poller) { pollers_.push_back(&poller); }

void Instance::remove(Poller& poller) {
  const auto found = std::find(pollers_.begin(), pollers_.end(), &poller);
  if (found == pollers_.end()) return;
  if (polling_) {
    *found = nullptr;  // progress() is walking the list
    removed_ = true;
  } else {
    pollers_.erase(found);
  }
}

ContextId Instance::new_contexts(uint32_t n) {
  const ContextId first =
      (static_cast<ContextId>(self + 1) << 34) | (static_cast<ContextId>(next_context_) * kContextStep);
  next_context_ += n;
  return first;
}

}  // namespace weft::core
