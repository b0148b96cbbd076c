// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/traffic.hpp"

#include "base/counters.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {
namespace {

uint64_t value_of(const char* counter) {
  const counters::Counter* const found = counters::find(counter);
  WEFT_ASSERT(found != nullptr);
  return found->value();
}

}  // namespace

Traffic traffic_with(const Peer& peer) {
  if (peer.transport == nullptr)
    return {peer.sent, peer.sent_bytes, peer.sent, peer.sent_bytes};  // to itself
  return {peer.sent + peer.puts, peer.sent_bytes, peer.arrived + peer.puts_arrived, peer.arrived_bytes};
}

Traffic traffic(const Engine& engine, Distance distance) {
  Traffic sum = engine.forgotten(distance);
  engine.for_each_peer([&](uint32_t process, const Peer& peer) {
    if (engine.distance_of(process, peer) == distance) sum += traffic_with(peer);
  });
  return sum;
}

Traffic traffic(const Engine& engine) {
  Traffic sum;
  for (int distance = 0; distance < kDistances; ++distance)
    sum += traffic(engine, static_cast<Distance>(distance));
  return sum;
}

Traffic traffic_from_host(const Engine& engine) {
  Traffic sum = traffic(engine, Distance::host);
  sum += traffic(engine, Distance::network);
  return {sum.sent - value_of("p2p.device_sent_messages") - value_of("p2p.managed_sent_messages"),
          sum.sent_bytes - value_of("p2p.device_sent_bytes") - value_of("p2p.managed_sent_bytes")};
}

uint64_t matched_on_arrival(const Engine& engine) {
  return traffic(engine).received - value_of("p2p.unexpected_arrivals") - value_of("p2p.revoked_messages");
}

}  // namespace weft::p2p
