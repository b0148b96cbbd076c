// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/protocol/table.hpp"

#include <array>
#include <vector>

#include "base/events.hpp"
#include "base/log.hpp"
#include "p2p/protocol/all.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {
namespace {

log::SlowPath no_single_copy{"p2p.no_single_copy",
                             "two copies through shared memory, about half the bandwidth"};

// Their order is part of the wire format, and decides between protocols of equal cost, and, of equal copies,
// which one appends to an RTS.
constexpr std::array kProtocols = {&kFragments,  &kAnnounced, &kRmaFragments, &kMapped, &kStrided,
                                   &kSingleCopy, &kEagerPack, &kBounce,       &kUpload, &kRmaGet,
                                   &kPut,        &kBar,       &kPackedEager,  &kEager};

std::vector<const char*> protocol_names() {
  std::vector<const char*> names;
  for (const Protocol* protocol : kProtocols) names.push_back(protocol->name);
  return names;
}

}  // namespace

events::Event protocol_chosen("p2p.protocol_chosen",
                              "The receiver of a rendezvous message has chosen a protocol",
                              {{"process", events::Type::number},
                               {"tag", events::Type::number},
                               {"bytes", events::Type::amount},
                               {"protocol", events::Type::choice, protocol_names}});

const ProtocolTable& protocol_table() {
  static const auto& table = *new ProtocolTable(kProtocols);
  return table;
}

bool MessageInfo::sender_readable() const {
  if (shm == nullptr) return true;
  const Status usable = shm->can_get(source);
  if (!usable && usable.error().code() == Errc::proc_aborted)
    return true;  // the protocol's get ends the receive
  if (!usable && !device) no_single_copy.hit(usable.error().message());
  return usable.ok();
}

}  // namespace weft::p2p
