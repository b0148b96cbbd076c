// SPDX-License-Identifier: BSD-3-Clause
// The truncation error, used by every protocol.
#pragma once
#include "base/result.hpp"
#include "p2p/transfer.hpp"

namespace weft::p2p {
[[nodiscard]] Error truncation_error(const Transfer& t);
}
