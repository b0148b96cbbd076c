// SPDX-License-Identifier: BSD-3-Clause
// The variant `device`: the whole iteration in one kernel on each GPU, which stores its outer rows into the
// neighbours' grids and waits for theirs (weft_device.cuh). Shared by host code and kernel.
#pragma once
#include <cstddef>
#include <cstdint>

#ifndef __CUDACC__
#include "engine.hpp"
#include "options.hpp"
#include "solver.hpp"
#endif

namespace jacobi {
namespace kernel {

/// Notifications of a window: rows from the neighbours, and the norms of four checks in turn.
enum : unsigned { from_above = 0, from_below = 1, first_norm = 2, norm_slots = 4, notifications = 6 };

/// Written by the kernel, in mapped host memory.
struct Report {
  int iterations;  ///< number of sweeps whose result counts
  int failed;      ///< 1: see MPIX_Win_device_status
  double norm;     ///< of the latest check
};

/// Rows of a strip of jacobi_persistent_4_large: with fewer blocks, low strips are fastest (0.78 s, 16 rows
/// 0.83 for 16384 x 32768 on two H100).
constexpr int large_height = 8;

/// Parameter of jacobi_persistent_4, _4_large and _1. Displacements are in floats, in the windows of the
/// neighbours.
struct Persistent {
  const void* window;  ///< of MPIX_Win_device_handle
  float* grids[2];
  int nx, rows;
  int column_blocks, height, strips;  ///< of the interior
  int above, below;                   ///< neighbours
  uint64_t above_halo[2], below_halo[2];
  int iterations, check_interval;
  double tolerance;
  double* sum;          ///< device memory, zero; then three counters
  unsigned* arrived;    ///< blocks that have added to the norm
  unsigned* barrier;    ///< arrivals of blocks
  unsigned* ends;       ///< 1: the iteration ends
  const double* norms;  ///< own slots: norm_slots times one for each rank
  Report* report;
  double* history;  ///< mapped host memory: norm of each check
};

}  // namespace kernel

#ifndef __CUDACC__
/// Solves the grid on all ranks. Every rank has a GPU of its own, or a GPU that runs the blocks of all its
/// ranks at once.
Outcome run_persistent(Engine& engine, const Options& options, int rank, int ranks, int ranks_on_gpu,
                       bool verbose);
/// Reason why this program cannot do so; empty: it can.
std::string persistent_problem();
#endif

}  // namespace jacobi
