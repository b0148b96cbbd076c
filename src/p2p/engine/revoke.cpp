// SPDX-License-Identifier: BSD-3-Clause
// Revoked communicators, and receives from any source that a failure interrupts: they stay posted, and waits
// for them end with Errc::proc_failed_pending until the program acknowledges the failure.
#include <vector>

#include "p2p/engine/engine.hpp"
#include "p2p/engine/failures.hpp"
#include "p2p/message/errors.hpp"

namespace weft::p2p {
static_assert(kRtrSlots < Transfer::kInterrupted);

std::optional<uint32_t> Failures::unacknowledged_failure(const core::Communicator& comm) const {
  if (!engine_.instance.failures.any_failed()) [[likely]]
    return std::nullopt;
  const core::Group& sources = comm.inter() ? *comm.remote_group : *comm.group;
  const auto failed = engine_.instance.failures.failed_in(comm);
  for (size_t i = comm.acknowledged_failures; i < failed.size(); ++i)
    if (sources.rank_of(failed[i]) >= 0) return failed[i];
  return std::nullopt;
}

void Failures::interrupt(Transfer& t, uint32_t failed) const {
  WEFT_ASSERT(t.queued && t.owned && t.rank == kAnySource);  // L3
  if (t.advertised == Transfer::kInterrupted || t.detached) return;
  WEFT_ASSERT(t.advertised == 0);  // M3
  t.advertised = Transfer::kInterrupted;
  t.interrupt(loss_error(engine_.instance, failed).message() +
              "; the receive stays active: MPIX_Comm_ack_failed lets it wait for the other processes");
}

bool Failures::resume(Transfer& t) {
  if (t.advertised != Transfer::kInterrupted) return false;
  t.advertised = 0;
  t.resume();
  return true;
}

void Failures::resume_receives(const core::Communicator& comm) {
  if (unacknowledged_failure(comm)) return;
  engine_.delivery.posted().for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    if (t.comm == &comm) (void)resume(t);
  });
}

void Failures::on_revoked(core::Communicator& comm) {
  engine_.delivery.check_sources();
  std::vector<Transfer*> posted;
  engine_.delivery.posted().for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    if (t.comm == &comm) posted.push_back(&t);
  });
  for (Transfer* t : posted) {
    if (!engine_.delivery.withdraw(*t)) continue;  // its sender is writing: it completes by that put
    engine_.requests.complete(*t, core::FailureDetector::revoked_error(comm));
  }
  engine_.delivery.revoke(comm);
  engine_.requests.for_each([&](Transfer& t) {
    if (t.comm != &comm || t.kind != core::Request::Kind::send) return;
    if (t.state == Transfer::State::queued)
      abort(t, core::FailureDetector::revoked_error(comm));
    else if (t.state == Transfer::State::rts_sent)
      engine_.rendezvous.cancel(t);
  });
}

}  // namespace weft::p2p
