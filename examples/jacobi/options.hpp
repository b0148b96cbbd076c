// SPDX-License-Identifier: BSD-3-Clause
// Command line of the Jacobi solver.
#pragma once
#include <string>

namespace jacobi {

enum class Variant {
  cuda_aware,   ///< device rows are passed directly to MPI_Sendrecv
  host_staged,  ///< rows are copied to host memory for MPI and back
  overlap,      ///< boundary rows first; sent while the interior is computed
  window,       ///< rows are put into the neighbours' grids
  stream,       ///< sweep and exchange are one graph in a stream, which the host only launches
  device        ///< the same by the kernel that computes them: one kernel for the whole iteration
};

enum class Place { automatic, cuda, host };

struct Options {
  int nx = 16384;      ///< columns
  int ny = 16384;      ///< rows, the two halo rows included
  int niter = 1000;    ///< largest number of iterations
  int nccheck = 1;     ///< iterations between two norm checks
  bool csv = false;    ///< one line of figures instead of text
  bool single = true;  ///< run on one device first, and compare
  bool count_gpus = false;
  bool help = false;
  Variant variant = Variant::cuda_aware;
  Place device = Place::automatic;
  std::string plot;  ///< file for a picture of the solution, or empty
};

/// Fills in `options`; returns an empty string, or an error message.
std::string parse(int argc, char** argv, Options& options);

/// Returns the text of -help.
std::string help();

const char* name(Variant variant);

}  // namespace jacobi
