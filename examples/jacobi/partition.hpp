// SPDX-License-Identifier: BSD-3-Clause
// Partition of the grid's rows over the ranks. Rows 1 to ny-2 are split as evenly as possible; rows 0 and
// ny-1 are halos, filled from the opposite end (the grid is periodic from top to bottom).
#pragma once

namespace jacobi {

struct Partition {
  int first;  ///< global number of the first row computed here
  int rows;   ///< rows computed here, without the two halo rows
};

inline Partition partition(int ny, int ranks, int rank) {
  const int base = (ny - 2) / ranks, larger = (ny - 2) % ranks;  // the first `larger` ranks have one more row
  return {1 + rank * base + (rank < larger ? rank : larger), base + (rank < larger ? 1 : 0)};
}

}  // namespace jacobi
