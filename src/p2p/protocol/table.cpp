// SPDX-License-Identifier: BSD-3-Clause
// The table of protocols and the selection of the receiver's protocol, used by the engine and, for
// hypothetical messages, by explain_send().
#include <algorithm>
#include <array>
#include <vector>

#include "base/events.hpp"
#include "base/log.hpp"
#include "p2p/protocol/protocol.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {
namespace {

log::SlowPath no_single_copy{"p2p.no_single_copy",
                             "two copies through shared memory, about half the bandwidth"};

// Their order decides between protocols of equal cost, and, of equal copies, which one appends to an RTS.
constexpr std::array kProtocols = {&kFragments,  &kAnnounced, &kRmaFragments, &kMapped, &kStrided,
                                   &kSingleCopy, &kEagerPack, &kBounce,       &kUpload, &kRmaGet,
                                   &kPut,        &kBar,       &kPackedEager,  &kEager};

/// The protocols that have a hook, so that a message does not look at those without it, in the order of their
/// copies.
template <class Hook>
std::vector<const Protocol*> having(Hook Protocol::*hook) {
  std::vector<const Protocol*> found;
  for (const Protocol* protocol : kProtocols)
    if (protocol->*hook != nullptr) found.push_back(protocol);
  std::stable_sort(found.begin(), found.end(),
                   [](const Protocol* a, const Protocol* b) { return a->copies < b->copies; });
  return found;
}
const std::vector<const Protocol*> receivers = having(&Protocol::applicable),
                                   senders = having(&Protocol::send),
                                   appenders = having(&Protocol::append_rts);

std::vector<const char*> protocol_names() {
  std::vector<const char*> names;
  for (const Protocol* protocol : kProtocols) names.push_back(protocol->name);
  return names;
}

events::Event protocol_chosen("p2p.protocol_chosen",
                              "The receiver of a rendezvous message has chosen a protocol",
                              {{"process", events::Type::number},
                               {"tag", events::Type::number},
                               {"bytes", events::Type::amount},
                               {"protocol", events::Type::choice, protocol_names}});

}  // namespace

std::span<const Protocol* const> protocols() { return kProtocols; }
std::span<const Protocol* const> protocols_that_send() { return senders; }
std::span<const Protocol* const> protocols_that_append() { return appenders; }

uint8_t index_of(const Protocol& protocol) {
  const auto* const at = std::find(kProtocols.begin(), kProtocols.end(), &protocol);
  WEFT_ASSERT(at != kProtocols.end());
  return static_cast<uint8_t>(at - kProtocols.begin());
}

void count_message(const Protocol& protocol, uint32_t source, int tag, uint64_t bytes) {
  protocol.received->messages.add();
  protocol.received->bytes.add(bytes);
  if (protocol_chosen.wanted()) [[unlikely]]
    protocol_chosen.raise({source, static_cast<uint64_t>(tag), bytes, index_of(protocol)});
}

bool MessageInfo::sender_readable() const {
  if (shm == nullptr) return true;
  const Status usable = shm->can_get(source);
  if (!usable && usable.error().code() == Errc::proc_aborted)
    return true;  // the protocol's get ends the receive
  if (!usable && !device) no_single_copy.hit(usable.error().message());
  return usable.ok();
}

const Protocol* select(const MessageInfo& message, uint32_t tried) {
  const Protocol* best = nullptr;
  unsigned lowest = UINT32_MAX;
  for (const Protocol* protocol : receivers) {
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
