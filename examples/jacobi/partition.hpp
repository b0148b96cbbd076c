// SPDX-License-Identifier: BSD-3-Clause
// Which rows of the grid a rank computes. Rows 1 to ny-2 are split as evenly as possible; rows 0 and ny-1
// are halos, filled from the other end (the grid is periodic from top to bottom).
#pragma once

namespace jacobi {

struct Partition {
  int first;  ///< global number of the first row computed here
  int rows;   ///< rows computed here, without the two halo rows
};

inline Partition partition(int ny, int ranks, int rank) {
  const int base = (ny - 2) / ranks, larger = (ny - 2) % ranks;  // the first `larger` ranks have one row more
  return {1 + rank * base + (rank < larger ? rank : larger), base + (rank < larger ? 1 : 0)};
}

}  // namespace jacobi
