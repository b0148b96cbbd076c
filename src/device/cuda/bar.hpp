// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace weft::device::cuda {

/// Unpins all memory. Call before the contexts are closed.
void close_bar();

}  // namespace weft::device::cuda
