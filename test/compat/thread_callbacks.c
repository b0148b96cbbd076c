// SPDX-License-Identifier: BSD-3-Clause
// Threads that create and use callbacks at the same time: user operations, attributes, error handlers,
// generalized requests. Each thread has a communicator and a datatype of its own.
#include <pthread.h>

#include "expect.h"

enum { kThreads = 3, kRounds = 60 };

typedef struct Owner {
  MPI_Comm comm;
  MPI_Datatype pair;
  int key, copied, deleted, handled, queried, freed;
} Owner;
static Owner owners[kThreads];

static int is_pair(MPI_Datatype type) {
  for (int i = 0; i < kThreads; ++i)
    if (owners[i].pair == type) return 1;
  return 0;
}
/// A thread that makes progress may run the operation of another one.
static void add_pairs(void* in, void* inout, int* count, MPI_Datatype* type) {
  EXPECT(is_pair(*type));
  for (int i = 0; i < 2 * *count; ++i) ((int*)inout)[i] += ((const int*)in)[i];
}
static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  EXPECT(*type == MPI_INT);
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((const int*)in)[i];
}

static int copy(MPI_Comm comm, int keyval, void* extra, void* value, void* result, int* flag) {
  Owner* owner = extra;
  EXPECT(comm == owner->comm && keyval == owner->key && value == owner);
  *(void**)result = &owner->copied;
  *flag = 1;
  ++owner->copied;
  return MPI_SUCCESS;
}
static int removal(MPI_Comm comm, int keyval, void* value, void* extra) {
  Owner* owner = extra;
  EXPECT(keyval == owner->key && value == (comm == owner->comm ? (void*)owner : (void*)&owner->copied));
  ++owner->deleted;
  return MPI_SUCCESS;
}
static void handler(MPI_Comm* comm, int* code, ...) {
  CLASS_IS(*code, MPI_ERR_RANK);
  for (int i = 0; i < kThreads; ++i)
    if (owners[i].comm == *comm) ++owners[i].handled;
}
static int query(void* state, MPI_Status* status) {
  ++((Owner*)state)->queried;
  status->MPI_SOURCE = 7;
  status->MPI_TAG = 8;
  OK(MPI_Status_set_elements(status, MPI_INT, 3));
  return MPI_Status_set_cancelled(status, 0);
}
static int freed(void* state) {
  ++((Owner*)state)->freed;
  return MPI_SUCCESS;
}
static int cancel(void* state, int complete) {
  (void)state, (void)complete;
  return MPI_SUCCESS;
}

static void one_round(Owner* owner) {
  int values[4] = {rank, 1, rank, 1}, sums[4], sum, flag, count;
  void* value;
  MPI_Op pairs, integers;
  MPI_Comm child;
  MPI_Errhandler own, found;
  MPI_Request request;
  MPI_Status status;
  OK(MPI_Op_create(add_pairs, 1, &pairs));
  OK(MPI_Op_create(add, 1, &integers));
  OK(MPI_Allreduce(values, sums, 2, owner->pair, pairs, owner->comm));
  OK(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, integers, owner->comm, &request));
  OK(MPI_Op_free(&integers));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Op_free(&pairs));
  EXPECT(sums[0] == ranks * (ranks - 1) / 2 && sums[3] == ranks && sum == sums[0]);

  OK(MPI_Comm_create_keyval(copy, removal, &owner->key, owner));
  OK(MPI_Comm_set_attr(owner->comm, owner->key, owner));
  OK(MPI_Comm_dup(owner->comm, &child));
  OK(MPI_Comm_get_attr(child, owner->key, &value, &flag));
  EXPECT(flag && value == &owner->copied);
  OK(MPI_Comm_free(&child));
  OK(MPI_Comm_delete_attr(owner->comm, owner->key));
  OK(MPI_Comm_free_keyval(&owner->key));

  OK(MPI_Comm_create_errhandler(handler, &own));
  OK(MPI_Comm_set_errhandler(owner->comm, own));
  CLASS_IS(MPI_Send(values, 1, MPI_INT, ranks + 3, 0, owner->comm), MPI_ERR_RANK);
  OK(MPI_Comm_get_errhandler(owner->comm, &found));
  EXPECT(found == own);
  OK(MPI_Errhandler_free(&found));
  OK(MPI_Errhandler_free(&own));

  OK(MPI_Grequest_start(query, freed, cancel, owner, &request));
  OK(MPI_Grequest_complete(request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_Get_elements(&status, MPI_INT, &count));
  EXPECT(request == MPI_REQUEST_NULL && count == 3 && status.MPI_SOURCE == 7 && status.MPI_TAG == 8);
}

static void* work(void* owner) {
  for (int i = 0; i < kRounds; ++i) one_round(owner);
  return NULL;
}

int main(int argc, char** argv) {
  int provided;
  pthread_t threads[kThreads];
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  EXPECT(provided == MPI_THREAD_MULTIPLE);
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  for (int i = 0; i < kThreads; ++i) {
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &owners[i].comm));
    OK(MPI_Type_contiguous(2, MPI_INT, &owners[i].pair));
    OK(MPI_Type_commit(&owners[i].pair));
  }
  for (int i = 0; i < kThreads; ++i) EXPECT(pthread_create(&threads[i], NULL, work, &owners[i]) == 0);
  for (int i = 0; i < kThreads; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < kThreads; ++i) {
    const Owner* owner = &owners[i];
    EXPECT(owner->copied == kRounds && owner->deleted == 2 * kRounds && owner->handled == kRounds);
    EXPECT(owner->queried == kRounds && owner->freed == kRounds);
    OK(MPI_Type_free(&owners[i].pair));
    OK(MPI_Comm_free(&owners[i].comm));
  }
  return end();
}
