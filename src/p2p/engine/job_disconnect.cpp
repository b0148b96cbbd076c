// SPDX-License-Identifier: BSD-3-Clause
// The end of connections to processes of other jobs.
#include <algorithm>
#include <utility>
#include <vector>

#include "p2p/engine/engine.hpp"
#include "p2p/engine/job_connections.hpp"

namespace weft::p2p {

/// Returns whether messages may have been exchanged. Over a network, a disconnect notice is not worth a
/// connection.
bool JobConnections::in_contact(core::ProcessId process, const Other& other) {
  const Peer& peer = engine_.peers[process];
  return !peer.remote || other.connected || other.peer_disconnected || peer.sent != 0 || peer.arrived != 0 ||
         peer.eager_sent != 0 || peer.consumed != 0;
}

/// Returns whether no message to or from the process can follow. Sends the disconnect notice after the last
/// message.
bool JobConnections::settled(core::ProcessId process) {
  Other& other = others_.at(process);
  Peer& peer = engine_.peers[process];
  if (other.lost) return true;
  if (departed(process)) return peer.requests.empty();
  if (!peer.requests.empty() || peer.blocked()) return false;
  if (!in_contact(process, other)) return true;
  if (!std::exchange(other.disconnect_sent, true)) post(process, kDisconnect);
  return other.peer_disconnected && !peer.blocked();
}

/// Gives up the references to processes without connections. A process with operations in flight keeps its
/// index.
Status JobConnections::remove(std::span<const core::ProcessId> leaving) {
  const auto removed = [&](core::ProcessId process) {
    return !engine_.peers[process].remote || instance_.network->remove(process);
  };
  const bool all_removed =
      wait([&] { return std::count_if(leaving.begin(), leaving.end(), removed) == std::ssize(leaving); });
  for (const core::ProcessId process : leaving)
    if (removed(process)) instance_.processes.release(process);
  if (all_removed) return {};
  return Error(Errc::other, "the network has not completed its operations with a process of another job");
}

/// Returns whether a process of another job has no communicator with this one, and is not connecting.
bool JobConnections::unused(core::ProcessId process) const {
  const auto other = others_.find(process);
  return other != others_.end() && !instance_.processes.in_own_job(process) && other->second.holds == 0 &&
         !other->second.ended && instance_.processes.references(process) == 1;
}

bool JobConnections::departed(core::ProcessId process) const {
  return instance_.same_host(process) &&
         instance_.shm->departed(process).load(std::memory_order_acquire) != 0;
}

bool JobConnections::lost(core::ProcessId process) const {
  return others_.at(process).lost || instance_.failures.failed(process);
}

void JobConnections::release(std::span<const core::ProcessId> processes) {
  for (const core::ProcessId process : processes) {
    const auto other = others_.find(process);
    WEFT_ASSERT(other != others_.end() && other->second.holds != 0);
    if (--other->second.holds == 0 && instance_.processes.in_own_job(process)) others_.erase(other);
  }
}

void JobConnections::abandon(std::span<const core::ProcessId> processes) {
  release(processes);
  for (const core::ProcessId process : processes)
    if (unused(process)) {
      Other& other = others_.at(process);
      other.abandoned = true;
      if (other.peer_disconnected) answer(process, other);
    }
}

/// The answer to a disconnect notice of an abandoned process.
void JobConnections::answer(core::ProcessId process, Other& other) {
  if (!std::exchange(other.disconnect_sent, true)) post(process, kDisconnect);
}

void JobConnections::forget_departed() {
  std::vector<core::ProcessId> gone;
  for (auto& [process, other] : others_) {
    const Peer& peer = engine_.peers[process];
    if (!unused(process) || !peer.requests.empty()) continue;
    const bool answered = other.abandoned && other.disconnect_sent && !peer.blocked();
    if (!answered && (peer.remote || (!other.lost && !departed(process)))) continue;
    gone.push_back(process);
    other.ended = true;
  }
  static_cast<void>(remove(gone));  // those with operations in flight are removed when they connect anew
}

Status JobConnections::disconnect(std::span<const core::ProcessId> processes) {
  std::vector<core::ProcessId> leaving;
  for (const core::ProcessId process : processes)
    if (unused(process)) leaving.push_back(process);
  for (const core::ProcessId process : leaving) others_[process].ended = true;
  Status outcome;
  // Every process gets its notice before this one waits for theirs.
  const bool in_time = wait([&] {
    bool done = true;
    for (const core::ProcessId process : leaving) done &= settled(process);
    return done;
  });
  for (const core::ProcessId process : leaving) {
    if (!in_time && outcome.ok() && !settled(process)) outcome = no_answer(process, "disconnected");
    if (others_[process].lost || settled(process)) continue;
    instance_.failures.report(process, Error(Errc::other, "it has not disconnected in time"));
  }
  Status removed = remove(leaving);
  if (outcome.ok()) outcome = std::move(removed);
  return outcome;
}

/// Called when the last reference to a process is gone: its index may be used again.
void JobConnections::forget(core::ProcessId process) {
  WEFT_ASSERT(engine_.peers[process].requests.empty());  // L4
  engine_.outgoing.forget(process);
  engine_.delivery.forget(process);
  instance_.memory->forget(process);
  engine_.gpudirect.forget_peer(process);
  instance_.failures.forget(process);
  if (instance_.shm != nullptr) instance_.shm->remove(process);
  engine_.connections.forget(process);
  others_.erase(process);
  if (others_.empty()) engine_.connections.count_cores();
}

}  // namespace weft::p2p
