// SPDX-License-Identifier: BSD-3-Clause
// Loss of peers on other hosts. Every operation that needs a lost peer completes with an error, also a
// receive from any source of a communicator that contains the peer.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {

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
  peer.pending.reset();  // its eager sends are listed, too
  requests_.for_each(peer.requests, [&](core::Request& request, core::RequestId) {
    abort(static_cast<Transfer&>(request), loss_error(source));
  });
  abort_advertised(source);
  fail_posted(source);
  if (exporter_) exporter_->forget_peer(source);
  if (importer_) importer_->drop_peer(source);
  std::erase_if(gdr_responses_, [&](const auto& response) {
    if (response->peer != source || !response->replied) return false;
    if (response->registration != 0) network_->deregister(response->registration);
    return true;
  });
  activate_waiting();
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
