// SPDX-License-Identifier: BSD-3-Clause
// Loss of peers, reported by the network or by the failure detector. Every operation that needs a lost peer
// completes with an error, also a receive from any source of a communicator that contains the peer, and its
// collective operations: the process that a rank receives from may itself wait for the lost one.
#include "p2p/engine/failures.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "p2p/engine/engine.hpp"
#include "p2p/message/errors.hpp"

namespace weft::p2p {
namespace {

Error departure_error(uint32_t peer) {
  return Error(Errc::proc_aborted,
               "process " + std::to_string(peer) +
                   " has left MPI (MPI_Finalize) with this message under way: complete all "
                   "messages before");
}

/// Returns whether a receive needs a process: its source, or any member if it is a step of a collective, also
/// if its communicator is for such steps only (Communicator::part_of).
bool needs(const Transfer& t, core::ProcessId process) {
  const core::Communicator& comm = *t.comm;
  const bool collective = t.in_collective();
  if (!collective && t.rank != kAnySource) return comm.process(t.rank) == process;
  for (const core::Communicator* of = &comm; of != nullptr; of = collective ? of->part_of : nullptr) {
    if (of->inter() && of->remote_group->rank_of(process) >= 0) return true;
    if ((collective || !of->inter()) && of->needed().rank_of(process) >= 0) return true;
  }
  return false;
}

}  // namespace

/// Ends the request with `error`, unless a submitted copy moves its whole payload: then the request ends with
/// that copy, whose batch may serve other peers. A receive into which its sender or the network writes ends
/// with `error` after that.
void Failures::abort(Transfer& t, Error error) {
  if (engine_.copies.copying(t)) return;
  const bool writes = t.protocol != nullptr && t.protocol->stop != nullptr;
  if (writes && !t.protocol->stop(engine_, t, error)) return;
  engine_.copies.drop_pending(t);
  engine_.outgoing.withdraw(t);
  engine_.requests.leave_protocol(t);
  engine_.requests.complete(t, std::move(error));
}

bool Failures::sender_ended(Transfer& t, const Error& error) {
  if (error.code() != Errc::proc_aborted) [[likely]]
    return false;
  if (engine_.instance.shm->departed(t.peer).load(std::memory_order_acquire) != 0) {
    abort(t, departure_error(t.peer));
    return true;
  }
  (void)engine_.requests.enlist(t);  // on_failure() aborts it, with the same error as all other requests
  engine_.instance.failures.report_later(t.peer, error);
  return true;
}

void Failures::on_failure(uint32_t source) {
  core::Instance& instance = engine_.instance;
  if (!instance.processes.in_own_job(source)) engine_.jobs.on_lost(source);
  Peer& peer = engine_.peers[source];
  engine_.outgoing.lose(peer);  // its eager sends are listed, too
  engine_.delivery.check_sources();
  if (!peer.remote) engine_.connections.read_last_messages();
  engine_.requests.for_each_with(peer, [&](Transfer& t) { abort(t, loss_error(instance, source)); });
  if (peer.remote) instance.network->lose(source);
  engine_.puts->abort_peer(source);
  fail_posted(source);
  // Processes that are alive give up the collectives of the peer as well. One of another host may be reading
  // registered memory: it is asked whether it has matched the message.
  engine_.requests.for_each([&](Transfer& t) {
    if (!t.in_collective() || !needs(t, source)) return;
    if (engine_.peers[t.peer].remote && t.state != Transfer::State::queued)
      return engine_.rendezvous.cancel(t);
    abort(t, loss_error(instance, source));
  });
  instance.memory->forget(source);
  engine_.gpudirect.forget_peer(source);
}

void Failures::end_departed() {
  const transport::shm::Shm* const shm = engine_.instance.shm;
  if (shm == nullptr) return;
  const auto departed = [&](uint32_t peer) {
    return !engine_.peers[peer].remote && shm->departed(peer).load(std::memory_order_acquire) != 0;
  };
  const auto backlog = engine_.outgoing.backlog();
  bool any = std::any_of(backlog.begin(), backlog.end(), departed);
  engine_.requests.for_each([&](const Transfer& t) { any |= departed(t.peer); });
  if (!any) return;
  engine_.connections.read_last_messages();
  for (const uint32_t peer : engine_.outgoing.backlog())
    if (departed(peer)) engine_.outgoing.drop_backlog(engine_.peers[peer]);
  engine_.requests.for_each([&](Transfer& t) {
    if (departed(t.peer)) abort(t, departure_error(t.peer));
  });
}

void Failures::fail_posted(uint32_t peer) {
  std::vector<Transfer*> affected;
  engine_.delivery.posted().for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    if (needs(t, peer)) affected.push_back(&t);
  });
  for (Transfer* t : affected) {
    // A nonblocking receive from any source stays posted: another process may send.
    if (t->rank == kAnySource && t->owned && !t->in_collective()) {
      interrupt(*t, peer);
      continue;
    }
    if (!engine_.delivery.withdraw(*t)) continue;  // its sender is writing: it completes by that put
    engine_.requests.complete(*t, loss_error(engine_.instance, peer));
  }
}

Status Failures::check_source(int rank, core::Communicator& comm) {
  core::Instance& instance = engine_.instance;
  if (instance.failures.revoked(comm)) return core::FailureDetector::revoked_error(comm);
  if (rank == kAnySource) {
    const auto failed = unacknowledged_failure(comm);
    return failed ? Status(loss_error(instance, *failed)) : Status();
  }
  const uint32_t source = comm.process(rank);
  if (instance.failures.failed(source)) return loss_error(instance, source);
  if (engine_.peers[source].remote) instance.network->watch(source);
  return {};
}

bool Failures::usable(Transfer& t) {
  core::FailureDetector& failures = engine_.instance.failures;
  if (failures.changes() == 0) return true;
  if (!failures.revoked(*t.comm) && !t.in_collective()) return true;
  Status alive = failures.check(*t.comm);
  if (alive.ok()) return true;
  engine_.requests.complete(t, std::move(alive).error());
  return false;
}

bool Failures::source_alive(Transfer& t) {
  if (t.rank == kAnySource && t.owned) {
    const auto failed = unacknowledged_failure(*t.comm);
    if (!failed) return true;
    engine_.delivery.post(t);
    interrupt(t, *failed);
    return false;
  }
  Status living = check_source(t.rank, *t.comm);
  if (living.ok()) return true;
  engine_.requests.complete(t, std::move(living).error());
  return false;
}

}  // namespace weft::p2p
