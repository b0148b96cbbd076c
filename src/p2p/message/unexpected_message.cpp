// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/message/unexpected_message.hpp"

namespace weft::p2p {

Slab<UnexpectedMessage>& UnexpectedMessage::slab() {
  static auto& slab = *new Slab<UnexpectedMessage>;
  return slab;
}

}  // namespace weft::p2p
