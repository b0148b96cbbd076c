// SPDX-License-Identifier: BSD-3-Clause
// Independent accesses: one process reads or writes bytes of its view with preadv2 and pwritev2.
// Threading: any thread, without the instance lock; all arguments stay valid. Host memory only.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "io/backend/target.hpp"
#include "io/view/view.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::io {

/// Reads `bytes` bytes of the view's stream from `stream` into the packed stream of `memory`. Returns the
/// bytes read, fewer at the end of the file.
[[nodiscard]] Result<int64_t> read_independent(Target& target, const View& view, int64_t stream,
                                               const p2p::Buffer& memory, int64_t bytes);
/// Writes the first `bytes` bytes of the packed stream of `memory`. `parallel`: other threads of this process
/// write to the file at the same time.
[[nodiscard]] Status write_independent(Target& target, const View& view, int64_t stream,
                                       const p2p::Buffer& memory, int64_t bytes, bool parallel = false);

}  // namespace weft::io
