// SPDX-License-Identifier: BSD-3-Clause
// Every send mode, blocking, nonblocking and persistent; sizes around each protocol's limits; contiguous and
// strided types; neighbours in a ring, so that a single rank sends to itself.
#include <stdlib.h>

#include "../core/expect.h"

static int rank, size, right, left;
static const int sizes[] = {0,    1,    7,    8,    63,    64,    500,    512,    513,
                            4000, 4096, 8192, 8193, 20000, 65536, 300001, 3000000};

static unsigned char byte_at(int from, int i, int salt) {
  return (unsigned char)(from * 37 + i * 11 + (i >> 8) + salt);
}

static void fill(unsigned char* data, int n, int salt) {
  for (int i = 0; i < n; ++i) data[i] = byte_at(rank, i, salt);
}
static void check(const unsigned char* data, int n, int from, int salt) {
  for (int i = 0; i < n; ++i)
    if (data[i] != byte_at(from, i, salt)) {
      fail(__FILE__, __LINE__, "received byte", data[i], byte_at(from, i, salt));
      fprintf(stderr, "  at %d of %d, salt %d\n", i, n, salt);
      return;
    }
}

static int (*const senders[])(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) = {
    MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};
static int (*const makers[])(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) = {
    MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init};

static void modes(unsigned char* out, unsigned char* in, int n) {
  for (int mode = 0; mode < 4; ++mode) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    fill(out, n, mode);
    memset(in, 0xee, (size_t)n + 1);
    CALL(MPI_Irecv(in, n, MPI_BYTE, left, mode, MPI_COMM_WORLD, &requests[0]));
    MPI_Barrier(MPI_COMM_WORLD);  // ready mode requires a posted receive
    CALL(senders[mode](out, n, MPI_BYTE, right, mode, MPI_COMM_WORLD, &requests[1]));
    CALL(MPI_Waitall(2, requests, statuses));
    check(in, n, left, mode);
    EXPECT_EQ(in[n], 0xee);
    EXPECT_EQ(statuses[0].MPI_SOURCE, left);
    EXPECT_EQ(statuses[0].MPI_TAG, mode);
    int count = -1;
    CALL(MPI_Get_count(&statuses[0], MPI_BYTE, &count));
    EXPECT_EQ(count, n);
    EXPECT_EQ(requests[0] == MPI_REQUEST_NULL, 1);
  }
}

static void persistent(unsigned char* out, unsigned char* in, int n) {
  for (int mode = 0; mode < 4; ++mode) {
    MPI_Request requests[2];
    CALL(MPI_Recv_init(in, n, MPI_BYTE, left, 9, MPI_COMM_WORLD, &requests[0]));
    CALL(makers[mode](out, n, MPI_BYTE, right, 9, MPI_COMM_WORLD, &requests[1]));
    CALL(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));  // inactive requests complete at once
    for (int round = 0; round < 3; ++round) {
      fill(out, n, round);
      CALL(MPI_Start(&requests[0]));
      MPI_Barrier(MPI_COMM_WORLD);
      CALL(MPI_Start(&requests[1]));
      CALL(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      check(in, n, left, round);
    }
    CALL(MPI_Request_free(&requests[0]));
    CALL(MPI_Request_free(&requests[1]));
  }
}

// A late receive: the message waits at either side.
static void unexpected(unsigned char* out, unsigned char* in, int n) {
  MPI_Request request;
  fill(out, n, 3);
  CALL(MPI_Isend(out, n, MPI_BYTE, right, 5, MPI_COMM_WORLD, &request));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Status status;
  CALL(MPI_Probe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  int count = -1;
  CALL(MPI_Get_count(&status, MPI_BYTE, &count));
  EXPECT_EQ(count, n);
  CALL(MPI_Recv(in, n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  check(in, n, left, 3);
  EXPECT_EQ(status.MPI_TAG, 5);
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

// Strided to strided, strided to contiguous and back: n elements of 4 bytes, every third int.
static void layouts(unsigned char* out, unsigned char* in, int n) {
  const int items = n / 12;
  MPI_Datatype strided;
  CALL(MPI_Type_vector(items, 1, 3, MPI_INT, &strided));
  CALL(MPI_Type_commit(&strided));
  for (int shape = 0; shape < 3; ++shape) {
    int* from = (int*)out;
    int* to = (int*)in;
    for (int i = 0; i < items * 3; ++i) from[i] = rank * 1000003 + i, to[i] = -1;
    const int packed_out = shape == 1, packed_in = shape == 2;
    CALL(MPI_Sendrecv(from, packed_out ? items : 1, packed_out ? MPI_INT : strided, right, 6, to,
                      packed_in ? items : 1, packed_in ? MPI_INT : strided, left, 6, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    for (int i = 0; i < items; ++i) {
      const int wanted = left * 1000003 + (packed_out ? i : 3 * i);
      if (to[packed_in ? i : 3 * i] != wanted) {
        fail(__FILE__, __LINE__, "strided element", to[packed_in ? i : 3 * i], wanted);
        break;
      }
      if (!packed_in && i + 1 < items && to[3 * i + 1] != -1) {
        fail(__FILE__, __LINE__, "gap", to[3 * i + 1], -1);
        break;
      }
    }
  }
  CALL(MPI_Type_free(&strided));
}

static void replace(unsigned char* data, int n) {
  fill(data, n, 8);
  CALL(MPI_Sendrecv_replace(data, n, MPI_BYTE, right, 7, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  check(data, n, left, 8);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  const int largest = 3000000;
  unsigned char* out = malloc((size_t)largest + 16);
  unsigned char* in = malloc((size_t)largest + 16);
  const int capacity = 4 * (largest + MPI_BSEND_OVERHEAD);
  void* attached = malloc((size_t)capacity);
  CALL(MPI_Buffer_attach(attached, capacity));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    modes(out, in, sizes[i]);
    persistent(out, in, sizes[i]);
    unexpected(out, in, sizes[i]);
    layouts(out, in, sizes[i]);
    replace(out, sizes[i]);
  }
  void* detached = NULL;
  int detached_size = 0;
  CALL(MPI_Buffer_detach(&detached, &detached_size));
  EXPECT_EQ(detached == attached, 1);
  EXPECT_EQ(detached_size, capacity);
  free(attached);
  free(out);
  free(in);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
