/* SPDX-License-Identifier: BSD-3-Clause */
/* PMPI interposition: MPI_ functions defined here override the library and call PMPI_. The library itself
   never calls the overriding functions. */
#include "expect.h"

static int sends, waits, reductions;

int MPI_Send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  ++sends;
  return PMPI_Send(buf, count, datatype, dest, tag, comm);
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++waits;
  return PMPI_Wait(request, status);
}
int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
  ++reductions;
  return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

int main(int argc, char** argv) {
  int rank, value = 0, sum = 0;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &request);
  MPI_Send(&rank, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT(value == 1 - rank && sends == 1 && waits == 1);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT(sum == 1 && reductions == 1 && sends == 1 && waits == 1);
  PMPI_Send(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  EXPECT(sends == 1);
  MPI_Finalize();
  return finish();
}
