// SPDX-License-Identifier: BSD-3-Clause
// Every misuse of a window is an error of its class, and writes nothing.
#include <string.h>

#include "check.h"

static int class_of(int code) {
  int found;
  MPI_Error_class(code, &found);
  return found;
}
#define EXPECT(error, call) CHECK(class_of(call) == (error))

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int size, value = 7, result = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int* memory;
  MPI_Win win, none = MPI_WIN_NULL;
  MPI_Group group;
  EXPECT(MPI_ERR_SIZE, MPI_Win_allocate(-1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  EXPECT(MPI_ERR_DISP, MPI_Win_allocate(8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  const MPI_Aint largest = (MPI_Aint)(~(unsigned long long)0 >> 1);
  if (size > 1)
    EXPECT(MPI_ERR_NO_MEM, MPI_Win_allocate_shared(largest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  EXPECT(MPI_ERR_BASE, MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  MPI_Win_allocate(16, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  memset(memory, 0, 16);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_get_group(win, &group);
  EXPECT(MPI_ERR_WIN, MPI_Win_fence(0, none));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_flush(0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_flush_all(win));
  EXPECT(MPI_ERR_LOCKTYPE, MPI_Win_lock(1, 0, 0, win));
  EXPECT(MPI_ERR_ASSERT, MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOPUT, win));
  EXPECT(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win));
  EXPECT(MPI_ERR_RMA_FLAVOR, MPI_Win_attach(win, &value, 4));
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_start(group, 0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
  EXPECT(MPI_ERR_RANK, MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, win));
  EXPECT(MPI_ERR_DISP, MPI_Put(&value, 1, MPI_INT, 0, -1, 1, MPI_INT, win));
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, 0, 4, 1, MPI_INT, win));
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Get(&result, 1, MPI_INT, 0, (MPI_Aint)1 << 61, 1, MPI_INT, win));
  EXPECT(MPI_ERR_TRUNCATE, MPI_Put(&value, 1, MPI_INT, 0, 0, 0, MPI_INT, win));
  // Displacements whose sum with the bounds of the target's datatype exceeds 64 bits.
  const int two[2] = {1, 2}, one[2] = {1, 1};
  const MPI_Aint apart[2] = {0, 200};
  MPI_Datatype wide;
  MPI_Type_create_hindexed(2, one, apart, MPI_INT, &wide);
  MPI_Type_commit(&wide);
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(two, 2, MPI_INT, 0, ((MPI_Aint)1 << 61) - 25, 1, wide, win));
  MPI_Type_free(&wide);
  // The window's error handler gets the errors of all arguments.
  EXPECT(MPI_ERR_TYPE, MPI_Put(&value, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win));
  EXPECT(MPI_ERR_TYPE, MPI_Compare_and_swap(&value, &value, &result, MPI_FLOAT, 0, 0, win));
  EXPECT(MPI_ERR_OP, MPI_Accumulate(&value, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BXOR, win));
  CHECK(MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win) == MPI_SUCCESS);
  // Datatypes without data need not match, and MPI_NO_OP ignores the origin.
  CHECK(MPI_Accumulate(NULL, 0, MPI_DOUBLE, 0, 0, 0, MPI_INT, MPI_SUM, win) == MPI_SUCCESS);
  result = 7;
  CHECK(MPI_Get_accumulate(NULL, -1, MPI_DATATYPE_NULL, &result, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP,
                           win) == MPI_SUCCESS);
  MPI_Win_unlock(0, win);
  CHECK(result == 0);
  MPI_Win_fence(0, win);
  CHECK(memory[0] == 0 && memory[3] == 0);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
  MPI_Win_free(&win);

  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  int own[4] = {0};
  MPI_Aint address;
  MPI_Get_address(own, &address);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, rank, address, 1, MPI_INT, win));
  MPI_Win_attach(win, own, sizeof own);
  EXPECT(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, own + 1, 4));
  CHECK(MPI_Put(&value, 1, MPI_INT, rank, address, 1, MPI_INT, win) == MPI_SUCCESS && own[0] == 7);
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, rank, address + 16, 1, MPI_INT, win));
  MPI_Win_detach(win, own);
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, rank, address, 1, MPI_INT, win));
  EXPECT(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, own));
  MPI_Win_unlock(rank, win);
  MPI_Group_free(&group);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
