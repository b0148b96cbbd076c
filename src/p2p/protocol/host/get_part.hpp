// SPDX-License-Identifier: BSD-3-Clause
// Reads of the host memory of another process of this host.
#pragma once
#include <cstdint>

#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;

/// Reads the peer's host memory at `address` into bytes [offset, offset + n) of a message in host memory.
[[nodiscard]] Status get_part(Engine& engine, Transfer& t, uint64_t address, uint64_t offset, uint64_t n);

}  // namespace weft::p2p
