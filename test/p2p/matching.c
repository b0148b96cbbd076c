// SPDX-License-Identifier: BSD-3-Clause
// Order and selection: wildcards, probes, matched probes, cancelling, MPI_PROC_NULL, separate communicators.
#include <stdlib.h>

#include "../core/expect.h"

static int rank, size;

// Messages of one pair do not overtake each other, eager and rendezvous mixed; tags select among them.
static void order(void) {
  enum { kMessages = 64 };
  static int data[kMessages][8192];
  MPI_Request requests[kMessages];
  if (rank == 0)
    for (int i = 0; i < kMessages; ++i) {
      data[i][0] = i;
      CALL(MPI_Isend(data[i], i % 3 == 0 ? 8192 : 1, MPI_INT, 1, i % 2, MPI_COMM_WORLD, &requests[i]));
    }
  if (rank == 1) {
    MPI_Status status;
    for (int i = 1; i < kMessages; i += 2) {
      CALL(MPI_Recv(data[0], 8192, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status));
      EXPECT_EQ(data[0][0], i);
    }
    for (int i = 0; i < kMessages; i += 2) {
      CALL(MPI_Recv(data[0], 8192, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
      EXPECT_EQ(data[0][0], i);
      EXPECT_EQ(status.MPI_TAG, 0);
    }
  }
  if (rank == 0) CALL(MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE));
}

// An earlier wildcard receive precedes a later exact one, and vice versa.
static void posting_order(void) {
  if (rank == 1) {
    int first = -1, second = -1, third = -1;
    MPI_Request requests[3];
    CALL(MPI_Irecv(&first, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
    CALL(MPI_Irecv(&second, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, &requests[1]));
    CALL(MPI_Irecv(&third, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]));
    CALL(MPI_Send(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD));
    CALL(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    EXPECT_EQ(first, 100);
    EXPECT_EQ(second, 101);
    EXPECT_EQ(third, 102);
  }
  if (rank == 0) {
    CALL(MPI_Recv(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 100; i < 103; ++i) CALL(MPI_Send(&i, 1, MPI_INT, 1, 4, MPI_COMM_WORLD));
  }
}

static void matched_probes(void) {
  if (rank == 0)
    for (int i = 0; i < 3; ++i) {
      static int data[3][50000];
      data[i][0] = i;
      CALL(MPI_Send(data[i], i == 1 ? 50000 : 2, MPI_INT, 1, 8, MPI_COMM_WORLD));
    }
  if (rank == 1) {
    static int into[3][50000];
    MPI_Message messages[3];
    MPI_Status status;
    for (int i = 0; i < 3; ++i) {
      CALL(MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &messages[i], &status));
      int count = 0;
      CALL(MPI_Get_count(&status, MPI_INT, &count));
      EXPECT_EQ(count, i == 1 ? 50000 : 2);
      if (i == 1) {  // the sender waits for this receive
        CALL(MPI_Mrecv(into[i], count, MPI_INT, &messages[i], &status));
        EXPECT_EQ(messages[i] == MPI_MESSAGE_NULL, 1);
      }
    }
    MPI_Request request;
    CALL(MPI_Imrecv(into[2], 2, MPI_INT, &messages[2], &request));
    CALL(MPI_Wait(&request, &status));
    CALL(MPI_Mrecv(into[0], 2, MPI_INT, &messages[0], MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(into[i][0], i);
  }
  int flag = -1;
  MPI_Message none;
  CALL(MPI_Improbe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &none, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(none == MPI_MESSAGE_NO_PROC, 1);
}

static void cancelling(void) {
  MPI_Request request;
  MPI_Status status;
  int flag = 0, value = 5;
  CALL(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &request));
  CALL(MPI_Cancel(&request));
  CALL(MPI_Wait(&request, &status));
  CALL(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 1);
  if (rank == 0) {  // a synchronous send without a receive
    CALL(MPI_Issend(&value, 1, MPI_INT, 1, 78, MPI_COMM_WORLD, &request));
    CALL(MPI_Cancel(&request));
    CALL(MPI_Wait(&request, &status));
    CALL(MPI_Test_cancelled(&status, &flag));
    EXPECT_EQ(flag, 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    CALL(MPI_Iprobe(MPI_ANY_SOURCE, 78, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
  }
}

static void no_process(void) {
  MPI_Status status;
  int value = 3, count = -1;
  CALL(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
  CALL(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
  CALL(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT_EQ(value, 3);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
}

static void communicators(void) {
  MPI_Comm twin;
  CALL(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
  if (rank == 0) {
    int one = 1, two = 2;
    CALL(MPI_Send(&one, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    CALL(MPI_Send(&two, 1, MPI_INT, 1, 0, twin));
  }
  if (rank == 1) {
    int got = 0;
    CALL(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, MPI_STATUS_IGNORE));
    EXPECT_EQ(got, 2);
    CALL(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_EQ(got, 1);
  }
  CALL(MPI_Comm_free(&twin));
}

static void lists(void) {
  enum { kRequests = 10 };
  int values[kRequests], indices[kRequests], done = 0, outcount = 0;
  MPI_Request requests[kRequests];
  if (rank == 1)
    for (int i = 0; i < kRequests; ++i) CALL(MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_WORLD));
  if (rank != 0) return;
  for (int i = 0; i < kRequests; ++i)
    CALL(MPI_Irecv(&values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]));
  int index = -1;
  CALL(MPI_Waitany(kRequests, requests, &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(values[index], index);
  for (done = 1; done < kRequests; done += outcount) {
    CALL(MPI_Waitsome(kRequests, requests, &outcount, indices, MPI_STATUSES_IGNORE));
    for (int i = 0; i < outcount; ++i) EXPECT_EQ(values[indices[i]], indices[i]);
  }
  CALL(MPI_Waitany(kRequests, requests, &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(index, MPI_UNDEFINED);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  void (*const tests[])(void) = {order,      posting_order, matched_probes, cancelling,
                                 no_process, communicators, lists};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; ++i) {
    tests[i]();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
