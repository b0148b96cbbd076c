/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalid arguments: the error class, and a message that names the call, the argument and its value. */
#include <stdint.h>

#include "expect.h"

static int value, values[4], flag, size, rank;
static MPI_Request request;
static MPI_Status status;

static void handles(void) {
  MPI_Comm copy;
  MPI_Datatype type;
  MPI_Group group;
  MPI_Info info;
  MPI_Op op = MPI_OP_NULL;
  EXPECT_ERROR(MPI_Comm_rank(MPI_COMM_NULL, &value), MPI_ERR_COMM, "comm is MPI_COMM_NULL");
  EXPECT_ERROR(MPI_Comm_rank((MPI_Comm)MPI_INT, &value), MPI_ERR_COMM,
               "comm = 0x209 is a datatype of the ABI");
  EXPECT_ERROR(MPI_Comm_rank((MPI_Comm)(uintptr_t)0xdeadbeef0, &value), MPI_ERR_COMM,
               "comm = 0xdeadbeef0 is not a communicator");
  EXPECT_ERROR(
      MPI_Comm_rank((MPI_Comm)(uintptr_t)0xffffffffc4000000, &value), MPI_ERR_COMM,
      "comm = 0xffffffffc4000000 is a communicator of MPICH's ABI, but this is a call of the standard ABI");
  EXPECT_ERROR(MPI_Comm_rank((MPI_Comm)(uintptr_t)0x44000000, &value), MPI_ERR_COMM,
               "is a communicator of MPICH's ABI");
  EXPECT_ERROR(MPI_Send(&value, 1, (MPI_Datatype)(uintptr_t)0x4c000405, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE,
               "datatype = 0x4c000405 is a datatype of MPICH's ABI");
  EXPECT_ERROR(MPI_Comm_rank((MPI_Comm)(uintptr_t)0x4c000405, &value), MPI_ERR_COMM,
               "comm = 0x4c000405 is not a communicator; it may be a datatype of MPICH's ABI, if");
  EXPECT_ERROR(MPI_Comm_rank((MPI_Comm)(uintptr_t)0x7effc4000001, &value), MPI_ERR_COMM,
               "is not a communicator; its lower half, 0xc4000001, may be a communicator of MPICH's ABI, if");
  EXPECT_ERROR(MPI_Comm_rank((MPI_Comm)0, &value), MPI_ERR_COMM, "comm = 0x0 is not a communicator");
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  const MPI_Comm freed = copy;
  MPI_Comm_free(&copy);
  EXPECT(copy == MPI_COMM_NULL);
  EXPECT_ERROR(MPI_Barrier(freed), MPI_ERR_COMM, "was freed");
  EXPECT_ERROR(MPI_Comm_free(&copy), MPI_ERR_COMM, "comm is MPI_COMM_NULL");
  EXPECT_ERROR(MPI_Comm_free(NULL), MPI_ERR_ARG, "comm is a null pointer");

  EXPECT_ERROR(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE,
               "datatype is MPI_DATATYPE_NULL");
  EXPECT_ERROR(MPI_Send(&value, 1, (MPI_Datatype)MPI_SUM, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE,
               "is an operation of the ABI");
  MPI_Type_contiguous(2, MPI_INT, &type);
  EXPECT_ERROR(MPI_Send(values, 1, type, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE, "not committed");
  MPI_Type_free(&type);

  EXPECT_ERROR(MPI_Allreduce(&value, values, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_SELF), MPI_ERR_OP,
               "op is MPI_OP_NULL");
  EXPECT_ERROR(MPI_Op_free(&op), MPI_ERR_OP, "op is MPI_OP_NULL");
  EXPECT_ERROR(MPI_Group_size(MPI_GROUP_NULL, &value), MPI_ERR_GROUP, "group is MPI_GROUP_NULL");
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  const MPI_Group old = group;
  MPI_Group_free(&group);
  EXPECT_ERROR(MPI_Group_size(old, &value), MPI_ERR_GROUP,
               "was freed"); /* the communicator keeps the object */
  MPI_Info_create(&info);
  const MPI_Info old_info = info;
  MPI_Info_free(&info);
  EXPECT_ERROR(MPI_Info_set(old_info, "a", "b"), MPI_ERR_INFO, "was freed");
  EXPECT_ERROR(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO, "info is MPI_INFO_NULL");
  EXPECT_ERROR(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER,
               "errhandler is MPI_ERRHANDLER_NULL");
}

static void ranks_and_tags(void) {
  char text[100];
  snprintf(text, sizeof text, "dest = %d (communicator has %d rank", size, size);
  EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK, text);
  EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest = -1");
  EXPECT_ERROR(MPI_Recv(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK,
               "MPI_ANY_SOURCE");
  EXPECT_ERROR(MPI_Irecv(&value, 1, MPI_INT, -7, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK, "source = -7");
  EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, 0, -1, MPI_COMM_WORLD), MPI_ERR_TAG, "tag = -1");
  EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG, "tag = -2");
  EXPECT_ERROR(MPI_Recv(&value, 1, MPI_INT, 0, -3, MPI_COMM_WORLD, &status), MPI_ERR_TAG, "MPI_ANY_TAG");
  EXPECT_ERROR(
      MPI_Sendrecv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, values, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status),
      MPI_ERR_TAG, "sendtag = -2");
  EXPECT_ERROR(MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD), MPI_ERR_ROOT, "root = ");
  EXPECT_ERROR(MPI_Bcast(&value, 1, MPI_INT, MPI_ROOT, MPI_COMM_WORLD), MPI_ERR_ROOT, "root = -4");
  int* upper = NULL;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag);
  EXPECT(flag && *upper >= 32767);
  EXPECT(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, *upper, MPI_COMM_WORLD) == MPI_SUCCESS);
  EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, *upper + 1, MPI_COMM_WORLD), MPI_ERR_TAG,
               "tag = ");
}

