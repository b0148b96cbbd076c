// SPDX-License-Identifier: BSD-3-Clause
// Revoked communicators, and receives from any source that a failure interrupts: they stay posted, and waits
// for them end with Errc::proc_failed_pending until the program acknowledges the failure.
#include <vector>

#include "core/context_ids.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/states.hpp"

namespace weft::p2p {
namespace {

/// Returns the credit of messages that nobody will receive. Announced ones are cancelled by their senders.
void discard_eager(Engine& engine, const core::Communicator& comm) {
  std::vector<UnexpectedMessage*> messages;
  for (const auto channel : {core::Channel::user, core::Channel::collective, core::Channel::partitioned})
    engine.unexpected().for_each(comm.context(channel), [&](match::MatchEntry& entry) {
      auto& message = static_cast<UnexpectedMessage&>(entry);
      if (message.type == Type::eager) messages.push_back(&message);
      return true;
    });
  for (UnexpectedMessage* message : messages) {
    engine.extract(*message);
    engine.discard(*message);
  }
}

}  // namespace

static_assert(transport::shm::kRtrSlots < Transfer::kInterrupted);

std::optional<uint32_t> Engine::unacknowledged_failure(const core::Communicator& comm) const {
  if (!instance.failures.any_failed()) [[likely]]
    return std::nullopt;
  const core::Group& sources = comm.inter() ? *comm.remote_group : *comm.group;
  const auto failed = instance.failures.failed_in(comm);
  for (size_t i = comm.acknowledged_failures; i < failed.size(); ++i)
    if (sources.rank_of(failed[i]) >= 0) return failed[i];
  return std::nullopt;
}

void Engine::interrupt(Transfer& t, uint32_t failed) const {
  WEFT_ASSERT(t.queued && t.owned && t.rank == kAnySource);
  if (t.advertised == Transfer::kInterrupted || t.detached) return;
  WEFT_ASSERT(t.advertised == 0);  // only receives from one source are advertised
  t.advertised = Transfer::kInterrupted;
  t.interrupt(loss_error(failed).message() +
              "; the receive stays active: MPIX_Comm_ack_failed lets it wait for the other processes");
}

/// Returns whether the receive was interrupted; it is an ordinary posted receive again.
bool Engine::resume(Transfer& t) {
  if (t.advertised != Transfer::kInterrupted) return false;
  t.advertised = 0;
  t.resume();
  return true;
}

void Engine::resume_receives(const core::Communicator& comm) {
  if (unacknowledged_failure(comm)) return;
  posted_.for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    if (t.comm == &comm) (void)resume(t);
  });
}

/// Ends the operations of a communicator that no other process takes part in yet. Matched messages complete:
/// both sides move them to the end. A send whose message may have been matched asks its receiver
/// (Engine::on_cancelled), which answers from within any MPI call.
void Engine::on_revoked(core::Communicator& comm) {
  check_sources_ = true;
  (void)core::remember_context(states_->revoked, comm.id);
  std::vector<Transfer*> posted;
  posted_.for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    if (t.comm == &comm) posted.push_back(&t);
  });
  for (Transfer* t : posted) {
    if (t->advertised != 0 && !retract(*t)) continue;  // its sender is writing: it completes by that put
    posted_.remove(*t);
    complete(*t, core::FailureDetector::revoked_error(comm));
  }
  discard_eager(*this, comm);
  requests_.for_each([&](core::Request& request, core::RequestId) {
    auto& t = static_cast<Transfer&>(request);
    if (t.comm != &comm || t.kind != core::Request::Kind::send) return;
    if (t.state == Transfer::State::queued)
      abort(t, core::FailureDetector::revoked_error(comm));
    else if (t.state == Transfer::State::rts_sent)
      cancel(t);
  });
}

}  // namespace weft::p2p
