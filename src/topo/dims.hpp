// SPDX-License-Identifier: BSD-3-Clause
// MPI_Dims_create (MPI 5.0 section 8.5.2): processes spread over the dimensions of a grid.
#pragma once
#include <span>

#include "base/result.hpp"

namespace weft::topo {

/// Replaces the zeros of `dims` so that the product is `size`. The new ones do not increase; of all ways the
/// one with the least difference of largest and smallest, then with the largest smallest, and so on.
[[nodiscard]] Status balance(int size, std::span<int> dims);

}  // namespace weft::topo
