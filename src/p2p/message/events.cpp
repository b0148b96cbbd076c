// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/message/events.hpp"

#include <vector>

namespace weft::p2p {
namespace {

std::vector<const char*> channels() { return {"user", "collective", "partitioned"}; }
std::vector<const char*> orders() { return {"receive_first", "message_first"}; }

}  // namespace

events::Event message_matched("p2p.message_matched", "A message is matched with its receive",
                              {{"source", events::Type::number},
                               {"tag", events::Type::number},
                               {"bytes", events::Type::amount},
                               {"channel", events::Type::choice, channels},
                               {"order", events::Type::choice, orders}},
                              events::Binding::communicator);

}  // namespace weft::p2p
