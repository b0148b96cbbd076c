// SPDX-License-Identifier: BSD-3-Clause
// Fault tolerance through another interface (ULFM). The last rank kills itself, the others see it, agree,
// shrink and go on. Started by mpiexec --continue-on-failure with at least 3 ranks.
#include "expect.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define MPIX_ERR_PROC_FAILED MPI_ERR_PROC_FAILED
#define MPIX_ERR_REVOKED MPI_ERR_REVOKED
#endif
#include <signal.h>

int main(int argc, char** argv) {
  int rank, ranks, value = 1, sum = 0, flag = 6, error_class, length, code;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm comm, shrunk;
  MPI_Group failed;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (rank == ranks - 1) raise(SIGKILL);

  code = MPI_Recv(&value, 1, MPI_INT, ranks - 1, 0, comm, MPI_STATUS_IGNORE);
  MPI_Error_class(code, &error_class);
  EXPECT(error_class == MPIX_ERR_PROC_FAILED);
  MPI_Error_string(code, text, &length);
  EXPECT(strstr(text, "failed") != NULL);

  EXPECT(MPIX_Comm_failure_ack(comm) == MPI_SUCCESS);
  EXPECT(MPIX_Comm_failure_get_acked(comm, &failed) == MPI_SUCCESS);
  MPI_Group_size(failed, &sum);
  EXPECT(sum == 1);
  MPI_Group_free(&failed);
  EXPECT(MPIX_Comm_get_failed(comm, &failed) == MPI_SUCCESS);
  MPI_Group_free(&failed);
  if (rank == 0) flag = 3;
  MPIX_Comm_agree(comm, &flag);
  EXPECT(flag == (ranks > 2 ? 2 : 3));

  EXPECT(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
  code = MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Error_class(code, &error_class);
  EXPECT(error_class == MPIX_ERR_REVOKED);
  EXPECT(MPIX_Comm_shrink(comm, &shrunk) == MPI_SUCCESS);
  value = 1;
  EXPECT(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, shrunk) == MPI_SUCCESS);
  EXPECT(sum == ranks - 1);
  MPI_Comm_rank(shrunk, &rank);
  if (rank == 0) printf("passed with %d ranks\n", sum);
  MPI_Comm_free(&shrunk);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
