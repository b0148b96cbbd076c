// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/traffic.hpp"

#include "base/counters.hpp"
#include "p2p/engine/engine.hpp"

namespace weft::p2p {
namespace {

uint64_t value_of(const char* counter) {
  const counters::Counter* const found = counters::find(counter);
  WEFT_ASSERT(found != nullptr);
  return found->value();
}

}  // namespace

Traffic traffic_with(core::Instance& instance, uint32_t process) {
  return traffic_with(engine_of(instance).peers[process]);
}

Traffic traffic(const core::Instance& instance, Distance distance) {
  return engine_of(instance).peers.traffic(distance);
}

Traffic traffic(const core::Instance& instance) {
  Traffic sum;
  for (int distance = 0; distance < kDistances; ++distance)
    sum += traffic(instance, static_cast<Distance>(distance));
  return sum;
}

Traffic traffic_from_host(const core::Instance& instance) {
  Traffic sum = traffic(instance, Distance::host);
  sum += traffic(instance, Distance::network);
  return {sum.sent - value_of("p2p.device_sent_messages") - value_of("p2p.managed_sent_messages"),
          sum.sent_bytes - value_of("p2p.device_sent_bytes") - value_of("p2p.managed_sent_bytes")};
}

uint64_t matched_on_arrival(const core::Instance& instance) {
  return traffic(instance).received - value_of("p2p.unexpected_arrivals") - value_of("p2p.revoked_messages");
}

}  // namespace weft::p2p
