// SPDX-License-Identifier: BSD-3-Clause
// Validation of incoming messages: nothing of a message is used before its size and layout are checked here.
// Ids are checked by core::RequestTable, positions in a message or mapping by the handlers.
#pragma once
#include <cstddef>

namespace weft::p2p {

/// Returns whether `message` has the size and layout of its type: its header and all structures that its
/// flags, counts and lengths name lie within `size` bytes, and the type may come from this peer. `remote`:
/// the sender is on another host. `message` is 8-byte aligned.
[[nodiscard]] bool well_formed(const std::byte* message, size_t size, bool remote);

}  // namespace weft::p2p
