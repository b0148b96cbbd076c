// SPDX-License-Identifier: BSD-3-Clause
// Events of messages, for tools. Threading: raised under the instance lock.
#pragma once
#include <cstdint>

#include "base/events.hpp"
#include "core/communicator.hpp"
#include "p2p/message/header.hpp"

namespace weft::p2p {

extern events::Event message_matched;  ///< raised by Delivery

/// Reports that a message of `bytes` has been matched with its receive. `unexpected`: it has arrived first.
inline void report_match(const Header& header, uint64_t bytes, bool unexpected) {
  constexpr uint64_t kChannels = core::kContextStep - 1;
  if (message_matched.wanted()) [[unlikely]]
    message_matched.raise({static_cast<uint64_t>(header.source), static_cast<uint64_t>(header.tag), bytes,
                           header.context & kChannels, uint64_t{unexpected}},
                          header.context & ~kChannels);
}

}  // namespace weft::p2p
