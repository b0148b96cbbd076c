// SPDX-License-Identifier: BSD-3-Clause
// The table of protocols and the selection of the receiver's protocol, used by the engine and, for
// hypothetical messages, by explain_send().
#include <algorithm>
#include <array>

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

}  // namespace

std::span<const Protocol* const> protocols() { return kProtocols; }

uint8_t index_of(const Protocol& protocol) {
  const auto* const at = std::find(kProtocols.begin(), kProtocols.end(), &protocol);
  WEFT_ASSERT(at != kProtocols.end());
  return static_cast<uint8_t>(at - kProtocols.begin());
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
  for (size_t i = 0; i < kProtocols.size(); ++i) {
    const Protocol& protocol = *kProtocols[i];
    if (protocol.applicable == nullptr || (tried >> i & 1) != 0 || !protocol.applicable(message)) continue;
    const unsigned cost = protocol.cost(message);
    if (cost >= lowest) continue;
    best = &protocol;
    lowest = cost;
  }
  return best;
}

}  // namespace weft::p2p
