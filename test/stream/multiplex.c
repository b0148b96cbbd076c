// SPDX-License-Identifier: BSD-3-Clause
// Communicators with several streams per rank: messages between two streams match only there, in any order;
// errors.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

enum { MOST = 4 };

static int rank, ranks, failures;

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: %s\n", rank, what);
  ++failures;
}

static int class_of(int code) {
  int class = 0;
  MPI_Error_class(code, &class);
  return class;
}

static int streams_of(int of) { return 1 + of % (MOST - 1); }

static int value(int source, int from, int to) { return 100 * source + 10 * from + to; }

// All pairs of streams with the right neighbour at once, received in the opposite order.
static void exchange(MPI_Comm comm) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  int out[MOST][MOST], in[MOST][MOST], count = 0;
  MPI_Request requests[2 * MOST * MOST];
  for (int from = 0; from < streams_of(rank); ++from)
    for (int to = 0; to < streams_of(right); ++to) {
      out[from][to] = value(rank, from, to);
      MPIX_Stream_isend(&out[from][to], 1, MPI_INT, right, 7, comm, from, to, &requests[count++]);
    }
  for (int from = streams_of(left) - 1; from >= 0; --from)
    for (int to = streams_of(rank) - 1; to >= 0; --to)
      MPIX_Stream_irecv(&in[from][to], 1, MPI_INT, left, MPI_ANY_TAG, comm, from, to, &requests[count++]);
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  for (int from = 0; from < streams_of(left); ++from)
    for (int to = 0; to < streams_of(rank); ++to)
      expect(in[from][to] == value(left, from, to), "a message of another pair of streams");
}

// Blocking calls with large counts, next to an ordinary message with the same tag.
static void beside(MPI_Comm comm) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const int last = streams_of(right) - 1, mine = streams_of(rank) - 1;
  int plain = -1, between = -1, first = 1, second = 2;
  MPI_Request requests[2];
  MPI_Status status;
  MPI_Isend(&first, 1, MPI_INT, right, 3, comm, &requests[0]);
  MPIX_Stream_isend_c(&second, 1, MPI_INT, right, 3, comm, 0, last, &requests[1]);
  MPIX_Stream_recv_c(&between, 1, MPI_INT, left, 3, comm, 0, mine, &status);
  expect(between == 2 && status.MPI_SOURCE == left && status.MPI_TAG == 3, "a message between streams");
  MPI_Recv(&plain, 1, MPI_INT, left, 3, comm, MPI_STATUS_IGNORE);
  expect(plain == 1, "an ordinary message");
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void refusals(MPI_Comm comm, MPIX_Stream stream) {
  int word = 0;
  MPI_Comm none;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  expect(class_of(MPIX_Stream_send(&word, 1, MPI_INT, 0, 1, comm, streams_of(rank), 0)) == MPI_ERR_ARG,
         "a stream that the sender does not have");
  expect(class_of(MPIX_Stream_send(&word, 1, MPI_INT, 0, 1, comm, 0, streams_of(0))) == MPI_ERR_ARG,
         "a stream that the receiver does not have");
  expect(class_of(MPIX_Stream_recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, 0, 0, MPI_STATUS_IGNORE)) ==
             MPI_ERR_UNSUPPORTED_OPERATION,
         "any source");
  expect(class_of(MPIX_Stream_send(&word, 1, MPI_INT, ranks, 1, comm, 0, 0)) == MPI_ERR_RANK, "no such rank");
  expect(class_of(MPIX_Stream_comm_create_multiplex(MPI_COMM_SELF, 0, &stream, &none)) == MPI_ERR_ARG,
         "no stream");
  expect(MPIX_Stream_send(&word, 1, MPI_INT, MPI_PROC_NULL, 1, comm, 99, 99) == MPI_SUCCESS, "MPI_PROC_NULL");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPIX_Stream streams[MOST], found;
  for (int i = 0; i < MOST; ++i) MPIX_Stream_create(MPI_INFO_NULL, &streams[i]);
  MPI_Comm comm, again;
  MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, streams_of(rank), streams, &comm);
  for (int i = 0; i < streams_of(rank); ++i) {
    MPIX_Comm_get_stream(comm, i, &found);
    expect(found == streams[i], "MPIX_Comm_get_stream");
  }
  for (int round = 0; round < 20; ++round) exchange(comm);
  beside(comm);
  MPI_Comm_dup(comm, &again);  // the duplicate has no streams
  MPI_Comm_free(&again);
  MPIX_Stream_send(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, 0, 0);
  refusals(comm, streams[0]);
  MPI_Comm_free(&comm);
  for (int i = 0; i < MOST; ++i) MPIX_Stream_free(&streams[i]);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
