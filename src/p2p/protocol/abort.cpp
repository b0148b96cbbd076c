// SPDX-License-Identifier: BSD-3-Clause
// Abort: ends a request in flight with a peer that is lost, in any state and of any protocol. Copies under
// way end first; then chunks, mappings and registrations are returned.
#include <algorithm>
#include <vector>

#include "device/copy.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {
namespace {

using transport::shm::ReadyToReceive;
using Phase = ReadyToReceive::Phase;

/// Waits for a copy or kernel whose outcome no longer matters. Kernels that wait for a peer time out.
void await(device::Ticket& ticket) {
  if (ticket.pending()) (void)device::wait(ticket);
}

}  // namespace

/// Returns whether a submitted device copy serves the request.
bool Engine::copying(const Transfer& t) const {
  const auto serves = [&](const DeviceCopy& copy) { return copy.request == &t; };
  return std::any_of(submissions_.begin(), submissions_.end(), [&](const CopySubmission& submission) {
    return serves(submission.copy) || std::any_of(submission.rest.begin(), submission.rest.end(), serves);
  });
}

/// Ends the request with `error`, unless a submitted copy moves its whole payload: then the request ends with
/// that copy, whose batch may serve other peers.
void Engine::abort(Transfer& t, Error error) {
  if (copying(t)) return;
  if (t.kind == core::Request::Kind::receive)
    abort_receive(t);
  else
    abort_send(t);
  complete(t, std::move(error));
}

void Engine::abort_send(Transfer& t) {
  std::erase(streaming_, &t);
  std::erase_if(pending_puts_, [&](const DeviceCopy& put) {
    if (put.request != &t) return false;
    importer().release(put.mapping);
    return true;
  });
  if (t.bounce) {
    for (BounceSend::Chunk& chunk : t.bounce->chunks) {
      await(chunk.packed);
      t.bounce->release(chunk);
    }
  }
  wait_for_chunks(t);
  if (!t.remote_request) return;
  for (StagedFragment& fragment : t.remote_request->fragments) {
    await(fragment.filled);
    if (fragment.registration != 0) network_->deregister(fragment.registration);
  }
}

void Engine::abort_receive(Transfer& t) {
  std::erase_if(pending_gets_, [&](const DeviceCopy& get) {
    if (get.request != &t) return false;
    importer().release(get.mapping);
    return true;
  });
  std::erase_if(bounce_gets_, [&](BounceGet& get) {
    if (get.receiver != &t) return false;
    await(get.ticket);
    if (get.eager_pack) --waiting_kernels_;
    return true;
  });
  t.bounce_gets = 0;
  if (t.sender_bounce != nullptr) importer().release(std::exchange(t.sender_bounce, nullptr));
  const size_t waiting =
      std::erase_if(waiting_staged_, [&](const WaitingStaged& w) { return w.receiver == &t; });
  wait_for_chunks(t);
  if (t.staging && t.state == Transfer::State::receiving && waiting == 0) --staged_receives_;
  if (!t.remote_request) return;
  for (const auto& get : t.remote_request->gets)  // the network has ended all gets
    if (get->uploading) await(get->upload);
  if (t.remote_request->active) std::erase(active_gets_, &t);
  std::erase(waiting_gets_, &t);
}

/// Ends the receives that the peer has claimed and retracts the others that are advertised to it, which stay
/// posted.
void Engine::abort_advertised(uint32_t peer) {
  for (uint32_t slot = 0; slot < advertised_.size(); ++slot) {
    Transfer* const t = advertised_[slot];
    if (t == nullptr || t->comm->process(t->rank) != peer || retract(*t)) continue;
    auto& state = shm_->rtr_slot(instance.self, slot).state;
    const uint64_t claimed = state.load(std::memory_order_acquire);
    if (ReadyToReceive::phase_of(claimed) != Phase::claimed)
      continue;  // the put has ended: poll_advertised()
    PutBounce& bounce = put_bounces_[slot];
    if (bounce.arena != nullptr) {
      await(bounce.unpacked);
      if (bounce.stage == PutBounce::Stage::unpacking) --waiting_kernels_;
    }
    state.store(ReadyToReceive::with_phase(claimed, Phase::idle), std::memory_order_relaxed);
    clear_advertised(*t);
    if (t->queued) posted_.remove(*t);
    complete(*t, loss_error(peer));
  }
}

}  // namespace weft::p2p
