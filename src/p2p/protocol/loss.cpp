// SPDX-License-Identifier: BSD-3-Clause
// The list of transfers with other hosts, and what happens to them when a host is lost: every operation that
// needs one of its processes ends with an error, also a receive from any source of a communicator that it is
// in.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "device/copy.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {

void Engine::cross(Transfer& t) {
  if (t.crossing) return;
  t.crossing = std::make_unique<Crossing>();
  t.crossing->next = crossings_;
  if (crossings_ != nullptr) crossings_->crossing->previous = &t;
  crossings_ = &t;
}

void Engine::uncross(Transfer& t) {
  Crossing& c = *t.crossing;
  (c.previous != nullptr ? c.previous->crossing->next : crossings_) = c.next;
  if (c.next != nullptr) c.next->crossing->previous = c.previous;
  if (c.exposed != 0) network_->conceal(c.exposed);
  t.crossing.reset();
}

Error Engine::loss_of(uint32_t peer) const {
  std::string why;
  for (const auto& [process, reason] : losses_)
    if (process == peer) why = reason;
  return Error(Errc::proc_aborted,
               "process " + std::to_string(peer) +
                   ", on another host, has ended or cannot be reached any more (" + why +
                   "): look for its own last words, and at the network between the hosts");
}

void Engine::lost(uint32_t source, const Error& why) {
  Peer& peer = peers_[source];
  if (std::exchange(peer.lost, true)) return;
  losses_.emplace_back(source, why.message());
  log::write(log::Level::info, "process %u is lost: %s", source, why.message().c_str());
  peer.eager_sent = uint64_t{1} << 62;  // no credit for ever: sends are announced, and fail there
  peer.eager_credited = 0;
  if (peer.pending) {
    auto pending = std::move(peer.pending);
    for (const Pending& item : *pending)
      if (item.transfer != nullptr && !item.transfer->crossing) complete(*item.transfer, loss_of(source));
  }
  std::vector<Transfer*> theirs;
  for (Transfer* t = crossings_; t != nullptr; t = t->crossing->next)
    if (t->peer == source) theirs.push_back(t);
  for (Transfer* t : theirs) give_up(*t);
  fail_posted(source);
  activate_waiting();
}

// Its fetches have ended; copies to or from rooms that are still running end first.
void Engine::give_up(Transfer& t) {
  Crossing& c = *t.crossing;
  if (t.kind == core::Request::Kind::receive && t.moved == t.expected)
    return;  // all is here, an upload is running
  for (Offering& offering : c.offerings) {
    if (offering.filled.pending()) (void)device::wait(offering.filled);
    if (offering.exposed != 0) network_->conceal(offering.exposed);
  }
  for (const auto& reading : c.readings)
    if (reading->uploading && reading->upload.pending()) (void)device::wait(reading->upload);
  if (c.active) std::erase(pulls_, &t);
  std::erase(waiting_pulls_, &t);
  std::erase(streaming_, &t);
  const size_t starved =
      std::erase_if(starved_, [&](const Starved& waiting) { return waiting.receiver == &t; });
  settle(t);
  if (t.staging && t.kind == core::Request::Kind::receive && starved == 0) --staged_receives_;
  complete(t, loss_of(t.peer));
}

void Engine::fail_posted(uint32_t peer) {
  std::vector<Transfer*> theirs;
  posted_.for_each([&](match::Node& node) {
    auto& t = static_cast<Transfer&>(node);
    const bool any = t.rank == kAnySource;
    const auto& group = t.comm->inter() ? *t.comm->remote_group : *t.comm->group;
    if (any ? group.rank_of(peer) >= 0 : t.comm->process(t.rank) == peer) theirs.push_back(&t);
  });
  for (Transfer* t : theirs) {
    posted_.remove(*t);
    complete(*t, loss_of(peer));
  }
}

// Whether somebody can still send what is waited for. The end of a process that we only receive from is seen,
// too.
Status Engine::find_source(int rank, const core::Communicator& comm) {
  if (rank == kAnySource) {
    const auto& group = comm.inter() ? *comm.remote_group : *comm.group;
    for (const auto& loss : losses_)
      if (group.rank_of(loss.first) >= 0) return loss_of(loss.first);
    return {};
  }
  const uint32_t source = comm.process(rank);
  if (!peers_[source].remote) return {};
  if (peers_[source].lost) return loss_of(source);
  network_->watch(source);
  return {};
}

bool Engine::awaits_living(Transfer& t) {
  Status living = find_source(t.rank, *t.comm);
  if (!living) complete(t, std::move(living).error());
  return living.ok();
}

}  // namespace weft::p2p
