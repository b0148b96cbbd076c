// SPDX-License-Identifier: BSD-3-Clause
// Windows: handles, attributes, locks and assertions, request-based operations, error handlers.
#include "expect.h"

static MPI_Win failing;
static int handled;

static void handler(MPI_Win* win, int* code, ...) {
  EXPECT(*win == failing);
  CLASS_IS(*code, MPI_ERR_RANK);
  ++handled;
}

static int copied_key;
static int removal(MPI_Win win, int keyval, void* value, void* extra) {
  EXPECT(win != MPI_WIN_NULL && keyval == copied_key && extra == NULL);
  ++*(int*)value;
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  MPI_Win win;
  MPI_Errhandler mine;
  MPI_Request request;
  int *memory, *flavor, *model, *unit, flag, got = -1, one = 1, removed = 0;
  MPI_Aint* size;
  void* base;
  begin(&argc, &argv);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  OK(MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
  EXPECT(flag && *flavor == MPI_WIN_FLAVOR_ALLOCATE);
  OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
  EXPECT(flag && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE));
  OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
  EXPECT(flag && base == memory);
  OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
  EXPECT(flag && *size == 4 * sizeof(int));
  OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag));
  EXPECT(flag && *unit == sizeof(int));

  memset(memory, 0, 4 * sizeof(int));
  OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
  OK(MPI_Put(&rank, 1, MPI_INT, right, 1, 1, MPI_INT, win));
  OK(MPI_Put(&rank, 1, MPI_INT, MPI_PROC_NULL, 1, 1, MPI_INT, win));
  OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 2, 1, MPI_INT, MPI_SUM, win));
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  EXPECT(memory[1] == left && (rank != 0 || memory[2] == ranks));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, right, MPI_MODE_NOCHECK, win));
  OK(MPI_Rget(&got, 1, MPI_INT, right, 1, 1, MPI_INT, win, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Win_unlock(right, win));
  EXPECT(got == rank && request == MPI_REQUEST_NULL);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
  OK(MPI_Fetch_and_op(&one, &got, MPI_INT, 0, 3, MPI_SUM, win));
  OK(MPI_Win_unlock(0, win));
  EXPECT(got >= 0 && got < ranks);

  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, removal, &copied_key, NULL));
  OK(MPI_Win_set_attr(win, copied_key, &removed));
  OK(MPI_Win_create_errhandler(handler, &mine));
  OK(MPI_Win_set_errhandler(win, mine));
  OK(MPI_Errhandler_free(&mine));
  failing = win;
  CLASS_IS(MPI_Win_lock(MPI_LOCK_SHARED, ranks, 0, win), MPI_ERR_RANK);
  EXPECT(handled == 1);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_free(&win));
  EXPECT(win == MPI_WIN_NULL && removed == 1);
  OK(MPI_Win_free_keyval(&copied_key));
  return end();
}
