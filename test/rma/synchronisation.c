// SPDX-License-Identifier: BSD-3-Clause
// Each kind of synchronisation orders the accesses of an epoch: fence, post-start-complete-wait, exclusive
// locks.
#include <stdint.h>

#include "check.h"

enum { ROUNDS = 200 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int64_t* memory;
  MPI_Win win;
  MPI_Win_allocate(2 * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Group world, to, from;
  MPI_Win_get_group(win, &world);
  MPI_Group_incl(world, 1, &right, &to);
  MPI_Group_incl(world, 1, &left, &from);

  MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
  for (int64_t i = 0; i < ROUNDS; ++i) {
    MPI_Put(&i, 1, MPI_INT64_T, right, 0, 1, MPI_INT64_T, win);
    MPI_Win_fence(0, win);
    CHECK(memory[0] == i);
    MPI_Win_fence(0, win);
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);

  for (int64_t i = 0; i < ROUNDS; ++i) {
    const int64_t value = i * size + rank;
    MPI_Win_post(from, 0, win);
    MPI_Win_start(to, 0, win);
    MPI_Put(&value, 1, MPI_INT64_T, right, 1, 1, MPI_INT64_T, win);
    MPI_Win_complete(win);
    if (i % 2 == 0) {
      MPI_Win_wait(win);
    } else {
      int ended = 0;
      while (!ended) MPI_Win_test(win, &ended);
    }
    CHECK(memory[1] == i * size + left);
  }

  // Not atomic: only the lock keeps the ranks apart.
  memory[0] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < ROUNDS; ++i) {
    int64_t value;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush(0, win);
    ++value;
    MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(0, win);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    MPI_Win_unlock(right, win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(memory[0] == (int64_t)ROUNDS * size);
  MPI_Group_free(&world);
  MPI_Group_free(&to);
  MPI_Group_free(&from);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
