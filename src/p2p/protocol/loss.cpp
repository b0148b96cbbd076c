// SPDX-License-Identifier: BSD-3-Clause
// Loss of peers, reported by the network or by the failure detector. Every operation that needs a lost peer
// completes with an error, also a receive from any source of a communicator that contains the peer, and its
// collective operations: the process that a rank receives from may itself wait for the lost one.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "p2p/engine.hpp"
#include "p2p/job_connections.hpp"
#include "p2p/protocol/states.hpp"

namespace weft::p2p {
namespace {

constexpr size_t kLastPolls = 64, kMessagesPerPoll = 64;  // of shared memory, after the end of a process

Error departure_error(uint32_t peer) {
  return Error(Errc::proc_aborted,
               "process " + std::to_string(peer) +
                   " has left MPI (MPI_Finalize) with this message under way: complete all "
                   "messages before");
}

/// Returns whether a receive needs a process: its source, or any member if it is part of a collective.
bool needs(const Transfer& t, core::ProcessId process) {
  const core::Communicator& comm = *t.comm;
  const bool collective = t.in_collective();
  if (!collective && t.rank != kAnySource) return comm.process(t.rank) == process;
  if (comm.inter() && comm.remote_group->rank_of(process) >= 0) return true;
  return (collective || !comm.inter()) && comm.group->rank_of(process) >= 0;
}

}  // namespace

Error Engine::loss_error(uint32_t peer) const {
  if (instance.same_host(peer)) return instance.failures.error_of(peer);
  return Error(Errc::proc_aborted, "process " + std::to_string(peer) +
                                       ", on another host, has ended or is unreachable (" +
                                       instance.failures.reason_of(peer) +
                                       "): check its own error messages and the network between the hosts");
}

bool Engine::sender_ended(Transfer& t, const Error& error) {
  if (error.code() != Errc::proc_aborted) [[likely]]
    return false;
  if (shm_->departed(t.peer).load(std::memory_order_acquire) != 0) {
    abort(t, departure_error(t.peer));
    return true;
  }
  (void)enlist(t);  // on_failure() aborts it, with the same error as all other requests
  instance.failures.report_later(t.peer, error);
  return true;
}

void Engine::on_failure(uint32_t source) {
  if (!instance.processes.in_own_job(source)) jobs_->on_lost(source);
  Peer& peer = peers_[source];
  peer.lost = true;
  check_sources_ = true;
  if (!peer.remote) read_last_messages();
  peer.eager_sent = uint64_t{1} << 62;  // never any credit: sends use RTS, which fails
  peer.eager_credited = 0;
  peer.pending.reset();  // its eager sends are listed, too
  requests_.for_each(peer.requests, [&](core::Request& request, core::RequestId) {
    abort(static_cast<Transfer&>(request), loss_error(source));
  });
  if (peer.remote) network_->lose(source);
  put().abort_peer(source);
  fail_posted(source);
  // Processes that are alive give up the collectives of the peer as well. One of another host may be reading
  // registered memory: it is asked whether it has matched the message.
  requests_.for_each([&](core::Request& request, core::RequestId) {
    auto& t = static_cast<Transfer&>(request);
    if (!t.in_collective() || !needs(t, source)) return;
    if (peers_[t.peer].remote && t.state != Transfer::State::queued) return cancel(t);
    abort(t, loss_error(source));
  });
  instance.memory->forget(source);
  gpudirect().forget_peer(source);
}

/// Ends all traffic with processes of this host that have left MPI: nobody reads a backlog or answers a
/// request. Only for MPI_Finalize: a process that opens another session later reads its messages then.
void Engine::end_departed() {
  const auto departed = [&](uint32_t peer) {
    return !peers_[peer].remote && shm_->departed(peer).load(std::memory_order_acquire) != 0;
  };
  if (shm_ == nullptr) return;
  bool any = std::any_of(backlog_.begin(), backlog_.end(), departed);
  requests_.for_each([&](core::Request& request, core::RequestId) {
    any |= departed(static_cast<Transfer&>(request).peer);
  });
  if (!any) return;
  read_last_messages();
  for (const uint32_t peer : backlog_)
    if (departed(peer)) peers_[peer].pending.reset();
  requests_.for_each([&](core::Request& request, core::RequestId) {
    auto& t = static_cast<Transfer&>(request);
    if (departed(t.peer)) abort(t, departure_error(t.peer));
  });
}

/// Messages that a process of this host had sent before its end are received before its requests end.
void Engine::read_last_messages() {
  for (size_t i = 0; i < kLastPolls && shm_->poll(instance.handlers, kMessagesPerPoll) != 0;) ++i;
}

void Engine::fail_posted(uint32_t peer) {
  std::vector<Transfer*> affected;
  posted_.for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    if (needs(t, peer)) affected.push_back(&t);
  });
  for (Transfer* t : affected) {
    // A nonblocking receive from any source stays posted: another process may send.
    if (t->rank == kAnySource && t->owned && !t->in_collective()) {
      interrupt(*t, peer);
      continue;
    }
    if (t->advertised != 0 && !retract(*t)) continue;  // its sender is writing: it completes by that put
    posted_.remove(*t);
    complete(*t, loss_error(peer));
  }
}

// Returns an error if no process can send to this receive any more. Also has the network watch a peer that
// this process only receives from.
Status Engine::check_source_alive(int rank, core::Communicator& comm) {
  if (instance.failures.revoked(comm)) return core::FailureDetector::revoked_error(comm);
  if (rank == kAnySource) {
    const auto failed = unacknowledged_failure(comm);
    return failed ? Status(loss_error(*failed)) : Status();
  }
  const uint32_t source = comm.process(rank);
  if (instance.failures.failed(source)) return loss_error(source);
  if (peers_[source].remote) network_->watch(source);
  return {};
}

// Completes a receive on a revoked communicator, and one of a collective operation if a process of its
// communicator is lost, even if its message has arrived: the sender may have given up and reuse the buffer.
bool Engine::usable(Transfer& t) {
  core::FailureDetector& failures = instance.failures;
  if (failures.changes() == 0) return true;
  if (!failures.revoked(*t.comm) && !t.in_collective()) return true;
  Status alive = failures.check(*t.comm);
  if (alive.ok()) return true;
  complete(t, std::move(alive).error());
  return false;
}

bool Engine::source_alive(Transfer& t) {
  if (t.rank == kAnySource && t.owned) {
    const auto failed = unacknowledged_failure(*t.comm);
    if (!failed) return true;
    t.enter(Transfer::State::posted);
    posted_.add(t);
    interrupt(t, *failed);
    return false;
  }
  Status living = check_source_alive(t.rank, *t.comm);
  if (living.ok()) return true;
  complete(t, std::move(living).error());
  return false;
}

}  // namespace weft::p2p
