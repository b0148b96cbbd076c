// SPDX-License-Identifier: BSD-3-Clause
// Begin and end of an MPI program that tests GPU memory.
#pragma once
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "device/cuda_test_support.hpp"

namespace weft::test {

/// Initialises driver and MPI; without a driver the program ends with 1.
inline void start(int& argc, char**& argv, int& rank, int& ranks, int threads = MPI_THREAD_SINGLE) {
  if (!cuda().loaded) {
    std::fprintf(stderr, "no CUDA driver\n");
    std::exit(1);
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/// Ends MPI; the program's exit code: whether any rank has failures, or this one made a forbidden driver
/// call.
inline int finish(int failures) {
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (cuda().forbidden != nullptr && cuda().forbidden() != 0) {
    std::fprintf(stderr, "a forbidden driver call was made: %s\n", cuda().last_forbidden());
    return 1;
  }
  return all != 0 ? 1 : 0;
}

}  // namespace weft::test
