// SPDX-License-Identifier: BSD-3-Clause
// A process ends its session and exits right after its last small messages, which the other process receives
// slowly, and rarely inside MPI: all arrive (MPI 5.0 section 11.3.1). Arguments: messages, bytes,
// microseconds between two receives.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int count = atoi(argv[1]), size = atoi(argv[2]);
  const useconds_t pause = (useconds_t)atoi(argv[3]);
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  int rank, failed = 0;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "leave", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  MPI_Comm_rank(comm, &rank);
  char* message = calloc((size_t)size, 1);
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      memcpy(message, &i, sizeof i);
      MPI_Send(message, size, MPI_BYTE, 1, 0, comm);
      continue;
    }
    MPI_Recv(message, size, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
    if (memcmp(message, &i, sizeof i) != 0) failed = 1;
    usleep(pause);
  }
  if (failed) fprintf(stderr, "leave: a message is wrong\n");
  free(message);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  return failed;
}
