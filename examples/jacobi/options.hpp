// SPDX-License-Identifier: BSD-3-Clause
// Command line of the Jacobi solver.
#pragma once
#include <string>

namespace jacobi {

enum class Variant {
  cuda_aware,   ///< device rows go straight to MPI_Sendrecv
  host_staged,  ///< rows are copied to host memory for MPI and back
  overlap       ///< boundary rows first; they travel while the interior is computed
};

enum class Place { automatic, cuda, host };

struct Options {
  int nx = 16384;      ///< columns
  int ny = 16384;      ///< rows, the two halo rows included
  int niter = 1000;    ///< iterations at most
  int nccheck = 1;     ///< iterations between two norm checks
  bool csv = false;    ///< one line of figures instead of text
  bool single = true;  ///< run on one device first, and compare
  bool count_gpus = false;
  bool help = false;
  Variant variant = Variant::cuda_aware;
  Place device = Place::automatic;
  std::string plot;  ///< file for a picture of the solution, or empty
};

/// Fills `options`; returns an empty string, or what is wrong with the command line.
std::string parse(int argc, char** argv, Options& options);

/// The text of -help.
std::string help();

const char* name(Variant variant);

}  // namespace jacobi