static void counts_and_pointers(void) {
  const int bad[2] = {1, -5};
  const int zeros[4] = {0, 0, 0, 0};
  MPI_Datatype type, types[2] = {MPI_INT, MPI_DATATYPE_NULL};
  const MPI_Aint displacements[2] = {0, 8};
  const int ones[2] = {1, 1};
  EXPECT_ERROR(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_COUNT, "count = -1");
  EXPECT_ERROR(MPI_Send_c(&value, -9000000000, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_COUNT,
               "count = -9000000000");
  EXPECT_ERROR(MPI_Type_contiguous(-2, MPI_INT, &type), MPI_ERR_COUNT, "count = -2");
  EXPECT_ERROR(MPI_Type_indexed(2, bad, zeros, MPI_INT, &type), MPI_ERR_ARG, "array_of_blocklengths[1] = -5");
  EXPECT_ERROR(MPI_Type_indexed(2, NULL, zeros, MPI_INT, &type), MPI_ERR_ARG,
               "array_of_blocklengths is a null pointer");
  EXPECT_ERROR(MPI_Type_create_struct(2, ones, displacements, types, &type), MPI_ERR_TYPE,
               "array_of_types[1] is MPI_DATATYPE_NULL");
  EXPECT_ERROR(MPI_Comm_rank(MPI_COMM_SELF, NULL), MPI_ERR_ARG, "rank is a null pointer");
  EXPECT_ERROR(MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF, NULL), MPI_ERR_ARG,
               "request is a null pointer");
  EXPECT_ERROR(MPI_Comm_set_name(MPI_COMM_SELF, NULL), MPI_ERR_ARG, "comm_name is a null pointer");
  EXPECT_ERROR(MPI_Waitall(-1, NULL, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "count = -1");
  EXPECT_ERROR(MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "array_of_requests is a null pointer");
  EXPECT(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
  EXPECT_ERROR(MPI_Comm_create_errhandler(NULL, NULL), MPI_ERR_ARG, "comm_errhandler_fn is a null pointer");
  EXPECT_ERROR(MPI_Get_count(NULL, MPI_INT, &value), MPI_ERR_ARG, "status is a null pointer");
  if (size == 2) {
    EXPECT_ERROR(MPI_Allgatherv(&value, 1, MPI_INT, values, bad, zeros, MPI_INT, MPI_COMM_WORLD),
                 MPI_ERR_COUNT, "recvcounts[1] = -5");
    EXPECT_ERROR(MPI_Alltoallw(values, zeros, zeros, types, values, zeros, zeros, types, MPI_COMM_WORLD),
                 MPI_ERR_TYPE, "sendtypes[1] is MPI_DATATYPE_NULL");
  }
}

/* The message shows the value of a count that is too large, and the number of blocks. */
static void large_counts(void) {
  const MPI_Count huge = (MPI_Count)1 << 62;
  char text[100];
  int data[4] = {1, 2, 3, 4}, position = 16;
  EXPECT_ERROR(MPI_Allreduce_c(values, data, huge, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT,
               "count = 4611686018427387904 (elements of 4 bytes and extent 4) is more data");
  snprintf(text, sizeof text,
           size == 1 ? "recvcount = 2305843009213693951 (elements of 4 bytes" : "for each of %d blocks",
           size);
  EXPECT_ERROR(MPI_Allgather_c(values, 1, MPI_INT, data, huge / 2 - 1, MPI_INT, MPI_COMM_WORLD),
               MPI_ERR_COUNT, text);
  EXPECT_ERROR(MPI_Unpack(data, 16, &position, values, -1, MPI_INT, MPI_COMM_SELF), MPI_ERR_COUNT,
               "outcount = -1");
  EXPECT_ERROR(MPI_Unpack(data, 16, &position, values, -2147483647, MPI_INT, MPI_COMM_SELF), MPI_ERR_COUNT,
               "outcount = -2147483647");
  EXPECT(position == 16);
  MPI_Aint bytes = 0;
  EXPECT_ERROR(MPI_Pack_external_size("external32", -5, MPI_INT, &bytes), MPI_ERR_COUNT, "incount = -5");
  if (size != 2) return;
  const MPI_Count half = (MPI_Count)1 << 55, counts[2] = {half, half}, most[2] = {huge, huge};
  const MPI_Aint displacements[2] = {0, 0}, far[2] = {0, PTRDIFF_MAX / 2};
  const MPI_Count ones[2] = {1, 1};
  EXPECT_ERROR(MPI_Reduce_scatter_c(values, data, most, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD), MPI_ERR_COUNT,
               "the sum of recvcounts = ");
  EXPECT_ERROR(MPI_Reduce_scatter_c(values, data, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT,
               "the sum of recvcounts = 72057594037927936");
  EXPECT_ERROR(MPI_Allgatherv_c(values, 1, MPI_INT, data, ones, far, MPI_INT, MPI_COMM_WORLD), MPI_ERR_ARG,
               "the displacement of recvcounts[1] = 1");
  EXPECT_ERROR(MPI_Allgatherv_c(values, 1, MPI_INT, data, most, displacements, MPI_INT, MPI_COMM_WORLD),
               MPI_ERR_COUNT, "recvcounts[0] = 4611686018427387904");
  /* Elements that overlap have a small span: only their sum can exceed 64 bits. */
  MPI_Datatype overlapping;
  MPI_Type_create_resized(MPI_INT, 0, 0, &overlapping), MPI_Type_commit(&overlapping);
  const MPI_Count many[2] = {(MPI_Count)1 << 60, (MPI_Count)1 << 60};
  EXPECT_ERROR(MPI_Alltoallv_c(values, many, displacements, overlapping, data, ones, displacements, MPI_INT,
                               MPI_COMM_WORLD),
               MPI_ERR_COUNT, "the sum of sendcounts exceeds 64 bits at sendcounts[1]");
  MPI_Type_free(&overlapping);
}

/* A null address is legal without data, with MPI_PROC_NULL, and as MPI_BOTTOM with absolute addresses. */
static void null_buffers(void) {
  int in = 7, out = 0, position = 0;
  MPI_Datatype absolute[2], vector;
  MPI_Aint address[2];
  const int length = 1;
  EXPECT_ERROR(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER, "buf is a null pointer");
  EXPECT_ERROR(MPI_Allreduce(MPI_IN_PLACE, NULL, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER,
               "recvbuf is a null pointer");
  MPI_Type_vector(2, 1, 2, MPI_INT, &vector), MPI_Type_commit(&vector);
  EXPECT_ERROR(MPI_Bcast(NULL, 1, vector, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "buffer is a null pointer");
  EXPECT(MPI_Bcast(NULL, 0, vector, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  MPI_Type_free(&vector);
  EXPECT(MPI_Send(NULL, 9, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  EXPECT(MPI_Recv(NULL, 9, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
  EXPECT(MPI_Sendrecv(NULL, 9, MPI_INT, MPI_PROC_NULL, 0, NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                      &status) == MPI_SUCCESS);
  EXPECT(MPI_Sendrecv_replace(NULL, 9, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                              &status) == MPI_SUCCESS);
  MPI_Get_address(&in, &address[0]);
  MPI_Get_address(&out, &address[1]);
  for (int i = 0; i < 2; ++i) {
    MPI_Type_create_hindexed(1, &length, &address[i], MPI_INT, &absolute[i]);
    MPI_Type_commit(&absolute[i]);
  }
  EXPECT(MPI_Sendrecv(MPI_BOTTOM, 1, absolute[0], 0, 0, MPI_BOTTOM, 1, absolute[1], 0, 0, MPI_COMM_SELF,
                      &status) == MPI_SUCCESS &&
         out == 7);
  in = rank + 1;
  EXPECT(MPI_Bcast(MPI_BOTTOM, 1, absolute[0], 0, MPI_COMM_WORLD) == MPI_SUCCESS && in == 1);
  const int counts[2] = {1, 0}, at[2] = {0, 0};
  MPI_Datatype types[2] = {absolute[0], MPI_INT}, targets[2] = {absolute[1], MPI_INT};
  out = 0;
  EXPECT(MPI_Alltoallw(MPI_BOTTOM, counts, at, types, MPI_BOTTOM, counts, at, targets, MPI_COMM_SELF) ==
             MPI_SUCCESS &&
         out == 1);
  EXPECT_ERROR(MPI_Alltoallw(NULL, counts, at, &types[1], MPI_BOTTOM, counts, at, targets, MPI_COMM_SELF),
               MPI_ERR_BUFFER, "sendbuf is a null pointer");
  MPI_Type_free(&absolute[0]), MPI_Type_free(&absolute[1]);
  EXPECT_ERROR(MPIX_Stream_send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_SELF, 0, 0), MPI_ERR_BUFFER,
               "buf is a null pointer");
  EXPECT_ERROR(MPIX_Recv_enqueue_c(&out, (MPI_Count)1 << 62, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE),
               MPI_ERR_COUNT, "count = 4611686018427387904");
  /* Exscan leaves the receive buffer of rank 0 alone. */
  EXPECT(MPI_Exscan(&in, rank == 0 ? NULL : &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  EXPECT(MPI_Reduce(&in, rank == 0 ? &out : NULL, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  EXPECT_ERROR(MPI_Pack(&in, 1, MPI_INT, NULL, 100, &position, MPI_COMM_SELF), MPI_ERR_BUFFER,
               "outbuf is a null pointer");
  EXPECT(MPI_Pack(NULL, 0, MPI_INT, NULL, 0, &position, MPI_COMM_SELF) == MPI_SUCCESS && position == 0);
}

/* Arguments that are not significant in this process may have any value. */
static void insignificant(void) {
  const MPI_Datatype garbage = (MPI_Datatype)(uintptr_t)0x7777;
  int all[4] = {0, 0, 0, 0};
  all[rank] = rank + 1;
  EXPECT(MPI_Allgather(MPI_IN_PLACE, -1, garbage, all, 1, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
  EXPECT(all[0] == 1 && all[size - 1] == size);
  const int mine = rank + 1;
  if (rank == 0)
    EXPECT(MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  else
    EXPECT(MPI_Gather(&mine, 1, MPI_INT, NULL, -1, garbage, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  if (rank == 0)
    EXPECT(MPI_Scatterv(all, (const int[]){1, 1, 1, 1}, (const int[]){0, 1, 2, 3}, MPI_INT, MPI_IN_PLACE, -1,
                        garbage, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  else
    EXPECT(MPI_Scatterv(NULL, NULL, NULL, garbage, &value, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS &&
           value == rank + 1);
  EXPECT_ERROR(MPI_Allgather(&mine, 1, garbage, all, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TYPE,
               "sendtype = 0x7777");
}

static void requests(void) {
  MPI_Request null = MPI_REQUEST_NULL, stale, foreign = (MPI_Request)(uintptr_t)0x123456;
  EXPECT(MPI_Wait(&null, &status) == MPI_SUCCESS && status.MPI_SOURCE == MPI_ANY_SOURCE);
  EXPECT_ERROR(MPI_Start(&null), MPI_ERR_REQUEST, "request is MPI_REQUEST_NULL");
  EXPECT_ERROR(MPI_Cancel(&null), MPI_ERR_REQUEST, "request is MPI_REQUEST_NULL");
  EXPECT_ERROR(MPI_Wait(&foreign, &status), MPI_ERR_REQUEST, "request = 0x123456 is not a request");
  EXPECT_ERROR(MPI_Wait(NULL, &status), MPI_ERR_ARG, "request is a null pointer");
  EXPECT(MPI_Isend(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request) == MPI_SUCCESS);
  stale = request;
  EXPECT(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && request == MPI_REQUEST_NULL);
  if (stale != MPI_REQUEST_NULL)
    EXPECT_ERROR(MPI_Test(&stale, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "was freed");
}

/* The second entry of a list names a request that completion of the first one would free. A persistent
   request stays, so a list may name it twice. */
static void request_listed_twice(void) {
  MPI_Request list[2];
  int value = 1, outcount, indices[2];
  MPI_Irecv(&value, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &list[0]);
  list[1] = list[0];
  MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
  EXPECT_ERROR(MPI_Waitall(2, list, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
               "array_of_requests[1] is the request of array_of_requests[0]");
  EXPECT_ERROR(MPI_Waitsome(2, list, &outcount, indices, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
               "array_of_requests[1]");
  int flag = 0;
  EXPECT(MPI_Request_get_status_all(2, list, &flag, MPI_STATUSES_IGNORE) == MPI_SUCCESS && flag);
  EXPECT(list[0] != MPI_REQUEST_NULL && list[1] == list[0]);
  list[1] = MPI_REQUEST_NULL;
  EXPECT(MPI_Waitall(2, list, MPI_STATUSES_IGNORE) == MPI_SUCCESS);

  MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_SELF, &list[0]);
  list[1] = list[0];
  MPI_Start(&list[0]);
  EXPECT(MPI_Waitall(2, list, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
  MPI_Request_free(&list[0]);
  for (int i = 0; i < 2; ++i) MPI_Isend(&value, 0, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_SELF, &list[i]);
  EXPECT(MPI_Waitall(2, list, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  handles();
  ranks_and_tags();
  counts_and_pointers();
  large_counts();
  null_buffers();
  insignificant();
  requests();
  request_listed_twice();
  MPI_Finalize();
  return finish();
}
