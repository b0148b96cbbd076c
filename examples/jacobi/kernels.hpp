// SPDX-License-Identifier: BSD-3-Clause
// Shared by host code and kernels: launch shape and parameter structs, passed by value.
#pragma once

namespace jacobi::kernel {

constexpr int threads = 256;  ///< threads of a block

/// Strip s covers rows first + s*stride up to `height` rows, but none from `end` on.
struct Strips {
  int nx;
  int first, end;
  int stride, height;
  int column_blocks;  ///< blocks that cover a row; the grid has column_blocks * strips blocks
};

/// Memory for the sum of the squared changes; zero initially.
struct Norm {
  double* sum;        ///< device memory
  unsigned* arrived;  ///< device memory: blocks that have added their share
  unsigned blocks;    ///< blocks over all launches of an iteration
  double* result;     ///< mapped host memory: the total, written by the last block
};

}  // namespace jacobi::kernel
