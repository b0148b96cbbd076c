/* SPDX-License-Identifier: BSD-3-Clause */
/* To be preloaded: the calls that make windows, files and processes, which Weft does not have yet, look to
 * mpi4py as those of a library without them. Its modules ask at import and then leave out what needs them. */
#define UNAVAILABLE(name)                                \
  __attribute__((visibility("default"))) int name(void); \
  int name(void) { return -1431655766; /* mpi4py's own code for a missing function */ }

UNAVAILABLE(MPI_Comm_spawn)
UNAVAILABLE(MPI_Comm_spawn_multiple)
UNAVAILABLE(MPI_File_open)
UNAVAILABLE(MPI_Win_allocate)
UNAVAILABLE(MPI_Win_allocate_c)
UNAVAILABLE(MPI_Win_allocate_shared)
UNAVAILABLE(MPI_Win_allocate_shared_c)
UNAVAILABLE(MPI_Win_create)
UNAVAILABLE(MPI_Win_create_c)
UNAVAILABLE(MPI_Win_create_dynamic)
