// SPDX-License-Identifier: BSD-3-Clause
// Partitioned communication: different partition counts on both sides, layouts split inside an element,
// arrival of single partitions, order of matching, threads, errors. Neighbours in a ring.
#include <pthread.h>
#include <stdlib.h>

#include "../core/expect.h"

static int rank, size, right, left;

static int value_at(int from, int round, int i) { return from * 1000003 + round * 7919 + i; }

/// One side's buffer: `ints` numbers in elements of `block` numbers; each element skips one number.
struct side {
  MPI_Datatype type;
  int block, partitions, count;
  int* data;
};

static struct side make_side(int partitions, int ints, int block) {
  struct side side = {MPI_INT, block, partitions, ints / partitions / block, NULL};
  if (block > 1) {
    MPI_Datatype plain;
    MPI_Type_contiguous(block, MPI_INT, &plain);
    MPI_Type_create_resized(plain, 0, (block + 1) * (MPI_Aint)sizeof(int), &side.type);
    MPI_Type_free(&plain);
    MPI_Type_commit(&side.type);
  }
  side.data = calloc((size_t)(ints / block) * (size_t)(block + 1) + 1, sizeof(int));
  return side;
}
static void free_side(struct side* side) {
  if (side->block > 1) MPI_Type_free(&side->type);
  free(side->data);
}
static int* number(const struct side* side, int i) {
  return side->block == 1 ? side->data + i
                          : side->data + i / side->block * (side->block + 1) + i % side->block;
}

