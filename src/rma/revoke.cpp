// SPDX-License-Identifier: BSD-3-Clause
// The end of a window that is revoked, or of which a process has failed. A process that learns of a
// revocation begins no operation any more, waits for its own, and tells the others. MPI_Win_free waits for
// that, so that nobody writes into memory that its owner has freed.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "device/window.hpp"
#include "rma/kernel_queue.hpp"
#include "rma/messages.hpp"
#include "rma/window.hpp"
#include "transport/shm/shm.hpp"

namespace weft::rma {

constexpr uint64_t kQueryIntervalNs = 10'000'000;  // between questions whether a process has left a window

Error Window::revoked_error() {
  return {Errc::revoked,
          "the window is revoked (MPIX_Win_revoke, or MPI_Win_free after a failure): free it, and make "
          "another one on a communicator of MPIX_Comm_shrink"};
}

Error Window::sync_error(std::string text) const {
  if (Status usable = check_failures(); !usable.ok()) return std::move(usable).error();
  return error(ErrorClass::sync, std::move(text));
}

Status Window::check_target(const Peer& peer) const {
  if (instance.failures.revoked(*comm)) return revoked_error();
  return instance.failures.failed(peer.process) ? Status(instance.failures.error_of(peer.process)) : Status();
}

void Window::poll_uses() {
  used_ = 1;
  instance.poll_once({});
}

void Window::end_access() {
  calls_until_poll_ = 0;
  for (Peer& peer : peers) {
    peer.host = nullptr;
    update_access(peer);
  }
  if (counters != nullptr) counters->end_access();
}

void Window::lose(core::ProcessId process) {
  const int rank = rank_of(process);
  if (rank < 0) return;
  for (const Peer& peer : peers)  // nobody gets a lock of its own memory any more
    if (peer.control != nullptr && peer.process != process) peer.control->release_all_of(rank);
  Peer& lost = peers[static_cast<size_t>(rank)];
  lost.host = nullptr;
  update_access(lost);
  if (counters != nullptr) counters->lose(rank);
}

template <class Visit>
void Window::for_each_target(Visit&& visit) {
  for (const auto& target : targets_) visit(*target);
  for (const Peer& peer : peers)
    for (const RemoteRegion& region : peer.regions) visit(*region.target);
  if (counters != nullptr) counters->for_each_target(visit);
}

bool Window::leave() {
  const Error why = revoked_error();
  for_each_target([&](Target& target) { rma().abandon(target, why); });
  Messages::of(instance).abandon(*this, why);
  bool in_flight = busy_ != 0;
  for_each_target([&](Target& target) { in_flight |= target.pending() != 0; });
  for (const Peer& peer : peers) in_flight |= peer.pending != 0;
  if (counters != nullptr && counters->queue() != nullptr) in_flight |= counters->queue()->pending() != 0;
  if (in_flight) return false;
  if (stream && stream->gpu)
    if (const auto done = device::idle(*stream->gpu); done && !*done) return false;
  for (Peer& peer : peers) {
    peer.posted.phase = PostedState::none;  // its owner may execute it before it leaves the window, too
    peer.slot = nullptr;
    if (peer.process != instance.self) peer.control = nullptr;  // its owner may use the memory again
  }
  tell_detached();
  return true;
}

/// Tells all processes that this one accesses their memory no more.
void Window::tell_detached() {
  if (std::exchange(told_, true)) return;
  for (Peer& peer : peers) {
    if (peer.process == instance.self)
      peer.detached = true;
    else
      Messages::of(instance).send_sync(*this, peer, Sync::detached);
  }
}

/// Revokes the window, and waits until no live process accesses memory of this one any more. Data of a
/// process that has failed have arrived then, or do not arrive any more.
void Window::await_detached() {
  if (!exchanged_) return;  // nobody has a key
  // Revoked with another communicator during the creation: other processes may have a complete window.
  instance.failures.revoke_everywhere(*comm);
  core::Operands event{.what = wait_table::What::collective};
  event.operation = "free of a revoked window";
  const auto has_left = [&](const Peer& peer) {
    return peer.detached || instance.failures.failed(peer.process) ||
           (instance.shm != nullptr && instance.same_host(peer.process) &&
            instance.shm->departed(peer.process).load(std::memory_order_acquire) != 0);
  };
  uint64_t next_query_ns = 0;
  const auto ask = [&] {  // a process may have said so before this one had the window
    if (monotonic_ns() < next_query_ns) return;
    next_query_ns = monotonic_ns() + kQueryIntervalNs;
    for (const Peer& peer : peers)
      if (peer.process != instance.self && !has_left(peer))
        Messages::of(instance).send_sync(*this, peer, Sync::detached_query);
  };
  const auto writing = [&](const auto& memory) { return rma().receiving(memory.second.region); };
  core::wait_until(instance,
                   [&] {
                     ask();
                     return std::all_of(peers.begin(), peers.end(), has_left) &&
                            std::none_of(own_.begin(), own_.end(), writing) &&
                            std::none_of(spans_.begin(), spans_.end(), writing);
                   },
                   {nullptr, &event, comm.get()});
  all_detached_ = true;
}

}  // namespace weft::rma
