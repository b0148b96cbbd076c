// SPDX-License-Identifier: BSD-3-Clause
// Statuses, wildcards, arrays of requests, probes, persistent and partitioned requests, in-place collectives.
#include <unistd.h>

#include "expect.h"

static int right(void) { return (rank + 1) % ranks; }
static int left(void) { return (rank + ranks - 1) % ranks; }

static void statuses(void) {
  MPI_Status status;
  MPI_Request request;
  int data[4] = {rank, rank, rank, rank}, got[8], count, flag;
  OK(MPI_Isend(data, 3, MPI_INT, right(), 17, MPI_COMM_WORLD, &request));
  memset(&status, 0x55, sizeof status);
  status.MPI_ERROR = 1234;  // functions with one status leave MPI_ERROR alone
  OK(MPI_Recv(got, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  EXPECT(status.MPI_SOURCE == left() && status.MPI_TAG == 17 && status.MPI_ERROR == 1234);
  OK(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(count == 3 && got[2] == left());
  OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
  EXPECT(count == MPI_UNDEFINED);
  OK(MPI_Get_elements(&status, MPI_INT, &count));
  EXPECT(count == 3);
  OK(MPI_Test_cancelled(&status, &flag));
  EXPECT(!flag);
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT(request == MPI_REQUEST_NULL);
  OK(MPI_Wait(&request, &status));  // the empty status
  EXPECT(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG &&
         status.MPI_ERROR == MPI_SUCCESS);
  OK(MPI_Recv(got, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status));
  EXPECT(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  OK(MPI_Irecv(got, 1, MPI_INT, left(), 99, MPI_COMM_WORLD, &request));
  OK(MPI_Cancel(&request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  EXPECT(flag);
  OK(MPI_Status_set_elements_x(&status, MPI_CHAR, (MPI_Count)5 << 32));
  OK(MPI_Status_set_cancelled(&status, 0));
  MPI_Count elements;
  OK(MPI_Get_elements_x(&status, MPI_CHAR, &elements));
  OK(MPI_Test_cancelled(&status, &flag));
  EXPECT(elements == (MPI_Count)5 << 32 && !flag);
}

static void arrays(void) {
  enum { kCount = 100 };  // more than the shim converts without an allocation
  MPI_Request requests[2 * kCount];
  MPI_Status list[2 * kCount];
  int sent[kCount], got[kCount], done = 0, indices[2 * kCount], count, index, flag;
  for (int i = 0; i < kCount; ++i) {
    sent[i] = rank * 1000 + i;
    OK(MPI_Irecv(&got[i], 1, MPI_INT, left(), i, MPI_COMM_WORLD, &requests[i]));
  }
  for (int i = 0; i < kCount; ++i)
    OK(MPI_Isend(&sent[i], 1, MPI_INT, right(), i, MPI_COMM_WORLD, &requests[kCount + i]));
  OK(MPI_Waitall(2 * kCount, requests, list));
  for (int i = 0; i < kCount; ++i) {
    EXPECT(got[i] == left() * 1000 + i && list[i].MPI_SOURCE == left() && list[i].MPI_TAG == i);
    EXPECT(requests[i] == MPI_REQUEST_NULL && requests[kCount + i] == MPI_REQUEST_NULL);
  }
  for (int i = 0; i < 5; ++i) {
    OK(MPI_Irecv(&got[i], 1, MPI_INT, left(), i, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Isend(&sent[i], 1, MPI_INT, right(), i, MPI_COMM_WORLD, &requests[5 + i]));
  }
  while (done < 10) {
    memset(list, 0x55, sizeof list);
    OK(MPI_Waitsome(10, requests, &count, indices, list));
    EXPECT(count > 0);
    for (int i = 0; i < count; ++i) {
      EXPECT(requests[indices[i]] == MPI_REQUEST_NULL);
      if (indices[i] < 5) EXPECT(list[i].MPI_TAG == indices[i] && list[i].MPI_SOURCE == left());
    }
    done += count;
  }
  OK(MPI_Waitsome(10, requests, &count, indices, MPI_STATUSES_IGNORE));
  EXPECT(count == MPI_UNDEFINED);
  OK(MPI_Waitany(10, requests, &index, &list[0]));
  EXPECT(index == MPI_UNDEFINED);
  OK(MPI_Testany(10, requests, &index, &flag, MPI_STATUS_IGNORE));
  EXPECT(flag && index == MPI_UNDEFINED);
  OK(MPI_Irecv(&got[0], 1, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests[0]));
  requests[1] = MPI_REQUEST_NULL;
  OK(MPI_Send(&sent[1], 1, MPI_INT, right(), 3, MPI_COMM_WORLD));
  OK(MPI_Waitany(2, requests, &index, &list[0]));
  EXPECT(index == 0 && requests[0] == MPI_REQUEST_NULL && list[0].MPI_TAG == 3);
  OK(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE));
  EXPECT(flag);
}

/// MPI_ERR_IN_STATUS and the codes of the single requests.
static void errors_in_statuses(void) {
  int values[4] = {0}, got[2];
  MPI_Request requests[2];
  MPI_Status list[2];
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Irecv(&got[0], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[0]));
  OK(MPI_Irecv(&got[1], 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &requests[1]));
  OK(MPI_Send(values, 4, MPI_INT, rank, 1, MPI_COMM_WORLD));
  OK(MPI_Send(values, 1, MPI_INT, rank, 2, MPI_COMM_WORLD));
  CLASS_IS(MPI_Waitall(2, requests, list), MPI_ERR_IN_STATUS);
  CLASS_IS(list[0].MPI_ERROR, MPI_ERR_TRUNCATE);
  EXPECT(list[1].MPI_ERROR == MPI_SUCCESS);
  CLASS_IS(MPI_Send(values, 1, MPI_INT, ranks, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  CLASS_IS(MPI_Send(values, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  CLASS_IS(MPI_Send(values, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG);
  CLASS_IS(MPI_Send(values, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
  CLASS_IS(MPI_Send(values, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
  CLASS_IS(MPI_Bcast(values, 1, MPI_INT, MPI_ROOT, MPI_COMM_WORLD), MPI_ERR_ROOT);
  CLASS_IS(MPI_Allreduce(values, got, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

static void probes_and_persistent(void) {
  MPI_Message message;
  MPI_Status status;
  MPI_Request requests[2];
  int value = rank + 5, got = -1, count, flag = 0;
  OK(MPI_Isend(&value, 1, MPI_INT, right(), 8, MPI_COMM_WORLD, &requests[0]));
  OK(MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &message, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(count == 1 && status.MPI_SOURCE == left() && message != MPI_MESSAGE_NULL);
  OK(MPI_Mrecv(&got, 1, MPI_INT, &message, &status));
  EXPECT(message == MPI_MESSAGE_NULL && got == left() + 5);
  OK(MPI_Mprobe(MPI_PROC_NULL, 8, MPI_COMM_WORLD, &message, &status));
  EXPECT(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
  OK(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  OK(MPI_Iprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  EXPECT(!flag);

  OK(MPI_Send_init(&value, 1, MPI_INT, right(), 4, MPI_COMM_WORLD, &requests[0]));
  OK(MPI_Recv_init(&got, 1, MPI_INT, left(), 4, MPI_COMM_WORLD, &requests[1]));
  const MPI_Request kept = requests[0];
  for (int i = 0; i < 3; ++i) {
    value = 100 * i + rank;
    OK(MPI_Startall(2, requests));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT(got == 100 * i + left() && requests[0] == kept);
  }
  OK(MPI_Request_get_status(requests[0], &flag, &status));
  EXPECT(flag);
  OK(MPI_Request_free(&requests[0]));
  OK(MPI_Request_free(&requests[1]));
  EXPECT(requests[0] == MPI_REQUEST_NULL);
}

static void collectives(void) {
  int sum = rank + 1, values[64];
  OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT(sum == ranks * (ranks + 1) / 2);
  values[rank] = rank * 3;
  OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, 1, MPI_INT, MPI_COMM_WORLD));
  for (int i = 0; i < ranks; ++i) EXPECT(values[i] == 3 * i);
  int counts[64], displacements[64];
  MPI_Datatype types[64];
  int out[64], in[64];
  MPI_Request request;
  for (int i = 0; i < ranks; ++i) {
    counts[i] = 1;
    displacements[i] = 4 * i;
    types[i] = i % 2 ? MPI_INT : MPI_INT32_T;
    out[i] = rank * 100 + i;
  }
  OK(MPI_Alltoallw(out, counts, displacements, types, in, counts, displacements, types, MPI_COMM_WORLD));
  for (int i = 0; i < ranks; ++i) EXPECT(in[i] == 100 * i + rank);
  OK(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, in, counts, displacements, types, MPI_COMM_WORLD));
  for (int i = 0; i < ranks; ++i) EXPECT(in[i] == 100 * rank + i);
  OK(MPI_Ialltoallw(out, counts, displacements, types, in, counts, displacements, types, MPI_COMM_WORLD,
                    &request));
  for (int i = 0; i < ranks; ++i) types[i] = MPI_INT;
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (int i = 0; i < ranks; ++i) EXPECT(in[i] == 100 * i + rank);

  // Arguments of which the translation passes temporary copies: the call must not keep them.
  MPI_Comm later;
  OK(MPI_Comm_idup(MPI_COMM_WORLD, &later, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Alltoallw_init(out, counts, displacements, types, in, counts, displacements, types, later,
                        MPI_INFO_NULL, &request));
  for (int round = 0; round < 2; ++round) {
    memset(in, 0, sizeof in);
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < ranks; ++i) EXPECT(in[i] == 100 * i + rank);
  }
  OK(MPI_Request_free(&request));
  OK(MPI_Comm_free(&later));

  MPI_Comm graph;
  int neighbor = right(), from = left(), in_degree, out_degree, weighted, sources[1], targets[1], weights[1];
  OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &neighbor, MPI_UNWEIGHTED,
                                    MPI_INFO_NULL, 0, &graph));
  OK(MPI_Dist_graph_neighbors_count(graph, &in_degree, &out_degree, &weighted));
  EXPECT(in_degree == 1 && out_degree == 1 && !weighted);
  OK(MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, targets, MPI_UNWEIGHTED));
  EXPECT(sources[0] == from && targets[0] == neighbor);
  MPI_Aint where[1] = {0};
  MPI_Datatype one[1] = {MPI_INT};
  OK(MPI_Neighbor_alltoallw(&rank, (int[]){1}, where, one, in, (int[]){1}, where, one, graph));
  EXPECT(in[0] == from);
  OK(MPI_Comm_free(&graph));
  OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, (int[]){rank + 7}, 1, &neighbor,
                                    (int[]){rank + 8}, MPI_INFO_NULL, 0, &graph));
  OK(MPI_Dist_graph_neighbors(graph, 1, sources, weights, 1, targets, MPI_UNWEIGHTED));
  EXPECT(weights[0] == rank + 7);
  OK(MPI_Comm_free(&graph));
}

static void buffered(void) {
  static char space[4096 + MPI_BSEND_OVERHEAD];
  void* address;
  int size, got;
  OK(MPI_Buffer_attach(space, sizeof space));
  OK(MPI_Bsend(&rank, 1, MPI_INT, right(), 2, MPI_COMM_WORLD));
  OK(MPI_Recv(&got, 1, MPI_INT, left(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  OK(MPI_Buffer_detach(&address, &size));
  EXPECT(got == left() && address == space && size == (int)sizeof space);
}

/// Numbers and addresses without a meaning here that have one in another interface.
static void values_of_other_interfaces(void) {
  MPI_File file;
  MPI_Offset place;
  char name[64];
  snprintf(name, sizeof name, "/tmp/weft_values_%ld", (long)getpid());
  OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
  OK(MPI_File_seek(file, 54278280, MPI_SEEK_SET));
  OK(MPI_File_seek(file, -54278278, MPI_SEEK_CUR));  // MPI_DISPLACEMENT_CURRENT of MPICH and Open MPI
  OK(MPI_File_seek(file, -1, MPI_SEEK_CUR));         // the same of the standard ABI
  OK(MPI_File_get_position(file, &place));
  EXPECT(place == 1);
  OK(MPI_File_close(&file));
  const int sequential = MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE;
  OK(MPI_File_open(MPI_COMM_SELF, name, sequential, MPI_INFO_NULL, &file));
  OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  if (MPI_DISPLACEMENT_CURRENT != -1)
    EXPECT(MPI_File_set_view(file, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) != MPI_SUCCESS);
  OK(MPI_File_close(&file));
  // The address of an empty array of Rust, and MPI_IN_PLACE of the standard ABI: an error at ranks that are
  // not the root.
  void* const empty = MPI_IN_PLACE != (void*)1 ? (void*)1 : NULL;
  OK(MPI_Gather(empty, 0, MPI_CHAR, name, 0, MPI_CHAR, 0, MPI_COMM_WORLD));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  values_of_other_interfaces();
  statuses();
  arrays();
  errors_in_statuses();
  probes_and_persistent();
  collectives();
  buffered();
  return end();
}
