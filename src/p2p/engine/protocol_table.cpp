// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/protocol_table.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace weft::p2p {

/// Returns the protocols that have a hook, in the order of their copies.
template <class Hook>
std::vector<const Protocol*> ProtocolTable::having(Hook Protocol::*hook) const {
  std::vector<const Protocol*> found;
  for (const Protocol* protocol : all_)
    if (protocol->*hook != nullptr) found.push_back(protocol);
  std::stable_sort(found.begin(), found.end(),
                   [](const Protocol* a, const Protocol* b) { return a->copies < b->copies; });
  return found;
}

ProtocolTable::ProtocolTable(std::span<const Protocol* const> protocols)
    : all_(protocols),
      receivers_(having(&Protocol::applicable)),
      senders_(having(&Protocol::send)),
      appenders_(having(&Protocol::append_rts)) {
  WEFT_ASSERT(all_.size() <= 32);  // `tried` holds a bit for each
  for (const Protocol* protocol : all_) {
    if (protocol->upload_eager != nullptr) uploader_ = protocol;
    if (protocol->help != nullptr) helper_ = protocol;
  }
}

uint8_t ProtocolTable::index_of(const Protocol& protocol) const {
  const auto at = std::find(all_.begin(), all_.end(), &protocol);
  WEFT_ASSERT(at != all_.end());
  return static_cast<uint8_t>(at - all_.begin());
}

const Protocol* ProtocolTable::select(const MessageInfo& message, uint32_t tried) const {
  const Protocol* best = nullptr;
  unsigned lowest = UINT32_MAX;
  for (const Protocol* protocol : receivers_) {
    if (protocol->copies >= lowest) break;
    if (tried != 0 && (tried >> index_of(*protocol) & 1) != 0) continue;
    if (!protocol->applicable(message)) continue;
    const unsigned cost = cost_of(*protocol, message);
    WEFT_ASSERT(cost >= protocol->copies);
    if (cost < lowest) best = protocol, lowest = cost;
  }
  return best;
}

}  // namespace weft::p2p
