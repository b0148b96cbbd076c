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

bool in_collective(const Transfer& t) { return t.comm->context(core::Channel::collective) == t.context; }

/// Returns whether a receive needs a process: its source, or any member if it is part of a collective.
bool needs(const Transfer& t, core::ProcessId process) {
  const core::Communicator& comm = *t.comm;
  const bool collective = in_collective(t);
  if (!collective && t.rank != kAnySource) return comm.process(t.rank) == process;
  if (comm.inter() && comm.remote_group->rank_of(process) >= 0) return true;
  return (collective || !comm.inter()) && comm.group->rank_of(process) >= 0;
}

}  // namespace

Error Engine::loss_error(uint32_t peer) const {
  if (instance.same_host(peer)) return instance.failures.error_of(peer);
  std::string why;
  for (const auto& [process, reason] : losses_)
    if (process == peer) why = reason;
  return Error(Errc::proc_aborted, "process " + std::to_string(peer) +
                                       ", on another host, has ended or is unreachable (" + why +
                                       "): check its own error messages and the network between the hosts");
}

void Engine::lost(uint32_t source, const Error& why) {
  if (!instance.processes.in_own_job(source)) jobs_->on_lost(source);
  Peer& peer = peers_[source];
  if (std::exchange(peer.lost, true)) return;
  losses_.emplace_back(source, why.message());
  instance.failures.report(source, why);  // the observer finds the peer lost already
  check_sources_ = true;
  // Messages that a process of this host had sent before its end are received first.
  for (size_t i = 0; !peer.remote && i < kLastPolls && shm_->poll(instance.handlers, kMessagesPerPoll) != 0;)
    ++i;
  peer.eager_sent = uint64_t{1} << 62;  // never any credit: sends use RTS, which fails
  peer.eager_credited = 0;
  peer.pending.reset();  // its eager sends are listed, too
  requests_.for_each(peer.requests, [&](core::Request& request, core::RequestId) {
    abort(static_cast<Transfer&>(request), loss_error(source));
  });
  put().abort_peer(source);
  fail_posted(source);
  // Processes of this host that are alive give up the collectives of the peer as well. Other hosts may be
  // reading registered memory, and get empty messages instead.
  requests_.for_each([&](core::Request& request, core::RequestId) {
    auto& t = static_cast<Transfer&>(request);
    if (!peers_[t.peer].remote && in_collective(t) && needs(t, source)) abort(t, loss_error(source));
  });
  instance.memory->forget(source);
  gpudirect().forget_peer(source);
}

void Engine::fail_posted(uint32_t peer) {
  std::vector<Transfer*> affected;
  posted_.for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    if (needs(t, peer)) affected.push_back(&t);
  });
  for (Transfer* t : affected) {
    if (t->advertised != 0 && !retract(*t)) continue;  // its sender is writing: it completes by that put
    posted_.remove(*t);
    complete(*t, loss_error(peer));
  }
}

// Returns an error if no process can send to this receive any more. Also has the network watch a peer that
// this process only receives from.
Status Engine::check_source_alive(int rank, const core::Communicator& comm) {
  if (rank == kAnySource) {
    const auto& group = comm.inter() ? *comm.remote_group : *comm.group;
    for (const auto& loss : losses_)
      if (group.rank_of(loss.first) >= 0) return loss_error(loss.first);
    return {};
  }
  const uint32_t source = comm.process(rank);
  if (peers_[source].lost) return loss_error(source);
  if (peers_[source].remote) network_->watch(source);
  return {};
}

// Completes a receive of a collective operation if a process of its communicator is lost, even if its message
// has arrived: the sender may have given up and reuse the buffer.
bool Engine::collective_alive(Transfer& t) {
  if (losses_.empty() || !in_collective(t)) return true;
  for (const auto& loss : losses_)
    if (needs(t, loss.first)) {
      complete(t, loss_error(loss.first));
      return false;
    }
  return true;
}

bool Engine::source_alive(Transfer& t) {
  Status living = check_source_alive(t.rank, *t.comm);
  if (!living) complete(t, std::move(living).error());
  return living.ok();
}

}  // namespace weft::p2p
