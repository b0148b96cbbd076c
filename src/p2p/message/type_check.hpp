// SPDX-License-Identifier: BSD-3-Clause
// Comparison of the datatypes of a send and its receive, for WEFT_CHECK=on (Outgoing::check_types).
#pragma once
#include <cstdint>

#include "p2p/message/transfer.hpp"

namespace weft::p2p {

/// Returns the signature of a message of the program: 1 + the basic type of all its elements. 0: not
/// compared, as mixed types, pairs, types of one byte and steps of collectives.
[[nodiscard, gnu::cold]] uint16_t signature_of(const Transfer& t);
/// Fails a matched receive whose basic type is of another kind or size than that of its message.
[[gnu::cold]] void fail_if_types_differ(Transfer& receive, uint16_t sent);

inline void compare_types(Transfer& receive, uint16_t sent) {
  if (sent != 0) [[unlikely]]
    fail_if_types_differ(receive, sent);
}

}  // namespace weft::p2p
