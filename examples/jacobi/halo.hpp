// SPDX-License-Identifier: BSD-3-Clause
// Exchange of halo rows with the ranks above and below, in the variants of the solver.
#pragma once
#include <memory>

#include "engine.hpp"
#include "options.hpp"

namespace jacobi {

/// Rank, neighbours and the shape of this rank's part of the grid.
struct Position {
  int rank, ranks;
  int top, bottom;  ///< ranks that hold the rows above and below; the grid is periodic
  int nx, rows;
};

class Halo {
 public:
  virtual ~Halo() = default;
  /// Posts receives; may be called before the sweep that writes `grid`.
  virtual void begin(float* grid) = 0;
  /// Sends rows 1 and `rows` of `grid`, which must be complete, and fills rows 0 and `rows + 1`.
  virtual void finish(float* grid) = 0;
  /// Whether capture() and launch() replace the functions above, and the sweep.
  [[nodiscard]] virtual bool in_stream() const { return false; }
  /// Captures a sweep and the exchange of its result into a graph, which launch() launches.
  virtual void capture(const Sweep&) {}
  virtual void launch(const Sweep&) {}
};

/// `grids`: the two grids whose halos are exchanged.
std::unique_ptr<Halo> make_halo(Variant variant, Engine& engine, const Position& place,
                                float* const grids[2]);

}  // namespace jacobi
