// SPDX-License-Identifier: BSD-3-Clause
// Doubtful use of MPI that WEFT_CHECK=on reports. usage: checks WHAT
#include <mpi.h>
#include <string.h>

int main(int argc, char** argv) {
  const char* what = argv[1];
  static char large[1 << 20];
  char in = 1, out = 0;
  int rank;
  MPI_Request request;
  MPI_Comm comm;
  if (strcmp(what, "session") == 0) {
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Session_finalize(&session);
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(what, "character") == 0) {
    for (int i = 0; i < 1000; ++i) MPI_Allreduce(&in, &out, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(what, "receive") == 0) {
    MPI_Irecv(large, 400, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request);
  } else if (strcmp(what, "combined") == 0) {
    MPI_Isendrecv(&in, 1, MPI_CHAR, MPI_PROC_NULL, 8, large, 400, MPI_INT, rank, 8, MPI_COMM_SELF, &request);
  } else if (strcmp(what, "complete") == 0) {
    MPI_Irecv(&out, 1, MPI_CHAR, rank, 7, MPI_COMM_SELF, &request);
    MPI_Send(&in, 1, MPI_CHAR, 0, 7, MPI_COMM_SELF);
  } else if (strcmp(what, "persistent") == 0) {
    MPI_Send_init(large, 10, MPI_INT, 0, 6, MPI_COMM_WORLD, &request);
  } else if (strcmp(what, "collective") == 0) {
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
  } else if (strcmp(what, "sent") == 0) {  // eagerly: complete at once
    MPI_Isend(large, 10, MPI_INT, (rank + 1) % 2, 4, MPI_COMM_WORLD, &request);
    MPI_Recv(large, 10, MPI_INT, (rank + 1) % 2, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (strcmp(what, "unreceived") == 0) {
    if (rank == 0) MPI_Send(large, 10, MPI_INT, 1, 3, MPI_COMM_WORLD);
  } else if (strcmp(what, "mismatch") == 0) {
    for (int i = 0; i < 20; ++i) {  // by messages at first, then by shared memory
      if (rank == 0) MPI_Bcast(large, 1 + i, MPI_INT, 0, MPI_COMM_WORLD);
      if (rank == 1) MPI_Barrier(MPI_COMM_WORLD);
    }
  } else if (strcmp(what, "communicator") == 0) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "mine");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_free(&comm);
  } else if (strcmp(what, "window") == 0 || strcmp(what, "operation") == 0) {
    MPI_Win win;
    void* base;
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    MPI_Rput(&in, 1, MPI_CHAR, 1, 0, 1, MPI_CHAR, win, &request);  // no such rank: there is no request
    if (strcmp(what, "operation") == 0) MPI_Rput(&in, 1, MPI_CHAR, 0, 0, 1, MPI_CHAR, win, &request);
    MPI_Win_unlock_all(win);
    if (strcmp(what, "operation") == 0) MPI_Win_free(&win);
  } else if (strcmp(what, "copies") == 0) {  // two ranks: the window looks for single copies first
    MPI_Win win;
    MPI_Win_create(large, sizeof large, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&in, 1, MPI_CHAR, 1 - rank, 0, 1, MPI_CHAR, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Sendrecv(large, sizeof large / 2, MPI_CHAR, 1 - rank, 7, large + sizeof large / 2, sizeof large / 2,
                 MPI_CHAR, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (strcmp(what, "darray") == 0) {
    int size = 38, cyclic = MPI_DISTRIBUTE_CYCLIC, block = 19, one = 1;
    MPI_Datatype type;
    MPI_Type_create_darray(1, 0, 1, &size, &cyclic, &block, &one, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_free(&type);
    cyclic = MPI_DISTRIBUTE_BLOCK;  // a default is likely here
    block = MPI_DISTRIBUTE_DFLT_DARG;
    MPI_Type_create_darray(1, 0, 1, &size, &cyclic, &block, &one, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_free(&type);
  } else {  // nothing leaks
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Irecv(&out, 1, MPI_CHAR, MPI_ANY_SOURCE, 7, comm, &request);
    MPI_Send(&in, 1, MPI_CHAR, rank, 7, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
  }
  MPI_Finalize();
  return 0;
}
