// SPDX-License-Identifier: BSD-3-Clause
// Checks of the tests of windows.
#pragma once
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                             \
  do {                                                                                               \
    if (!(condition)) {                                                                              \
      int check_rank;                                                                                \
      MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);                                                    \
      fprintf(stderr, "%s:%d: failed on rank %d: %s\n", __FILE__, __LINE__, check_rank, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                  \
    }                                                                                                \
  } while (0)

enum Flavor { CREATE, ALLOCATE, SHARED, DYNAMIC, FLAVORS };

/// Makes a window of `bytes` bytes on each rank. `displacements`: of each rank's memory.
static inline MPI_Win make_window(enum Flavor flavor, MPI_Aint bytes, void** base, MPI_Aint* displacements) {
  MPI_Win win = MPI_WIN_NULL;
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < size; ++i) displacements[i] = 0;
  if (flavor == CREATE || flavor == DYNAMIC) *base = calloc(1, (size_t)bytes);
  if (flavor == CREATE) MPI_Win_create(*base, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  if (flavor == ALLOCATE) MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win);
  if (flavor == SHARED) MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win);
  if (flavor == DYNAMIC) {
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, *base, bytes);
    MPI_Aint own;
    MPI_Get_address(*base, &own);
    MPI_Allgather(&own, 1, MPI_AINT, displacements, 1, MPI_AINT, MPI_COMM_WORLD);
  }
  return win;
}

static inline void free_window(MPI_Win* win, enum Flavor flavor, void* base) {
  if (flavor == DYNAMIC) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(*win, base);
  }
  MPI_Win_free(win);
  CHECK(*win == MPI_WIN_NULL);
  if (flavor == CREATE || flavor == DYNAMIC) free(base);
}

/// Whether all ranks of the job share memory.
static inline int on_one_host(void) {
  MPI_Comm local;
  int size, local_size;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_size(local, &local_size);
  MPI_Comm_free(&local);
  return size == local_size;
}
