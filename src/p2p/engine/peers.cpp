// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/peers.hpp"

namespace weft::p2p {

Traffic traffic_with(const Peer& peer) {
  if (peer.transport == nullptr)
    return {peer.sent, peer.sent_bytes, peer.sent, peer.sent_bytes};  // to itself
  return {peer.sent + peer.puts, peer.sent_bytes, peer.arrived + peer.puts_arrived, peer.arrived_bytes};
}

Peers::Peers(core::Instance& instance)
    : instance_(instance),
      table_(size_t{instance.size} + core::kMaxOtherProcesses, this, &Peers::initialise) {}

void Peers::initialise(void* peers, uint32_t id, Peer& peer) {
  const core::Instance& instance = static_cast<Peers*>(peers)->instance_;
  if (id == instance.self) return;
  peer.remote = peer.unreached = !instance.same_host(id);
  peer.transport = peer.remote ? static_cast<transport::Transport*>(instance.network) : instance.shm;
}

void Peers::renew(uint32_t id) {
  const Peer& peer = table_[id];
  forgotten_[static_cast<int>(distance_of(id, peer))] += traffic_with(peer);
  table_.renew(id);
}

Traffic Peers::traffic(Distance distance) const {
  Traffic sum = forgotten_[static_cast<int>(distance)];
  for_each([&](uint32_t id, const Peer& peer) {
    if (distance_of(id, peer) == distance) sum += traffic_with(peer);
  });
  return sum;
}

}  // namespace weft::p2p
