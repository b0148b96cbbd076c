// SPDX-License-Identifier: BSD-3-Clause
// The payload of a transfer for the copy service.
#pragma once
#include <cstddef>

#include "copy/copy.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

using copy::View;

[[nodiscard]] inline View view_of(const Transfer& t) {
  return {t.data(), t.contiguous ? nullptr : t.type, t.count, t.memory};
}
/// Packs the whole buffer of a send, of any memory kind, into host memory `to`. Blocks.
[[nodiscard]] Status pack_out(const Transfer& t, std::byte* to);

}  // namespace weft::p2p
