// SPDX-License-Identifier: BSD-3-Clause
// Start and end of an MPI test program with GPU memory.
#pragma once
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "device/cuda_test_support.hpp"

namespace weft::test {

/// Initialises driver and MPI; exits with 1 without a driver.
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

/// Finalises MPI and returns the exit code: nonzero if any rank failed or this rank made a forbidden driver
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
