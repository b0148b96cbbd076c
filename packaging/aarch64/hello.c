/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks: messages of all sizes both ways, collectives, a window. Each byte is compared. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

enum { kLargest = 1 << 21 };

static void expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "wrong: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  expect(size == 2, "number of ranks");
  unsigned char *out = malloc(kLargest), *in = malloc(kLargest);
  for (int bytes = 1; bytes <= kLargest; bytes *= 2)
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < bytes; ++i) out[i] = (unsigned char)(i * 7 + round + rank);
      MPI_Sendrecv(out, bytes, MPI_BYTE, 1 - rank, round, in, bytes, MPI_BYTE, 1 - rank, round,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < bytes; ++i) expect(in[i] == (unsigned char)(i * 7 + round + 1 - rank), "a message");
      if (bytes > 1 << 16) break;
    }
  for (int round = 0; round < 200; ++round) {
    double mine = rank + round, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == 2 * round + 1, "a reduction");
    long double wide = 0.1L * (rank + 1), most = 0;
    MPI_Allreduce(&wide, &most, 1, MPI_LONG_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    expect(most == 0.1L * 2, "a reduction of long double");
  }
  long *memory, value = 40 + rank, got = 0;
  MPI_Win window;
  MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  *memory = 0;
  MPI_Win_fence(0, window);
  MPI_Put(&value, 1, MPI_LONG, 1 - rank, 0, 1, MPI_LONG, window);
  MPI_Win_fence(0, window);
  expect(*memory == 41 - rank, "a put");
  MPI_Fetch_and_op(&value, &got, MPI_LONG, 1 - rank, 0, MPI_SUM, window);
  MPI_Win_fence(0, window);
  expect(got == 40 + rank && *memory == 2 * (41 - rank), "a fetch_and_op");
  MPI_Win_free(&window);
  struct utsname system;
  uname(&system);
  if (rank == 0)
    printf("%d ranks on %s: messages, collectives and a window are right\n", size, system.machine);
  free(out), free(in);
  MPI_Finalize();
  return 0;
}
