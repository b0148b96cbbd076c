// SPDX-License-Identifier: BSD-3-Clause
// MPI_Dims_create (MPI 5.0 section 8.5.2): distributes processes over the dimensions of a grid.
#pragma once
#include <span>

#include "base/result.hpp"

namespace weft::topo {

/// Replaces the zeros of `dims` by non-increasing factors so that the product is `size`. Minimizes the
/// difference between the largest and the smallest factor; on ties maximizes the smallest factor, then the
/// second smallest, etc.
[[nodiscard]] Status balance(int size, std::span<int> dims);

}  // namespace weft::topo
