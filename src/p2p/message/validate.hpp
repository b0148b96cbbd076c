// SPDX-License-Identifier: BSD-3-Clause
// Validation of incoming messages: nothing of a message is used before its size and layout are checked here.
// Ids are checked by core::RequestTable, positions in a message or mapping by the handlers.
#pragma once
#include <cstddef>

#include "p2p/message/header.hpp"

namespace weft::p2p {

/// Returns the size of a type's header, by which the handler table checks a message.
[[nodiscard]] size_t header_size(Type type);

/// Returns whether `message`, of header_size() bytes or more, has the layout of its type: all structures that
/// its flags, counts and lengths name lie within `size` bytes, and the type may come from this peer.
/// `remote`: the sender is on another host. `message` is 8-byte aligned.
[[nodiscard]] bool well_formed(const std::byte* message, size_t size, bool remote);

/// Counts a message that is dropped (p2p.malformed_messages).
void drop_malformed();

}  // namespace weft::p2p
