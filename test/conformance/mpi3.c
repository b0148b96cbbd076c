/* SPDX-License-Identifier: BSD-3-Clause
 * Linked into the tests: up to MPI 3.1 errors of calls without a communicator went to MPI_COMM_WORLD, since
 * MPI 4.0 they go to MPI_COMM_SELF (MPI 5.0 section 9.3). Setting the handler of MPI_COMM_WORLD sets both. */
#include <mpi.h>

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler) {
  if (comm == MPI_COMM_WORLD) {
    const int code = PMPI_Comm_set_errhandler(MPI_COMM_SELF, errhandler);
    if (code != MPI_SUCCESS) return code;
  }
  return PMPI_Comm_set_errhandler(comm, errhandler);
}
