// SPDX-License-Identifier: BSD-3-Clause
// The table of all protocols.
#pragma once
#include "p2p/engine/protocol_table.hpp"

namespace weft::p2p {

[[nodiscard]] const ProtocolTable& protocol_table();

}  // namespace weft::p2p
