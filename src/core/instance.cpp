// SPDX-License-Identifier: BSD-3-Clause
#include "core/instance.hpp"

#include <sched.h>

#include <algorithm>

#include "base/config.hpp"

namespace weft::core {
namespace {

config::Size spin{
    "progress.spin", 2000, 0, 1 << 30,
    "Idle rounds of waiting before the core is offered to others; 0 with more ranks than cores."};

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
  return moved;
}

void Instance::idle(unsigned& rounds) {
  ++rounds;
  // A pause takes some 25 ns, a good part of a small message's latency: only now and then, for a sibling
  // thread.
  if (!oversubscribed && rounds < spin && !threaded) [[likely]] {
    if (rounds % 64 == 0) pause();
    return;
  }
  const bool locked = threaded;  // MPI_Session_init may set it meanwhile
  if (locked) lock.unlock();
  if (oversubscribed || rounds >= spin)
    ::sched_yield();
  else
    pause();
  if (locked) lock.lock();
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
