// SPDX-License-Identifier: BSD-3-Clause
// The Jacobi iteration, on one device and distributed. Both launch sweep k+1 before they check the norm of
// sweep k, so that the device never idles. If the norm ends the iteration, the result is the grid of sweep k,
// which sweep k+1 has only read.
#pragma once
#include "engine.hpp"
#include "halo.hpp"
#include "options.hpp"
#include "partition.hpp"

namespace jacobi {

constexpr double tolerance = 1e-8;  ///< the iteration ends when the L2 norm of the change is at most this

struct Outcome {
  float* grids[2];  ///< owned by the engine
  float* result;    ///< the grid with the solution
  int iterations;   ///< number of sweeps
  double norm;      ///< of the latest checked sweep
  double seconds;   ///< of the iteration alone
};

/// Values of the first and last column of rows [first - 1, first + rows] of a part.
std::vector<float> fixed_columns(const Options& options, const Partition& part);

/// Solves the whole grid on this rank's device, without MPI. Prints the norm periodically if `verbose`.
Outcome run_single(Engine& engine, const Options& options, bool verbose);

/// Solves the grid on all ranks, each with its part. Rank 0 prints if `verbose`.
Outcome run_distributed(Engine& engine, const Options& options, int rank, int ranks, bool verbose);

/// Returns the largest absolute difference between the whole grid on rank 0 (`single`, unused elsewhere) and
/// the parts on all ranks, equal on every rank. Infinite if a value is NaN.
double compare(Engine& engine, const Options& options, int rank, int ranks, const float* single,
               const float* part);

}  // namespace jacobi
