// SPDX-License-Identifier: BSD-3-Clause
// The table of protocols and the selection of the receiver's protocol, used by the engine and, for
// hypothetical messages, by explain_send().
#include <algorithm>
#include <array>
#include <vector>

#include "base/counters.hpp"
#include "base/events.hpp"
#include "base/log.hpp"
#include "p2p/protocol/protocol.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {
namespace {

log::SlowPath no_single_copy{"p2p.no_single_copy",
                             "two copies through shared memory, about half the bandwidth"};

// Their order decides between protocols of equal cost, and which one appends to an RTS.
constexpr std::array kProtocols = {&kFragments,  &kAnnounced, &kRmaFragments, &kMapped, &kStrided,
                                   &kSingleCopy, &kEagerPack, &kBounce,       &kUpload, &kRmaGet,
                                   &kPut,        &kBar,       &kPackedEager,  &kEager};

/// The protocols that have a hook, so that a message does not look at those without it.
template <class Hook>
std::vector<const Protocol*> having(Hook Protocol::*hook) {
  std::vector<const Protocol*> found;
  for (const Protocol* protocol : kProtocols)
    if (protocol->*hook != nullptr) found.push_back(protocol);
  return found;
}
const std::vector<const Protocol*> receivers = having(&Protocol::applicable),
                                   senders = having(&Protocol::send),
                                   appenders = having(&Protocol::append_rts);
constexpr unsigned kFewestCopies = 1;  // no protocol moves a payload without a copy

/// Messages that this process has received by a protocol.
struct Received {
  const Protocol* protocol;
  counters::Counter messages, bytes;
};
Received received[] = {
    {&kSingleCopy,
     {"p2p.single_copy_messages", counters::Unit::events,
      "Messages received by one copy from host memory of the sender"},
     {"p2p.single_copy_bytes", counters::Unit::bytes,
      "Bytes received by one copy from host memory of the sender"}},
    {&kUpload,
     {"p2p.upload_messages", counters::Unit::events, "Messages received from host memory into GPU memory"},
     {"p2p.upload_bytes", counters::Unit::bytes, "Bytes received from host memory into GPU memory"}},
    {&kMapped,
     {"p2p.mapped_messages", counters::Unit::events,
      "Messages received by one copy from the mapped GPU memory of the sender"},
     {"p2p.mapped_bytes", counters::Unit::bytes,
      "Bytes received by one copy from the mapped GPU memory of the sender"}},
    {&kStrided,
     {"p2p.strided_messages", counters::Unit::events,
      "Messages received by a kernel that reads strided GPU memory of the sender"},
     {"p2p.strided_bytes", counters::Unit::bytes,
      "Bytes received by a kernel that reads strided GPU memory of the sender"}},
    {&kEagerPack,
     {"p2p.eager_pack_messages", counters::Unit::events,
      "Messages received from a bounce buffer, packed at the send"},
     {"p2p.eager_pack_bytes", counters::Unit::bytes,
      "Bytes received from a bounce buffer, packed at the send"}},
    {&kBounce,
     {"p2p.bounce_messages", counters::Unit::events, "Messages received from a bounce buffer of the sender"},
     {"p2p.bounce_bytes", counters::Unit::bytes, "Bytes received from a bounce buffer of the sender"}},
    {&kAnnounced,
     {"p2p.announced_messages", counters::Unit::events, "Messages received by announced fragments"},
     {"p2p.announced_bytes", counters::Unit::bytes, "Bytes received by announced fragments"}},
    {&kFragments,
     {"p2p.fragments_messages", counters::Unit::events,
      "Messages received by fragments through shared memory or the network"},
     {"p2p.fragments_bytes", counters::Unit::bytes,
      "Bytes received by fragments through shared memory or the network"}},
    {&kRmaGet,
     {"p2p.rma_get_messages", counters::Unit::events, "Messages received by a get over the network"},
     {"p2p.rma_get_bytes", counters::Unit::bytes, "Bytes received by a get over the network"}},
    {&kRmaFragments,
     {"p2p.rma_fragments_messages", counters::Unit::events,
      "Messages received by announced fragments over the network"},
     {"p2p.rma_fragments_bytes", counters::Unit::bytes,
      "Bytes received by announced fragments over the network"}},
};

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
  for (Received& one : received) {
    if (one.protocol != &protocol) continue;
    one.messages.add();
    one.bytes.add(bytes);
    break;
  }
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
    if (tried != 0 && (tried >> index_of(*protocol) & 1) != 0) continue;
    if (!protocol->applicable(message)) continue;
    const unsigned cost = protocol->cost(message);
    WEFT_ASSERT(cost >= kFewestCopies);
    if (cost >= lowest) continue;
    best = protocol;
    lowest = cost;
    if (cost == kFewestCopies) break;
  }
  return best;
}

}  // namespace weft::p2p
