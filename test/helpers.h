// SPDX-License-Identifier: BSD-3-Clause
// Helpers of C test programs.
#ifndef WEFT_TEST_HELPERS_H
#define WEFT_TEST_HELPERS_H
#include <mpi.h>

/// Reads the clock for so long and calls nothing else of MPI.
static inline void compute(double seconds) {
  const double end = MPI_Wtime() + seconds;
  while (MPI_Wtime() < end) {
  }
}

/// Returns a number below `limit`; each program gets the same sequence.
static inline unsigned random_below(unsigned limit) {
  static unsigned state = 12345;
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % limit;
}

#endif
