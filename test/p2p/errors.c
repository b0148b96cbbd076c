// SPDX-License-Identifier: BSD-3-Clause
// Invalid arguments: correct error class; with MPI_ERRORS_RETURN the program continues, and traffic works
// afterwards.
#include <stdlib.h>
#include <string.h>

#include "../core/expect.h"

static int rank;

static void arguments(void) {
  int value = 0;
  MPI_Request request;
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
  EXPECT_ERROR(MPI_ERR_COUNT, MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, 2, 0, MPI_COMM_WORLD));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD));
  EXPECT_ERROR(MPI_ERR_TAG, MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD));
  EXPECT_ERROR(MPI_ERR_TAG, MPI_Isend(&value, 1, MPI_INT, 0, -7, MPI_COMM_WORLD, &request));
  EXPECT_ERROR(MPI_ERR_TYPE, MPI_Recv(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
  MPI_Datatype type;
  CALL(MPI_Type_contiguous(3, MPI_INT, &type));
  EXPECT_ERROR(MPI_ERR_TYPE, MPI_Send(&value, 1, type, 0, 0, MPI_COMM_WORLD));  // not committed
  MPI_Datatype stale = type;
  CALL(MPI_Type_free(&type));
  EXPECT_ERROR(MPI_ERR_TYPE, MPI_Send(&value, 1, stale, 0, 0, MPI_COMM_WORLD));
}

static void handles(void) {
  MPI_Comm comm, stale;
  CALL(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  stale = comm;
  CALL(MPI_Comm_free(&comm));
  int value = 0, flag = 0;
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_rank(stale, &value));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_rank((MPI_Comm)(void*)&value, &value));
  MPI_Request request, freed;
  CALL(MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
  freed = request;
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Wait(&freed, MPI_STATUS_IGNORE));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Test(&freed, &flag, MPI_STATUS_IGNORE));
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));  // MPI_REQUEST_NULL is valid
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Start(&request));
}

/// A stale handle has the address of a part of MPI_Isendrecv: freed objects are used again first.
static void handle_of_a_part(void) {
  MPI_Request requests[2], stale[2], both;
  MPI_Status status;
  MPI_Datatype pair;
  int out[2] = {3, 4}, in[4] = {0}, flag = 0, found = 0;
  for (int i = 0; i < 2; ++i) CALL(MPI_Irecv(in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[i]));
  memcpy(stale, requests, sizeof stale);
  CALL(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  CALL(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
  CALL(MPI_Type_commit(&pair));
  CALL(MPI_Isendrecv(out, 2, MPI_INT, 0, 1, in, 1, pair, 0, 1, MPI_COMM_SELF, &both));
  CALL(MPI_Type_free(&pair));
  for (int i = 0; i < 2; ++i) {
    MPI_Request copy = stale[i];
    EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Request_free(&copy));
    EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Cancel(&copy));
    EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Test(&copy, &flag, MPI_STATUS_IGNORE));
    EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Testsome(1, &copy, &found, &flag, MPI_STATUSES_IGNORE));
    EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Waitall(1, &copy, MPI_STATUSES_IGNORE));
  }
  CALL(MPI_Wait(&both, &status));
  EXPECT_EQ(status.MPI_SOURCE, 0);
  EXPECT_EQ(in[0], 3);
  EXPECT_EQ(in[2], 4);
  CALL(MPI_Isendrecv(out, 1, MPI_INT, 0, 1, in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &both));
  CALL(MPI_Request_free(&both));
}

/// Fewer elements than the buffer's capacity are valid; part of an element is not.
static void cut_number(void) {
  char three[3] = {1, 2, 3};
  int data[4] = {0};
  MPI_Status status;
  MPI_Datatype ends;
  CALL(MPI_Type_vector(2, 1, 3, MPI_INT, &ends));
  CALL(MPI_Type_commit(&ends));
  for (int i = 0; rank == 0 && i < 2; ++i) CALL(MPI_Send(three, 3, MPI_CHAR, 1, 2, MPI_COMM_WORLD));
  if (rank == 0) CALL(MPI_Send(data, 1, MPI_INT, 1, 2, MPI_COMM_WORLD));
  if (rank == 1) {
    EXPECT_ERROR(MPI_ERR_TYPE, MPI_Recv(data, 4, MPI_INT, 0, 2, MPI_COMM_WORLD, &status));
    EXPECT_ERROR(MPI_ERR_TYPE, MPI_Recv(data, 1, ends, 0, 2, MPI_COMM_WORLD, &status));
    CALL(MPI_Recv(data, 1, ends, 0, 2, MPI_COMM_WORLD, &status));
  }
  CALL(MPI_Type_free(&ends));
}

static void truncation(int ints) {
  int* data = calloc((size_t)ints, sizeof *data);
  MPI_Request request;
  MPI_Status status;
  if (rank == 0) CALL(MPI_Send(data, ints, MPI_INT, 1, 1, MPI_COMM_WORLD));
  if (rank == 1)
    EXPECT_ERROR(MPI_ERR_TRUNCATE, MPI_Recv(data, ints - 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
  if (rank == 0) CALL(MPI_Send(data, ints, MPI_INT, 1, 1, MPI_COMM_WORLD));
  if (rank == 1) {
    CALL(MPI_Irecv(data, ints / 2, MPI_INT, 0, 1, MPI_COMM_WORLD, &request));
    EXPECT_ERROR(MPI_ERR_IN_STATUS, MPI_Waitall(1, &request, &status));
    EXPECT_ERROR(MPI_ERR_TRUNCATE, status.MPI_ERROR);
  }
  free(data);
}

static void too_many(void) {
  MPI_Count count = (MPI_Count)1 << 61;  // times 16 bytes is 0 in 64 bits
  MPI_Datatype type;
  int data[4];
  MPI_Type_contiguous(4, MPI_INT, &type);
  MPI_Type_commit(&type);
  EXPECT_ERROR(MPI_ERR_COUNT, MPI_Send_c(data, count, type, 1 - rank, 3, MPI_COMM_WORLD));
  EXPECT_ERROR(MPI_ERR_COUNT, MPI_Recv_c(data, count, type, 1 - rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  MPI_Type_free(&type);
}

/// Only operations named by the standard can be cancelled; the request continues.
static void cancelling(void) {
  MPI_Request request;
  CALL(MPI_Ibarrier(MPI_COMM_WORLD, &request));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Cancel(&request));
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CALL(MPI_Recv_init(NULL, 0, MPI_INT, 1 - rank, 4, MPI_COMM_WORLD, &request));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Cancel(&request));  // inactive
  CALL(MPI_Request_free(&request));
}

static void buffered(void) {
  int value = 0;
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Bsend(&value, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  arguments();
  handles();
  handle_of_a_part();
  cut_number();
  truncation(4);
  truncation(100000);
  too_many();
  cancelling();
  buffered();
  int sum = 0, one = 1, all = 0;
  CALL(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT_EQ(sum, 2);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