static void shuffle(int* order, int n) {
  for (int i = 0; i < n; ++i) order[i] = i;
  for (int i = n - 1; i > 0; --i) {
    const int j = rand() % (i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
}

static void check_partition(const struct side* in, int partition, int round) {
  const int n = in->count * in->block;
  for (int i = partition * n; i < (partition + 1) * n; ++i)
    if (*number(in, i) != value_at(left, round, i)) {
      fail(__FILE__, __LINE__, "received number", *number(in, i), value_at(left, round, i));
      return;
    }
}

/// Marks partitions ready one by one in random order. After each, incomplete partitions must not have
/// arrived, and arrived partitions must have correct data.
static void exchange(struct side* out, struct side* in, int ints, MPI_Request* requests, int round) {
  int order[64], ready[64] = {0};
  MPI_Status status;
  shuffle(order, out->partitions);
  for (int i = 0; i < ints; ++i) *number(out, i) = value_at(rank, round, i), *number(in, i) = -1;
  CALL(MPI_Startall(2, requests));
  for (int k = 0; k < out->partitions; ++k) {
    int flag = -1;
    const int probed = rand() % in->partitions;
    CALL(MPI_Pready(order[k], requests[0]));
    ready[order[k]] = 1;
    CALL(MPI_Parrived(requests[1], probed, &flag));
    if (flag) check_partition(in, probed, round);
    if (size != 1) continue;  // arrival is deterministic only for a rank that sends to itself
    int wanted = 1;
    for (int i = probed * out->partitions / in->partitions;
         i * in->partitions < (probed + 1) * out->partitions; ++i)
      wanted &= ready[i];
    EXPECT_EQ(flag, wanted);
  }
  for (int partition = 0; partition < in->partitions; ++partition) {
    for (int flag = 0; !flag;) CALL(MPI_Parrived(requests[1], partition, &flag));
    check_partition(in, partition, round);
  }
  CALL(MPI_Wait(&requests[1], &status));
  CALL(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  int received = -1, flag = 0;
  CALL(MPI_Get_elements(&status, in->type, &received));
  EXPECT_EQ(received, ints);
  EXPECT_EQ(status.MPI_SOURCE, left);
  EXPECT_EQ(status.MPI_TAG, 3);
  CALL(MPI_Parrived(requests[1], 0, &flag));  // inactive
  EXPECT_EQ(flag, 1);
}

static void partitions_and_layouts(void) {
  static const int numbers[] = {1, 2, 3, 5, 24};
  static const int blocks[] = {1, 3, 8};
  for (int test = 0; test < 60; ++test) {
    const int ints = 2880 * (test % 10 == 0 ? 16 : 1);
    struct side out = make_side(numbers[test % 5], ints, blocks[test % 3]);
    struct side in = make_side(numbers[test / 5 % 5], ints, blocks[test / 3 % 3]);
    MPI_Request requests[2];
    CALL(MPI_Psend_init(out.data, out.partitions, out.count, out.type, right, 3, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &requests[0]));
    CALL(MPI_Precv_init_c(in.data, in.partitions, in.count, in.type, left, 3, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &requests[1]));
    for (int round = 0; round < 3; ++round) exchange(&out, &in, ints, requests, round);
    CALL(MPI_Request_free(&requests[0]));
    CALL(MPI_Request_free(&requests[1]));
    EXPECT_EQ(requests[1] == MPI_REQUEST_NULL, 1);
    free_side(&out);
    free_side(&in);
  }
}

/// The n-th send with a tag matches the n-th receive with it, whatever is started first; other messages with
/// the same tag are separate; requests never started are freed.
static void order_of_matching(void) {
  int out[3] = {10, 20, 30}, in[3] = {0, 0, 0}, ordinary = 99, got = 0;
  MPI_Request sends[3], receives[3];
  MPI_Status status;
  for (int i = 0; i < 3; ++i)
    CALL(MPI_Psend_init(&out[i], 1, 1, MPI_INT, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]));
  for (int i = 0; i < 3; ++i)
    CALL(MPI_Precv_init(&in[i], 1, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]));
  CALL(MPI_Request_free(&sends[1]));
  CALL(MPI_Request_free(&receives[1]));
  for (int i = 2; i >= 0; i -= 2) {
    CALL(MPI_Start(&sends[i]));
    CALL(MPI_Pready_range(0, 0, sends[i]));
  }
  CALL(MPI_Sendrecv(&ordinary, 1, MPI_INT, right, 5, &got, 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
  EXPECT_EQ(got, 99);
  for (int i = 0; i < 3; i += 2) {
    CALL(MPI_Start(&receives[i]));
    CALL(MPI_Wait(&receives[i], &status));
    EXPECT_EQ(in[i], out[i]);
    CALL(MPI_Wait(&sends[i], MPI_STATUS_IGNORE));
    CALL(MPI_Request_free(&sends[i]));
    CALL(MPI_Request_free(&receives[i]));
  }
}

static void nothing_to_move(void) {
  MPI_Request requests[2];
  MPI_Status status;
  int flag = 0;
  CALL(MPI_Psend_init(NULL, 4, 7, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
  CALL(MPI_Precv_init(NULL, 4, 7, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  CALL(MPI_Startall(2, requests));
  CALL(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 0);  // not ready yet
  CALL(MPI_Pready_list(4, (const int[]){3, 1, 0, 2}, requests[0]));
  CALL(MPI_Parrived(requests[1], 2, &flag));
  EXPECT_EQ(flag, 1);
  CALL(MPI_Wait(&requests[1], &status));
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  CALL(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  CALL(MPI_Request_free(&requests[0]));
  CALL(MPI_Request_free(&requests[1]));
  // No partitions on one side, empty ones on the other.
  CALL(MPI_Psend_init(NULL, 0, 7, MPI_INT, right, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
  CALL(MPI_Precv_init(NULL, 3, 0, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  CALL(MPI_Startall(2, requests));
  CALL(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  CALL(MPI_Request_free(&requests[0]));
  CALL(MPI_Request_free(&requests[1]));
}

static void errors(void) {
  int out[4] = {1, 2, 3, 4}, in[4] = {0, 0, 0, 0}, flag = 0;
  MPI_Request send, receive, other;
  MPI_Status status;
  EXPECT_ERROR(MPI_ERR_ARG,
               MPI_Psend_init(out, -1, 1, MPI_INT, right, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
  EXPECT_ERROR(MPI_ERR_COUNT,
               MPI_Psend_init(out, 1, -1, MPI_INT, right, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
  EXPECT_ERROR(MPI_ERR_RANK,
               MPI_Precv_init(in, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
  EXPECT_ERROR(MPI_ERR_TAG,
               MPI_Precv_init(in, 1, 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
  CALL(MPI_Psend_init(out, 4, 1, MPI_INT, right, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
  CALL(MPI_Precv_init(in, 2, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
  CALL(MPI_Recv_init(in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &other));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Pready(0, send));  // not started
  CALL(MPI_Start(&send));
  CALL(MPI_Start(&receive));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Start(&send));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Pready(0, receive));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Pready(0, other));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Parrived(send, 0, &flag));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Pready(4, send));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Pready_range(2, 1, send));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Pready_range(2, 4, send));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Pready_list(2, (const int[]){0, 9}, send));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Parrived(receive, 2, &flag));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Request_free(&send));
  EXPECT_ERROR(MPI_ERR_REQUEST, MPI_Cancel(&receive));
  CALL(MPI_Pready(1, send));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Pready(1, send));
  CALL(MPI_Pready_list(3, (const int[]){3, 2, 0}, send));
  EXPECT_ERROR(MPI_ERR_TRUNCATE, MPI_Wait(&receive, &status));  // capacity for two of the four
  EXPECT_EQ(in[0] * 10 + in[1], 12);
  CALL(MPI_Wait(&send, MPI_STATUS_IGNORE));
  CALL(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag));
  EXPECT_EQ(flag, 1);
  CALL(MPI_Request_free(&send));
  CALL(MPI_Request_free(&receive));
  CALL(MPI_Request_free(&other));
}

struct share {
  MPI_Request request;
  int* data;
  int first, end, count, round;
};
static void* produce(void* argument) {
  const struct share* share = argument;
  for (int partition = share->first; partition < share->end; ++partition) {
    for (int i = partition * share->count; i < (partition + 1) * share->count; ++i)
      share->data[i] = value_at(rank, share->round, i);
    CALL(MPI_Pready(partition, share->request));
  }
  return NULL;
}

static void threads(void) {
  enum { kThreads = 4, kEach = 8, kCount = 5000, kInts = kThreads * kEach * kCount };
  struct side out = make_side(kThreads * kEach, kInts, 1), in = make_side(10, kInts, 1);
  MPI_Request requests[2];
  CALL(MPI_Psend_init(out.data, out.partitions, out.count, MPI_INT, right, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &requests[0]));
  CALL(MPI_Precv_init(in.data, in.partitions, in.count, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &requests[1]));
  for (int round = 0; round < 3; ++round) {
    pthread_t producers[kThreads];
    struct share shares[kThreads];
    CALL(MPI_Startall(2, requests));
    for (int t = 0; t < kThreads; ++t) {
      shares[t] = (struct share){requests[0], out.data, t * kEach, (t + 1) * kEach, kCount, round};
      pthread_create(&producers[t], NULL, produce, &shares[t]);
    }
    for (int partition = 0; partition < in.partitions; ++partition) {
      for (int flag = 0; !flag;) CALL(MPI_Parrived(requests[1], partition, &flag));
      check_partition(&in, partition, round);
    }
    CALL(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int t = 0; t < kThreads; ++t) pthread_join(producers[t], NULL);
  }
  CALL(MPI_Request_free(&requests[0]));
  CALL(MPI_Request_free(&requests[1]));
  free_side(&out);
  free_side(&in);
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  srand((unsigned)rank + 1);
  partitions_and_layouts();
  order_of_matching();
  nothing_to_move();
  errors();
  threads();
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
