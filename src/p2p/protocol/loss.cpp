// SPDX-License-Identifier: BSD-3-Clause
// Loss of peers on other hosts. Every operation that needs a lost peer completes with an error, also a
// receive from any source of a communicator that contains the peer.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "device/copy.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {

void Engine::add_remote_request(Transfer& t) {
  if (t.remote_request) return;
  t.remote_request = std::make_unique<RemoteRequest>();
  t.remote_request->next = remote_requests_;
  if (remote_requests_ != nullptr) remote_requests_->remote_request->previous = &t;
  remote_requests_ = &t;
}

void Engine::remove_remote_request(Transfer& t) {
  RemoteRequest& c = *t.remote_request;
  (c.previous != nullptr ? c.previous->remote_request->next : remote_requests_) = c.next;
  if (c.next != nullptr) c.next->remote_request->previous = c.previous;
  if (c.registration != 0) network_->deregister(c.registration);
  t.remote_request.reset();
}

Error Engine::loss_error(uint32_t peer) const {
  std::string why;
  for (const auto& [process, reason] : losses_)
    if (process == peer) why = reason;
  return Error(Errc::proc_aborted, "process " + std::to_string(peer) +
                                       ", on another host, has ended or is unreachable (" + why +
                                       "): check its own error messages and the network between the hosts");
}

void Engine::lost(uint32_t source, const Error& why) {
  Peer& peer = peers_[source];
  if (std::exchange(peer.lost, true)) return;
  losses_.emplace_back(source, why.message());
  log::write(log::Level::info, "process %u is lost: %s", source, why.message().c_str());
  peer.eager_sent = uint64_t{1} << 62;  // never any credit: sends use RTS, which fails
  peer.eager_credited = 0;
  if (peer.pending) {
    auto pending = std::move(peer.pending);
    for (const PendingMessage& item : *pending)
      if (item.transfer != nullptr && !item.transfer->remote_request)
        complete(*item.transfer, loss_error(source));
  }
  std::vector<Transfer*> affected;
  for (Transfer* t = remote_requests_; t != nullptr; t = t->remote_request->next)
    if (t->peer == source) affected.push_back(t);
  for (Transfer* t : affected) abort_remote(*t);
  fail_posted(source);
  activate_waiting();
}

// Aborts a transfer whose gets have ended; waits for device copies from or to its staging buffers.
void Engine::abort_remote(Transfer& t) {
  RemoteRequest& c = *t.remote_request;
  if (t.kind == core::Request::Kind::receive && t.transferred == t.expected)
    return;  // all data arrived, an upload is in flight
  for (StagedFragment& fragment : c.fragments) {
    if (fragment.filled.pending()) (void)device::wait(fragment.filled);
    if (fragment.registration != 0) network_->deregister(fragment.registration);
  }
  for (const auto& get : c.gets)
    if (get->uploading && get->upload.pending()) (void)device::wait(get->upload);
  if (c.active) std::erase(active_gets_, &t);
  std::erase(waiting_gets_, &t);
  std::erase(streaming_, &t);
  const size_t starved =
      std::erase_if(waiting_staged_, [&](const WaitingStaged& waiting) { return waiting.receiver == &t; });
  wait_for_chunks(t);
  if (t.staging && t.kind == core::Request::Kind::receive && starved == 0) --staged_receives_;
  complete(t, loss_error(t.peer));
}

void Engine::fail_posted(uint32_t peer) {
  std::vector<Transfer*> affected;
  posted_.for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    const bool any = t.rank == kAnySource;
    const auto& group = t.comm->inter() ? *t.comm->remote_group : *t.comm->group;
    if (any ? group.rank_of(peer) >= 0 : t.comm->process(t.rank) == peer) affected.push_back(&t);
  });
  for (Transfer* t : affected) {
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
  if (!peers_[source].remote) return {};
  if (peers_[source].lost) return loss_error(source);
  network_->watch(source);
  return {};
}

bool Engine::source_alive(Transfer& t) {
  Status living = check_source_alive(t.rank, *t.comm);
  if (!living) complete(t, std::move(living).error());
  return living.ok();
}

}  // namespace weft::p2p
