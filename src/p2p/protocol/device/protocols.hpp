// SPDX-License-Identifier: BSD-3-Clause
// The protocols of this folder: one GPU copies from or to memory that another process has mapped.
#pragma once
#include "p2p/engine/protocol.hpp"

namespace weft::p2p {

extern const Protocol kMapped, kStrided, kEagerPack, kBounce, kPut;

}  // namespace weft::p2p
