// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace weft::device::cuda {

/// Unpins everything; before the contexts' own things go.
void close_bar();

}  // namespace weft::device::cuda
