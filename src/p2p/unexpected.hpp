// SPDX-License-Identifier: BSD-3-Clause
// Unexpected messages, for those who ask why a receive waits, or which messages nobody has received.
#pragma once
#include <vector>

#include "core/waits.hpp"

namespace weft::core {
class Instance;
}

namespace weft::p2p {

/// See core::FindSimilar. In this order: another tag from the awaited process, another communicator, another
/// source.
[[nodiscard]] bool find_similar(const core::Operands& wanted, const core::Communicator& comm,
                                core::SimilarMessage& found);

/// Returns the messages of the program that have arrived and have not been received. `comm` is null if the
/// communicator was freed.
[[nodiscard]] std::vector<core::SimilarMessage> unreceived(const core::Instance& instance);

}  // namespace weft::p2p
