// SPDX-License-Identifier: BSD-3-Clause
// The protocols of this folder: chunks in pinned or shared memory.
#pragma once
#include "p2p/engine/protocol.hpp"

namespace weft::p2p {

extern const Protocol kFragments, kAnnounced, kUpload;

}  // namespace weft::p2p
