/* SPDX-License-Identifier: BSD-3-Clause */
/* Preload library: makes mpi4py treat process creation, which Weft does not implement, as missing
 * functions. mpi4py tests for them at import and skips the tests that need them. */
#define UNAVAILABLE(name)                                \
  __attribute__((visibility("default"))) int name(void); \
  int name(void) { return -1431655766; /* mpi4py's own code for a missing function */ }

UNAVAILABLE(MPI_Comm_spawn)
UNAVAILABLE(MPI_Comm_spawn_multiple)
