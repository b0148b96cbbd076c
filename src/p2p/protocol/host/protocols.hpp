// SPDX-License-Identifier: BSD-3-Clause
// The protocols of this folder: eager messages, and a single copy of host memory.
#pragma once
#include "p2p/engine/protocol.hpp"

namespace weft::p2p {

extern const Protocol kEager, kBar, kPackedEager, kSingleCopy;

}  // namespace weft::p2p
