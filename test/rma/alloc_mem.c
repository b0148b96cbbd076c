/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of MPI_Alloc_mem: windows over it, and over parts of it, are mapped by the ranks of the host, up to
 * a number of pieces; the kind "system" and alignments above a page are memory of malloc. */
#include <stdint.h>
#include <string.h>

#include "check.h"

enum { BYTES = 10000, MANY = 300, MAPPED = 128, ALIGNMENT = 1 << 16 };
static int rank, size;

/* Puts to the next rank; returns whether its memory is mapped. */
static int use(char* memory, MPI_Aint bytes) {
  MPI_Win win;
  MPI_Aint found;
  int unit;
  void* peer;
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  char value = (char)(rank + 1);
  memset(memory, 0, (size_t)bytes);
  MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_CHAR, to, bytes - 1, 1, MPI_CHAR, win);
  MPI_Win_fence(0, win);
  CHECK(memory[bytes - 1] == (char)(from + 1) && memory[0] == 0);
  MPI_Win_shared_query(win, to, &found, &unit, &peer);
  MPI_Win_free(&win);
  return found == bytes;
}

static char* allocate(MPI_Aint bytes, const char* key, const char* value) {
  MPI_Info info;
  char* memory;
  MPI_Info_create(&info);
  if (key != NULL) MPI_Info_set(info, key, value);
  MPI_Alloc_mem(bytes, info, (void*)&memory);
  MPI_Info_free(&info);
  memset(memory, 1, (size_t)bytes);
  return memory;
}

int main(int argc, char** argv) {
  static char* pieces[MANY];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int mapped = size > 1 && on_one_host();
  char* memory = allocate(BYTES, NULL, NULL);
  CHECK(use(memory, BYTES) == (mapped || size == 1));
  CHECK(use(memory + 4321, 1000) == (mapped || size == 1));
  MPI_Free_mem(memory);
  memory = allocate(BYTES, "mpi_memory_alloc_kinds", "mpi");
  CHECK(use(memory, BYTES) == (mapped || size == 1));
  MPI_Free_mem(memory);
  memory = allocate(BYTES, "mpi_memory_alloc_kinds", "system");
  CHECK(use(memory, BYTES) == (size == 1));
  MPI_Free_mem(memory);
  memory = allocate(BYTES, "mpi_minimum_memory_alignment", "65536");
  CHECK((uintptr_t)memory % ALIGNMENT == 0);
  CHECK(use(memory, BYTES) == (size == 1));
  MPI_Free_mem(memory);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < MANY; ++i) pieces[i] = allocate(8, NULL, NULL);
    CHECK(use(pieces[MAPPED - 1], 8) == (mapped || size == 1));
    CHECK(use(pieces[MAPPED], 8) == (size == 1));
    for (int i = 0; i < MANY; ++i) MPI_Free_mem(pieces[i]);
  }
  MPI_Free_mem(NULL);
  MPI_Finalize();
  return 0;
}
