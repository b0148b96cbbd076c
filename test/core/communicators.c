// SPDX-License-Identifier: BSD-3-Clause
// Derived communicators on any number of ranks: groups, ranks, separate contexts, inheritance.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"

static int rank, size;

/// A ring of messages verifies the ranks of a communicator and its separate context.
static void ring(MPI_Comm comm, int salt) {
  int me, n, got[2] = {-1, -1};
  CALL(MPI_Comm_rank(comm, &me));
  CALL(MPI_Comm_size(comm, &n));
  int mine[2] = {me, salt};
  CALL(MPI_Sendrecv(mine, 2, MPI_INT, (me + 1) % n, 7, got, 2, MPI_INT, (me + n - 1) % n, 7, comm,
                    MPI_STATUS_IGNORE));
  EXPECT_EQ(got[0], (me + n - 1) % n);
  EXPECT_EQ(got[1], salt);
}

static int compare(MPI_Comm a, MPI_Comm b) {
  int result = -1;
  CALL(MPI_Comm_compare(a, b, &result));
  return result;
}

static void predefined(void) {
  int n = 0, me = -1, flag = 1, length = 0;
  char name[MPI_MAX_OBJECT_NAME];
  CALL(MPI_Comm_size(MPI_COMM_SELF, &n));
  CALL(MPI_Comm_rank(MPI_COMM_SELF, &me));
  EXPECT_EQ(n, 1);
  EXPECT_EQ(me, 0);
  CALL(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
  EXPECT_EQ(flag, 0);
  CALL(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
  EXPECT_TEXT(name, "MPI_COMM_WORLD");
  EXPECT_EQ(compare(MPI_COMM_WORLD, MPI_COMM_WORLD), MPI_IDENT);
  EXPECT_EQ(compare(MPI_COMM_WORLD, MPI_COMM_SELF), size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
}

static void duplicates(void) {
  MPI_Comm first, second;
  CALL(MPI_Comm_dup(MPI_COMM_WORLD, &first));
  CALL(MPI_Comm_dup(first, &second));
  EXPECT_EQ(compare(MPI_COMM_WORLD, first), MPI_CONGRUENT);
  EXPECT_EQ(compare(first, second), MPI_CONGRUENT);
  // Messages on the two communicators do not mix, whatever the order of the receives.
  int a = -1, b = -1, x = 100 + rank, y = 200 + rank;
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Request requests[2];
  CALL(MPI_Isend(&x, 1, MPI_INT, to, 0, first, &requests[0]));
  CALL(MPI_Isend(&y, 1, MPI_INT, to, 0, second, &requests[1]));
  CALL(MPI_Recv(&b, 1, MPI_INT, from, MPI_ANY_TAG, second, MPI_STATUS_IGNORE));
  CALL(MPI_Recv(&a, 1, MPI_INT, MPI_ANY_SOURCE, 0, first, MPI_STATUS_IGNORE));
  CALL(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  EXPECT_EQ(a, 100 + from);
  EXPECT_EQ(b, 200 + from);
  CALL(MPI_Comm_free(&first));
  EXPECT_EQ(first == MPI_COMM_NULL, 1);
  ring(second, 2);
  CALL(MPI_Comm_disconnect(&second));
  EXPECT_EQ(second == MPI_COMM_NULL, 1);
}

static void nonblocking_duplicates(void) {
  enum { kAll = 3 };
  MPI_Comm comms[kAll];
  MPI_Request requests[kAll];
  for (int i = 0; i < kAll; ++i) CALL(MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[i]));
  CALL(MPI_Waitall(kAll, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kAll; ++i) {
    ring(comms[i], i);
    EXPECT_EQ(compare(MPI_COMM_WORLD, comms[i]), MPI_CONGRUENT);
    CALL(MPI_Comm_free(&comms[i]));
  }
}

static void splits(void) {
  MPI_Comm comm;
  CALL(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm));  // in reverse order
  int n = 0, me = -1;
  CALL(MPI_Comm_size(comm, &n));
  CALL(MPI_Comm_rank(comm, &me));
  EXPECT_EQ(n, (size + 1 - rank % 2) / 2);
  EXPECT_EQ(me, n - 1 - rank / 2);
  ring(comm, rank % 2);
  CALL(MPI_Comm_free(&comm));
  CALL(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 5, 0,
                      &comm));  // equal keys keep the old order
  EXPECT_EQ(comm == MPI_COMM_NULL, rank == 0);
  if (rank > 0) {
    CALL(MPI_Comm_rank(comm, &me));
    EXPECT_EQ(me, rank - 1);
    ring(comm, 5);
    CALL(MPI_Comm_free(&comm));
  }
  CALL(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
  EXPECT_EQ(compare(MPI_COMM_WORLD, comm), MPI_CONGRUENT);  // tests run on one host
  CALL(MPI_Comm_free(&comm));
  CALL(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &comm));
  if (comm != MPI_COMM_NULL) {  // null if the ranks are bound to different resources
    CALL(MPI_Comm_size(comm, &me));
    EXPECT_EQ(me < size, 1);
    CALL(MPI_Comm_free(&comm));
  }
  CALL(MPI_Comm_split_type(MPI_COMM_WORLD, rank == 0 ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL,
                           &comm));
  EXPECT_EQ(comm == MPI_COMM_NULL, rank != 0);
  if (rank == 0) CALL(MPI_Comm_free(&comm));
}

static void from_groups(void) {
  MPI_Group world, evens, odds;
  int range[1][3] = {{0, size - 1, 2}};
  CALL(MPI_Comm_group(MPI_COMM_WORLD, &world));
  CALL(MPI_Group_range_incl(world, 1, range, &evens));
  CALL(MPI_Group_difference(world, evens, &odds));
  MPI_Group mine = rank % 2 == 0 ? evens : odds;
  MPI_Comm comm;

  CALL(MPI_Comm_create(MPI_COMM_WORLD, mine, &comm));  // different groups at once
  ring(comm, 10 + rank % 2);
  CALL(MPI_Comm_free(&comm));

  CALL(MPI_Comm_create(MPI_COMM_WORLD, evens, &comm));
  EXPECT_EQ(comm == MPI_COMM_NULL, rank % 2);
  if (rank % 2 == 0) {
    CALL(MPI_Comm_free(&comm));
    CALL(MPI_Comm_create_group(MPI_COMM_WORLD, evens, 3, &comm));  // only members call
    ring(comm, 20);
    MPI_Group again;
    int result = -1;
    CALL(MPI_Comm_group(comm, &again));
    CALL(MPI_Group_compare(again, evens, &result));
    EXPECT_EQ(result, MPI_IDENT);
    CALL(MPI_Group_free(&again));
    CALL(MPI_Comm_free(&comm));
  }
  CALL(MPI_Comm_create_from_group(mine, rank % 2 ? "odd" : "even", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  ring(comm, 30 + rank % 2);
  CALL(MPI_Comm_free(&comm));
  CALL(MPI_Group_free(&odds));
  CALL(MPI_Group_free(&evens));
  CALL(MPI_Group_free(&world));
}

static void intercomms(void) {
  if (size < 2) return;
  MPI_Comm local, inter, copy, merged;
  const int side = rank % 2, first_of_other = 1 - side;
  CALL(MPI_Comm_split(MPI_COMM_WORLD, side, rank, &local));
  CALL(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, first_of_other, 9, &inter));
  CALL(MPI_Comm_dup(inter, &copy));
  EXPECT_EQ(compare(inter, copy), MPI_CONGRUENT);
  int flag = 0, theirs = 0, n = 0, me = -1;
  CALL(MPI_Comm_test_inter(copy, &flag));
  CALL(MPI_Comm_remote_size(copy, &theirs));
  CALL(MPI_Comm_size(copy, &n));
  CALL(MPI_Comm_rank(copy, &me));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(n + theirs, size);
  if (me < theirs) {  // the same local rank of the other group is its neighbour
    int got = -1;
    CALL(MPI_Sendrecv(&rank, 1, MPI_INT, me, 0, &got, 1, MPI_INT, me, 0, copy, MPI_STATUS_IGNORE));
    EXPECT_EQ(got, side == 0 ? rank + 1 : rank - 1);
  }
  for (int high = 0; high < 2; ++high) {
    CALL(MPI_Intercomm_merge(inter, side == high, &merged));
    CALL(MPI_Comm_rank(merged, &me));
    const int evens = (size + 1) / 2, odds = size / 2;
    EXPECT_EQ(me, rank / 2 + (side == high ? (high == 1 ? evens : odds) : 0));
    ring(merged, 40 + high);
    CALL(MPI_Comm_free(&merged));
  }
  CALL(MPI_Intercomm_merge(inter, 0, &merged));  // equal `high`: the group of the lower process first
  CALL(MPI_Comm_rank(merged, &me));
  EXPECT_EQ(me, side == 0 ? rank / 2 : (size + 1) / 2 + rank / 2);
  CALL(MPI_Comm_free(&merged));
  CALL(MPI_Comm_free(&copy));
  CALL(MPI_Comm_free(&inter));
  CALL(MPI_Comm_free(&local));
}

static int deleted;
static int count_deletion(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)comm, (void)keyval, (void)value, (void)extra;
  ++deleted;
  return MPI_SUCCESS;
}
static int refuse_copy(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
  *flag = 0;
  return MPI_ERR_OTHER;
}

static void attributes_and_handlers(void) {
  int same, none, broken, flag = -1;
  int marker = 5;
  void* value = NULL;
  MPI_Comm comm, child;
  CALL(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  CALL(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count_deletion, &same, NULL));
  CALL(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &none, NULL));
  CALL(MPI_Comm_create_keyval(refuse_copy, count_deletion, &broken, NULL));
  CALL(MPI_Comm_set_attr(comm, same, &marker));
  CALL(MPI_Comm_set_attr(comm, none, &marker));
  CALL(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  CALL(MPI_Comm_dup(comm, &child));
  CALL(MPI_Comm_get_attr(child, same, &value, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(value == &marker, 1);
  CALL(MPI_Comm_get_attr(child, none, &value, &flag));
  EXPECT_EQ(flag, 0);
  MPI_Errhandler handler;
  CALL(MPI_Comm_get_errhandler(child, &handler));
  EXPECT_EQ(handler == MPI_ERRORS_RETURN, 1);
  CALL(MPI_Errhandler_free(&handler));
  CALL(MPI_Comm_free(&child));
  EXPECT_EQ(deleted, 1);

  CALL(MPI_Comm_set_attr(comm, broken, &marker));
  EXPECT_ERROR(MPI_ERR_OTHER, MPI_Comm_dup(comm, &child));
  EXPECT_EQ(deleted, 2);  // the copy of `same` was deleted with the child
  EXPECT_ERROR(MPI_ERR_KEYVAL, MPI_Comm_set_attr(comm, MPI_TAG_UB, &marker));
  EXPECT_ERROR(MPI_ERR_KEYVAL, MPI_Comm_get_attr(comm, 123456, &value, &flag));
  CALL(MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(*(int*)value >= 32767, 1);
  CALL(MPI_Comm_free_keyval(&same));
  EXPECT_EQ(same, MPI_KEYVAL_INVALID);
  CALL(MPI_Comm_free_keyval(&none));
  CALL(MPI_Comm_free_keyval(&broken));
  CALL(MPI_Comm_free(&comm));
  EXPECT_EQ(deleted, 4);
}

int main(int argc, char** argv) {
  CALL(MPI_Init(&argc, &argv));
  CALL(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CALL(MPI_Comm_size(MPI_COMM_WORLD, &size));
  predefined();
  duplicates();
  nonblocking_duplicates();
  splits();
  from_groups();
  intercomms();
  attributes_and_handlers();
  CALL(MPI_Finalize());
  return failures != 0;
}
