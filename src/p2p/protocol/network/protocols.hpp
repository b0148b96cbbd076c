// SPDX-License-Identifier: BSD-3-Clause
// The protocols of this folder: remote memory access between hosts.
#pragma once
#include "p2p/engine/protocol.hpp"

namespace weft::p2p {

extern const Protocol kRmaGet, kRmaFragments;

}  // namespace weft::p2p
