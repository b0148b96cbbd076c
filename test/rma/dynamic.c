/* SPDX-License-Identifier: BSD-3-Clause */
/* Dynamic windows: memory that is detached and attached again at the same address, with other contents and
 * another size, while the origin's epoch stays open; operations across adjacent attached memory. */
#include <string.h>
#include <sys/mman.h>

#include "check.h"

enum { PAGE = 4096, PAGES = 3, ROUNDS = 6 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int last = size - 1;
  MPI_Win win;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  char* memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  MPI_Aint base;
  MPI_Get_address(memory, &base);
  MPI_Bcast(&base, 1, MPI_AINT, last, MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  for (int round = 0; round < ROUNDS; ++round) {
    const int whole = round % 2; /* else three adjacent parts */
    if (rank == last) {
      CHECK(mmap(memory, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == memory);
      memset(memory, 10 + round, PAGES * PAGE);
      for (int i = 0; i < (whole ? 1 : PAGES); ++i)
        CHECK(MPI_Win_attach(win, memory + i * PAGE, whole ? PAGES * PAGE : PAGE) == MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      char got[PAGES * PAGE];
      long sum[PAGE / 8];
      MPI_Get(got, PAGES * PAGE, MPI_BYTE, last, base, PAGES * PAGE, MPI_BYTE, win);
      MPI_Win_flush(last, win);
      for (int i = 0; i < PAGES * PAGE; ++i) CHECK(got[i] == 10 + round);
      memset(got, 100 + round, PAGE);
      MPI_Put(got, PAGE, MPI_BYTE, last, base + PAGE / 2, PAGE, MPI_BYTE, win);
      MPI_Win_flush(last, win);
      for (int i = 0; i < PAGE / 8; ++i) sum[i] = 1;
      MPI_Accumulate(sum, PAGE / 8, MPI_LONG, last, base + PAGE + PAGE / 2, PAGE / 8, MPI_LONG, MPI_SUM, win);
      MPI_Win_flush(last, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last) {
      long before, after;
      memset(&before, 10 + round, sizeof before);
      memcpy(&after, memory + 2 * PAGE - 8, sizeof after);
      CHECK(memory[0] == 10 + round && memory[PAGE] == 100 + round &&
            memory[PAGE + PAGE / 2 - 1] == 100 + round);
      CHECK(after == before + 1);
      memcpy(&after, memory + 2 * PAGE, sizeof after);
      CHECK(after == before + 1);
      for (int i = 0; i < (whole ? 1 : PAGES); ++i)
        CHECK(MPI_Win_detach(win, memory + i * PAGE) == MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
