// SPDX-License-Identifier: BSD-3-Clause
#include "transport/am/late_delivery.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace weft::transport::am {
namespace {

constexpr uint64_t kMessagesPerHold = 8;  // on average, of a peer that is not held back

}  // namespace

void LateDelivery::deliver(Peer source, const std::byte* message, size_t size) {
  auto held = held_.find(source);
  if (held == held_.end()) {
    if (random_() % kMessagesPerHold != 0) return next_.deliver(source, message, size);
    held = held_.emplace(source, Held{monotonic_ns() + random_() % longest_ns_, {}}).first;
  }
  held->second.messages.emplace_back(message, message + size);
}

void LateDelivery::deliver_all_of(Peer peer) {
  const auto held = held_.find(peer);
  if (held == held_.end()) return;
  const auto messages = std::move(held->second.messages);
  held_.erase(held);
  for (const auto& message : messages) next_.deliver(peer, message.data(), message.size());
}

bool LateDelivery::deliver_due(uint64_t now_ns) {
  std::vector<Peer> due;
  for (const auto& [peer, held] : held_)
    if (held.due_ns <= now_ns) due.push_back(peer);
  for (const Peer peer : due) deliver_all_of(peer);
  return !due.empty();
}

void LateDelivery::lost(Peer peer, const Error& why) {
  deliver_all_of(peer);
  next_.lost(peer, why);
}

void LateDelivery::left(Peer peer) {
  deliver_all_of(peer);
  next_.left(peer);
}

}  // namespace weft::transport::am
